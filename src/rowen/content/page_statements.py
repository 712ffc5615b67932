"""RDF statements of pages: which pages are read for them, the statements, and links to documents.

Reading RDFa costs more than the rest of reading a page. A page is therefore classified first, by its types alone, and
an overview is not read for statements.
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

# The identifiers of the concepts of document types, without what stands before them: a vendor's prefix lacks the slash.
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

    The page is parsed again without changes: the text for people has other spaces.
    """
    page = parse(html)
    record: dict[str, Any] = {"type": page_type(page)}
    if links := list(dict.fromkeys(_document_links(page, url))):
        record["links"] = links[:_MOST_LINKS]
    if record["type"] != "overview" or wanted == "all":
        try:
            result = kept_statements(statements_of(page, url, given=len(html)), url, profile)
        except OverspentError as problem:
            # The text of the page is kept.
            record["unread"] = f"Its statements {problem}."
        else:
            counts = {"repaired": result.repaired, "dropped": result.dropped, "violations": result.violations}
            record |= {"statements": result.lines} if result.lines else {}
            for name, by_reason in counts.items():
                if some := {reason: count for reason, count in sorted(by_reason.items()) if count}:
                    record[name] = some
    return {RDFA: record} if record.keys() - {"type"} or record["type"] != "overview" else {}


def page_type(page: Document) -> PageType:
    """Return the type of a page by the types of its resources."""
    types = [element.attr("typeof") or "" for element in page.select("[typeof]")]
    for written in types:
        for identifier, document_type in _DOCUMENT_TYPES.items():
            if identifier in written:
                return document_type
    return "item" if any(name in written for written in types for name in _ITEM_TYPES) else "overview"


def _document_links(page: Document, url: str) -> Iterator[str]:
    """Yield the addresses of documents, from `href`: the statements themselves name documents by IRIs instead."""
    base = page.base_url(url)
    for href in dict.fromkeys(link.attr("href") or "" for link in page.select(_LINKS) if _leads_to_document(link)):
        spend(len(base))
        try:
            address = without_session(str(ada_url.join_url(base, href)))
        except ValueError:
            continue
        path = address.partition("?")[0].lower()
        if address.startswith(("http://", "https://")) and not path.endswith(".pdf") and same_site(address, url):
            yield address


def _leads_to_document(link: Element) -> bool:
    # The parser gives some lists of words as lists.
    values = (link.attrs.get(name) for name in _RELATIONS)
    return any(_LEADS.search(" ".join(value) if isinstance(value, list) else value or "") for value in values)
