"""Connectors: one file for each kind of source."""
