"""HTML as Markdown: the main content of a page, without the boilerplate that changes with every release.

Its output is stored and hashed: a release of turbohtml that
converts otherwise needs a new version of the format.
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

__all__ = ["HtmlPage", "read_page"]

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
# The text of each is taken, and they may lie within each other: without a limit, time would be quadratic.
_MOST_CANDIDATES = 16
# With less than a quarter of all text, the main element leaves out too much, and the whole body is taken.
_LEAST_SHARE = 0.25
_HEADINGS = "h1,h2,h3,h4,h5,h6"
_HIGHLIGHTED = "table.highlighttable,table.rouge-table,table.highlight"
_LAYOUT = ",".join(f"table:has({inside})" for inside in ("table", "pre", "h1", "h2", "h3", "h4")) + (
    ",table[role=presentation]"
)
Converter = Callable[[Element, str], str]
_CALLOUTS = ",".join(f".{kind}>h3,.{kind}>h4" for kind in ("note", "tip", "warning", "caution", "important"))
# Siblings before a heading that may be empty; each heading looks at them, so that time stays linear.
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
# A cell over many rows is repeated in each if it is short; a long one would multiply the text.
_LONGEST_REPEATED = 80
Span = tuple[Element, int, int]
"""A cell, and over how many columns and rows it reaches."""
Carried = dict[int, tuple[int, str]]
"""By column, for how many more rows a cell from above reaches down, and its words."""
_CONCEALING = re.compile(
    r"(?:^|;)(?:display:none|visibility:hidden|opacity:0(?:\.0+)?|font-size:0(?:\.0+)?(?:px|pt|r?em|%)?)"
    r"(?:!important)?(?:;|$)"
)
# Pages that fade in conceal all that they say until their scripts have run; what speaks to programs has no such parts.
_WHOLE = "main,article,h1"
# Those of a page are dozens. Each is looked into, so that without a limit time would be quadratic.
_MOST = 1_000


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
class HtmlPage:
    """The content of a page, and its instructions for crawlers.

    Links are absolute, in their order, and without fragments but for routes (`#/…`, `#!…`).
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
    """Return the page of an HTML text that was found under `url`.

    With `select` its text is what that selector finds, wherever it stands; what `ignore` finds is left out. `facts` are
    taken from the whole markup, and then the text has nothing that the page conceals.
    """
    for space in _SPACES:
        html = html.replace(space, " ")
    page = parse(html)
    title = _text_of(page.select_one("title"))
    found = facts_in(page, facts) if facts else {}
    meta = _meta(page)
    robots = set(re.split(r"[\s,]+", meta.get("robots", "").lower()))
    base = page.base_url(url)
    # Each relative address becomes as long as the base.
    spend(len(base) * len(page.select("[href],[src],[srcset],[action],[poster],[data],[cite]")) if base else 0)
    page.resolve_links(base)
    links, unfollowed = _links(page)
    if ignore:
        page.remove(ignore)
    if facts:
        drop_concealed(page)
    main = _selected(page, select) if select else _main(page)
    _repair(main, base.partition("#")[0])
    return HtmlPage(
        title=_title(title or meta.get("og:title", ""), main),
        text=_tight(main.to_markdown(_MARKDOWN)),
        links=links,
        language=_language(page, meta),
        noindex=bool(robots & {"noindex", "none"}),
        nofollow=bool(robots & {"nofollow", "none"}),
        canonical=_canonical(page),
        tags=tuple(tag for word in meta.get("keywords", "").split(",") if (tag := word.strip())),
        nofollow_links=unfollowed,
        facts=found,
    )


def _tight(markdown: str) -> str:
    """Remove the blank lines of empty elements, but none inside code."""
    if "\n\n\n" not in markdown:
        return markdown
    return _GAP.sub(lambda gap: gap[0] if gap[1] else "\n\n", "\n" + markdown).strip("\n")


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
    url = trimmed(element.attr("href") or "").partition("#")[0] if element is not None else ""
    return url if url.startswith(("http://", "https://")) else None


def _links(page: Document) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the links to follow and those not to, each once.

    In the text, links that would run a script lose their target, and all lose the title that a pointer would show.
    """
    followed: dict[str, None] = {}
    unfollowed: dict[str, None] = {}
    for element in page.select("a[href],area[href]"):
        written = element.attr("href") or ""
        if (address := trimmed(written)) != written:
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
    """Return a body of only the selected parts, in their order."""
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
    """Return the candidate with the most text; the body if each candidate has too little of it."""
    page.remove(_DROPPED).remove("a[href]:empty")
    body = page.select_one("body") or page
    candidates = page.select(_MAIN)[:_MOST_CANDIDATES]
    if not candidates:
        return body
    length, _, best = max((len(element.text), -order, element) for order, element in enumerate(candidates))
    return best if length >= _LEAST_SHARE * len(body.text) else body


def _title(told: str, main: Element | Document) -> str:
    """Return the page's own heading where the title only adds to it: the rest names the site, often with its version.

    Of several such headings the last one is the page's: the site's stands above it.
    """
    found = main.select("h1")[:3] or main.select("h2")[:1]
    headings = [_ANCHOR.sub("", _text_of(heading)) for heading in found]
    if not told:
        return headings[0] if headings else ""
    own = [heading for heading in headings if _is_part(heading.casefold(), told.casefold())]
    return own[-1] if own else told


def _is_part(heading: str, title: str) -> bool:
    if not heading:
        return False
    return title.startswith(heading) or title.endswith(heading) or (len(heading) > 3 and heading in title)


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
        for found in _CODE_CLASS.findall(around.attr("class") or ""):
            if found not in _NO_CODE_LANGUAGE:
                block.attrs["class"] = "language-" + found
                return
        if not isinstance(around.parent, Element):
            return
        around = around.parent


def _name_anchors(main: Element | Document, url: str) -> None:
    """Add ` {#id}` to headings whose anchor differs from the one that their words would give."""
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
    """Return the heading's own id, that of an element inside or just above, or of the section that it opens."""
    if own := heading.attr("id"):
        return _usable(own)
    inner = heading.select_one("[id],a[name]")
    if inner is not None:
        return _usable(inner.attr("id") or inner.attr("name") or "")
    around = heading
    for _ in range(4):
        opens, above = _opens(around)
        if above or not opens:
            return _usable(above)
        parent = around.parent
        if not isinstance(parent, Element) or parent.tag not in _SECTIONS:
            return None
        if told := parent.attr("id"):
            return _usable(told)
        around = parent
    return None


def _opens(element: Element) -> tuple[bool, str]:
    """Return whether nothing that can be read stands before an element in its parent, and the nearest id that does."""
    for distance, sibling in enumerate(element.previous_siblings):
        if distance == _FARTHEST_SIBLING:
            return False, ""
        if isinstance(sibling, Element) and sibling.tag in ("span", "a") and (told := sibling.attr("id")):
            return True, told
        if not isinstance(sibling, Comment) and sibling.text.strip():
            return False, ""
    return True, ""


def _usable(anchor: str) -> str | None:
    return anchor if 0 < len(anchor) <= LONGEST_ANCHOR and not re.search(r"[\s{}]", anchor) else None


def make_regular(table: Element) -> None:
    """Turn spans into cells: repeat a cell that spans rows, add blanks after one that spans columns."""
    rows = [(row, cells) for row in table.select("tr") if (cells := row.select("td,th"))]
    if not rows:
        return
    if table.select_one("[colspan],[rowspan]") is not None:
        if not _spread_all([(row, [_span(cell) for cell in cells]) for row, cells in rows]):
            as_boxes(table)
            return
        rows = [(row, row.select("td,th")) for row, _ in rows]
    widest = max(len(cells) for _, cells in rows)
    if widest * len(rows) > _most(sum(len(cells) for _, cells in rows)):
        as_boxes(table)
        return
    for row, cells in rows:
        row.extend(Element("td") for _ in range(widest - len(cells)))


def as_boxes(table: Element) -> None:
    """Turn a layout table into plain boxes."""
    for element in table.select("caption,thead,tbody,tfoot,tr,td,th"):
        if element.closest("table") is table or element.closest("table") is None:
            element.tag = "div"
    table.tag = "div"


def _most(cells: int) -> int:
    """Return the limit to which a table of so many cells may grow."""
    return 20 * cells + 1000


def _spread_all(rows: list[tuple[Element, list[Span]]]) -> bool:
    """Lay out all rows; return False if the table would become too large."""
    area = 0
    for at, (_, spans) in enumerate(rows):
        area += sum(across * min(down, len(rows) - at) for _, across, down in spans)
    if area > _most(sum(len(spans) for _, spans in rows)):
        return False
    carried: Carried = {}
    for row, spans in rows:
        carried = _spread(row, spans, carried)
    return True


def _spread(row: Element, spans: list[Span], carried: Carried) -> Carried:
    """Lay out one row below cells that reach into it; returns what reaches into the next row."""
    kept = {column: (rows - 1, words) for column, (rows, words) in carried.items() if rows > 1}
    at = 0
    for cell, across, down in spans:
        while at in carried:
            cell.insert_before(_cell(carried[at][1]))
            at += 1
        if down > 1:
            words = " ".join(cell.text.split())
            kept[at] = (down - 1, words if len(words) <= _LONGEST_REPEATED else "")
            kept.update({at + step: (down - 1, "") for step in range(1, across)})
        if across > 1:
            cell.insert_after(*(Element("td") for _ in range(across - 1)))
        at += across
    while at in carried:
        row.append(_cell(carried[at][1]))
        at += 1
    return kept


def _cell(words: str) -> Element:
    cell = Element("td")
    spend(len(words))
    if words:
        cell.set_text(words)
    return cell


def _span(cell: Element) -> Span:
    return cell, _number(cell, "colspan"), _number(cell, "rowspan")


def _number(cell: Element, name: str) -> int:
    told = cell.attrs.pop(name, None)
    # HTML 4.9.11: more than 1,000 columns are 1,000.
    return min(1000, max(1, int(told))) if isinstance(told, str) and re.fullmatch(r"[0-9]{1,5}", told.strip()) else 1


def drop_concealed(page: Document) -> None:
    """Remove what inline styles conceal, except for what holds the page itself."""
    for element in page.select("body [style]")[:_MOST]:
        style = re.sub(r"\s+", "", element.attr("style") or "").lower()
        if _CONCEALING.search(style) and element.tag not in _WHOLE.split(",") and element.select_one(_WHOLE) is None:
            element.decompose()
