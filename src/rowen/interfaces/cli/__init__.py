"""The command line: data on stdout, messages on stderr. The body of a command is imported when it is called."""

from rowen.interfaces.cli.app import main

__all__ = ["main"]
