"""HTML becomes Markdown: the main content of a page, without the shell that changes with every release.

With `html_tables`, all that knows turbohtml's tree. Its output is stored and hashed: a release of turbohtml that
converts otherwise is a new `VERSION` of `read`.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from turbohtml import Document, Element, Markdown, Text, parse

from rowen.content.headings import Slugs, title_and_anchor
from rowen.content.html_tables import as_boxes, make_regular

__all__ = ["Page", "read_page"]

_DROPPED = ",".join(
    (
        "script,style,noscript,template,nav,footer,aside,form,input,button,select,textarea,iframe,object,svg,canvas",
        "dialog,audio,video,[hidden],[aria-hidden=true]",
        "[role=navigation],[role=search],[role=banner],[role=contentinfo],[role=complementary],[role=dialog]",
        ".headerlink,.permalink,.header-anchor,.hash-link,.anchorjs-link,a.anchor,.heading-anchor,.mw-editsection",
        ".sphinxsidebar,.related,.navheader,.navfooter,.breadcrumbs,.breadcrumb,#sidebar,.toc,#toc,.toctree-wrapper",
        ".linenos,.linenodiv,.lineno,.gutter,.line-numbers-rows,.rouge-gutter",
        "#menu-bar,#menu-bar-hover-placeholder,.nav-wrapper,.nav-chapters,.mobile-nav-chapters",
        ".skip-link,.skip-to-content,.skiplink,.sr-only,.visually-hidden,.screen-reader-text,.cookie-banner",
    )
)
_MAIN = "main,[role=main],article,#content,#page-content,div.body,div.document"
_MOST_CANDIDATES = 16
_LEAST_SHARE = 0.25
_HEADINGS = "h1,h2,h3,h4,h5,h6"
_HIGHLIGHTED = "table.highlighttable,table.rouge-table,table.highlight"
_LAYOUT = ",".join(f"table:has({inside})" for inside in ("table", "pre", "h1", "h2", "h3", "h4")) + (
    ",table[role=presentation]"
)
Converter = Callable[[Element, str], str]

_FOLLOWED = ("http://", "https://", "file://")
_SCRIPTED = ("javascript:", "data:", "vbscript:")

_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8})*")
_CODE_CLASS = re.compile(r"(?:^|\s)(?:(?:highlight-source|highlight|language|lang)-|brush:\s?)([A-Za-z][\w+#.-]*)")
_NO_CODE_LANGUAGE = frozenset({"default", "none", "text", "notranslate", "source", "plaintext", "highlight"})
_SPACES = ("\xa0", "&nbsp;", "&#160;", "&#xA0;", "&#xa0;")
_SYMBOL = re.compile(r"[^\w]*", re.ASCII)


def _emphasis(mark: str) -> "Converter":
    def convert(_: Element, words: str) -> str:
        return f"{mark}{words}{mark}" if words and "\n\n" not in words else words

    return convert


def _raised(_: Element, words: str) -> str:
    return f"^{words}" if words.isalnum() else words


# turbohtml's own emphasis falls back to HTML tags in the whole document as soon as one word has an accent in it.
_MARKDOWN = Markdown(
    images=Markdown.Images(mode="alt"),
    tables=Markdown.Tables(cell_blocks="text"),
    escaping=Markdown.Escaping(asterisks=False, underscores=False),
    converters={
        "em": _emphasis("*"),
        "i": _emphasis("*"),
        "strong": _emphasis("**"),
        "b": _emphasis("**"),
        "sup": _raised,
    },
)


@dataclass(frozen=True, slots=True)
class Page:
    """What a page says, and what it asks of a crawler. Links are absolute, without fragments, in their order."""

    title: str
    text: str
    links: tuple[str, ...] = ()
    language: str | None = None
    noindex: bool = False
    nofollow: bool = False
    canonical: str | None = None
    tags: tuple[str, ...] = ()
    nofollow_links: tuple[str, ...] = ()


def read_page(html: str, url: str = "") -> Page:
    """The page of an HTML text that was found under `url`."""
    for space in _SPACES:
        html = html.replace(space, " ")
    page = parse(html)
    title = _text_of(page.select_one("title"))
    meta = _meta(page)
    robots = set(re.split(r"[\s,]+", meta.get("robots", "").lower()))
    base = page.base_url(url)
    page.resolve_links(base)
    links, unfollowed = _links(page)
    main = _main(page)
    _repair(main, base.partition("#")[0])
    return Page(
        title=_title(title or meta.get("og:title", ""), main),
        text=main.to_markdown(_MARKDOWN),
        links=links,
        language=_language(page, meta),
        noindex=bool(robots & {"noindex", "none"}),
        nofollow=bool(robots & {"nofollow", "none"}),
        canonical=_canonical(page),
        tags=tuple(tag for word in meta.get("keywords", "").split(",") if (tag := word.strip())),
        nofollow_links=unfollowed,
    )


def _text_of(element: Element | None) -> str:
    return " ".join(element.text.split()) if element is not None else ""


def _meta(page: Document) -> dict[str, str]:
    found: dict[str, str] = {}
    for element in page.find_all("meta"):
        name = element.attr("name") or element.attr("property") or element.attr("http-equiv") or ""
        found.setdefault(name.lower(), element.attr("content") or "")
    return found


def _language(page: Document, meta: dict[str, str]) -> str | None:
    told = (page.root.attr("lang") or page.root.attr("xml:lang")) if page.root is not None else None
    language = (told or meta.get("content-language", "")).strip().replace("_", "-")
    return language if _LANGUAGE.fullmatch(language) else None


def _canonical(page: Document) -> str | None:
    element = page.select_one("link[rel~=canonical][href]")
    url = (element.attr("href") or "").partition("#")[0] if element is not None else ""
    return url if url.startswith(_FOLLOWED) else None


def _links(page: Document) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The links to follow and those not to, each once; links that would run a script lose their target."""
    followed: dict[str, None] = {}
    unfollowed: dict[str, None] = {}
    for element in page.select("a[href],area[href]"):
        url = (element.attr("href") or "").partition("#")[0]
        if url.startswith(_FOLLOWED):
            rel = element.attr("rel")
            (unfollowed if rel and "nofollow" in rel.lower() else followed)[url] = None
        elif url.lstrip().lower().startswith(_SCRIPTED):
            del element.attrs["href"]
    return tuple(followed), tuple(unfollowed)


def _main(page: Document) -> Element | Document:
    """The candidate with the most text; the body where none has a fair share of it."""
    page.remove(_DROPPED).remove("a[href]:empty")
    body = page.select_one("body") or page
    candidates = page.select(_MAIN)[:_MOST_CANDIDATES]
    if not candidates:
        return body
    length, _, best = max((len(element.text), -order, element) for order, element in enumerate(candidates))
    return best if length >= _LEAST_SHARE * len(body.text) else body


def _title(told: str, main: Element | Document) -> str:
    """The page's own heading where the title only adds to it: the rest names the site, often with its version."""
    own = _text_of(main.select_one("h1") or main.select_one("h2")).rpartition(" {#")
    heading = own[0] or own[2]
    whole, part = told.casefold(), heading.casefold()
    if not told or (part and (whole.startswith(part) or whole.endswith(part) or (len(part) > 3 and part in whole))):
        return heading
    return told


def _repair(main: Element | Document, url: str) -> None:
    for table in main.select(_HIGHLIGHTED):
        if (block := table.select_one("pre:last-of-type")) is not None:
            _name_language(block)
            table.replace_with(block)
    for table in main.select(_LAYOUT):
        as_boxes(table)
    for table in main.select("table"):
        make_regular(table)
    for block in main.select("pre"):
        _name_language(block)
    _name_anchors(main, url)


def _name_language(block: Element) -> None:
    inner = block.select_one("code")
    if inner is not None and "language-" in (inner.attr("class") or ""):
        return
    around = block
    for _ in range(3):
        for found in _CODE_CLASS.findall(around.attr("class") or ""):
            if found not in _NO_CODE_LANGUAGE:
                block.attrs["class"] = "language-" + found
                return
        if not isinstance(around.parent, Element):
            return
        around = around.parent


def _name_anchors(main: Element | Document, url: str) -> None:
    """Headings end in ` {#id}` where their anchor is not the one that their words would give."""
    slugs = Slugs()
    for heading in main.select(_HEADINGS):
        for link in heading.select("a[href]"):
            if (link.attr("href") or "").startswith(url + "#"):
                if _SYMBOL.fullmatch(link.text.strip()):
                    link.decompose()
                else:
                    link.unwrap()
        slug = slugs.of(title_and_anchor("# " + heading.text)[0])
        anchor = _anchor(heading)
        if anchor and anchor != slug and heading.text.strip():
            heading.append(Text(f" {{#{anchor}}}"))


def _anchor(heading: Element) -> str | None:
    """The heading's own id, that of an element inside of it, or of the section that it opens."""
    if own := heading.attr("id"):
        return _usable(own)
    inner = heading.select_one("[id],a[name]")
    if inner is not None:
        return _usable(inner.attr("id") or inner.attr("name") or "")
    around = heading
    for _ in range(4):
        parent = around.parent
        if not isinstance(parent, Element) or parent.tag not in ("section", "div", "header", "article", "hgroup"):
            return None
        if parent.select_one("*") is not around:
            return None
        if told := parent.attr("id"):
            return _usable(told)
        around = parent
    return None


def _usable(anchor: str) -> str | None:
    return anchor if anchor and not re.search(r"[\s{}]", anchor) else None
