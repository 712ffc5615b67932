"""The embedded PostgreSQL: its folder, processes and programs; and dumps of the database."""
