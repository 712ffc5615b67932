"""Socrata portals, by the Discovery API: walked whole once, then asked for their latest assets."""

from typing import TYPE_CHECKING, ClassVar

from rowen.connectors.base import Known
from rowen.connectors.catalog.connector import SingleRecords
from rowen.connectors.catalog.listing import Listing
from rowen.connectors.catalog.portal_client import PortalClient
from rowen.connectors.probe import Probe
from rowen.connectors.socrata.address import SocrataOptions, accept, domain_of, recognise
from rowen.connectors.socrata.listing import SocrataListing
from rowen.net.client import Client

if TYPE_CHECKING:
    from rowen.connectors.base import Options

__all__ = ["Socrata"]


class Socrata(SingleRecords):
    """Reads the assets of a Socrata portal."""

    kind: ClassVar[str] = "socrata"
    Options: "ClassVar[type[Options]]" = SocrataOptions
    recognise = staticmethod(recognise)
    accept = staticmethod(accept)

    @classmethod
    async def probe(cls, probe: Probe) -> str | None:
        """The portal at an address, if the catalog API answers there."""
        match await probe.json(f"{probe.origin}/api/catalog/v1?domains={domain_of(probe.origin)}&limit=0"):
            case {"results": list(), "resultSetSize": int()}:
                return probe.origin
        return None

    def _listing(self, client: Client, known: Known) -> Listing:
        token = self._options.app_token
        secrets = {"X-App-Token": token} if token else None
        portal = PortalClient(
            client, self._url, self._options, now=self._tools.now, secrets=secrets, key_option="app_token"
        )
        return SocrataListing(portal, self._url, self._options)
