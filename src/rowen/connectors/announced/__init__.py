"""Documents that a feed announces: each run visits new announcements, and the documents that those link to."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, ClassVar

from rowen.connectors.announced.walk import AnnouncedCursor, AnnouncedOptions, AnnouncedWalk, DocumentVisitor
from rowen.connectors.base import Known, KnowsFeed, Options, Tools
from rowen.connectors.catalog.options import web_url
from rowen.errors import SourceError
from rowen.model.items import Observation


class Announced:
    """A connector for the documents of a feed that is a source of its own."""

    kind: ClassVar[str] = "announced"
    Options: ClassVar[type[Options]] = AnnouncedOptions
    # The interval of the process that this kind replaces.
    usual_schedule: ClassVar[str] = "10min"

    def __init__(self, url: str, options: AnnouncedOptions, tools: Tools) -> None:
        self._url = url
        self._options = options
        self._tools = tools

    @classmethod
    def recognise(cls, address: str) -> str | None:
        """Return the URL of the feed in `announced:https://…`."""
        return cls.accept(address) if address.startswith("announced:") else None

    @classmethod
    def accept(cls, address: str) -> str | None:
        """Return the URL of any feed."""
        return web_url(address, "announced")

    @staticmethod
    def describe_cursor(cursor: Any, _notes: Mapping[str, int]) -> dict[str, Any]:
        """Return whether announcements were collected yet."""
        return {"is_whole": AnnouncedCursor.of(cursor).number > 0}

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        """Collect new announcements, and visit their documents."""
        if not isinstance(known, KnowsFeed):
            raise SourceError(f"The announcements of the feed {self._url} are not available here.")
        async with self._tools.client() as client:
            visitor = DocumentVisitor(client, self._url, self._options, self._tools)
            walk = AnnouncedWalk(self._options, known, visitor, self._tools.now)
            async with aclosing(walk.observations()) as observations:
                async for observation in observations:
                    yield observation

    async def look(self, known: Known, urls: Sequence[str]) -> AsyncGenerator[Observation]:
        """Visit some documents again."""
        stored = await known.look_up(urls)
        async with self._tools.client() as client:
            visitor = DocumentVisitor(client, self._url, self._options, self._tools)
            for url, item in stored.items():
                yield (await visitor.visit(url, item, None)).observation_of(item)
