"""Connectors: one package for each kind of source."""
