"""SDMX services of statistical offices: one item a dataflow, all of them in one document."""

import re
from typing import TYPE_CHECKING, ClassVar

from rowen.connectors.base import Known
from rowen.connectors.catalog.connector import CatalogConnector
from rowen.connectors.catalog.listing import Listing
from rowen.connectors.probe import Probe
from rowen.connectors.sdmx.address import SdmxAddress, SdmxOptions, accept, is_sdmx, recognise
from rowen.connectors.sdmx.listing import Dataflows
from rowen.net.client import Client

if TYPE_CHECKING:
    from rowen.connectors.base import Options

__all__ = ["Sdmx"]

_LIKELY = re.compile(r"sdmx|/(?:api|rest|service|ws)(?:/|$)", re.IGNORECASE)


class Sdmx(CatalogConnector):
    """Reads the dataflows of an SDMX service."""

    kind: ClassVar[str] = "sdmx"
    Options: "ClassVar[type[Options]]" = SdmxOptions
    recognise = staticmethod(recognise)
    accept = staticmethod(accept)

    @classmethod
    async def probe(cls, probe: Probe) -> str | None:
        """The service at an address: a list of dataflows itself, or what has one below it.

        Such a list is work for a server: only where the address looks like a service is it asked for.
        """
        if probe.page is not None and is_sdmx(probe.page.body):
            return accept(probe.url)
        if not _LIKELY.search(probe.base):
            return None
        for document in SdmxAddress(probe.base).documents[:2]:
            listed = await probe.get(document, accept="*/*")
            if listed is not None and is_sdmx(listed.body):
                return accept(probe.base)
        return None

    def _listing(self, client: Client, known: Known) -> Listing:
        return Dataflows(client, self._url, self._options)
