"""Reads RSS of all versions and Atom.

A document that is not well-formed XML is repaired where its meaning is clear, and otherwise split into its entries.
"""

import re
from collections.abc import Iterator
from html import escape
from html.entities import html5
from typing import NamedTuple
from xml.etree.ElementTree import Element, tostring

from rowen.connectors.base import unread_url
from rowen.connectors.catalog.dates import iso
from rowen.connectors.catalog.text import one_line
from rowen.connectors.feed.document import Deletion, FeedDocument, FeedEntry, entry_url, resolved, stamp_of
from rowen.errors import SourceError
from rowen.formats import UnreadableError
from rowen.formats.charset import XmlDecoder
from rowen.formats.xml import Reader, XmlElement, local, plain_tree, read_xml, said, written
from rowen.model.items import Failed
from rowen.model.text import attempt

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
_ENTRIES, _DOCUMENTS = frozenset({"item", "entry", "deleted-entry"}), frozenset({"rss", "feed", "RDF"})
_HEADS = frozenset({*_DOCUMENTS, "channel"})
# The first group is stored as the item's text. The second counts views and replies, which change in every run.
_LEFT_OUT = frozenset(
    {"content:encoded", "description", "atom:content", "atom:summary", "itunes:summary", "media:description"}
    | {"slash:comments", "slash:hit_parade", "thr:total", "media:community"}
)
_RSS_CONTENT = ("content:encoded", "description", "itunes:summary", "media:description", "xhtml:body")
_TEXT_TYPES = frozenset({"", "text", "text/plain"})

_DECLARATION = re.compile(r"\A<\?xml[^<>]{0,300}\?>")
# RSS 0.91 requires a document type. A type with an internal subset may define entities; it is refused later.
_DOCTYPE = re.compile(r"<!DOCTYPE\s[^\[<>]*>", re.IGNORECASE)
# Comments and stylesheets before the root fit into this; a document type does not come later.
_PROLOG_CHARS = 4096
_AMPERSAND = re.compile(
    r"&(?!(?:#[0-9]{1,7}|#x[0-9a-fA-F]{1,6}|amp|lt|gt|quot|apos);)(?:([A-Za-z][A-Za-z0-9]{1,30};))?"
)
_ROOT = re.compile(r"<(?:\w+:)?(?:rss|feed|RDF)\b[^<>]*>")
_CHANNEL = re.compile(r"<(?:\w+:)?channel\b[^<>]*>")
_NAME = re.compile(r"<([^\s/>]+)")
_PREFIX = re.compile(r"</?([A-Za-z_][\w.-]{0,30}):[A-Za-z_]|\s([A-Za-z_][\w.-]{0,30}):[A-Za-z_][\w.-]*\s*=\s*[\"']")
_OPENS = re.compile(r"<((?:\w+:)?(?:item|entry))(?=[\s>])[^<>]*>")
# No feed shows so many entries at once; each piece needs a parser of its own.
_MOST_PIECES = 10_000
# The namespace that each undeclared prefix is bound to; of several with one prefix, the first.
_UNBOUND = ("", "at", "xml", "xhtml")
_NAMESPACES = {prefix: name for name, prefix in reversed(_PREFIXES.items()) if prefix not in _UNBOUND}


class _Context(NamedTuple):
    """The context of an element: the URL of the source, the base URL for relative addresses, and the language."""

    feed: str
    base: str
    language: str | None = None

    def within(self, tree: Element) -> "_Context":
        """Return the context inside an element."""
        base = resolved(self.base, tree.get(_BASE)) or self.base
        return self._replace(base=base, language=tree.get(_LANGUAGE) or self.language)


class _Fields:
    """The children of an element, indexed by their prefixed names."""

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
        """Return the text of the first child with one of these names that has any text; otherwise an empty string."""
        return next((words for child in self.all(*names) if (words := said(child))), "")


def prefixed(tag: str) -> str:
    """Return an element's name with the usual prefix of its namespace; the prefix in the document does not matter."""
    namespace, _, name = tag.removeprefix("{").rpartition("}")
    prefix = _PREFIXES.get(namespace)
    return tag if prefix is None else f"{prefix}:{name}" if prefix else name


def read_xml_feed(body: bytes, feed: str, url: str, charset: str | None) -> FeedDocument:
    """Read a document in a worker process; raise `SourceError` if it is no feed. Broken entries fail individually."""
    decoder = XmlDecoder(charset)
    text = (decoder.feed(body) + decoder.close()).removeprefix("\ufeff").lstrip()
    # Remove the XML declaration, and a document type that defines nothing.
    text = _DECLARATION.sub("", text, count=1)
    text = (_DOCTYPE.sub("", text[:_PROLOG_CHARS], count=1) + text[_PROLOG_CHARS:]).lstrip()
    try:
        return _read(text, feed, url)
    except UnreadableError:
        text = _mend(text)
    try:
        return _read(text, feed, url)
    except UnreadableError as problem:
        why = str(problem)
    pieces = _split_entries(text)
    if not pieces:
        raise UnreadableError(f"{url}: {why}")
    document = FeedDocument(trouble=why)
    for piece in pieces:
        payload = piece.encode("utf-8", "replace")
        try:
            part = _document(read_xml(payload, _reader()), feed, url)
        except SourceError as problem:
            document.failed.append(Failed(unread_url(feed, payload), f"The entry is {problem}", payload=payload))
            continue
        document.entries += part.entries
        document.failed += part.failed
        document.deleted += part.deleted
    return document


def _mend(text: str) -> str:
    """Replace HTML entities by characters, escape bare ampersands, and declare undeclared prefixes."""

    def entity(match: re.Match[str]) -> str:
        characters = html5.get(match[1]) if match[1] else None
        return characters if characters is not None else f"&amp;{match[1] or ''}"

    text = _AMPERSAND.sub(entity, text)
    root = _ROOT.search(text)
    if root is None:
        return text
    used = {opening or attribute for opening, attribute in _PREFIX.findall(text)} - {"xml", "xmlns"}
    missing = sorted(prefix for prefix in used if f"xmlns:{prefix}=" not in text)
    declared = "".join(f' xmlns:{prefix}="{_NAMESPACES.get(prefix, f"urn:unbound:{prefix}")}"' for prefix in missing)
    end = root.end() - (2 if root[0].endswith("/>") else 1)
    return text[:end] + declared + text[end:]


def _split_entries(text: str) -> list[str]:
    """Return a document for each entry, with the surrounding tags; an unclosed entry ends where the next one starts."""
    root, channel = _ROOT.search(text), _CHANNEL.search(text)
    if root is None:
        return []
    around = [root[0]]
    if channel and _NAME.findall(root[0])[0].rpartition(":")[2] == "rss":
        around.append(channel[0])
    before, after = "".join(around), "".join(f"</{_NAME.findall(tag)[0]}>" for tag in reversed(around))
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


def _reader() -> Reader:
    return Reader(_ENTRIES, within=frozenset({"channel", "feed"}), heads=_HEADS, charset="utf-8")


def _read(text: str, feed: str, url: str) -> FeedDocument:
    reader = _reader()
    elements = read_xml(text.encode("utf-8", "replace"), reader)
    if local(reader.root or "") not in _DOCUMENTS:
        raise SourceError(
            f"{url} is no feed: it is XML whose root is {local(reader.root or '')!r}.",
            hint="Name the address of an RSS, Atom or JSON feed, or add it as another kind.",
        )
    return _document(elements, feed, url)


def _document(elements: list[XmlElement], feed: str, url: str) -> FeedDocument:
    document = FeedDocument()
    context = _Context(feed, url)

    def failure(why: str) -> Failed:
        payload = written(tree)
        return Failed(unread_url(feed, payload), f"The entry cannot be read: {why}.", payload=payload)

    for tree, why in elements:
        name = local(tree.tag)
        if name in _HEADS and not len(tree):
            context = context.within(tree)
        elif name not in _ENTRIES:
            match prefixed(tree.tag):
                case "language" | "dc:language":
                    context = context._replace(language=said(tree) or context.language)
                case "atom:link" | "link":
                    for rel in tree.get("rel", "").lower().split():
                        document.link(rel, resolved(context.within(tree).base, tree.get("href")))
        elif why is not None:
            document.failed.append(failure(why))
        elif name == "deleted-entry":
            if identifier := tree.get("ref", "").strip():
                document.deleted.append(Deletion(entry_url(feed, identifier, None), stamp_of(tree.get("when"))))
        else:
            read = _read_atom if prefixed(tree.tag) == "atom:entry" else _read_rss
            document.add(attempt(lambda: read(tree, context.within(tree)), failure))  # noqa: B023 (called at once)
    document.keep_latest()
    return document


def _read_atom(tree: Element, context: _Context) -> FeedEntry:
    fields = _Fields(tree)
    # Video feeds have the description inside the media group.
    group = fields.first("media:group")
    media = _Fields(group).all("media:description") if group is not None else ()
    texts = (*fields.all("atom:content", "atom:summary"), *media)
    content = next((text for text in texts if len(text) or said(text)), None)
    authors = [name for author in fields.all("atom:author") if (name := said(_Fields(author).first("atom:name")))]
    title = fields.first("atom:title")
    is_html = title is not None and title.get("type", "").lower() in ("html", "text/html")  # RFC 4287, section 3.1
    return _make_entry(
        tree,
        context if content is None else context.within(content),
        identifier=fields.words("atom:id"),
        link=_atom_link(fields, context.base),
        title=one_line(said(title)) if is_html else said(title),
        content="" if content is None else _atom_content(content),
        authors=authors or _creators(fields),
        tags=[category.get("label") or category.get("term") or "" for category in fields.all("atom:category")],
        updated=iso(fields.words("atom:updated", "atom:modified")),
        published=iso(fields.words("atom:published", "atom:issued", "atom:created")),
        enclosures=[
            href
            for link in fields.all("atom:link")
            if link.get("rel") == "enclosure" and (href := resolved(context.base, link.get("href")))
        ],
    )


def _atom_link(fields: _Fields, base: str) -> str | None:
    links = [link for link in fields.all("atom:link") if link.get("rel", "alternate").lower() == "alternate"]
    links.sort(key=lambda link: link.get("type", "text/html") not in ("text/html", "application/xhtml+xml"))
    return next((href for link in links if (href := resolved(base, link.get("href")))), None)


def _atom_content(tree: Element) -> str:
    """Return the content as HTML; empty if it is stored elsewhere or is no text (RFC 4287, section 4.1.3)."""
    kind = tree.get("type", "").lower()
    if len(tree) and kind in ("xhtml", "application/xhtml+xml", "text/xml", "application/xml", ""):
        return "".join(map(_markup, tree))
    text = "".join(tree.itertext()).strip()
    if kind in _TEXT_TYPES:
        return "".join(f"<p>{escape(part.strip())}</p>" for part in re.split(r"\n\s*\n", text) if part.strip())
    return text if kind in ("html", "text/html", "application/xhtml+xml") or kind.startswith("text/") else ""


def _markup(tree: Element) -> str:
    """Return XHTML as HTML, without namespaces in the names of elements and attributes."""
    for element in tree.iter():
        element.tag = local(element.tag)
        element.attrib = {local(name): value for name, value in element.attrib.items()}
    return tostring(tree, encoding="unicode", method="html")


def _read_rss(tree: Element, context: _Context) -> FeedEntry:
    fields = _Fields(tree)
    guid = fields.first("guid")
    identifier = said(guid) or tree.get(_ABOUT, "") or fields.words("dc:identifier", "atom:id")
    is_link = guid is not None and guid.get("isPermaLink", "true").lower() != "false"
    link = resolved(context.base, fields.words("link")) or _atom_link(fields, context.base)
    if link is None and is_link:
        link = resolved(context.base, said(guid))
    content = fields.first("content:encoded")
    if content is None or not said(content):
        content = next((text for text in fields.all(*_RSS_CONTENT) if len(text) or said(text)), None)
    html = ""
    if content is not None:
        html = "".join(map(_markup, content)) if len(content) else "".join(content.itertext()).strip()
    return _make_entry(
        tree,
        context,
        identifier=identifier,
        link=link,
        title=one_line(fields.words("title", "dc:title", "itunes:title", "media:title")),
        content=html,
        authors=_creators(fields),
        tags=[said(tag) for tag in fields.all("category", "dc:subject")],
        updated=iso(fields.words("atom:updated", "dcterms:modified")),
        published=iso(fields.words("pubDate", "dc:date", "dcterms:created", "dcterms:issued", "atom:published")),
        enclosures=[
            href
            for enclosure in fields.all("enclosure", "media:content")
            if (href := resolved(context.base, enclosure.get("url")))
        ],
    )


def _creators(fields: _Fields) -> list[str]:
    return [said(author) for author in fields.all("dc:creator", "author", "itunes:author")]


def _make_entry(
    tree: Element,
    context: _Context,
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
    record = {
        "id": identifier or None,
        "link": link,
        "published": published,
        "updated": updated,
        "authors": list(dict.fromkeys(name for name in authors if name)),
        "enclosures": enclosures,
        "entry": plain_tree(tree, _PREFIXES, leave_out=lambda element: prefixed(element.tag) in _LEFT_OUT),
    }
    return FeedEntry(
        entry_url(context.feed, identifier.strip(), link, [title, content, published]),
        title,
        content,
        context.base,
        link=link,
        stamp=stamp_of(updated, published),
        language=context.language,
        tags=tuple(tag for tag in tags if tag),
        record=record,
    )
