"""CKAN portals, by their action API: walked whole once, then asked for what was modified."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import ClassVar

from rowen.connectors.base import Known, Options, Tools
from rowen.connectors.ckan.address import Address, accept, recognise
from rowen.connectors.ckan.api import Api
from rowen.connectors.ckan.harvest import Harvest
from rowen.connectors.ckan.options import CkanOptions
from rowen.connectors.look import Look
from rowen.model.item import Observation

__all__ = ["Ckan"]


class Ckan:
    """Reads the datasets of a CKAN portal."""

    kind: ClassVar[str] = "ckan"
    Options: ClassVar[type[Options]] = CkanOptions

    def __init__(self, url: str, options: CkanOptions, tools: Tools) -> None:
        self._address = Address.of(url)
        self._options = options
        self._tools = tools

    @classmethod
    def recognise(cls, address: str) -> str | None:
        """The portal of `ckan:https://…`, or of an address that shows CKAN's API."""
        return recognise(address)

    @classmethod
    def accept(cls, address: str) -> str | None:
        """The portal of any web address that a user says to be one."""
        return accept(address)

    @classmethod
    async def probe(cls, look: Look) -> str | None:
        """The portal at an address, if it can be searched by CKAN's API."""
        url = accept(look.url)
        match await look.json(f"{Address.of(url).action}/package_search?rows=0") if url else None:
            case {"success": True, "result": {"count": int(), "results": list()}}:
                return url
        return None

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        """Walk the portal, or read what changed."""
        async with self._tools.client() as client:
            client.pace(self._address.action, delay_s=self._options.delay_s)
            api = Api(client, self._address.action, self._options, self._tools.now)
            harvest = Harvest(api, self._address, self._options, known, self._tools.now)
            async with aclosing(harvest.pull()) as observations:
                async for observation in observations:
                    yield observation
