"""Catalogs in one document: the data.json of Project Open Data, DCAT-US 1.1 and 3.

The whole document is compared on each run, since its dates prove nothing; one that its origin calls unchanged
costs a single request.
"""

import re
from typing import TYPE_CHECKING, ClassVar

from rowen.connectors.base import Known
from rowen.connectors.catalog.connector import CatalogConnector
from rowen.connectors.catalog.listing import Listing
from rowen.connectors.catalog.options import web_url
from rowen.connectors.datajson.listing import DataJsonListing, DataJsonOptions
from rowen.connectors.probe import Probe
from rowen.net.client import Client
from rowen.net.target import parse

if TYPE_CHECKING:
    from rowen.connectors.base import Options

__all__ = ["DataJson"]

_PREFIX = "datajson:"
_TELLING = re.compile(r"/data\.json/?$|/dcat-us/[\d.]+\.json$", re.IGNORECASE)
_DATASETS = re.compile(rb'"(?:dataset|datasetSeries|service)"\s*:\s*\[')
_PROJECT = re.compile(rb'project-open-data|dcat-us|"accessLevel"|"conformsTo"|"@type"\s*:\s*"(?:dcat:)?Catalog"')
_SOME_FILE = re.compile(r"/[^/]+\.[a-z0-9]+$|\?", re.IGNORECASE)


class DataJson(CatalogConnector):
    """Connector for catalogs in one data.json."""

    kind: ClassVar[str] = "datajson"
    Options: "ClassVar[type[Options]]" = DataJsonOptions

    @classmethod
    def recognise(cls, address: str) -> str | None:
        """Return the document of `datajson:https://…`, or of an address that ends in `/data.json`."""
        telling = address.startswith(_PREFIX) or _TELLING.search(address.partition("?")[0])
        return cls.accept(address) if telling else None

    @classmethod
    def accept(cls, address: str) -> str | None:
        """Return the document of any web address that a user says to have one."""
        url = web_url(address, cls.kind)
        if url is None:
            return None
        path = url.partition("://")[2].partition("/")[2]
        return url if _SOME_FILE.search(f"/{path}") else f"{url.rstrip('/')}/data.json"

    @classmethod
    async def probe(cls, probe: Probe) -> str | None:
        """Return the document at an address, or the data.json below it."""
        if probe.page is not None and _is_catalog(probe.page.body):
            return parse(probe.url).url
        url = cls.accept(probe.base)
        answer = await probe.get(url) if url and url != probe.url else None
        return url if answer is not None and _is_catalog(answer.body) else None

    def _listing(self, client: Client, known: Known) -> Listing:
        return DataJsonListing(client, self._url, self._options, known)


def _is_catalog(body: bytes) -> bool:
    """Return whether what may be only the beginning of a document is a data.json."""
    return body.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{" and bool(_DATASETS.search(body) and _PROJECT.search(body))
