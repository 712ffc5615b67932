"""One process for all doors over HTTP: who is asking is found out here, before any route is."""
