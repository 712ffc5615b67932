"""OpenDataSoft portals, by their Explore API: walked whole once, then asked for what was modified."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import ClassVar

from rowen.connectors.base import Known, Options, Tools
from rowen.connectors.catalog.answers import read_json
from rowen.connectors.catalog.refresh import Refresh
from rowen.connectors.catalog.talk import Talk
from rowen.connectors.look import Look
from rowen.connectors.opendatasoft.address import Address, accept, recognise
from rowen.connectors.opendatasoft.listing import OpenDataSoftListing
from rowen.connectors.opendatasoft.options import OpenDataSoftOptions
from rowen.errors import SourceError
from rowen.model.item import Observation

__all__ = ["OpenDataSoft"]


class OpenDataSoft:
    """Reads the datasets of an OpenDataSoft portal."""

    kind: ClassVar[str] = "opendatasoft"
    Options: ClassVar[type[Options]] = OpenDataSoftOptions

    def __init__(self, url: str, options: OpenDataSoftOptions, tools: Tools) -> None:
        self._address = Address.of(url)
        self._options = options
        self._tools = tools

    @classmethod
    def recognise(cls, address: str) -> str | None:
        """The portal of `opendatasoft:https://…`, or of an address that shows its API."""
        return recognise(address)

    @classmethod
    def accept(cls, address: str) -> str | None:
        """The portal of any web address that a user says to be one."""
        return accept(address)

    @classmethod
    async def probe(cls, look: Look) -> str | None:
        """The portal at an address, if its API answers there."""
        found = await look.get(f"{Address.of(look.origin).datasets}?limit=0")
        if found is None:
            return None
        try:
            data = read_json(found.body, look.origin)
        except SourceError:
            return None
        match data:
            case {"total_count": int(), "results": list()}:
                return look.origin
        return None

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        """Walk the portal, or read what changed."""
        key = self._options.api_key
        secrets = {"Authorization": f"Apikey {key}"} if key else None
        async with self._tools.client() as client:
            talk = Talk(client, self._address.api, self._options, now=self._tools.now, secrets=secrets)
            listing = OpenDataSoftListing(talk, self._address, self._options)
            refresh = Refresh(listing, known, self._options, now=self._tools.now)
            async with aclosing(refresh.pull()) as observations:
                async for observation in observations:
                    yield observation
