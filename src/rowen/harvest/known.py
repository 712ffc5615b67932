"""What a connector may know of its source, answered from the store in batches."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from rowen.connectors.base import FailedBefore, Held
from rowen.errors import Hint, SourceError, action
from rowen.harvest.recipes import Recipes
from rowen.harvest.seen import KnownIds
from rowen.model.announcement import Announcement
from rowen.model.item import Cursor
from rowen.model.run import Mode
from rowen.model.source import Source
from rowen.model.url import key
from rowen.net.target import redact
from rowen.store import announcements, items, notes
from rowen.store.database import Database

__all__ = ["StoredKnown"]


class StoredKnown:
    """The flow's side of `Known`.

    It remembers the ids of what was looked up, so that an item which turns out to be unchanged is not looked up twice.
    With `distrust`, validators are withheld: every item is read and compared. It
    `forgets` what was noted beside another cursor, until this run has written one.
    """

    def __init__(
        self,
        database: Database,
        source: Source,
        *,
        mode: Mode,
        recipes: Recipes,
        distrust: bool,
        count: int,
        failed: Sequence[FailedBefore],
        losable: int,
        leaving: Sequence[int] = (),
    ) -> None:
        self.mode = mode
        self.cursor: Cursor = source.cursor if mode == "incremental" else None
        self.count = count
        self.failed = failed
        self.losable = losable
        self._leaving = frozenset(leaving)
        self._database = database
        self._source_id = source.id
        self._url = source.url
        self._reading = items.PresentReading(list(recipes.current), recipes.old, recipes.chunker)
        self._distrust = distrust
        self.forgets = self.cursor is None
        self._ids = KnownIds(count)

    async def look_up(self, urls: Sequence[str]) -> Mapping[str, Held]:
        """What we hold under these URLs."""
        by_key = {key(url): url for url in urls}
        async with self._database.connection() as connection:
            rows = await items.held(connection, self._source_id, list(by_key), self._reading)
        found = {}
        ids, make = self._ids.recent, Held._make
        for item_key, item_id, _, etag, last_modified, body_hash, depth, links, content in rows:
            url = by_key[item_key]
            ids[url] = item_id
            ahead = tuple(links.split("\n")) if links else ()
            leaves = item_id in self._leaving
            found[url] = make((url, etag, last_modified, body_hash, ahead, depth, content, leaves))
        self._ids.settle()
        if self._distrust:
            return {url: held._replace(etag=None, last_modified=None) for url, held in found.items()}
        return found

    async def stored_as(self, urls: Sequence[str]) -> Mapping[str, str]:
        """Which of these URLs name items that we hold, and the URLs that those are stored under."""
        by_key = {key(url): url for url in urls}
        async with self._database.connection() as connection:
            rows = await items.held(connection, self._source_id, list(by_key), self._reading)
        return {by_key[row[0]]: row[2] for row in rows}

    async def everything(self) -> AsyncIterator[Sequence[Held]]:
        """All that we hold, in batches."""
        async with self._database.connection() as connection:
            async for batch in items.every_held(connection, self._source_id, self._reading):
                self._ids.add_all((row.url, row.id) for row in batch)
                yield [self._visible(row) for row in batch]

    async def recall(self, room: str, names: Sequence[str]) -> Mapping[str, Any]:
        """The notes of these names."""
        if self.forgets or not names:
            return {}
        async with self._database.connection() as connection:
            return await notes.recall(connection, self._source_id, room, names)

    async def recall_all(self, room: str) -> AsyncIterator[Mapping[str, Any]]:
        """All notes of a room, in batches."""
        if self.forgets:
            return
        async with self._database.connection() as connection:
            async for batch in notes.every(connection, self._source_id, room):
                yield batch

    async def announced(self, after: int) -> AsyncIterator[Sequence[Announcement]]:
        """What the feed of the same address announced after a line of the change log."""
        async with self._database.connection() as connection:
            feed = await announcements.feed_of(connection, self._source_id, self._url)
            if feed is None:
                raise SourceError(
                    f"No feed is kept of {redact(self._url)}, so that nothing is known of what it announces.",
                    hint=Hint("Add it first: ", action("add", f"ldes:{self._url}"), "."),
                )
            async for batch in announcements.changed(connection, feed[0], after=after):
                yield batch

    def _visible(self, row: items.HeldRow) -> Held:
        links = tuple(row.links.split("\n")) if row.links else ()
        etag, last_modified = (None, None) if self._distrust else (row.etag, row.last_modified)
        is_leaving = row.id in self._leaving
        return Held(row.url, etag, last_modified, row.body_hash, links, row.depth, row.content_hash, is_leaving)

    def forget(self, url: str) -> None:
        """Forget the id of an item that was looked up: it is needed no more."""
        self._ids.forget(url)

    def take_ids(self, urls: Sequence[str]) -> list[int | None]:
        """The ids of items that were looked up; None for those that were not, or were forgotten."""
        return self._ids.take(urls)
