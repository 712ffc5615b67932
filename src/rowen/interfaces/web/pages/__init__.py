"""The pages, one module a subject: each asks the service and says what is shown, and nothing about how."""
