"""Addresses of STAC catalogs, and what a catalog's first document tells of where its collections are."""

import json
import re
from collections.abc import Mapping
from typing import Any

from rowen.connectors.catalog.languages import word
from rowen.connectors.catalog.options import DocumentOptions, web_url
from rowen.connectors.plain_options import option
from rowen.connectors.stac.record import joined, links_of
from rowen.model.url import quoted

__all__ = ["StacOptions", "accept", "is_stac", "item_url", "listing_url", "recognise"]

_PREFIX = "stac:"
_TELLING = re.compile(r"(?:/api/stac|/stac/v\d[\w.-]*)(?:/v\d[\w.-]*)?(?:/collections)?/?$", re.IGNORECASE)
_DATA = ("data", "http://www.opengis.net/def/rel/ogc/1.0/data")
_CONFORMS = re.compile(r"api\.stacspec\.org/[^/]+/(?:collections|ogcapi-features|collection-search)\b")
_STAC = re.compile(rb'"stac_version"\s*:|api\.stacspec\.org/')
_ABOUT = re.compile(rb'"(?:collections|conformsTo|links)"\s*:')


def recognise(address: str) -> str | None:
    """The source URL of `stac:https://…`, or of an address that ends in `/api/stac`, or in `/stac` and a version."""
    telling = address.startswith(_PREFIX) or _TELLING.search(address.partition("?")[0])
    return accept(address) if telling else None


def accept(address: str) -> str | None:
    """The source URL of an address that is said to be a STAC catalog's; that of a list of collections is its root."""
    url = web_url(address, "stac")
    if url is None:
        return None
    return url if "?" in url else re.sub(r"/collections/?$", "/", url)


def is_stac(body: bytes) -> bool:
    """Whether what may be only the beginning of a document is STAC's."""
    return body.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{" and bool(_STAC.search(body) and _ABOUT.search(body))


def listing_url(root: Mapping[str, Any], url: str) -> str | None:
    """Where an API lists its collections, by its first document; None for a static catalog."""
    if isinstance(root.get("collections"), list):
        return url
    for link in links_of(root, *_DATA):
        return joined(url, word(link["href"]))
    if _CONFORMS.search(json.dumps(root.get("conformsTo"), default=str)):
        return f"{url.partition('?')[0].rstrip('/')}/collections"
    return None


def item_url(root: str, identifier: str) -> str:
    """Under which URL an API's collection is known: by the source's address and its identifier, whatever links say."""
    base = root.partition("?")[0].rstrip("/").removesuffix("/collections")
    if not identifier.strip("."):
        return f"{base}/collections#/{identifier}"
    return f"{base}/collections/{quoted(identifier, safe=':@!$&,;=+~')}"


class StacOptions(DocumentOptions):
    """Options of kind `stac`; `language` is that of all collections."""

    limit: int | None = option(default=None, ge=1, le=10_000, description="collections to ask for at once")
    depth: int = option(default=6, ge=0, le=50, description="how deep to follow the children of a static catalog")
    max_documents: int = option(default=100_000, ge=1, description="most documents of a static catalog")
