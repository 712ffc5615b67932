"""The REST interface, one module for each resource. Each route calls an operation and returns the result as JSON."""
