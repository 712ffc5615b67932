"""JSON Schemas: bundled ones, their versions, validation, and the dialects of providers."""
