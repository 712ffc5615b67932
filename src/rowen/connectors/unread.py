"""The URL of a record that cannot be identified: a route of its source, so that it is never taken for an item."""

from rowen.model.hashes import body_hash

__all__ = ["is_unread", "unread_url"]

_ROUTE = "#/unread/"
_LETTERS = 32  # half of a SHA-256: 128 bits, of which no two records ever share all


def unread_url(source: str, *what: bytes | str | int) -> str:
    """The URL under which such a record stands in quarantine: by its content, given as bytes, or by its place."""
    parts = (body_hash(one).hex()[:_LETTERS] if isinstance(one, bytes) else str(one) for one in what)
    return f"{source.partition('#')[0]}{_ROUTE}{'/'.join(parts)}"


def is_unread(url: str) -> bool:
    """Whether a URL is that of such a record: nobody can ask for it."""
    return _ROUTE in url
