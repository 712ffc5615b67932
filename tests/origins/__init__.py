"""What users of five earlier systems expect, tried against the running program; docs/origins.md lists it."""
