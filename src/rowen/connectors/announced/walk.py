"""One job over the documents of a feed: what is new is collected, then visited, and what it leads to as well.

Every document that is announced, or that one of these leads to, is reached in each job: by a visit, if it is new or its
turn has come, else along the links that we hold of it. So a job that comes to its end knows what nothing leads to any
more, as a first job would.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from hashlib import sha256
from typing import Any

from rowen.connectors.announced.memory import (
    GONE,
    OVERVIEWS,
    AnnouncedCursor,
    AnnouncementNote,
    GoneNote,
    OverviewNote,
)
from rowen.connectors.announced.options import AnnouncedOptions
from rowen.connectors.announced.visits import DocumentVisitor, Visited
from rowen.connectors.base import Held, KnowsFeed
from rowen.connectors.remembered import remembered
from rowen.errors import PortionReadError
from rowen.model.announcement import Announcement
from rowen.model.hashes import Hash
from rowen.model.item import Checkpoint, Complete, Gone, Incomplete, NoteName, Observation, Unchanged
from rowen.model.url import key

__all__ = ["AnnouncedWalk"]

ROOM = "announced"
"""The room of announcements, by the names of their documents."""

AHEAD = 4
"""Documents that are asked for at a time: the next ones come in while one is read; the pace of hosts holds for all."""

NOTED_EACH = 25
"""Visits between two checkpoints: what a killed job repeats, by requests that answer 304. Each is a transaction."""

_WHOLE = 1 << 64


class AnnouncedWalk:
    """One job."""

    def __init__(
        self, options: AnnouncedOptions, known: KnowsFeed, visitor: DocumentVisitor, now: Callable[[], datetime]
    ) -> None:
        self._options = options
        self._now = now
        self._known = known
        self._visitor = visitor
        self._cursor = AnnouncedCursor.of(known.cursor)
        self._notes: dict[str, AnnouncementNote] = {}
        self._overviews: dict[Hash, tuple[str, OverviewNote]] = {}
        self._gone: dict[Hash, tuple[str, GoneNote]] = {}
        self._met: set[Hash] = set()
        self._held: dict[Hash, Held] = {}
        self._names: dict[Hash, list[str]] = {}
        self._fresh: dict[NoteName, Any] = {}
        self._failed = {key(one.url) for one in known.failed}
        self._visits = 0
        self._trouble: str | None = None
        self._is_full = self._is_new = False

    async def observations(self) -> AsyncGenerator[Observation]:
        """What is seen of all documents."""
        await self._remember()
        async for checkpoint in self._collect():
            yield checkpoint
        async for batch in self._known.everything():
            self._held.update((key(one.url), one) for one in batch)
        for name, note in self._notes.items():
            self._names.setdefault(key(note.location), []).append(name)
        self._is_new = any(note.outcome == "waiting" for note in self._notes.values())
        async for seen in self._walk():
            yield seen
        if not self._is_full:
            self._fresh |= {(GONE, url): None for name, (url, _) in self._gone.items() if name not in self._met}
        if self._fresh:
            yield self._checkpoint()
        if self._is_full:
            raise PortionReadError(f"This job has visited its share, {self._visits:,} addresses; the next one goes on.")
        yield Complete() if self._trouble is None else Incomplete(self._trouble)

    async def _remember(self) -> None:
        async for batch in self._known.recall_all(ROOM):
            read = ((name, remembered(value, AnnouncementNote)) for name, value in batch.items())
            self._notes.update((name, note) for name, note in read if note is not None)
        async for batch in self._known.recall_all(OVERVIEWS):
            for url, value in batch.items():
                if (overview := remembered(value, OverviewNote)) is not None:
                    self._overviews[key(url)] = url, overview.current
        async for batch in self._known.recall_all(GONE):
            for url, value in batch.items():
                if (gone := remembered(value, GoneNote)) is not None:
                    self._gone[key(url)] = url, gone

    async def _collect(self) -> AsyncGenerator[Checkpoint]:
        """Note what the feed announced since the last job; each batch is a transaction."""
        async for batch in self._known.announced(self._cursor.number):
            for announcement in batch:
                self._take(announcement)
            self._cursor.number = batch[-1].number
            yield self._checkpoint()

    def _take(self, announcement: Announcement) -> None:
        """Of several versions of one document the newest counts, in whichever order they come."""
        name, before = announcement.name, self._notes.get(announcement.name)
        if announcement.location is None:
            if before is not None:
                del self._notes[name]
                self._fresh[ROOM, name] = None
            return
        if before is not None:
            is_known = (before.member, before.location) == (announcement.member, announcement.location)
            if is_known or (before.at and _place(before) > _place(announcement)):
                return
        note = self._notes[name] = AnnouncementNote.of(announcement, announcement.location)
        self._fresh[ROOM, name] = note.to_note()

    def _checkpoint(self) -> Checkpoint:
        notes, self._fresh = self._fresh, {}
        return Checkpoint(self._cursor.to_cursor(), notes=notes)

    async def _walk(self) -> AsyncGenerator[Observation]:
        """Breadth first, what waits before all else; some visits are under way at a time, taken in their order."""
        queue = deque(self._roots())
        met = self._met = {key(url) for url in queue}
        under_way: deque[tuple[str, asyncio.Task[Visited]]] = deque()
        try:
            while queue or under_way:
                while queue and len(under_way) < AHEAD:
                    url = queue.popleft()
                    if not self._is_to_be_visited(url):
                        passed_over, links = self._passed_over(url)
                        if passed_over is not None:
                            yield passed_over
                        queue.extend(_new(links, met))
                    elif self._may_visit():
                        under_way.append((url, asyncio.create_task(self._visit(url))))
                    else:
                        queue.clear()
                if under_way:
                    url, task = under_way.popleft()
                    visited = await task
                    for seen in self._taken(url, visited):
                        yield seen
                    queue.extend(() if self._is_full else _new(visited.links, met))
                if len(self._fresh) >= NOTED_EACH:
                    yield self._checkpoint()
        finally:
            for _, task in under_way:
                task.cancel()
            await asyncio.gather(*(task for _, task in under_way), return_exceptions=True)

    def _roots(self) -> Iterator[str]:
        """The places of all documents, each once: those without a job first, then by the time of the announcement."""
        notes = sorted(self._notes.values(), key=lambda note: (note.outcome != "waiting", note.at, note.location))
        return _new((note.location for note in notes), set())

    def _may_visit(self) -> bool:
        self._is_full = self._visits >= self._options.job_urls
        self._visits += not self._is_full
        return not self._is_full

    def _is_to_be_visited(self, url: str) -> bool:
        """Whether a document is new, announced anew, failed before or would be read otherwise, or its turn has come."""
        name = key(url)
        held = self._held.get(name)
        if self._known.mode == "full" or name in self._failed:
            return True
        if any(self._notes[one].outcome == "waiting" for one in self._names.get(name, ())):
            return True
        if name in self._gone:
            return self._gone[name][1].is_due(self._now())
        if held is None or held.body_hash is None:
            return True
        return self._is_new and self._is_drawn(url)

    def _passed_over(self, url: str) -> tuple[Observation | None, Sequence[str]]:
        """Return what is known of a document that this job does not visit, and where it leads."""
        held = self._held.get(key(url))
        _, gone = self._gone.get(key(url), ("", None))
        if held is None:
            return None, ()
        return (Unchanged(held.url), held.links) if gone is None else (Gone(held.url, gone.why), ())

    def _is_drawn(self, url: str) -> bool:
        """Drawn anew with each announcement, and the same for who looks twice."""
        drawn = sha256(f"{self._options.seed}/{self._cursor.number}/{url}".encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(drawn[:8]) < self._options.revisit * _WHOLE

    async def _visit(self, url: str) -> Visited:
        _, overview = self._overviews.get(key(url), ("", None))
        return await self._visitor.visit(url, self._held.get(key(url)), overview)

    def _taken(self, url: str, visited: Visited) -> Iterator[Observation]:
        """What the flow is told of a visit; what became of the announcement is noted with it."""
        name = key(url)
        held = self._held.get(name)
        if visited.observation is not None:
            yield visited.observation
        elif held is not None or name in self._failed:
            # A page that became an overview, or one that failed before and turns out to be no document.
            yield Gone(held.url if held else url, visited.why or "It is no document any more.")
        self._note_overview(url, visited)
        self._note_gone(url, visited)
        for one in self._names.get(name, ()):
            self._note_outcome(one, visited)
        if visited.outcome == "skipped":
            self._trouble = visited.why
        elif visited.outcome == "failed" and held is None and self._known.cursor is None:
            self._trouble = f"What {url} leads to is not known: {visited.why}"

    def _note_overview(self, url: str, visited: Visited) -> None:
        name = key(url)
        stored, before = self._overviews.get(name, (url, None))
        if visited.overview is not None:
            if visited.overview != before:
                self._overviews[name] = stored, visited.overview
                self._fresh[OVERVIEWS, stored] = asdict(visited.overview)
        elif before is not None and visited.outcome in ("stored", "gone"):
            del self._overviews[name]
            self._fresh[OVERVIEWS, stored] = None

    def _note_gone(self, url: str, visited: Visited) -> None:
        name = key(url)
        stored, before = self._gone.get(name, (url, None))
        if visited.outcome == "gone":
            now = self._now()
            note = GoneNote(before.since if before else now, now, visited.why or "")
            self._gone[name] = stored, note
            self._fresh[GONE, stored] = note.to_note()
        elif before is not None and visited.outcome not in ("failed", "skipped"):
            del self._gone[name]
            self._fresh[GONE, stored] = None

    def _note_outcome(self, name: str, visited: Visited) -> None:
        """Note what became of an announcement; a document that is only looked at again stays what it was."""
        note = self._notes[name]
        is_as_before = visited.outcome == "unchanged" and note.outcome in ("stored", "unchanged")
        if visited.outcome == "skipped" or is_as_before or (note.outcome, note.why) == (visited.outcome, visited.why):
            return
        note.outcome, note.why = visited.outcome, visited.why
        self._fresh[ROOM, name] = note.to_note()


def _place(version: Announcement | AnnouncementNote) -> tuple[str, str]:
    """Where a version stands among others: by its time, then by its name."""
    return version.at.removesuffix("Z"), version.member


def _new(urls: Iterable[str], met: set[Hash]) -> Iterator[str]:
    """Those that were not met before."""
    for url in urls:
        name = key(url)
        if name not in met:
            met.add(name)
            yield url
