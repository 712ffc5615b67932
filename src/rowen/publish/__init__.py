"""Publications: exports, feeds, catalogs, event streams, RDF statements, webhooks and notices."""
