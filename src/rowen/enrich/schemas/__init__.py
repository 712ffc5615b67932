"""JSON Schemas: bundled schemas, their versions, validation, and the schema dialects of providers."""
