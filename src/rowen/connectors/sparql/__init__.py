"""SPARQL endpoints that describe datasets by DCAT."""

import re
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import urlencode

from rowen.connectors.base import Known
from rowen.connectors.catalog.connector import CatalogConnector
from rowen.connectors.catalog.listing import Listing
from rowen.connectors.catalog.options import web_url
from rowen.connectors.catalog.portal_client import PortalClient
from rowen.connectors.probe import Probe
from rowen.connectors.sparql.catalogues import asked_of, page_of
from rowen.connectors.sparql.endpoint import FORM, RESULTS, Endpoint
from rowen.connectors.sparql.listing import Identified, SparqlOptions
from rowen.net.client import Client

if TYPE_CHECKING:
    from rowen.connectors.base import Options

__all__ = ["Sparql"]

_PREFIX = "sparql:"
_TELLING = re.compile(r"/sparql/?$", re.IGNORECASE)
_ASK = "ASK { ?d a <http://www.w3.org/ns/dcat#Dataset> }"


class Sparql(CatalogConnector):
    """Reads the datasets of a SPARQL endpoint."""

    kind: ClassVar[str] = "sparql"
    Options: "ClassVar[type[Options]]" = SparqlOptions

    @classmethod
    def recognise(cls, address: str) -> str | None:
        """The endpoint of `sparql:https://…`, or of one that ends in `/sparql`; a catalogue of data.europa.eu."""
        path = address.partition("?")[0].partition("#")[0]
        is_telling = address.startswith(_PREFIX) or _TELLING.search(path) or page_of(address)
        return cls.accept(address) if is_telling else None

    @classmethod
    def accept(cls, address: str) -> str | None:
        """The endpoint at any web address that a user says to be one."""
        url = web_url(address, cls.kind)
        return (page_of(url) or url) if url else None

    @classmethod
    async def probe(cls, probe: Probe) -> str | None:
        """The endpoint at an address, or below it: one that knows a dataset."""
        url = probe.url if _TELLING.search(probe.base) else f"{probe.base}/sparql"
        body = urlencode({"query": _ASK}).encode()
        match await probe.json(url, accept=RESULTS, body=body, headers={"Content-Type": FORM}):
            case {"boolean": True}:
                return cls.accept(url)
        return None

    def _listing(self, client: Client, known: Known) -> Listing:
        portal = PortalClient(client, self._url, self._options, now=self._tools.now)
        portal.size.limit_s = portal.idle_s = self._options.timeout_s
        endpoint, catalogue = asked_of(self._url, self._options.catalogue)
        return Identified(Endpoint(portal, endpoint), self._url, self._options, catalogue=catalogue)
