"""OpenDataSoft portals, by their Explore API: walked whole once, then asked for what was modified."""

from typing import TYPE_CHECKING, ClassVar

from rowen.connectors.base import Known
from rowen.connectors.catalog.connector import SingleRecords
from rowen.connectors.catalog.listing import Listing
from rowen.connectors.catalog.portal_client import PortalClient
from rowen.connectors.opendatasoft.address import OpenDataSoftAddress, OpenDataSoftOptions, accept, is_root, recognise
from rowen.connectors.opendatasoft.listing import OpenDataSoftListing
from rowen.connectors.probe import Probe
from rowen.net.client import Client

if TYPE_CHECKING:
    from rowen.connectors.base import Options

__all__ = ["OpenDataSoft"]


class OpenDataSoft(SingleRecords):
    """Reads the datasets of an OpenDataSoft portal."""

    kind: ClassVar[str] = "opendatasoft"
    Options: "ClassVar[type[Options]]" = OpenDataSoftOptions
    recognise = staticmethod(recognise)
    accept = staticmethod(accept)

    @classmethod
    async def probe(cls, probe: Probe) -> str | None:
        """The portal at an address: at the root of its API, or where its API answers."""
        if probe.page is not None and is_root(probe.page.body):
            return accept(probe.url)
        match await probe.json(f"{OpenDataSoftAddress.of(probe.origin).datasets}?limit=0"):
            case {"total_count": int(), "results": list()}:
                return probe.origin
        return None

    def _listing(self, client: Client, known: Known) -> Listing:
        address, key = OpenDataSoftAddress.of(self._url), self._options.api_key
        secrets = {"Authorization": f"Apikey {key}"} if key else None
        portal = PortalClient(
            client, address.api, self._options, now=self._tools.now, secrets=secrets, key_option="api_key"
        )
        return OpenDataSoftListing(portal, address, self._options)
