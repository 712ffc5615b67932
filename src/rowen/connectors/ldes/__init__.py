"""Linked Data Event Streams: members become items, each version once, and pages that never change are read once."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, ClassVar

from rowen.connectors.base import Known, Options, Tools
from rowen.connectors.ldes.client import StreamClient
from rowen.connectors.ldes.cursor import CLOSED, UNREAD, LdesCursor
from rowen.connectors.ldes.options import LdesOptions, accept, recognise
from rowen.connectors.ldes.walk import LdesWalk
from rowen.connectors.probe import Probe
from rowen.model.items import Observation

__all__ = ["Ldes"]

_MARKS = (b"https://w3id.org/tree#", b"https://w3id.org/ldes#")


class Ldes:
    """Reads an event stream."""

    kind: ClassVar[str] = "ldes"
    Options: ClassVar[type[Options]] = LdesOptions
    chronological: ClassVar[bool] = True
    recognise = staticmethod(recognise)
    accept = staticmethod(accept)

    def __init__(self, url: str, options: LdesOptions, tools: Tools) -> None:
        self._url = url
        self._options = options
        self._tools = tools

    @classmethod
    async def probe(cls, probe: Probe) -> str | None:
        """The address itself, if it answers with RDF that has the words of event streams."""
        page = probe.page
        if page is None or (page.media_type or "").startswith("text/html"):
            return None
        return accept(probe.url) if any(mark in page.body for mark in _MARKS) else None

    @staticmethod
    def told(cursor: Any, notes: Mapping[str, int]) -> dict[str, Any]:
        """What a cursor, and the number of notes in each room, tell people of how the stream is followed."""
        memory = LdesCursor.of(cursor)
        if memory is None:
            return {"is_whole": False}
        return {
            "last_member_at": memory.last_member_at,
            "pages": memory.pages,
            "pages_immutable": notes.get(CLOSED, 0),
            "backlog": notes.get(UNREAD, 0),
            "members": memory.members,
            "polling_s": memory.stream.polling_s,
            "is_whole": memory.complete,
        }

    @staticmethod
    def polling_s(cursor: Any) -> float | None:
        """How often the stream wants to be asked, in seconds."""
        memory = LdesCursor.of(cursor)
        return None if memory is None else memory.stream.polling_s

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        """Follow the stream from where the last run left it."""
        async with self._tools.client() as client:
            asking = StreamClient(client, self._url, self._options, self._tools)
            walk = LdesWalk(self._url, self._options, self._tools, known=known, client=asking)
            async with aclosing(walk.observations()) as observations:
                async for observation in observations:
                    yield observation
