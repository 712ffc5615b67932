"""Linked Data Event Streams: members become items, each version is stored once, and immutable pages are read once."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, ClassVar

from rowen.connectors.base import Known, Options, Tools
from rowen.connectors.catalog.options import web_url
from rowen.connectors.ldes.client import LdesOptions, StreamClient
from rowen.connectors.ldes.cursor import CLOSED, UNREAD, LdesCursor
from rowen.connectors.ldes.walk import LdesWalk
from rowen.connectors.probe import Probe
from rowen.model.items import Observation

_MARKS = (b"https://w3id.org/tree#", b"https://w3id.org/ldes#")


class Ldes:
    """A connector for event streams."""

    kind: ClassVar[str] = "ldes"
    Options: ClassVar[type[Options]] = LdesOptions
    chronological: ClassVar[bool] = True

    def __init__(self, url: str, options: LdesOptions, tools: Tools) -> None:
        self._url = url
        self._options = options
        self._tools = tools

    @classmethod
    def recognise(cls, address: str) -> str | None:
        """Return the URL of `ldes:https://…`."""
        return cls.accept(address) if address.startswith("ldes:") else None

    @classmethod
    def accept(cls, address: str) -> str | None:
        """Return the URL of a web address; None for any other address."""
        return web_url(address, "ldes")

    @classmethod
    async def probe(cls, probe: Probe) -> str | None:
        """Return the address if it responds with RDF in the vocabulary of event streams."""
        page = probe.page
        if page is None or (page.media_type or "").startswith("text/html"):
            return None
        return cls.accept(probe.url) if any(mark in page.body for mark in _MARKS) else None

    @staticmethod
    def describe_cursor(cursor: Any, notes: Mapping[str, int]) -> dict[str, Any]:
        """Return the state of the stream that users see, from its cursor and the number of notes in each room."""
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
        """Return the polling interval that the stream declares, in seconds; None if it is unknown."""
        memory = LdesCursor.of(cursor)
        return None if memory is None else memory.stream.polling_s

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        """Continue to read the stream where the last run stopped."""
        async with self._tools.client() as http:
            client = StreamClient(http, self._url, self._options, self._tools)
            walk = LdesWalk(self._url, self._options, self._tools, known=known, client=client)
            async with aclosing(walk.observations()) as observations:
                async for observation in observations:
                    yield observation
