"""Reads e-books: the chapters in the order of the spine, each as an HTML page."""

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from turbohtml import parse

from rowen.content.base import Part
from rowen.content.documents import DamagedError
from rowen.content.documents.flow import facts_of
from rowen.content.documents.packages import ZipPackage, joined
from rowen.content.html import HtmlPage, read_page
from rowen.errors import ItemError
from rowen.formats.charset import decode
from rowen.model.text import spend

_PAGES = ("application/xhtml+xml", "text/html", "application/x-dtbook+xml")
_CLOSED = re.compile(r"<([A-Za-z][\w:-]*+)((?:\s[^<>]*)?)/>")
_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
)
_FOLLOWED = ("http://", "https://", "mailto:")


def read_epub(body: bytes) -> Part:
    """Return the chapters of a book; raise `DamagedError` if it is protected by DRM."""
    package = ZipPackage(body)
    container = package.tree("META-INF/container.xml")
    path = next((each.get("full-path", "") for each in container.iter("rootfile")), "")
    if path not in package:
        raise DamagedError("is not an EPUB book.")
    book = _Book(package, path)
    pages = list(book.chapters())
    texts = {
        name: ["".join(element.itertext()).strip() for element in book.root.iter(name)]
        for name in ("title", "creator", "subject", "language")
    }
    title, language = (next(iter(texts[name]), "") for name in ("title", "language"))
    return facts_of(title, texts["creator"], texts["subject"], language).part(
        "\n\n".join(text for text, _ in pages if text),
        title=next((page.title for _, page in pages if page.title), ""),
        links=tuple(dict.fromkeys(link for _, page in pages for link in page.links)),
    )


class _Book:
    def __init__(self, package: ZipPackage, path: str) -> None:
        self._package = package
        self._folder = path.rpartition("/")[0]
        self.root = package.tree(path)
        self._items = {item.get("id", ""): item for item in self.root.iter("item")}

    def chapters(self) -> Iterator[tuple[str, HtmlPage]]:
        """Yield the Markdown and the page of each chapter; a chapter without a heading gets its title as heading."""
        labels = dict(self._contents())
        encryption = self._package.tree("META-INF/encryption.xml")
        locked = {joined("", reference.get("URI", "")).lower() for reference in encryption.iter("CipherReference")}
        for entry in self.root.iter("itemref"):
            item = self._items.get(entry.get("idref", ""))
            if item is None or item.get("media-type") not in _PAGES or "nav" in item.get("properties", "").split():
                continue
            path = self._path(item)
            if path.lower() in locked:
                raise DamagedError("is locked by its publisher (DRM).", hint="Exclude it, or get an open copy.")
            body = self._package.read(path)
            # A spine may name a chapter repeatedly.
            spend(len(body))
            page = _page(body, path)
            label = labels.get(path.lower(), "")
            needs_heading = label and page.text and not page.text.startswith("#")
            yield (f"# {label}\n\n{page.text}" if needs_heading else page.text), page

    def _path(self, item: Element) -> str:
        return joined(self._folder, item.get("href", ""))

    def _contents(self) -> Iterator[tuple[str, str]]:
        """Yield the paths and titles of chapters from the table of contents of EPUB 2 or EPUB 3."""
        for item in self._items.values():
            path = self._path(item)
            folder = path.rpartition("/")[0]
            if item.get("media-type") == "application/x-dtbncx+xml":
                for point in self._package.tree(path).iter("navPoint"):
                    label = "".join("".join(part.itertext()) for part in point.iterfind("navLabel"))
                    for target in point.iterfind("content"):
                        yield from _label(folder, target.get("src", ""), label)
            elif "nav" in item.get("properties", "").split():
                for link in parse(_text(self._package.read(path), path)).select("nav a[href]"):
                    yield from _label(folder, link.attr("href") or "", link.text)


def _label(folder: str, target: str, label: str) -> Iterator[tuple[str, str]]:
    """Yield the path and title of a chapter; nothing for a link to a part of a chapter."""
    words = " ".join(label.split())
    if words and "#" not in target:
        yield joined(folder, target).lower(), words


def _page(body: bytes, path: str) -> HtmlPage:
    """Read a chapter; all its elements are content, and links and anchors inside the book are removed."""
    page = parse(_text(body, path))
    page.remove("annotation,annotation-xml")
    for element in page.select("aside,footer,main,article"):
        element.tag = "div"
    for element in page.select("[id],[name],[role],div.body,div.document"):
        for name in ("id", "name", "role", *(("class",) if element.tag == "div" else ())):
            element.attrs.pop(name, None)
    for link in page.select("a"):
        if not (link.attr("href") or "").startswith(_FOLLOWED):
            link.unwrap()
    return read_page(page.html)


def _text(body: bytes, path: str) -> str:
    """Return a page's text with empty elements such as `<title/>` closed as in HTML."""
    try:
        text = decode(body, charset=None, media_type="text/html", name=path)
    except ItemError as problem:
        raise DamagedError(f"has a chapter that cannot be read: {problem}") from problem
    return _CLOSED.sub(_both_tags, text)


def _both_tags(tag: re.Match[str]) -> str:
    return tag[0] if tag[1].lower() in _VOID else f"<{tag[1]}{tag[2]}></{tag[1]}>"
