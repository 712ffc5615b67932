"""Documents that a feed announces: each run visits new announcements, and the documents that those link to."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, ClassVar

from pydantic import Field

from rowen.connectors.announced.walk import AnnouncedCursor, AnnouncedWalk, DocumentVisitor
from rowen.connectors.base import Known, KnowsFeed, Options, Tools
from rowen.connectors.catalog.options import web_url
from rowen.connectors.web.options import ProfileAction, ProfileShapes, profile_reading
from rowen.errors import SourceError
from rowen.model.items import Observation
from rowen.model.rdf import STATEMENTS_VERSION


class AnnouncedOptions(Options):
    """Options of announced documents."""

    secret_neutral: ClassVar[frozenset[str]] = Options.secret_neutral | {"follow", "robots", "shapes", "nonconforming"}
    text_or_file: ClassVar[frozenset[str]] = frozenset({"shapes"})

    # At the default pace of a request in 1.25 s a job takes twenty minutes; twice as many would keep others waiting.
    job_urls: int = Field(default=1_000, ge=1, description="maximum number of addresses that one job visits")
    # As in the process that this kind replaces: unannounced changes are found after some ten jobs.
    revisit: float = Field(default=0.1, ge=0, le=1, description="share of known documents that a job visits again")
    seed: int = Field(default=0, description="seed for drawing the documents to visit again")
    follow: bool = Field(default=True, description="also visit the documents that a document links to")
    robots: bool = Field(default=True, description="obey robots.txt")
    headers: dict[str, str] = Field(
        default_factory=dict,
        description="headers for the origin of the feed; env:NAME and file:PATH are references",
    )
    delay_s: float | None = Field(default=None, ge=0, description="pause between requests, instead of the setting's")
    max_bytes: int = Field(default=10_000_000, ge=1, description="maximum size of a document")
    shapes: ProfileShapes = Field(default=None, description="SHACL shapes in Turtle, or file:PATH of them")
    nonconforming: ProfileAction = Field(
        default="drop", description="leave out statements that do not conform (drop), or only count them (report)"
    )

    def reading(self) -> dict[str, Any]:
        """Return the language, which is part of each document, the reading of statements, and the limit of size."""
        return {
            "language": self.language,
            "statements": STATEMENTS_VERSION,
            **profile_reading(self.shapes, self.nonconforming),
            **self.chosen("max_bytes"),
        }

    def listing(self) -> dict[str, Any]:
        """Return nothing: announcements and visits are kept under any selection of documents."""
        return {}


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
