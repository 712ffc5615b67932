"""Linked Data Event Streams: members become items, each version once; immutable pages are read once."""

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from rowen.connectors.base import Known, Options, Tools
from rowen.connectors.catalog.options import web_url
from rowen.connectors.ldes.client import StreamClient
from rowen.connectors.ldes.cursor import CLOSED, UNREAD, LdesCursor
from rowen.connectors.ldes.walk import LdesWalk
from rowen.connectors.probe import Probe
from rowen.model.items import Observation
from rowen.model.url import Address

_MARKS = (b"https://w3id.org/tree#", b"https://w3id.org/ldes#")
_ABSOLUTE = re.compile(r"file:(?://(?:localhost)?)?/(?!/)")


class LdesOptions(Options):
    """Options of an event stream. `record_version` is raised when members are read into something else than before."""

    record_version: ClassVar[int] = 2

    secret_neutral: ClassVar[frozenset[str]] = Options.secret_neutral | {"versions", "order", "contexts"}

    versions: Literal["latest", "all"] = Field(
        default="latest", description="one item per object, with its latest version; or one per member"
    )
    order: Literal["fast", "ascending", "descending"] = Field(
        default="fast", description="members in the order of the pages, or of time: oldest or newest first"
    )
    after: datetime | None = Field(default=None, description="only members with later times")
    before: datetime | None = Field(default=None, description="only members with earlier times")
    shape: str | None = Field(
        default=None, description="SHACL shape that decides what belongs to a member: its URL, file:PATH, or none"
    )
    contexts: dict[str, str] = Field(
        default_factory=dict, description="SHA-256 that a JSON-LD context must have, by its URL"
    )
    headers: dict[str, str] = Field(
        default_factory=dict, description="headers to send; env:NAME and file:PATH are references"
    )
    delay_s: float | None = Field(default=None, ge=0, description="pause between requests, instead of the setting's")
    # Pages of real streams have up to 5 MB; a dump of a whole stream is one page of any size.
    max_bytes: int = Field(default=256 << 20, ge=1, description="maximum size of a page")

    @field_validator("shape")
    @classmethod
    def _check_path(cls, shape: str | None) -> str | None:
        # Only the text is checked: the sync finds out whether there is such a file.
        if shape is not None and Address.of(shape).scheme == "file" and not _ABSOLUTE.match(Address.of(shape).text):
            raise ValueError("the path of a shape has to be absolute, since syncs begin in any folder")
        return shape

    @property
    def shape_file(self) -> Path | None:
        """Return the path of the shape if it is a local file."""
        place = Address.of(self.shape) if self.shape is not None else None
        return Path(place.path) if place is not None and place.scheme == "file" else None

    def reading(self) -> dict[str, Any]:
        """Return the options that decide how a member is read."""
        return {
            "versions": self.versions,
            "shape": self.shape,
            "language": self.language,
            "members": self.record_version,
        }

    def listing(self) -> dict[str, Any]:
        """Return the options under which pages need not be read again. The connector compares the window itself."""
        return {**self.reading(), "headers": self.headers, "contexts": self.contexts}


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
        """Return the URL of any web address."""
        return web_url(address, "ldes")

    @classmethod
    async def probe(cls, probe: Probe) -> str | None:
        """Return the address itself if it answers with RDF in the vocabulary of event streams."""
        page = probe.page
        if page is None or (page.media_type or "").startswith("text/html"):
            return None
        return cls.accept(probe.url) if any(mark in page.body for mark in _MARKS) else None

    @staticmethod
    def describe_cursor(cursor: Any, notes: Mapping[str, int]) -> dict[str, Any]:
        """Return the facts of a cursor, and of the number of notes in each room, that users see."""
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
        """Return the polling interval that the stream declares, in seconds."""
        memory = LdesCursor.of(cursor)
        return None if memory is None else memory.stream.polling_s

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        """Follow the stream from where the last run left it."""
        async with self._tools.client() as http:
            client = StreamClient(http, self._url, self._options, self._tools)
            walk = LdesWalk(self._url, self._options, self._tools, known=known, client=client)
            async with aclosing(walk.observations()) as observations:
                async for observation in observations:
                    yield observation
