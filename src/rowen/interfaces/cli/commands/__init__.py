"""The commands, a few to a module; each module is imported when one of its commands is called."""
