"""The HTTP server: one process for all HTTP interfaces, with authentication in front of every route."""
