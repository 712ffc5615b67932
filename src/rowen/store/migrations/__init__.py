"""The migrations of the schema, one numbered SQL file each."""
