"""RDF catalogs by DCAT: a document, or pages of them, in any syntax; those of CKAN and udata by date as well."""

from typing import TYPE_CHECKING, ClassVar

from rowen.connectors.base import Known
from rowen.connectors.catalog.connector import CatalogConnector
from rowen.connectors.catalog.cursor import CatalogCursor
from rowen.connectors.catalog.listing import Listing
from rowen.connectors.catalog.pages import LONGEST_LIMIT_S
from rowen.connectors.catalog.portal_client import PortalClient
from rowen.connectors.dcat.address import DcatOptions, accept, is_catalog, linked, recognise
from rowen.connectors.dcat.listing import RdfListing
from rowen.connectors.probe import Probe
from rowen.formats.rdf.syntax import ACCEPT
from rowen.net.client import Client

if TYPE_CHECKING:
    from rowen.connectors.base import Options

__all__ = ["Dcat"]


class Dcat(CatalogConnector):
    """Reads the datasets, series and services of an RDF catalog."""

    kind: ClassVar[str] = "dcat"
    Options: "ClassVar[type[Options]]" = DcatOptions
    recognise = staticmethod(recognise)
    accept = staticmethod(accept)

    @classmethod
    async def probe(cls, probe: Probe) -> str | None:
        """The catalog at an address: the address itself, one that its page links, or that of udata."""
        if probe.page is not None and is_catalog(probe.page):
            return accept(probe.url)
        found = linked(probe.page) if probe.page is not None else None
        url = found or f"{probe.base}/api/1/site/catalog.jsonld"
        answer = await probe.get(url, accept=ACCEPT)
        return accept(url) if answer is not None and is_catalog(answer) else None

    def _listing(self, client: Client, known: Known) -> Listing:
        portal = PortalClient(client, self._url, self._options, now=self._tools.now)
        portal.size.limit_s = LONGEST_LIMIT_S
        cursor = CatalogCursor.of(known.cursor, DcatOptions.record_version)
        # Most catalogs know no filter: only one that worked, and then failed, is tried again.
        dated = cursor.filters is True or cursor.refused is not None
        return RdfListing(portal, self._url, self._options, dated=dated, parse=self._tools.parse)
