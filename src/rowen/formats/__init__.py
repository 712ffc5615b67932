"""Parsers of file formats, shared by connectors and readers; they are independent of sources."""

from rowen.errors import SourceError


class UnreadableError(SourceError):
    """A document cannot be read in the expected format; a smaller one may be readable."""
