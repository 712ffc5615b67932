"""The commands, a few in each module; a module is imported when one of its commands is called."""
