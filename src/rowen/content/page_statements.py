"""RDF statements of pages: which pages have any worth reading, the statements, and links to documents.

Reading RDFa costs more than all else that is done to a page. So a page is classified first, by its types alone, and an
overview is not read for statements.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import ada_url
from turbohtml import Document, Element, parse

from rowen.formats.rdf.rdfa import statements_of
from rowen.formats.rdf.statements import kept_statements
from rowen.model.rdf import RDFA, PageType, StatementProfile, StatementsWanted
from rowen.model.text import OverspentError, spend
from rowen.model.url import same_site, without_session

__all__ = ["page_type", "statements_in"]

# The identifiers of the concepts of document types; a vendor's prefix lacks the slash before them, so they alone count.
_DOCUMENT_TYPES: Mapping[str, PageType] = {
    "8e791b27-7600-4577-b24e-c7c29e0eb773": "minutes",
    "13fefad6-a9d6-4025-83b5-e4cbee3a8965": "agenda",
    "3fa67785-ffdc-4b30-8880-2b99d97b4dee": "decision list",
    "9d5bfaca-bbf2-49dd-a830-769f91a6377b": "extract",
}
_ITEM_TYPES = ("Besluit", "BehandelingVanAgendapunt")
# Properties of links to documents, as IRIs or with any prefix. Publishers still write the older `linkToBesluit`.
_LEADS = re.compile(
    r"(?:^|[\s:/#])(?:heeftNotulen|heeftAgenda|heeftBesluitenlijst|heeftUittreksel|linkToPublication|linkToBesluit)(?=\s|$)"
)
_RELATIONS = ("property", "rel", "rev")
_LINKS = ",".join(f"{tag}[href][{name}]" for tag in ("a", "area", "link") for name in _RELATIONS)
# A meeting has some twenty documents, an overview some hundred meetings; each link is a request to come.
_MOST_LINKS = 10_000


def statements_in(
    html: str, url: str, wanted: StatementsWanted, profile: StatementProfile | None = None
) -> dict[str, Any]:
    """Return the record of a page's RDF statements: page type, statements, repairs, omissions and links.

    The page is parsed for itself, letter by letter: the text that people read has other spaces.
    """
    page = parse(html)
    found: dict[str, Any] = {"type": page_type(page)}
    if links := list(dict.fromkeys(_document_links(page, url))):
        found["links"] = links[:_MOST_LINKS]
    if found["type"] != "overview" or wanted == "all":
        found |= _read(page, url, profile, given=len(html))
    return {RDFA: found} if found.keys() - {"type"} or found["type"] != "overview" else {}


def page_type(page: Document) -> PageType:
    """Return the type of a page by the types of its resources."""
    kinds = [element.attr("typeof") or "" for element in page.select("[typeof]")]
    for written in kinds:
        for identifier, kind in _DOCUMENT_TYPES.items():
            if identifier in written:
                return kind
    return "item" if any(name in written for written in kinds for name in _ITEM_TYPES) else "overview"


def _read(page: Document, url: str, profile: StatementProfile | None, *, given: int) -> dict[str, Any]:
    try:
        made = kept_statements(statements_of(page, url, given=given), url, profile)
    except OverspentError as problem:
        # Its text is worth having all the same.
        return {"unread": f"Its statements {problem}."}
    told: dict[str, Any] = {"statements": made.lines} if made.lines else {}
    for name, counts in (("repaired", made.repaired), ("dropped", made.dropped), ("violations", made.violations)):
        if some := {reason: count for reason, count in sorted(counts.items()) if count}:
            told[name] = some
    return told


def _document_links(page: Document, url: str) -> Iterator[str]:
    """Yield the addresses of documents, from `href`: the statements themselves name documents by IRIs instead."""
    base = page.base_url(url)
    leading = (one for one in page.select(_LINKS) if any(_LEADS.search(_words(one, name)) for name in _RELATIONS))
    for written in dict.fromkeys(one.attr("href") or "" for one in leading):
        spend(len(base))
        try:
            address = without_session(str(ada_url.join_url(base, written)))
        except ValueError:
            continue
        path = address.partition("?")[0].lower()
        if address.startswith(("http://", "https://")) and not path.endswith(".pdf") and same_site(address, url):
            yield address


def _words(element: Element, name: str) -> str:
    """Return an attribute that is a list of words as one text; the parser gives some of them as lists."""
    value = element.attrs.get(name)
    return " ".join(value) if isinstance(value, list) else value or ""
