"""XML feeds that break the grammar: mended where it is clear what was meant, else cut into their entries."""

import re
from html.entities import html5

from rowen.formats.charset import XmlDecoder
from rowen.formats.errors import UnreadableError

__all__ = ["apart", "mended", "parsable"]

_DECLARATION = re.compile(r"\A<\?xml[^<>]{0,300}\?>")
# RSS 0.91 asks for one; a subset in it may define entities, and is left to be refused.
_DOCTYPE = re.compile(r"<!DOCTYPE\s[^\[<>]*>", re.IGNORECASE)
# As far as comments and stylesheets before the root go; what is deeper is no declaration.
_PROLOG_CHARS = 4096
_AMPERSAND = re.compile(
    r"&(?!(?:#[0-9]{1,7}|#x[0-9a-fA-F]{1,6}|amp|lt|gt|quot|apos);)(?:([A-Za-z][A-Za-z0-9]{1,30};))?"
)
_ROOT = re.compile(r"<(?:\w+:)?(?:rss|feed|RDF)\b[^<>]*>")
_CHANNEL = re.compile(r"<(?:\w+:)?channel\b[^<>]*>")
_PREFIX = re.compile(r"</?([A-Za-z_][\w.-]{0,30}):[A-Za-z_]|\s([A-Za-z_][\w.-]{0,30}):[A-Za-z_][\w.-]*\s*=\s*[\"']")
_OPENS = re.compile(r"<((?:\w+:)?(?:item|entry))(?=[\s>])[^<>]*>")
# More than any window shows; each piece is parsed with a parser of its own.
_MOST_PIECES = 10_000

_NAMESPACES = {
    "atom": "http://www.w3.org/2005/Atom",
    "content": "http://purl.org/rss/1.0/modules/content/",
    "dc": "http://purl.org/dc/elements/1.1/",
    "dcterms": "http://purl.org/dc/terms/",
    "itunes": "http://www.itunes.com/dtds/podcast-1.0.dtd",
    "media": "http://search.yahoo.com/mrss/",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "slash": "http://purl.org/rss/1.0/modules/slash/",
    "thr": "http://purl.org/syndication/thread/1.0",
    "wfw": "http://wellformedweb.org/CommentAPI/",
}


def parsable(body: bytes, charset: str | None) -> str:
    """The document in letters, without its declaration and a type definition that defines nothing."""
    decoder = XmlDecoder(charset)
    text = (decoder.feed(body) + decoder.close()).removeprefix("\ufeff").lstrip()
    text = _DECLARATION.sub("", text, count=1)
    head = _DOCTYPE.sub("", text[:_PROLOG_CHARS], count=1)
    return (head + text[_PROLOG_CHARS:]).lstrip()


def mended(text: str) -> str:
    """The same with entities of HTML as letters, bare ampersands escaped, and prefixes declared that are not."""
    text = _AMPERSAND.sub(_entity, text)
    root = _ROOT.search(text)
    if root is None:
        return text
    used = {one or other for one, other in _PREFIX.findall(text)} - {"xml", "xmlns"}
    missing = sorted(prefix for prefix in used if f"xmlns:{prefix}=" not in text)
    declared = "".join(f' xmlns:{prefix}="{_NAMESPACES.get(prefix, f"urn:unbound:{prefix}")}"' for prefix in missing)
    end = root.end() - (2 if root[0].endswith("/>") else 1)
    return text[:end] + declared + text[end:]


def _entity(found: re.Match[str]) -> str:
    name = found[1]
    letters = html5.get(name) if name else None
    return letters if letters is not None else f"&amp;{name or ''}"


def apart(text: str) -> list[str]:
    """A document for each entry, with the elements around it; an entry without an end goes to the next one."""
    root, channel = _ROOT.search(text), _CHANNEL.search(text)
    if root is None:
        return []
    around = [root[0], *([channel[0]] if channel and _has_entries_in_channel(root[0]) else [])]
    before, after = "".join(around), "".join(f"</{_name(tag)}>" for tag in reversed(around))
    begins = list(_OPENS.finditer(text))
    if len(begins) > _MOST_PIECES:
        raise UnreadableError(f"The feed is broken XML, and has more than {_MOST_PIECES} entries.")
    pieces = []
    for at, begin in enumerate(begins):
        limit = begins[at + 1].start() if at + 1 < len(begins) else len(text)
        closing = f"</{begin[1]}>"
        end = text.find(closing, begin.end(), limit)
        pieces.append(before + text[begin.start() : end + len(closing) if end >= 0 else limit] + after)
    return pieces


def _has_entries_in_channel(root: str) -> bool:
    return _name(root).rpartition(":")[2] == "rss"


def _name(tag: str) -> str:
    return re.split(r"[\s/>]", tag[1:], maxsplit=1)[0]
