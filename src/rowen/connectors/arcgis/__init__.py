"""ArcGIS Hub sites and searches of ArcGIS portals: walked whole once, then asked for what was modified."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import ClassVar

from rowen.connectors.arcgis.address import accept, is_search, recognise
from rowen.connectors.arcgis.dialects import Hub, Portal
from rowen.connectors.arcgis.listing import ArcGisListing
from rowen.connectors.arcgis.options import ArcGisOptions
from rowen.connectors.base import Known, Options, Tools
from rowen.connectors.catalog.answers import read_json
from rowen.connectors.catalog.refresh import Refresh
from rowen.connectors.catalog.talk import Talk
from rowen.connectors.look import Look
from rowen.errors import SourceError
from rowen.model.item import Observation

__all__ = ["ArcGis"]


class ArcGis:
    """Reads the items of an ArcGIS Hub site, or those that a search of a portal finds."""

    kind: ClassVar[str] = "arcgis"
    Options: ClassVar[type[Options]] = ArcGisOptions

    def __init__(self, url: str, options: ArcGisOptions, tools: Tools) -> None:
        self._url = url
        self._options = options
        self._tools = tools

    @classmethod
    def recognise(cls, address: str) -> str | None:
        """The source of `arcgis:https://…`, or of an address that shows ArcGIS."""
        return recognise(address)

    @classmethod
    def accept(cls, address: str) -> str | None:
        """The source at any web address that a user says to have one."""
        return accept(address)

    @classmethod
    async def probe(cls, look: Look) -> str | None:
        """The site at an address, if Hub's search answers there."""
        found = await look.get(f"{look.origin}/api/search/v1/collections/dataset/items?limit=1")
        if found is None:
            return None
        try:
            data = read_json(found.body, look.origin)
        except SourceError:
            return None
        match data:
            case {"type": "FeatureCollection", "features": list(), "numberMatched": int()}:
                return look.origin
        return None

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        """Walk the items, or read what changed."""
        dialect = Portal(self._url) if is_search(self._url) else Hub(self._url, self._options.collection)
        async with self._tools.client() as client:
            talk = Talk(client, self._url, self._options, now=self._tools.now)
            listing = ArcGisListing(talk, dialect, self._options)
            refresh = Refresh(listing, known, self._options, now=self._tools.now)
            async with aclosing(refresh.pull()) as observations:
                async for observation in observations:
                    yield observation
