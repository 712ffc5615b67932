"""SDMX services of statistical offices: one item a dataflow, all of them in one document."""

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import ClassVar

from rowen.connectors.base import Known, Options, Tools
from rowen.connectors.catalog.refresh import Refresh
from rowen.connectors.look import Look
from rowen.connectors.sdmx.address import Address, accept, is_sdmx, recognise
from rowen.connectors.sdmx.listing import Dataflows
from rowen.connectors.sdmx.options import SdmxOptions
from rowen.model.item import Observation

__all__ = ["Sdmx"]

_LIKELY = re.compile(r"sdmx|/(?:api|rest|service|ws)(?:/|$)", re.IGNORECASE)


class Sdmx:
    """Reads the dataflows of an SDMX service."""

    kind: ClassVar[str] = "sdmx"
    Options: ClassVar[type[Options]] = SdmxOptions

    def __init__(self, url: str, options: SdmxOptions, tools: Tools) -> None:
        self._url = url
        self._options = options
        self._tools = tools

    @classmethod
    def recognise(cls, address: str) -> str | None:
        """The service of `sdmx:https://…`, or of an address that asks one for all dataflows."""
        return recognise(address)

    @classmethod
    def accept(cls, address: str) -> str | None:
        """The service of any web address that a user says to be one."""
        return accept(address)

    @classmethod
    async def probe(cls, look: Look) -> str | None:
        """The service at an address: a list of dataflows itself, or what has one below it.

        Such a list is work for a server: only where the address looks like a service is it asked for.
        """
        if look.page is not None and is_sdmx(look.page.body):
            return accept(look.url)
        if not _LIKELY.search(look.base):
            return None
        listed = await look.get(Address(look.base).documents[0], accept="*/*")
        return accept(look.base) if listed is not None and is_sdmx(listed.body) else None

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        """Read the document, unless it is the one that we hold."""
        async with self._tools.client() as client:
            listing = Dataflows(client, self._url, self._options)
            refresh = Refresh(listing, known, self._options.as_catalog(), now=self._tools.now)
            async with aclosing(refresh.pull()) as observations:
                async for observation in observations:
                    yield observation
