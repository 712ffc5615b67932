"""RDF: the graph, the syntaxes, broken RDF statements and JSON-LD contexts."""
