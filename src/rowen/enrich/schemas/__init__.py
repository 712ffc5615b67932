"""JSON Schemas: those that come with the program, what they allow, how two differ, what a provider is sent of one."""
