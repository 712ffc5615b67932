"""The interfaces: command line, REST, web pages and tools for assistants."""
