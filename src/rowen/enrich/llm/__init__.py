"""Language models: one module a wire format, and what they have in common."""
