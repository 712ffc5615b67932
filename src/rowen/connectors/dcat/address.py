"""Addresses of RDF catalogs, and how a catalog is told from other documents by its beginning."""

import re
from typing import Any, ClassVar, Literal

from rowen.connectors.catalog.options import CatalogOptions, web_url
from rowen.connectors.plain_options import option
from rowen.model.url import joined
from rowen.net.response import Response

__all__ = ["DcatOptions", "accept", "is_catalog", "linked", "recognise"]

_PREFIX = "dcat:"
_TELLING = re.compile(
    r"/catalog\.(?:ttl|rdf|jsonld|nt|n3)|/api/1/site/catalog(?:\.\w+)?|/catalogue/dcat/\w+/\w+|/dcat-ap/[\d.]+\.json",
    re.IGNORECASE,
)
_RDF = re.compile(rb"www\.w3\.org/ns/dcat#|\"(?:@type|type)\"\s*:\s*(?:\[\s*)?\"dcat:Catalog\"")
_DATASET = re.compile(
    rb"\b(?:dcat:)?(?:Dataset|DatasetSeries|DataService|Catalog|dataset)\b"
    rb"|ns/dcat#(?:Dataset|DatasetSeries|DataService|Catalog|dataset)\b"
)
_OTHER = re.compile(rb"w3id\.org/(?:tree|ldes)#|project-open-data|w3\.org/ns/sparql-service-description#|OAI-PMH|<csw:")
_ALTERNATE = re.compile(rb"<link\b[^<>]*>", re.IGNORECASE)
_TYPE = re.compile(rb"text/turtle|application/rdf\+xml|application/ld\+json|text/n3", re.IGNORECASE)
_HREF = re.compile(rb"""\bhref\s*=\s*["']?([^"'\s>]+)""", re.IGNORECASE)


def recognise(address: str) -> str | None:
    """The source URL of `dcat:https://…`, or of an address by which CKAN, udata, Eurostat and others offer theirs."""
    path = address.partition("?")[0].partition("#")[0]
    telling = address.startswith(_PREFIX) or re.search(f"(?:{_TELLING.pattern})/?$", path, re.IGNORECASE)
    return accept(address) if telling else None


def accept(address: str) -> str | None:
    """The source URL of any web address that is said to be a catalog's."""
    return web_url(address, "dcat")


def is_catalog(response: Response) -> bool:
    """Whether what may be only the beginning of an answer is that of a DCAT catalog, and of nothing else."""
    body = response.body
    begin = body[:2000].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if begin.startswith((b"<!doctype html", b"<html")) or b"<html" in begin:
        return False
    return bool(_RDF.search(body) and _DATASET.search(body)) and not _OTHER.search(body)


def linked(page: Response) -> str | None:
    """The catalog that a web page names as another form of itself."""
    for tag in _ALTERNATE.findall(page.body):
        href = _HREF.search(tag)
        if href and b"alternate" in tag.lower() and _TYPE.search(tag) and b"catalog" in href[1].lower():
            return joined(page.url, href[1].decode("utf-8", "replace").replace("&amp;", "&"))
    return None


class DcatOptions(CatalogOptions):
    """Options of kind `dcat`; `language` is the one to prefer where a record has several."""

    secret_neutral: ClassVar[frozenset[str]] = CatalogOptions.secret_neutral | {"format", "whole"}

    format: Literal["turtle", "rdfxml", "jsonld", "ntriples", "n3", "trig", "nquads"] | None = option(
        default=None, description="the syntax, where neither the server nor the document tells it"
    )
    max_triples: int = option(default=2_000_000, gt=0, description="most triples that are read from one answer")
    whole: bool = option(default=False, description="the document has no further pages, whatever its size")

    def reading(self) -> dict[str, Any]:
        """The language decides how a record is read, and the syntax."""
        return {**super().reading(), "format": self.format}

    def listing(self) -> dict[str, Any]:
        """What decides which records are listed for us."""
        return {**super().listing(), "max_triples": None, "whole": None}
