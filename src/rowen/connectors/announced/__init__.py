"""Documents that a feed announces. Each run visits newly announced documents and the documents that they link to."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, ClassVar

from rowen.connectors.announced.walk import AnnouncedCursor, AnnouncedOptions, AnnouncedWalk, DocumentVisitor
from rowen.connectors.base import Known, KnowsFeed, Options, Tools
from rowen.connectors.catalog.options import web_url
from rowen.errors import SourceError
from rowen.model.items import Observation


class Announced:
    """A connector for the documents that a feed announces; the feed itself is a separate source."""

    kind: ClassVar[str] = "announced"
    Options: ClassVar[type[Options]] = AnnouncedOptions
    # The same interval as the external process that this kind replaces.
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
        """Return the URL of a web address; None for any other address."""
        return web_url(address, "announced")

    @staticmethod
    def describe_cursor(cursor: Any, _notes: Mapping[str, int]) -> dict[str, Any]:
        """Return whether any announcements have been collected."""
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
        """Visit the documents with these URLs again."""
        stored = await known.look_up(urls)
        async with self._tools.client() as client:
            visitor = DocumentVisitor(client, self._url, self._options, self._tools)
            for url, item in stored.items():
                yield (await visitor.visit(url, item, None)).observation_of(item)
