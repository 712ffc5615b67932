"""E-books: their chapters, read as pages, in the order of the spine."""

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from turbohtml import parse

from rowen.content.base import Part
from rowen.content.documents import DamagedError
from rowen.content.documents.flow import Facts, facts_of, record_of
from rowen.content.documents.packages import ZipPackage, joined
from rowen.content.html import HtmlPage, read_page
from rowen.errors import ItemError
from rowen.formats.charset import decode
from rowen.model.text import spend

__all__ = ["read_epub"]

_PAGES = ("application/xhtml+xml", "text/html", "application/x-dtbook+xml")
_CLOSED = re.compile(r"<([A-Za-z][\w:-]*+)((?:\s[^<>]*)?)/>")
_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
)
_FOLLOWED = ("http://", "https://", "mailto:")


def read_epub(body: bytes) -> Part:
    """Return the chapters of a book that is not locked."""
    package = ZipPackage(body)
    container = package.tree("META-INF/container.xml")
    path = next((each.get("full-path", "") for each in container.iter("rootfile")), "")
    if path not in package:
        raise DamagedError("is no EPUB book.")
    book = _Book(package, path)
    pages = list(book.chapters())
    facts = book.facts()
    return Part(
        text="\n\n".join(text for text, _ in pages if text),
        title=facts.title or next((page.title for _, page in pages if page.title), ""),
        tags=facts.keywords,
        language=facts.language,
        links=tuple(dict.fromkeys(link for _, page in pages for link in page.links)),
        record=record_of(facts, {}),
    )


class _Book:
    def __init__(self, package: ZipPackage, path: str) -> None:
        self._package = package
        self._folder = path.rpartition("/")[0]
        self._root = package.tree(path)
        self._items = {each.get("id", ""): each for each in self._root.iter("item")}
        self._labels = dict(self._contents())
        self._locked = {
            joined("", each.get("URI", "")).lower()
            for each in package.tree("META-INF/encryption.xml").iter("CipherReference")
        }

    def facts(self) -> Facts:
        found = {
            name: ["".join(each.itertext()).strip() for each in self._root.iter(name)]
            for name in ("title", "creator", "subject", "language")
        }
        return facts_of(
            next(iter(found["title"]), ""), found["creator"], found["subject"], next(iter(found["language"]), "")
        )

    def chapters(self) -> Iterator[tuple[str, HtmlPage]]:
        """Yield each chapter's Markdown and the page it comes from."""
        for entry in self._root.iter("itemref"):
            item = self._items.get(entry.get("idref", ""))
            if item is None or item.get("media-type") not in _PAGES or "nav" in item.get("properties", "").split():
                continue
            path = self._path(item)
            if path.lower() in self._locked:
                raise DamagedError("is locked by its publisher (DRM).", hint="Leave it out, or get an open copy.")
            page = _page(self._spent(path), path)
            yield self._with_heading(page.text, path), page

    def _spent(self, path: str) -> bytes:
        """Return a chapter, and count its size each time: a spine may name it repeatedly."""
        body = self._package.read(path)
        spend(len(body))
        return body

    def _with_heading(self, text: str, path: str) -> str:
        """Add the title from the table of contents to a chapter that begins without a heading."""
        label = self._labels.get(path.lower(), "")
        return f"# {label}\n\n{text}" if label and text and not text.startswith("#") else text

    def _path(self, item: Element) -> str:
        return joined(self._folder, item.get("href", ""))

    def _contents(self) -> Iterator[tuple[str, str]]:
        """Yield the book's own names of its chapters, by path: of EPUB 2, then of EPUB 3."""
        for item in self._items.values():
            path = self._path(item)
            folder = path.rpartition("/")[0]
            if item.get("media-type") == "application/x-dtbncx+xml":
                for point in self._package.tree(path).iter("navPoint"):
                    label = "".join("".join(each.itertext()) for each in point.iterfind("navLabel"))
                    for target in point.iterfind("content"):
                        yield from _label(folder, target.get("src", ""), label)
            elif "nav" in item.get("properties", "").split():
                for link in parse(_text(self._package.read(path), path)).select("nav a[href]"):
                    yield from _label(folder, link.attr("href") or "", link.text)


def _label(folder: str, target: str, label: str) -> Iterator[tuple[str, str]]:
    """Yield the title of a chapter, unless the link leads to a part of it."""
    words = " ".join(label.split())
    if words and "#" not in target:
        yield joined(folder, target).lower(), words


def _page(body: bytes, path: str) -> HtmlPage:
    """Read a chapter. All of it is content, and its links and anchors mean nothing outside the book."""
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
    """Return the text of a page, in which each element is closed as HTML wants it: XHTML may say `<title/>`."""
    try:
        text = decode(body, charset=None, media_type="text/html", name=path)
    except ItemError as problem:
        raise DamagedError(f"has a chapter that cannot be read: {problem}") from problem
    return _CLOSED.sub(_both_tags, text)


def _both_tags(found: re.Match[str]) -> str:
    return found[0] if found[1].lower() in _VOID else f"<{found[1]}{found[2]}></{found[1]}>"
