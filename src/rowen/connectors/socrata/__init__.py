"""Socrata portals, by the Discovery API: walked whole once, then asked for their latest assets."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import ClassVar

from rowen.connectors.base import Known, Options, Tools
from rowen.connectors.catalog.answers import read_json
from rowen.connectors.catalog.refresh import Refresh
from rowen.connectors.catalog.talk import Talk
from rowen.connectors.look import Look
from rowen.connectors.socrata.address import accept, domain_of, recognise
from rowen.connectors.socrata.listing import SocrataListing
from rowen.connectors.socrata.options import SocrataOptions
from rowen.errors import SourceError
from rowen.model.item import Observation

__all__ = ["Socrata"]


class Socrata:
    """Reads the assets of a Socrata portal."""

    kind: ClassVar[str] = "socrata"
    Options: ClassVar[type[Options]] = SocrataOptions

    def __init__(self, url: str, options: SocrataOptions, tools: Tools) -> None:
        self._url = url
        self._options = options
        self._tools = tools

    @classmethod
    def recognise(cls, address: str) -> str | None:
        """The portal of `socrata:https://…`, or of an address that shows Socrata."""
        return recognise(address)

    @classmethod
    def accept(cls, address: str) -> str | None:
        """The portal of any web address that a user says to be one."""
        return accept(address)

    @classmethod
    async def probe(cls, look: Look) -> str | None:
        """The portal at an address, if the catalog API answers there."""
        found = await look.get(f"{look.origin}/api/catalog/v1?domains={domain_of(look.origin)}&limit=0")
        if found is None:
            return None
        try:
            data = read_json(found.body, look.origin)
        except SourceError:
            return None
        match data:
            case {"results": list(), "resultSetSize": int()}:
                return look.origin
        return None

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        """Walk the portal, or read what changed."""
        token = self._options.app_token
        secrets = {"X-App-Token": token} if token else None
        async with self._tools.client() as client:
            talk = Talk(client, self._url, self._options, now=self._tools.now, secrets=secrets)
            listing = SocrataListing(talk, self._url, self._options)
            refresh = Refresh(listing, known, self._options, now=self._tools.now)
            async with aclosing(refresh.pull()) as observations:
                async for observation in observations:
                    yield observation
