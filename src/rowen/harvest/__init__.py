"""The flow: joins connectors, content and store."""
