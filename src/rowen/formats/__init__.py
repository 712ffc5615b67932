"""Parsers of file formats that connectors and readers share; they know nothing about sources."""

from rowen.errors import SourceError


class UnreadableError(SourceError):
    """A document cannot be read in the expected format; a smaller document may be readable."""
