"""Addresses of ArcGIS: sites of ArcGIS Hub, and searches of an ArcGIS portal."""

import re
from typing import ClassVar, Literal
from urllib.parse import parse_qs, urlencode, urlsplit

from rowen.connectors.catalog.options import CatalogOptions, web_url
from rowen.connectors.plain_options import option

__all__ = ["ArcGisOptions", "accept", "is_search", "recognise"]

_PREFIX = "arcgis:"
_SEARCH = re.compile(r"(?P<base>https?://[^/]+(?:/.*)?/sharing/rest)/search", re.IGNORECASE)
_HUB = re.compile(r"https?://[^/]+\.(?:hub|opendata)\.arcgis\.com(?:[/:].*)?|.*/api/search/v1(?s:/.*)?", re.IGNORECASE)


def recognise(address: str) -> str | None:
    """The source of `arcgis:https://…`, of a host of ArcGIS Hub, or of an address of either search."""
    bare = address.partition("?")[0].rstrip("/")
    told = address.startswith(_PREFIX) or _HUB.fullmatch(bare) or _SEARCH.fullmatch(bare)
    return accept(address) if told else None


def accept(address: str) -> str | None:
    """The source at any web address that a user says to have one: a search with its words, or a site."""
    url = web_url(address, "arcgis")
    if url is None:
        return None
    parts = urlsplit(url)
    if found := _SEARCH.fullmatch(f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"):
        words = parse_qs(parts.query).get("q", [""])[0].strip()
        return f"{found['base']}/search?{urlencode({'q': words})}" if words else None
    return f"{parts.scheme}://{parts.netloc}"


def is_search(url: str) -> bool:
    """Whether a source URL is a search of a portal rather than a site."""
    return bool(_SEARCH.fullmatch(url.partition("?")[0]))


class ArcGisOptions(CatalogOptions):
    """Options of kind `arcgis`."""

    secret_neutral: ClassVar[frozenset[str]] = CatalogOptions.secret_neutral | {"collection"}

    collection: Literal["all", "appAndMap", "dataset", "document"] = option(
        default="dataset", description="which collection of a site"
    )
    # The most that ArcGIS gives at once.
    page_size: int = option(default=100, ge=1, le=100)
