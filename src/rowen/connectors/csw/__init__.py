"""Catalogue services for the web (CSW 2.0.2 and 3.0): walked by identifier, then asked for what was modified."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import ClassVar

from rowen.connectors.base import Known, Options, Tools
from rowen.connectors.catalog.notes import Noted, noted
from rowen.connectors.catalog.refresh import Refresh
from rowen.connectors.catalog.talk import Talk
from rowen.connectors.csw.address import accept, capabilities_url, recognise
from rowen.connectors.csw.capabilities import is_capabilities
from rowen.connectors.csw.listing import Catalogue
from rowen.connectors.csw.options import CswOptions
from rowen.connectors.look import Look
from rowen.model.item import Observation

__all__ = ["Csw"]

_EXPLAINED = frozenset({400, 404, 405, 406, 415, 422, 500, 501})


class Csw:
    """Reads the records of a catalogue service."""

    kind: ClassVar[str] = "csw"
    Options: ClassVar[type[Options]] = CswOptions

    def __init__(self, url: str, options: CswOptions, tools: Tools) -> None:
        self._url = url
        self._options = options
        self._tools = tools

    @classmethod
    def recognise(cls, address: str) -> str | None:
        """The service of `csw:https://…`, or of an address that shows the protocol."""
        return recognise(address)

    @classmethod
    def accept(cls, address: str) -> str | None:
        """The service of any web address that a user says to be one."""
        return accept(address)

    @classmethod
    async def probe(cls, look: Look) -> str | None:
        """The service at an address: itself tells, or what it answers when asked what it can do."""
        if look.page is not None and is_capabilities(look.page.body):
            return accept(look.url)
        base = accept(_likely(look))
        answer = await look.get(capabilities_url(base), accept="application/xml, */*;q=0.5") if base else None
        return base if answer is not None and is_capabilities(answer.body) else None

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        """Walk the catalogue, or read what changed."""
        held = Noted(known)
        async with self._tools.client() as client:
            talk = Talk(client, self._url, self._options, now=self._tools.now, explained=_EXPLAINED)
            catalogue = Catalogue(talk, self._url, self._options)
            catalogue.open(held)
            refresh = Refresh(catalogue, held, self._options, now=self._tools.now)
            async with aclosing(noted(refresh.pull(), catalogue.notes)) as observations:
                async for observation in observations:
                    yield observation


def _likely(look: Look) -> str:
    """Where the service of a site is likely to be: GeoNetwork has it below its own address."""
    if look.base == look.origin:
        return f"{look.base}/csw"
    site, found, _ = look.base.partition("/geonetwork")
    return f"{site}{found}/srv/eng/csw" if found and "/csw" not in look.base else look.url
