"""The embedded PostgreSQL: its files, processes and programs, and dumps."""
