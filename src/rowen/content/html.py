"""Converts HTML to Markdown: the main content of a page, without boilerplate that changes with every release.

The result is stored and hashed. A release of turbohtml that converts differently needs a new version of the format.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from turbohtml import Comment, Document, Element, Markdown, Text, parse

from rowen.content.markdown import Slugs, title_and_anchor
from rowen.content.structured import facts_in
from rowen.model.items import FactsWanted
from rowen.model.text import LONGEST_ANCHOR, spend
from rowen.model.url import runs_script, trimmed

_DROPPED = ",".join(
    (
        "script,style,noscript,template,nav,footer,aside,form,input,button,select,textarea,iframe,object,svg,canvas",
        "dialog,audio,video,[hidden],[aria-hidden=true]",
        "[role=navigation],[role=search],[role=banner],[role=contentinfo],[role=complementary],[role=dialog]",
        ".headerlink,.permalink,.header-anchor,.hash-link,.anchorjs-link,a.anchor,.heading-anchor,.mw-editsection",
        ".sphinxsidebar,.related,.navheader,.navfooter,.breadcrumbs,.breadcrumb,#sidebar,.toc,#toc,.toctree-wrapper",
        ".linenos,.linenodiv,.lineno,.gutter,.line-numbers-rows,.rouge-gutter",
        "header:has(nav,ul):not(:is(article,main) *),#hd,#ft,#global-nav,.nav",
        "#menu-bar,#menu-bar-hover-placeholder,.nav-wrapper,.nav-chapters,.mobile-nav-chapters",
        ".skip-link,.skip-to-content,.skiplink,.sr-only,.visually-hidden,.screen-reader-text,.cookie-banner",
    )
)
_MAIN = "main,[role=main],article,#content,#page-content,div.body,div.document"
# The text of each candidate is read, and candidates may be nested: without a limit, time would be quadratic.
_MOST_CANDIDATES = 16
# With less than a quarter of all text, the main element leaves out too much, and the whole body is used.
_LEAST_SHARE = 0.25
_HEADINGS = "h1,h2,h3,h4,h5,h6"
_HIGHLIGHTED = "table.highlighttable,table.rouge-table,table.highlight"
_LAYOUT = ",".join(f"table:has({inside})" for inside in ("table", "pre", "h1", "h2", "h3", "h4")) + (
    ",table[role=presentation]"
)
_CALLOUTS = ",".join(f".{kind}>h3,.{kind}>h4" for kind in ("note", "tip", "warning", "caution", "important"))
# Empty siblings before a heading that are skipped; a limit keeps time linear.
_FARTHEST_SIBLING = 8
_SECTIONS = ("section", "div", "header", "article", "hgroup")
_FOLLOWED = ("http://", "https://", "file://")
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8})*")
_CODE_CLASS = re.compile(r"(?:^|\s)(?:(?:highlight-source|highlight|language|lang)-|brush:\s?)([A-Za-z][\w+#.-]*)")
_NO_CODE_LANGUAGE = frozenset({"default", "none", "text", "notranslate", "source", "plaintext", "highlight"})
_SPACES = ("\xa0", "&nbsp;", "&#160;", "&#xA0;", "&#xa0;")
_SYMBOL = re.compile(r"[^\w]*", re.ASCII)
_ANCHOR = re.compile(r" \{#[^{}]*\}$")
_GAP = re.compile(r"\n(?:[ \t>]*(`{3,}+)[^\n]*+(?>.*?\n[ \t>]*+\1[^\n]*+|.*)(?=\n|\Z)|\n{2,}+)", re.DOTALL)
# A cell that spans rows is repeated in each if it is short; a long one would multiply the text.
_LONGEST_REPEATED = 80
_CONCEALING = re.compile(
    r"(?:^|;)(?:display:none|visibility:hidden|opacity:0(?:\.0+)?|font-size:0(?:\.0+)?(?:px|pt|r?em|%)?)"
    r"(?:!important)?(?:;|$)"
)
# Some pages conceal their whole content until a script fades it in; an element with one of these tags is kept.
_WHOLE = "main,article,h1"
# A page has dozens of styled elements. Each is searched, so without a limit, time would be quadratic.
_MOST_STYLED = 1_000


def _emphasis(mark: str) -> Callable[[Element, str], str]:
    return lambda _, words: f"{mark}{words}{mark}" if words and "\n\n" not in words else words


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
        "sup": lambda _, words: f"^{words}" if words.isalnum() else words,
    },
)


@dataclass(frozen=True, slots=True)
class HtmlPage:
    """The content of a page, and its instructions for crawlers.

    Links are absolute and in order. Fragments are removed, except for routes (`#/…`, `#!…`).
    """

    title: str
    text: str
    links: tuple[str, ...] = ()
    language: str | None = None
    noindex: bool = False
    nofollow: bool = False
    canonical: str | None = None
    tags: tuple[str, ...] = ()
    nofollow_links: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


def read_page(
    html: str,
    url: str = "",
    *,
    select: str | None = None,
    ignore: str | None = None,
    facts: FactsWanted | None = None,
) -> HtmlPage:
    """Return the content of a page in HTML; `url` is its address.

    With `select`, the text consists of the elements that match this CSS selector; elements that match `ignore` are
    left out. `facts` are read from the complete markup; if they are requested, the text contains nothing that inline
    styles conceal.
    """
    for space in _SPACES:
        html = html.replace(space, " ")
    page = parse(html)
    title = _text_of(page.select_one("title"))
    page_facts = facts_in(page, facts) if facts else {}
    meta: dict[str, str] = {}
    for element in page.find_all("meta"):
        name = element.attr("name") or element.attr("property") or element.attr("http-equiv") or ""
        meta.setdefault(name.lower(), element.attr("content") or "")
    robots = set(re.split(r"[\s,]+", meta.get("robots", "").lower()))
    declared = (page.root.attr("lang") or page.root.attr("xml:lang")) if page.root is not None else None
    language = (declared or meta.get("content-language", "")).strip().replace("_", "-")
    base = page.base_url(url)
    # Each relative address grows by the length of the base.
    spend(len(base) * len(page.select("[href],[src],[srcset],[action],[poster],[data],[cite]")) if base else 0)
    page.resolve_links(base)
    links, unfollowed = _links(page)
    if ignore:
        page.remove(ignore)
    if facts:
        drop_concealed(page)
    main = _selected(page, select) if select else _main(page)
    _repair(main, base.partition("#")[0])
    markdown = main.to_markdown(_MARKDOWN)
    if "\n\n\n" in markdown:
        # Remove the blank lines that empty elements leave, except inside code.
        markdown = _GAP.sub(lambda gap: gap[0] if gap[1] else "\n\n", "\n" + markdown).strip("\n")
    link = page.select_one("link[rel~=canonical][href]")
    canonical = trimmed(link.attr("href") or "").partition("#")[0] if link is not None else ""
    return HtmlPage(
        title=_title(title or meta.get("og:title", ""), main),
        text=markdown,
        links=links,
        language=language if _LANGUAGE.fullmatch(language) else None,
        noindex=bool(robots & {"noindex", "none"}),
        nofollow=bool(robots & {"nofollow", "none"}),
        canonical=canonical if canonical.startswith(("http://", "https://")) else None,
        tags=tuple(tag for word in meta.get("keywords", "").split(",") if (tag := word.strip())),
        nofollow_links=unfollowed,
        facts=page_facts,
    )


def _text_of(element: Element | None) -> str:
    return " ".join(element.text.split()) if element is not None else ""


def _links(page: Document) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the links to follow and the links not to follow, each once.

    In the page, links that would run a script lose their target, and all links lose their tooltips.
    """
    followed: dict[str, None] = {}
    unfollowed: dict[str, None] = {}
    for element in page.select("a[href],area[href]"):
        href = element.attr("href") or ""
        if (address := trimmed(href)) != href:
            element.attrs["href"] = address
        url, _, fragment = address.partition("#")
        if fragment.startswith(("/", "!")):
            url = f"{url}#{fragment}"
        if element.attr("title") is not None:
            del element.attrs["title"]
        if url.startswith(_FOLLOWED):
            rel = element.attr("rel")
            (unfollowed if rel and "nofollow" in rel.lower() else followed)[url] = None
        elif runs_script(url):
            del element.attrs["href"]
    return tuple(followed), tuple(unfollowed)


def _selected(page: Document, selector: str) -> Element | Document:
    """Return the body with only the selected parts, in order; the page if it has no body."""
    body = page.select_one("body")
    if body is None:
        return page
    chosen = page.select(selector)
    outer = [part for part in chosen if not any(ancestor in chosen for ancestor in part.ancestors)]
    for part in outer:
        part.extract()
    body.clear()
    for part in outer:
        body.append(part)
    return body


def _main(page: Document) -> Element | Document:
    """Return the main element with the most text; the body if that element has too small a share of the text."""
    page.remove(_DROPPED).remove("a[href]:empty")
    body = page.select_one("body") or page
    candidates = page.select(_MAIN)[:_MOST_CANDIDATES]
    if not candidates:
        return body
    length, _, best = max((len(element.text), -order, element) for order, element in enumerate(candidates))
    return best if length >= _LEAST_SHARE * len(body.text) else body


def _title(title: str, main: Element | Document) -> str:
    """Return the page's own heading if the title contains it; the rest of such a title names the site and its version.

    Of several such headings, the last belongs to the page, since the site's heading stands above it.
    """
    elements = main.select("h1")[:3] or main.select("h2")[:1]
    headings = [_ANCHOR.sub("", _text_of(element)) for element in elements]
    if not title:
        return headings[0] if headings else ""
    whole = title.casefold()
    for heading in reversed(headings):
        part = heading.casefold()
        if part and (whole.startswith(part) or whole.endswith(part) or (len(part) > 3 and part in whole)):
            return heading
    return title


def _repair(main: Element | Document, url: str) -> None:
    for table in main.select(_HIGHLIGHTED):
        if (block := table.select_one("pre:last-of-type")) is not None:
            _name_language(block)
            table.replace_with(block)
    for table in main.select(_LAYOUT):
        as_boxes(table)
    for table in main.select("table"):
        make_regular(table)
    for label in main.select(_CALLOUTS):
        label.wrap_children(Element("strong"))
        label.tag = "p"
    for block in main.select("pre"):
        _name_language(block)
    _name_anchors(main, url)


def _name_language(block: Element) -> None:
    inner = block.select_one("code")
    if inner is not None and "language-" in (inner.attr("class") or ""):
        return
    around = block
    for _ in range(3):
        for language in _CODE_CLASS.findall(around.attr("class") or ""):
            if language not in _NO_CODE_LANGUAGE:
                block.attrs["class"] = "language-" + language
                return
        if not isinstance(around.parent, Element):
            return
        around = around.parent


def _name_anchors(main: Element | Document, url: str) -> None:
    """Add ` {#id}` to headings whose anchor differs from the anchor derived from their text."""
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
        is_usable = 0 < len(anchor) <= LONGEST_ANCHOR and not re.search(r"[\s{}]", anchor)
        if is_usable and anchor != slug and heading.text.strip():
            heading.append(Text(f" {{#{anchor}}}"))


def _anchor(heading: Element) -> str:
    """Return the id of a heading, of an element inside it or just above it, or of the section that it starts."""
    if own := heading.attr("id"):
        return own
    inner = heading.select_one("[id],a[name]")
    if inner is not None:
        return inner.attr("id") or inner.attr("name") or ""
    around = heading
    for _ in range(4):
        for distance, sibling in enumerate(around.previous_siblings):
            if distance == _FARTHEST_SIBLING:
                return ""
            if isinstance(sibling, Element) and sibling.tag in ("span", "a") and (above := sibling.attr("id")):
                return above
            if not isinstance(sibling, Comment) and sibling.text.strip():
                return ""
        parent = around.parent
        if not isinstance(parent, Element) or parent.tag not in _SECTIONS:
            return ""
        if section := parent.attr("id"):
            return section
        around = parent
    return ""


def make_regular(table: Element) -> None:
    """Replace spans by cells: repeat a cell that spans rows, and add empty cells after one that spans columns."""
    rows = [(row, cells) for row in table.select("tr") if (cells := row.select("td,th"))]
    if not rows:
        return
    if table.select_one("[colspan],[rowspan]") is not None:
        spans = [[(cell, _span(cell, "colspan"), _span(cell, "rowspan")) for cell in cells] for _, cells in rows]
        area = sum(columns * min(down, len(rows) - at) for at, cells in enumerate(spans) for _, columns, down in cells)
        if area > _most_cells(sum(map(len, spans))):
            as_boxes(table)
            return
        carried: dict[int, tuple[int, str]] = {}
        for (row, _), cells_of_row in zip(rows, spans, strict=True):
            carried = _spread(row, cells_of_row, carried)
        rows = [(row, row.select("td,th")) for row, _ in rows]
    widest = max(len(cells) for _, cells in rows)
    if widest * len(rows) > _most_cells(sum(len(cells) for _, cells in rows)):
        as_boxes(table)
        return
    for row, cells in rows:
        row.extend(Element("td") for _ in range(widest - len(cells)))


def as_boxes(table: Element) -> None:
    """Replace a layout table by `div` elements."""
    for element in table.select("caption,thead,tbody,tfoot,tr,td,th"):
        if element.closest("table") is table or element.closest("table") is None:
            element.tag = "div"
    table.tag = "div"


def _most_cells(cells: int) -> int:
    """Return the maximum number of cells after spans are replaced, for a table with `cells` cells."""
    return 20 * cells + 1000


def _span(cell: Element, name: str) -> int:
    value = cell.attrs.pop(name, None)
    # HTML 4.9.11: a span of more than 1,000 columns counts as 1,000.
    return min(1000, max(1, int(value))) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,5}", value.strip()) else 1


def _spread(
    row: Element, cells: list[tuple[Element, int, int]], carried: dict[int, tuple[int, str]]
) -> dict[int, tuple[int, str]]:
    """Expand the cells of a row, including cells that span into it; return the cells that span into the next row.

    `carried` and the result map a column to the number of remaining rows and the text of the cell.
    """
    following = {column: (rows - 1, words) for column, (rows, words) in carried.items() if rows > 1}
    at = 0
    for cell, columns, rows in cells:
        while at in carried:
            cell.insert_before(_cell(carried[at][1]))
            at += 1
        if rows > 1:
            words = " ".join(cell.text.split())
            following[at] = (rows - 1, words if len(words) <= _LONGEST_REPEATED else "")
            following.update({at + step: (rows - 1, "") for step in range(1, columns)})
        if columns > 1:
            cell.insert_after(*(Element("td") for _ in range(columns - 1)))
        at += columns
    while at in carried:
        row.append(_cell(carried[at][1]))
        at += 1
    return following


def _cell(words: str) -> Element:
    cell = Element("td")
    spend(len(words))
    if words:
        cell.set_text(words)
    return cell


def drop_concealed(page: Document) -> None:
    """Remove elements that inline styles conceal, unless they contain the content of the page."""
    for element in page.select("body [style]")[:_MOST_STYLED]:
        style = re.sub(r"\s+", "", element.attr("style") or "").lower()
        if _CONCEALING.search(style) and element.tag not in _WHOLE.split(",") and element.select_one(_WHOLE) is None:
            element.decompose()
