"""The steps of the schema, one numbered SQL file each."""
