"""One job over the documents of a feed: collect new announcements, then visit the announced and linked documents.

Each job reaches every announced document and every document that an announced document links to. It visits a document
that is new or was selected at random; for any other document it follows the stored links. A completed job therefore
knows which documents are no longer linked.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Annotated, Any, ClassVar, TypeAlias

import msgspec
from pydantic import Field

from rowen.concurrency import end
from rowen.connectors.base import KnowsFeed, Options, StoredState, Tools, parse_stored
from rowen.connectors.web.options import ProfileAction, ProfileShapes, profile_reading, statement_profile
from rowen.errors import BodyTooLargeError, CircuitOpenError, FetchError, ItemError, PortionReadError
from rowen.model.hashes import Hash, body_hash
from rowen.model.items import (
    Checkpoint,
    Complete,
    Failed,
    Fetched,
    Gone,
    Incomplete,
    NoteName,
    Observation,
    Raw,
    Skipped,
    Unchanged,
    Validators,
)
from rowen.model.push import Announcement
from rowen.model.rdf import RDFA, STATEMENTS_VERSION
from rowen.model.url import key
from rowen.net.client import Client
from rowen.net.credentials import Credentials
from rowen.net.robots import Robots
from rowen.net.target import redact

LINKS_VERSION = 2
"""Raise this when the same overview would yield other links; overviews are then read again."""

_ACCEPT = "text/html,application/xhtml+xml,*/*;q=0.5"
NO_DOCUMENT = "It is no document any more."


class AnnouncedOptions(Options):
    """Options of announced documents."""

    secret_neutral: ClassVar[frozenset[str]] = Options.secret_neutral | {"follow", "robots", "shapes", "nonconforming"}
    text_or_file: ClassVar[frozenset[str]] = frozenset({"shapes"})

    # At the default pace, one request in 1.25 s, a job takes twenty minutes; twice as many would delay other jobs.
    job_urls: int = Field(default=1_000, ge=1, description="maximum number of addresses that one job visits")
    # As in the external process that this kind replaces: unannounced changes are found after about ten jobs.
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
        """Return the options that affect stored documents: the language, the RDF profile and the size limit."""
        return {
            "language": self.language,
            "statements": STATEMENTS_VERSION,
            **profile_reading(self.shapes, self.nonconforming),
            **self.chosen("max_bytes"),
        }

    def listing(self) -> dict[str, Any]:
        """Return nothing, since announcements and visits are kept when the selection of documents changes."""
        return {}


@dataclass(slots=True)
class OverviewNote:
    """A page that only links to documents, with its links, its validators and the version of the link rules."""

    links: list[str] = field(default_factory=list)
    etag: str | None = None
    last_modified: str | None = None
    version: int = 1

    @property
    def current(self) -> "OverviewNote":
        """Return the note; if the link rules have changed, without validators, so that the page is read again."""
        return self if self.version == LINKS_VERSION else OverviewNote(self.links, version=self.version)


@dataclass(frozen=True, slots=True)
class Visited:
    """The result of a visit and the links to follow; `observation` is None if the address is no document."""

    outcome: str
    observation: Observation | None = None
    links: tuple[str, ...] = ()
    overview: OverviewNote | None = None
    why: str | None = None

    def observation_of(self, stored: StoredState) -> Observation:
        """Return the observation for a stored document; `Gone` if the visit found no document."""
        return self.observation or Gone(stored.url, self.why or NO_DOCUMENT)


class DocumentVisitor:
    """Requests documents; uses conditional requests for stored documents."""

    def __init__(self, client: Client, feed: str, options: AnnouncedOptions, tools: Tools) -> None:
        self._client = client
        self._options = options
        self._tools = tools
        self._robots = Robots(client) if options.robots else None
        self._credentials = Credentials.of(feed, options.headers)
        self._profile = statement_profile(options.shapes, options.nonconforming)

    async def visit(self, url: str, stored: StoredState | None, overview: OverviewNote | None) -> Visited:
        """Request an address conditionally, and read the body if it differs from the stored document or overview."""
        links = stored.links if stored else tuple(overview.links) if overview else ()
        validators = stored or overview
        try:
            self._client.pace(url, delay_s=self._options.delay_s)
            if self._robots is not None and not await self._robots.allows(url):
                why = f"robots.txt does not allow us to request {redact(url)}."
                return _failed(url, why, "Ask the publisher, or set the option robots to false.", None)
            response = await self._client.get(
                url,
                etag=validators.etag if validators else None,
                last_modified=validators.last_modified if validators else None,
                accept=_ACCEPT,
                credentials=self._credentials,
                max_bytes=self._options.max_bytes,
            )
            if response.not_modified:
                if stored is None:
                    return Visited("overview", None, links, overview)
                return Visited("unchanged", Unchanged(stored.url), links)
            if response.status in (404, 410):
                why = f"status {response.status}"
                return Visited("gone", Gone(stored.url, why) if stored else None, why=why)
            if not response.ok:
                return _failed(url, f"{redact(url)} answered with status {response.status}.", None, links)
            if stored is not None and stored.body_hash == body_hash(response.body):
                unchanged = Validators(response.etag, response.last_modified, stored.body_hash)
                return Visited("unchanged", Unchanged(stored.url, unchanged), links)
            # Links are relative to the final URL.
            document = await self._tools.read(
                Raw(
                    response.url,
                    response.body,
                    media_type=response.media_type,
                    charset=response.charset,
                    language=self._options.language,
                    etag=response.etag,
                    last_modified=response.last_modified,
                    statements="documents",
                    profile=self._profile,
                )
            )
        except CircuitOpenError as problem:
            return Visited("skipped", Skipped(url, str(problem)), links, why=str(problem))
        except (FetchError, ItemError) as problem:
            # An item that was stored under other options is deleted; an item that became too large fails.
            if isinstance(problem, BodyTooLargeError) and stored is not None and stored.body_hash is None:
                return _failed(url, str(problem), problem.hint, None)
            return _failed(url, str(problem), problem.hint, links)
        stated = document.record.get(RDFA) or {}
        links = tuple(stated.get("links", ())) if self._options.follow else ()
        if document.media_type == "text/html" and stated.get("type", "overview") == "overview":
            note = OverviewNote(list(links), response.etag, response.last_modified, LINKS_VERSION)
            return Visited("overview", None, links, note)
        tags = (*document.tags, stated["type"]) if "type" in stated else document.tags
        return Visited("stored", Fetched(replace(document, url=url, tags=tags, links=links)), links)


def _failed(url: str, why: str, hint: object, links: tuple[str, ...] | None) -> Visited:
    """Return the result for a failed document; `links` is None if the options exclude it, and no copy is kept."""
    failed = Failed(url, why, str(hint) if hint else None, keeps_copy=links is not None)
    return Visited("failed", failed, links or (), why=why)


# Rooms of notes: announcements by the names of their documents; pages that only link to documents, requested in each
# job that has something to do; addresses that answer 404 or 410, requested again at growing intervals.
ROOM, OVERVIEWS, GONE = "announced", "overview", "gone"
# Parallel requests: the next documents arrive while one is parsed; the pace per host limits all of them.
AHEAD = 4
# Visits between two checkpoints: a killed job repeats them, with 304 responses. Each checkpoint is a transaction.
NOTED_EACH = 25

_YOUNG = timedelta(hours=1)  # longer than a deployment during which every address returns 404
# Wait time as a share of the time that an address has been gone. With a job every ten minutes, it costs 60 requests in
# the first day and 70 in the following month; with twice the share it costs half as many, and an address that returns
# without an announcement is found twice as late.
_WAIT_SHARE = 0.05
_WHOLE = 1 << 64

Moment: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]


@dataclass(slots=True)
class AnnouncedCursor:
    """The cursor: the number in the change log up to which the feed's announcements were collected."""

    number: int = 0

    @classmethod
    def of(cls, cursor: Any) -> "AnnouncedCursor":
        """Return the stored cursor; an empty cursor if none is stored or it cannot be read."""
        return parse_stored(cursor, cls) or cls()


@dataclass(slots=True)
class AnnouncementNote:
    """An announcement and the outcome of its visit; the outcome is "waiting" until the first visit."""

    location: str
    member: str
    at: str
    outcome: str = "waiting"
    why: str | None = None

    def to_note(self) -> dict[str, Any]:
        """Return the note as JSON."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(slots=True)
class GoneNote:
    """An address without a document: the times of the first and last response that showed this, and the reason."""

    since: Moment
    last: Moment
    why: str

    def is_due(self, now: datetime) -> bool:
        """Return whether it is time to request the address again."""
        gone_for = self.last - self.since
        return gone_for < _YOUNG or now - self.last >= gone_for * _WAIT_SHARE

    def to_note(self) -> dict[str, Any]:
        """Return the note as JSON."""
        return {"since": self.since.isoformat(), "last": self.last.isoformat(), "why": self.why}


class AnnouncedWalk:
    """One job over the announced documents. Overviews and missing addresses are indexed by the hash of their URL."""

    def __init__(
        self, options: AnnouncedOptions, known: KnowsFeed, visitor: DocumentVisitor, now: Callable[[], datetime]
    ) -> None:
        self._options = options
        self._now = now
        self._known = known
        self._visitor = visitor
        self._cursor = AnnouncedCursor.of(known.cursor)
        self._notes: dict[str, AnnouncementNote] = {}
        self._names: dict[Hash, list[str]] = {}
        self._overviews: dict[Hash, tuple[str, OverviewNote]] = {}
        self._gone: dict[Hash, tuple[str, GoneNote]] = {}
        self._met: set[Hash] = set()
        self._stored: dict[Hash, StoredState] = {}
        self._changes: dict[NoteName, Any] = {}
        self._failed = {key(item.url) for item in known.failed}
        self._visits = 0
        self._trouble: str | None = None
        self._is_full = self._has_new = False

    async def observations(self) -> AsyncGenerator[Observation]:
        """Collect the new announcements and yield the observations of all documents."""
        async for notes in self._known.recall_all(ROOM):
            for name, value in notes.items():
                if (note := parse_stored(value, AnnouncementNote)) is not None:
                    self._notes[name] = note
        async for notes in self._known.recall_all(OVERVIEWS):
            for url, value in notes.items():
                if (overview := parse_stored(value, OverviewNote)) is not None:
                    self._overviews[key(url)] = url, overview.current
        async for notes in self._known.recall_all(GONE):
            for url, value in notes.items():
                if (gone := parse_stored(value, GoneNote)) is not None:
                    self._gone[key(url)] = url, gone
        async for announcements in self._known.announced(self._cursor.number):
            for announcement in announcements:
                self._take_announcement(announcement)
            self._cursor.number = announcements[-1].number
            yield self._checkpoint()
        async for items in self._known.everything():
            self._stored.update((key(item.url), item) for item in items)
        for name, note in self._notes.items():
            self._names.setdefault(key(note.location), []).append(name)
        self._has_new = any(note.outcome == "waiting" for note in self._notes.values())
        async for observation in self._walk():
            yield observation
        if not self._is_full:
            self._changes |= {(GONE, url): None for name, (url, _) in self._gone.items() if name not in self._met}
        if self._changes:
            yield self._checkpoint()
        if self._is_full:
            raise PortionReadError(
                f"This job has visited its share, {self._visits:,} addresses; the next one continues."
            )
        yield Complete() if self._trouble is None else Incomplete(self._trouble)

    def _take_announcement(self, announcement: Announcement) -> None:
        """Record an announcement, unless a newer version of the same document was announced earlier."""
        name, before = announcement.name, self._notes.get(announcement.name)
        if announcement.location is None:
            if self._notes.pop(name, None) is not None:
                self._changes[ROOM, name] = None
            return
        if before is not None:
            is_known = (before.member, before.location) == (announcement.member, announcement.location)
            versions = [(version.at.removesuffix("Z"), version.member) for version in (before, announcement)]
            if is_known or (before.at and versions[0] > versions[1]):
                return
        note = self._notes[name] = AnnouncementNote(announcement.location, announcement.member, announcement.at)
        self._changes[ROOM, name] = note.to_note()

    def _checkpoint(self) -> Checkpoint:
        notes, self._changes = self._changes, {}
        return Checkpoint(asdict(self._cursor), notes=notes)

    async def _walk(self) -> AsyncGenerator[Observation]:
        """Visit documents breadth-first, waiting announcements first; parallel visits are handled in order."""
        # Each location once: announcements that still wait first, then by the time of the announcement.
        notes = sorted(self._notes.values(), key=lambda note: (note.outcome != "waiting", note.at, note.location))
        queue = deque(_unmet((note.location for note in notes), self._met))
        under_way: deque[tuple[str, asyncio.Task[Visited]]] = deque()
        try:
            while queue or under_way:
                while queue and len(under_way) < AHEAD:
                    url = queue.popleft()
                    name = key(url)
                    stored = self._stored.get(name)
                    if not self._needs_visit(url):
                        if stored is not None and name in self._gone:
                            yield Gone(stored.url, self._gone[name][1].why)
                        elif stored is not None:
                            yield Unchanged(stored.url)
                            queue.extend(_unmet(stored.links, self._met))
                    elif self._visits < self._options.job_urls:
                        self._visits += 1
                        _, overview = self._overviews.get(name, ("", None))
                        under_way.append((url, asyncio.create_task(self._visitor.visit(url, stored, overview))))
                    else:
                        self._is_full = True
                        queue.clear()
                if under_way:
                    url, task = under_way.popleft()
                    visited = await task
                    for observation in self._take_visit(url, visited):
                        yield observation
                    queue.extend(() if self._is_full else _unmet(visited.links, self._met))
                if len(self._changes) >= NOTED_EACH:
                    yield self._checkpoint()
        finally:
            await end(task for _, task in under_way)

    def _needs_visit(self, url: str) -> bool:
        """Return whether a document is new, newly announced, failed, outdated or selected at random for a new visit."""
        name = key(url)
        stored = self._stored.get(name)
        if self._known.mode == "full" or name in self._failed:
            return True
        if any(self._notes[announced].outcome == "waiting" for announced in self._names.get(name, ())):
            return True
        if name in self._gone:
            return self._gone[name][1].is_due(self._now())
        if stored is None or stored.body_hash is None:
            return True
        if not self._has_new:
            return False
        # The selection changes with each announcement, and stays the same in a repeated job.
        drawn = sha256(f"{self._options.seed}/{self._cursor.number}/{url}".encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(drawn[:8]) < self._options.revisit * _WHOLE

    def _take_visit(self, url: str, visited: Visited) -> Iterator[Observation]:
        """Yield the observation of a visit and record its outcome."""
        name = key(url)
        stored = self._stored.get(name)
        if visited.observation is not None:
            yield visited.observation
        elif stored is not None or name in self._failed:
            # A stored page that became an overview, or a failed address that turned out to be no document.
            yield Gone(stored.url if stored else url, visited.why or NO_DOCUMENT)
        noted_url, overview = self._overviews.get(name, (url, None))
        if visited.overview is not None and visited.overview != overview:
            self._overviews[name] = noted_url, visited.overview
            self._changes[OVERVIEWS, noted_url] = asdict(visited.overview)
        elif overview is not None and visited.outcome in ("stored", "gone"):
            del self._overviews[name]
            self._changes[OVERVIEWS, noted_url] = None
        noted_url, gone = self._gone.get(name, (url, None))
        if visited.outcome == "gone":
            gone = GoneNote(gone.since if gone else self._now(), self._now(), visited.why or "")
            self._gone[name] = noted_url, gone
            self._changes[GONE, noted_url] = gone.to_note()
        elif gone is not None and visited.outcome not in ("failed", "skipped"):
            del self._gone[name]
            self._changes[GONE, noted_url] = None
        for announced in self._names.get(name, ()):
            note = self._notes[announced]
            # An unchanged document keeps its earlier outcome.
            is_as_before = visited.outcome == "unchanged" and note.outcome in ("stored", "unchanged")
            is_same = (note.outcome, note.why) == (visited.outcome, visited.why)
            if visited.outcome != "skipped" and not is_as_before and not is_same:
                note.outcome, note.why = visited.outcome, visited.why
                self._changes[ROOM, announced] = note.to_note()
        if visited.outcome == "skipped":
            self._trouble = visited.why
        elif visited.outcome == "failed" and stored is None and self._known.cursor is None:
            self._trouble = f"The links of {url} are unknown: {visited.why}"


def _unmet(urls: Iterable[str], met: set[Hash]) -> Iterator[str]:
    """Yield the URLs that are not in `met`, and add them to `met`."""
    for url in urls:
        name = key(url)
        if name not in met:
            met.add(name)
            yield url
