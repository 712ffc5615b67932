"""The REST interface: one module a resource. Each route asks the service, and answers with its facts."""
