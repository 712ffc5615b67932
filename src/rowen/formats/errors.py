"""What is raised for a document that cannot be read in its format."""

from rowen.errors import SourceError

__all__ = ["UnreadableError"]


class UnreadableError(SourceError):
    """A document cannot be read in the format that it should have; a smaller one may."""
