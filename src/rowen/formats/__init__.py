"""Parsers of file formats, shared by connectors and readers; nothing here knows sources."""

from rowen.errors import SourceError

__all__ = ["UnreadableError"]


class UnreadableError(SourceError):
    """A document cannot be read in the format that it should have; a smaller one may."""
