"""RDF: the graph, the syntaxes, broken statements and JSON-LD contexts."""
