"""The shared code of all catalog connectors: walks, cursors, and the mapping of records to datasets."""
