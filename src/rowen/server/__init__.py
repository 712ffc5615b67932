"""One process for all interfaces over HTTP: who is asking is found out here, before any route is."""
