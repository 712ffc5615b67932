"""The terminal interface: stdout is data, stderr is talk. Command bodies are imported when they are called."""

from rowen.interfaces.cli.app import main

__all__ = ["main"]
