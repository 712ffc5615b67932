"""Documents that a feed announces: each job visits what is new, and the documents that those lead to."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, ClassVar

from rowen.connectors.announced.memory import AnnouncedCursor
from rowen.connectors.announced.options import AnnouncedOptions, accept, recognise
from rowen.connectors.announced.visits import DocumentVisitor
from rowen.connectors.announced.walk import AnnouncedWalk
from rowen.connectors.base import Known, KnowsFeed, Options, Tools
from rowen.errors import SourceError
from rowen.model.item import Observation

__all__ = ["Announced"]


class Announced:
    """Reads the documents of a feed that is kept as a source of its own."""

    kind: ClassVar[str] = "announced"
    Options: ClassVar[type[Options]] = AnnouncedOptions
    # The interval of the process that this one takes the place of.
    usual_schedule: ClassVar[str] = "10min"
    recognise = staticmethod(recognise)
    accept = staticmethod(accept)

    def __init__(self, url: str, options: AnnouncedOptions, tools: Tools) -> None:
        self._url = url
        self._options = options
        self._tools = tools

    @staticmethod
    def told(cursor: Any, _notes: Mapping[str, int]) -> dict[str, Any]:
        """What a cursor tells people of how the feed is followed: whether anything was collected yet."""
        return {"is_whole": AnnouncedCursor.of(cursor).number > 0}

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        """Collect what is new, and visit it."""
        if not isinstance(known, KnowsFeed):
            raise SourceError(f"What the feed {self._url} announces cannot be asked for here.")
        async with self._tools.client() as client:
            visitor = DocumentVisitor(client, self._url, self._options, self._tools)
            async with aclosing(
                AnnouncedWalk(self._options, known, visitor, self._tools.now).observations()
            ) as observations:
                async for observation in observations:
                    yield observation

    async def look(self, known: Known, urls: Sequence[str]) -> AsyncGenerator[Observation]:
        """Look at some documents again."""
        held = await known.look_up(urls)
        async with self._tools.client() as client:
            visitor = DocumentVisitor(client, self._url, self._options, self._tools)
            for url, one in held.items():
                yield (await visitor.visit(url, one, None)).observation_of(one)
