"""The engine of all kinds of catalogs: walks, cursors, and the mapping of records to datasets."""
