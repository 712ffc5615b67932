"""The REST interface: one module per resource. Each route calls an operation and answers with its JSON form."""
