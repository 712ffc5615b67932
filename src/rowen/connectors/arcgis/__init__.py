"""ArcGIS Hub sites and searches of ArcGIS portals: walked whole once, then asked for what was modified."""

from typing import TYPE_CHECKING, ClassVar

from rowen.connectors.arcgis.address import ArcGisOptions, accept, is_search, recognise
from rowen.connectors.arcgis.dialects import Hub, Portal
from rowen.connectors.arcgis.listing import ArcGisListing
from rowen.connectors.base import Known
from rowen.connectors.catalog.connector import SingleRecords
from rowen.connectors.catalog.listing import Listing
from rowen.connectors.catalog.portal_client import PortalClient
from rowen.connectors.probe import Probe
from rowen.net.client import Client

if TYPE_CHECKING:
    from rowen.connectors.base import Options

__all__ = ["ArcGis"]


class ArcGis(SingleRecords):
    """Reads the items of an ArcGIS Hub site, or those that a search of a portal finds."""

    kind: ClassVar[str] = "arcgis"
    Options: "ClassVar[type[Options]]" = ArcGisOptions
    recognise = staticmethod(recognise)
    accept = staticmethod(accept)

    @classmethod
    async def probe(cls, probe: Probe) -> str | None:
        """The site at an address, if Hub's search answers there."""
        match await probe.json(f"{probe.origin}/api/search/v1/collections/dataset/items?limit=1"):
            case {"type": "FeatureCollection", "features": list(), "numberMatched": int()}:
                return probe.origin
        return None

    def _listing(self, client: Client, known: Known) -> Listing:
        dialect = Portal(self._url) if is_search(self._url) else Hub(self._url, self._options.collection)
        portal = PortalClient(client, self._url, self._options, now=self._tools.now)
        return ArcGisListing(portal, dialect, self._options)
