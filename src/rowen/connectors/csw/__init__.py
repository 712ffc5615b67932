"""Catalogue services for the web (CSW 2.0.2 and 3.0): a whole walk by identifier first, then only changes."""

from collections.abc import AsyncGenerator

from rowen.connectors.base import Known
from rowen.connectors.catalog.connector import SingleRecords
from rowen.connectors.catalog.cursor import Noted, noted
from rowen.connectors.catalog.portal_client import PortalClient
from rowen.connectors.csw.listing import Catalogue
from rowen.connectors.csw.protocol import CswOptions, accept, capabilities_url, is_capabilities, is_typical
from rowen.connectors.probe import Probe
from rowen.model.items import Observation
from rowen.net.client import Client

_EXPLAINED = frozenset({400, 404, 405, 406, 415, 422, 500, 501})


class Csw(SingleRecords):
    """Connector for catalogue services."""

    kind = "csw"
    Options = CswOptions
    accept = staticmethod(accept)
    is_typical = staticmethod(is_typical)

    @classmethod
    async def probe(cls, probe: Probe) -> str | None:
        """Return the service at an address if its capabilities are found there; None otherwise."""
        if probe.page is not None and is_capabilities(probe.page.body):
            return accept(probe.url)
        # The service of GeoNetwork is below the address of the site.
        site, path, _ = probe.base.partition("/geonetwork")
        address = f"{site}{path}/srv/eng/csw" if path and "/csw" not in probe.base else probe.url
        base = accept(f"{probe.base}/csw" if probe.base == probe.origin else address)
        answer = await probe.get(capabilities_url(base), accept="application/xml, */*;q=0.5") if base else None
        return base if answer is not None and is_capabilities(answer.body) else None

    def _observe(self, client: Client, known: Known) -> AsyncGenerator[Observation]:
        state = Noted(known)
        catalogue = self._open_listing(client, state)
        return noted(self._refresh(catalogue, state), catalogue.notes)

    def _open_listing(self, client: Client, known: Known) -> Catalogue:
        portal = PortalClient(client, self._url, self._options, now=self._tools.now, explained=_EXPLAINED)
        catalogue = Catalogue(portal, self._url, self._options)
        catalogue.open(known if isinstance(known, Noted) else Noted(known))
        return catalogue
