"""CKAN portals, read by their action API: a whole walk first, then only changes."""

from rowen.connectors.base import Known
from rowen.connectors.catalog.connector import SingleRecords
from rowen.connectors.catalog.listing import Listing
from rowen.connectors.catalog.portal_client import PortalClient
from rowen.connectors.ckan.address import CkanAddress, CkanOptions, accept, is_typical
from rowen.connectors.ckan.listing import CkanListing
from rowen.connectors.probe import Probe
from rowen.net.client import Client


class Ckan(SingleRecords):
    """Connector for CKAN portals."""

    kind = "ckan"
    Options = CkanOptions
    accept = staticmethod(accept)
    is_typical = staticmethod(is_typical)

    @classmethod
    async def probe(cls, probe: Probe) -> str | None:
        """Return the portal at an address if CKAN's search API answers there; None otherwise."""
        url = accept(probe.url)
        match await probe.json(f"{CkanAddress.of(url).action}/package_search?rows=0") if url else None:
            case {"success": True, "result": {"count": int(), "results": list()}}:
                return url
        return None

    @classmethod
    async def own_address(cls, probe: Probe) -> str | None:
        """Return the address configured in the portal (`site_url`), which may differ from the requested address."""
        url = accept(probe.url)
        match await probe.json(f"{CkanAddress.of(url).action}/status_show") if url else None:
            case {"result": {"site_url": str(url)}}:
                return url
        return None

    def _open_listing(self, client: Client, known: Known) -> Listing:
        address, options = CkanAddress.of(self._url), self._options
        secrets = {options.api_key_header: options.api_key} if options.api_key else None
        portal = PortalClient(
            client, address.action, options, now=self._tools.now, secrets=secrets, key_option="api_key"
        )
        return CkanListing(portal, address, options)
