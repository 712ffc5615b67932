"""RSS of all versions and Atom: elements become entries."""

import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element, tostring

from rowen.connectors.catalog.dates import iso
from rowen.connectors.catalog.text import one_line
from rowen.connectors.feed.document import Deletion, FeedDocument
from rowen.connectors.feed.entry import FeedEntry, entry_url, resolved, stamp_of
from rowen.connectors.feed.mending import apart, mended, parsable
from rowen.connectors.unread import unread_url
from rowen.errors import SourceError
from rowen.formats.errors import UnreadableError
from rowen.formats.xml import FoundElement, Reader, local, plain_tree, read_xml, said, written
from rowen.model.item import Failed
from rowen.model.outside import attempt

__all__ = ["read_xml_feed"]

_ATOM = "http://www.w3.org/2005/Atom"
_BASE = "{http://www.w3.org/XML/1998/namespace}base"
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_ABOUT = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}about"
_PREFIXES = {
    "": "",
    "http://purl.org/rss/1.0/": "",
    "http://my.netscape.com/rdf/simple/0.9/": "",
    "http://channel.netscape.com/rdf/simple/0.9/": "",
    "http://backend.userland.com/rss2": "",
    "http://blogs.law.harvard.edu/tech/rss": "",
    _ATOM: "atom",
    "http://purl.org/atom/ns#": "atom",
    "http://purl.org/atompub/tombstones/1.0": "at",
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#": "rdf",
    "http://www.w3.org/XML/1998/namespace": "xml",
    "http://www.w3.org/1999/xhtml": "xhtml",
    "http://purl.org/dc/elements/1.1/": "dc",
    "http://purl.org/dc/terms/": "dcterms",
    "http://purl.org/rss/1.0/modules/content/": "content",
    "http://purl.org/rss/1.0/modules/slash/": "slash",
    "http://purl.org/syndication/thread/1.0": "thr",
    "http://search.yahoo.com/mrss/": "media",
    "http://search.yahoo.com/mrss": "media",
    "http://www.itunes.com/dtds/podcast-1.0.dtd": "itunes",
    "http://wellformedweb.org/CommentAPI/": "wfw",
}
_ENTRIES = frozenset({"item", "entry", "deleted-entry"})
_DOCUMENTS = frozenset({"rss", "feed", "RDF"})
_HEADS = frozenset({*_DOCUMENTS, "channel"})
# Texts stand in the item's text. The others count views and answers: a popular entry would change with every look.
_LEFT_OUT = frozenset(
    {"content:encoded", "description", "atom:content", "atom:summary", "itunes:summary", "media:description"}
    | {"slash:comments", "slash:hit_parade", "thr:total", "media:community"}
)
_RSS_CONTENT = ("content:encoded", "description", "itunes:summary", "media:description", "xhtml:body")
_TEXT_TYPES = frozenset({"", "text", "text/plain"})


class _Surroundings(NamedTuple):
    """Where an entry stands: the source, the base of its addresses, the language around it."""

    feed: str
    base: str
    language: str | None = None


class _Fields:
    """The children of an element by their prefixed names."""

    def __init__(self, tree: Element) -> None:
        self._children: dict[str, list[Element]] = {}
        for child in tree:
            self._children.setdefault(prefixed(child.tag), []).append(child)

    def all(self, *names: str) -> Iterator[Element]:
        for name in names:
            yield from self._children.get(name, ())

    def first(self, *names: str) -> Element | None:
        return next(self.all(*names), None)

    def words(self, *names: str) -> str:
        """The words of the first of these that has any."""
        return next((words for child in self.all(*names) if (words := said(child))), "")


def prefixed(tag: str) -> str:
    """An element's name with the usual prefix of its namespace, whatever the document calls it."""
    namespace, _, name = tag.removeprefix("{").rpartition("}")
    prefix = _PREFIXES.get(namespace)
    return tag if prefix is None else f"{prefix}:{name}" if prefix else name


def read_xml_feed(body: bytes, feed: str, url: str, charset: str | None) -> FeedDocument:
    """What a document says; raises where it is no feed at all. What is broken of it costs single entries.

    To be called in a worker process: a broken document is searched for its entries, and each read by itself.
    """
    text = parsable(body, charset)
    try:
        return _read(text, feed, url)
    except UnreadableError:
        text = mended(text)
    try:
        return _read(text, feed, url)
    except UnreadableError as problem:
        return _read_apart(text, feed, url, str(problem))


def _read(text: str, feed: str, url: str) -> FeedDocument:
    reader = _reader()
    found = read_xml(text.encode("utf-8", "replace"), reader)
    _check_root(reader, url)
    return _document(found, feed, url)


def _reader() -> Reader:
    return Reader(_ENTRIES, within=frozenset({"channel", "feed"}), heads=_HEADS, charset="utf-8")


def _check_root(reader: Reader, url: str) -> None:
    if local(reader.root or "") not in _DOCUMENTS:
        raise SourceError(
            f"{url} is no feed: it is XML whose root is {local(reader.root or '')!r}.",
            hint="Name the address of an RSS, Atom or JSON feed, or add it as another kind.",
        )


def _read_apart(text: str, feed: str, url: str, why: str) -> FeedDocument:
    """The entries of a document that is broken beyond mending, each read by itself."""
    pieces = apart(text)
    if not pieces:
        raise UnreadableError(f"{url}: {why}")
    document = FeedDocument(trouble=why)
    for piece in pieces:
        payload = piece.encode("utf-8", "replace")
        try:
            one = _document(read_xml(payload, _reader()), feed, url)
        except SourceError as problem:
            document.failed.append(Failed(unread_url(feed, payload), f"The entry is {problem}", payload=payload))
            continue
        document.entries += one.entries
        document.failed += one.failed
        document.deleted += one.deleted
    return document


def _document(found: list[FoundElement], feed: str, url: str) -> FeedDocument:
    document = FeedDocument()
    around = _Surroundings(feed, url)
    for tree, why in found:
        name = local(tree.tag)
        if name in _HEADS and not len(tree):
            around = _within(around, tree)
        elif name not in _ENTRIES:
            around = _note(document, tree, around)
        elif why is not None:
            document.failed.append(_unread(around, tree, why))
        elif name == "deleted-entry":
            _delete(document, tree, feed)
        else:
            document.take(_attempted(tree, around))
    document.settle()
    return document


def _attempted(tree: Element, around: _Surroundings) -> FeedEntry | Failed:
    return attempt(lambda: _entry(tree, around), lambda why: _unread(around, tree, why))


def _within(around: _Surroundings, tree: Element) -> _Surroundings:
    base = resolved(around.base, tree.get(_BASE)) or around.base
    return around._replace(base=base, language=tree.get(_LANGUAGE) or around.language)


def _note(document: FeedDocument, tree: Element, around: _Surroundings) -> _Surroundings:
    """What the feed says of itself."""
    match prefixed(tree.tag):
        case "language" | "dc:language":
            return around._replace(language=said(tree) or around.language)
        case "atom:link" | "link":
            inner = _within(around, tree)
            for rel in tree.get("rel", "").lower().split():
                document.link(rel, resolved(inner.base, tree.get("href")))
    return around


def _unread(around: _Surroundings, tree: Element, why: str) -> Failed:
    payload = written(tree)
    return Failed(unread_url(around.feed, payload), f"The entry cannot be read: {why}.", payload=payload)


def _delete(document: FeedDocument, tree: Element, feed: str) -> None:
    if identifier := tree.get("ref", "").strip():
        document.deleted.append(Deletion(entry_url(feed, identifier, None), stamp_of(tree.get("when"))))


def _entry(tree: Element, around: _Surroundings) -> FeedEntry:
    around = _within(around, tree)
    return _atom(tree, around) if prefixed(tree.tag) == "atom:entry" else _rss(tree, around)


def _atom(tree: Element, around: _Surroundings) -> FeedEntry:
    fields = _Fields(tree)
    link = _atom_link(fields, around.base)
    updated = iso(fields.words("atom:updated", "atom:modified"))
    published = iso(fields.words("atom:published", "atom:issued", "atom:created"))
    # Feeds of videos tell what they are about among their media.
    group = fields.first("media:group")
    media = _Fields(group).all("media:description") if group is not None else ()
    texts = (*fields.all("atom:content", "atom:summary"), *media)
    content = next((one for one in texts if len(one) or said(one)), None)
    inner = around if content is None else _within(around, content)
    authors = [name for one in fields.all("atom:author") if (name := said(_Fields(one).first("atom:name")))]
    tags = [one.get("label") or one.get("term") or "" for one in fields.all("atom:category")]
    return _made(
        tree,
        around._replace(base=inner.base, language=inner.language),
        identifier=fields.words("atom:id"),
        link=link,
        title=_atom_text(fields.first("atom:title")),
        content=_atom_content(content),
        authors=authors or _creators(fields),
        tags=tags,
        updated=updated,
        published=published,
        enclosures=[
            href
            for one in fields.all("atom:link")
            if one.get("rel") == "enclosure" and (href := resolved(around.base, one.get("href")))
        ],
    )


def _atom_link(fields: _Fields, base: str) -> str | None:
    links = [one for one in fields.all("atom:link") if one.get("rel", "alternate").lower() == "alternate"]
    links.sort(key=lambda one: one.get("type", "text/html") not in ("text/html", "application/xhtml+xml"))
    return next((href for one in links if (href := resolved(base, one.get("href")))), None)


def _atom_text(tree: Element | None) -> str:
    """RFC 4287, section 3.1: a text construct in one line."""
    if tree is None:
        return ""
    return one_line(said(tree)) if tree.get("type", "").lower() in ("html", "text/html") else said(tree)


def _atom_content(tree: Element | None) -> str:
    """RFC 4287, section 4.1.3: the HTML of a content; none of what lies elsewhere, or is no text."""
    if tree is None:
        return ""
    kind = tree.get("type", "").lower()
    if len(tree) and kind in ("xhtml", "application/xhtml+xml", "text/xml", "application/xml", ""):
        return "".join(_markup(child) for child in tree)
    text = "".join(tree.itertext()).strip()
    if kind in _TEXT_TYPES:
        return _paragraphs(text)
    return text if kind in ("html", "text/html", "application/xhtml+xml") or kind.startswith("text/") else ""


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{escape(part.strip())}</p>" for part in re.split(r"\n\s*\n", text) if part.strip())


def _markup(tree: Element) -> str:
    """XHTML as HTML: names without their namespaces."""
    for one in tree.iter():
        one.tag = local(one.tag)
        one.attrib = {local(name): value for name, value in one.attrib.items()}
    return tostring(tree, encoding="unicode", method="html")


def _rss(tree: Element, around: _Surroundings) -> FeedEntry:
    fields = _Fields(tree)
    guid = fields.first("guid")
    identifier = said(guid) or tree.get(_ABOUT, "") or fields.words("dc:identifier", "atom:id")
    is_link = guid is not None and guid.get("isPermaLink", "true").lower() != "false"
    link = resolved(around.base, fields.words("link")) or _atom_link(fields, around.base)
    if link is None and is_link:
        link = resolved(around.base, said(guid))
    content = fields.first("content:encoded")
    if content is None or not said(content):
        content = next((one for one in fields.all(*_RSS_CONTENT) if len(one) or said(one)), None)
    return _made(
        tree,
        around,
        identifier=identifier,
        link=link,
        title=one_line(fields.words("title", "dc:title", "itunes:title", "media:title")),
        content="" if content is None else _rss_content(content),
        authors=_creators(fields),
        tags=[said(one) for one in fields.all("category", "dc:subject")],
        updated=iso(fields.words("atom:updated", "dcterms:modified")),
        published=iso(fields.words("pubDate", "dc:date", "dcterms:created", "dcterms:issued", "atom:published")),
        enclosures=[
            href for one in fields.all("enclosure", "media:content") if (href := resolved(around.base, one.get("url")))
        ],
    )


def _rss_content(tree: Element) -> str:
    return "".join(_markup(child) for child in tree) if len(tree) else "".join(tree.itertext()).strip()


def _creators(fields: _Fields) -> list[str]:
    return [said(one) for one in fields.all("dc:creator", "author", "itunes:author")]


def _made(
    tree: Element,
    around: _Surroundings,
    *,
    identifier: str,
    link: str | None,
    title: str,
    content: str,
    authors: list[str],
    tags: list[str],
    updated: str | None,
    published: str | None,
    enclosures: list[str],
) -> FeedEntry:
    record: Mapping[str, Any] = {
        "id": identifier or None,
        "link": link,
        "published": published,
        "updated": updated,
        "authors": list(dict.fromkeys(name for name in authors if name)),
        "enclosures": enclosures,
        "entry": plain_tree(tree, _PREFIXES, leave_out=lambda one: prefixed(one.tag) in _LEFT_OUT),
    }
    return FeedEntry(
        entry_url(around.feed, identifier.strip(), link, [title, content, published]),
        title,
        content,
        around.base,
        link=link,
        stamp=stamp_of(updated, published),
        language=around.language,
        tags=tuple(tag for tag in tags if tag),
        record=record,
    )
