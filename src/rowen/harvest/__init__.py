"""Harvest sources: join connectors, content and store."""
