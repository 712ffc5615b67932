"""Reads the RDF statements of pages: decides which pages are read for them, and finds links to documents.

Reading RDFa costs more than reading the rest of a page. A page is therefore classified first, by its types alone, and
the RDF statements of an overview are read only if they are requested.
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

# Identifiers of the concepts of document types, without the IRI before them, since one vendor omits the slash.
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
# A meeting has about 20 documents, an overview about 100 meetings; each link will be a request.
_MOST_LINKS = 10_000


def statements_in(
    html: str, url: str, wanted: StatementsWanted, profile: StatementProfile | None = None
) -> dict[str, Any]:
    """Return the record of a page's RDF statements: page type, statements, repairs, omissions and links.

    The page is parsed again, since its text was changed for reading, for example its white space.
    """
    page = parse(html)
    record: dict[str, Any] = {"type": page_type(page)}
    if links := list(dict.fromkeys(_document_links(page, url))):
        record["links"] = links[:_MOST_LINKS]
    if record["type"] != "overview" or wanted == "all":
        try:
            result = kept_statements(statements_of(page, url, given=len(html)), url, profile)
        except OverspentError as problem:
            # Keep the text of the page.
            record["unread"] = f"Its statements {problem}."
        else:
            counts = {"repaired": result.repaired, "dropped": result.dropped, "violations": result.violations}
            record |= {"statements": result.lines} if result.lines else {}
            for name, by_reason in counts.items():
                if some := {reason: count for reason, count in sorted(by_reason.items()) if count}:
                    record[name] = some
    return {RDFA: record} if record.keys() - {"type"} or record["type"] != "overview" else {}


def page_type(page: Document) -> PageType:
    """Return the type of a page, from the types of its resources."""
    types = [element.attr("typeof") or "" for element in page.select("[typeof]")]
    for written in types:
        for identifier, document_type in _DOCUMENT_TYPES.items():
            if identifier in written:
                return document_type
    return "item" if any(name in written for written in types for name in _ITEM_TYPES) else "overview"


def _document_links(page: Document, url: str) -> Iterator[str]:
    """Yield the URLs of documents from `href`, since the RDF statements name documents by other IRIs."""
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
    # The parser returns some attributes as lists of words.
    values = (link.attrs.get(name) for name in _RELATIONS)
    return any(_LEADS.search(" ".join(value) if isinstance(value, list) else value or "") for value in values)
