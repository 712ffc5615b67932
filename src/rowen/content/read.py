"""A body becomes a document: told apart by its media type, then by the ending of its name."""

from collections.abc import Callable, Mapping
from urllib.parse import unquote, urlsplit

from rowen.content.charset import decode
from rowen.content.code import fenced
from rowen.content.markdown import read_markdown, read_plain
from rowen.content.part import Part
from rowen.errors import ItemError
from rowen.model.item import Document, Raw
from rowen.model.media import is_text, language_of, media_type_of

__all__ = ["VERSION", "read", "supported"]

VERSION = 1
"""Raised whenever the same body would be read into another document."""

_VAGUE = frozenset({"", "text/plain", "application/octet-stream", "binary/octet-stream", "application/x-unknown"})

_READERS: Mapping[str, Callable[[str], Part]] = {
    "text/markdown": read_markdown,
    "text/plain": read_plain,
}


def read(raw: Raw) -> Document:
    """The document that a body holds; raises `ItemError` if it cannot be read."""
    name = _name(raw)
    media_type = _media_type(raw.name or name, raw.media_type)
    if media_type is None:
        raise ItemError(
            f"{name or raw.url} cannot be read: {raw.media_type or 'its kind'} is no format that Rowen knows",
            hint="Leave it out of the source, or give it the ending of its format.",
        )
    text = decode(raw.body, charset=raw.charset, media_type=media_type, name=name or raw.url)
    part = _part(text, media_type, raw)
    return Document(
        url=raw.url,
        title=part.title or raw.title or name,
        text=part.text,
        tags=raw.tags + part.tags,
        record=raw.record,
        language=raw.language or part.language,
        media_type=media_type,
        links=part.links,
        depth=raw.depth,
        validators=raw.validators,
    )


def supported(name: str, media_type: str | None = None) -> bool:
    """Whether a body of this name and media type can be read."""
    return _media_type(name, media_type) is not None


def _media_type(name: str, told: str | None) -> str | None:
    essence = (told or "").partition(";")[0].strip().lower()
    if essence in _VAGUE:
        return media_type_of(name) or ("text/plain" if essence == "text/plain" else None)
    return _ALIASES.get(essence, essence) if is_text(essence) else None


def _name(raw: Raw) -> str:
    path = raw.name or unquote(urlsplit(raw.url).path)
    return path.rstrip("/").replace("\\", "/").rpartition("/")[2]


_ALIASES: Mapping[str, str] = {}


def _part(text: str, media_type: str, raw: Raw) -> Part:
    if reader := _READERS.get(media_type):
        return reader(text)
    if language := language_of(media_type):
        return Part(fenced(text.strip("\n"), language)) if text.strip() else Part("")
    return read_plain(text)
