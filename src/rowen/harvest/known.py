"""Answer a connector's queries about the stored state, and keep compact sets of item ids.

An observed item needs one bit of memory, an item known by its URL about 20 bytes.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

from rowen.connectors.base import FailedBefore, StoredState
from rowen.errors import Hint, SourceError, action
from rowen.harvest.sieve import Recipes
from rowen.model.items import Cursor
from rowen.model.push import Announcement
from rowen.model.runs import Mode
from rowen.model.sources import Source
from rowen.model.url import key
from rowen.net.target import redact
from rowen.store import push, sources
from rowen.store.database import Database
from rowen.store.items import items as store_items

# Blocks of 4 kB, a page of memory: dense ids cost one bit each, scattered ids one page each.
_BLOCK_BITS = 15
_BLOCK_BYTES = 1 << (_BLOCK_BITS - 3)
_MASK = (1 << _BLOCK_BITS) - 1

# Enough for the groups between a connector and the harvest, of at most 10,000 unchanged items each. At 173 bytes for a
# URL of usual length, 50,000 take 9 MB; half as many would slow down a walk over unchanged files.
_RECENT = 50_000
# A bucket of this size is searched in less time than computing a hash takes.
_BUCKET_ENTRIES = 64
_ENTRY, _HASH = Struct("=qq"), Struct("=q")


class Seen:
    """A set of item ids, which is compact where ids are dense."""

    def __init__(self) -> None:
        self._blocks: dict[int, bytearray] = {}
        self._count = 0

    def add(self, item_id: int) -> bool:
        """Add an id; return whether it is new."""
        block = self._blocks.get(item_id >> _BLOCK_BITS)
        if block is None:
            block = self._blocks[item_id >> _BLOCK_BITS] = bytearray(_BLOCK_BYTES)
        byte, bit = (item_id & _MASK) >> 3, 1 << (item_id & 7)
        if block[byte] & bit:
            return False
        block[byte] |= bit
        self._count += 1
        return True

    def add_all(self, item_ids: Iterable[int]) -> int:
        """Add ids; return how many are new."""
        before = self._count
        blocks = self._blocks
        for item_id in item_ids:
            block = blocks.get(item_id >> _BLOCK_BITS)
            byte, bit = (item_id & _MASK) >> 3, 1 << (item_id & 7)
            if block is None:
                self.add(item_id)
            elif not block[byte] & bit:
                block[byte] |= bit
                self._count += 1
        return self._count - before

    def discard(self, item_id: int) -> bool:
        """Remove an id; return whether it was in the set."""
        if item_id not in self:
            return False
        self._blocks[item_id >> _BLOCK_BITS][(item_id & _MASK) >> 3] &= ~(1 << (item_id & 7))
        self._count -= 1
        return True

    def __contains__(self, item_id: int) -> bool:
        block = self._blocks.get(item_id >> _BLOCK_BITS)
        return block is not None and bool(block[(item_id & _MASK) >> 3] & (1 << (item_id & 7)))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        for number, block in self._blocks.items():
            start = number << _BLOCK_BITS
            for index, byte in enumerate(block):
                if byte:
                    base = start + (index << 3)
                    yield from (base + bit for bit in range(8) if byte >> bit & 1)


class KnownIds:
    """Item ids by URL: recently queried items by the URL itself, all others by a hash of the URL.

    The hash has 64 bits and differs between processes. Ids with equal hashes are treated as unknown, so that the store
    is queried instead.
    """

    def __init__(self, count: int) -> None:
        self.recent: dict[str, int] = {}
        """Recent look-ups; `settle` moves them to the hashes when there are many."""
        self._mask = (1 << max(count // _BUCKET_ENTRIES, 1).bit_length()) - 1
        self._buckets: list[bytearray] = []

    def settle(self) -> None:
        """Move recent look-ups to the hashes if there are many of them."""
        if len(self.recent) > _RECENT:
            self.add_all(self.recent.items())
            self.recent.clear()

    def add_all(self, items: Iterable[tuple[str, int]]) -> None:
        """Add items as hashes."""
        buckets, mask, pack = self._buckets, self._mask, _ENTRY.pack
        if not buckets:
            buckets += [bytearray() for _ in range(mask + 1)]
        for url, item_id in items:
            hashed = hash(url)
            entry, bucket = pack(hashed, item_id), buckets[hashed & mask]
            if entry not in bucket or _offset(entry, bucket) < 0:
                bucket += entry

    def take(self, urls: Sequence[str]) -> list[int | None]:
        """Return the ids of these URLs; None for unknown URLs and for recent URLs that were taken before."""
        pop = self.recent.pop
        ids = [pop(url, None) for url in urls]
        if self._buckets:
            return [self._hashed(url) if item_id is None else item_id for url, item_id in zip(urls, ids, strict=True)]
        return ids

    def _hashed(self, url: str) -> int | None:
        """Return the id with the hash of a URL; None unless there is exactly one."""
        hashed = hash(url)
        bucket, wanted = self._buckets[hashed & self._mask], _HASH.pack(hashed)
        item_id, at = None, _offset(wanted, bucket)
        while at >= 0:
            if item_id is not None:
                return None
            item_id = _ENTRY.unpack_from(bucket, at)[1]
            at = _offset(wanted, bucket, at + 1)
        return item_id


def _offset(wanted: bytes, bucket: bytearray, start: int = 0) -> int:
    """Return the offset of the first entry that begins with `wanted`, or -1.

    Matches at offsets inside an entry are skipped.
    """
    at = bucket.find(wanted, start)
    while at % _ENTRY.size and at >= 0:
        at = bucket.find(wanted, at + 1)
    return at


@dataclass(slots=True, kw_only=True, eq=False)
class StoredKnown:
    """Implements `Known` with the store.

    Remembers the ids of look-ups, so that an unchanged item is not looked up twice. With `distrust`, validators are
    withheld, so that every item is read and compared. While `forgets` is set, notes of an earlier cursor are ignored;
    it is cleared when this run has written its own notes.
    """

    database: Database
    source: Source
    mode: Mode
    recipes: Recipes
    distrust: bool
    count: int
    failed: Sequence[FailedBefore]
    losable: int
    leaving: frozenset[int] = frozenset()
    cursor: Cursor = field(init=False)
    forgets: bool = field(init=False)
    ids: KnownIds = field(init=False)
    _reading: store_items.CurrentReading = field(init=False)

    def __post_init__(self) -> None:
        recipes = self.recipes
        self.cursor = self.source.cursor if self.mode == "incremental" else None
        self.forgets = self.cursor is None
        self.ids = KnownIds(self.count)
        self._reading = store_items.CurrentReading(list(recipes.current), recipes.old, recipes.chunker)

    async def look_up(self, urls: Sequence[str]) -> Mapping[str, StoredState]:
        """Return the stored items with these URLs."""
        by_key = {key(url): url for url in urls}
        async with self.database.connection() as connection:
            rows = await store_items.known(connection, self.source.id, list(by_key), self._reading)
        items = {}
        ids, make = self.ids.recent, StoredState._make
        for item_key, item_id, _, etag, last_modified, body_hash, depth, links, content in rows:
            url = by_key[item_key]
            ids[url] = item_id
            ahead = tuple(links.split("\n")) if links else ()
            leaves = item_id in self.leaving
            items[url] = make((url, etag, last_modified, body_hash, ahead, depth, content, leaves))
        self.ids.settle()
        if self.distrust:
            return {url: item._replace(etag=None, last_modified=None) for url, item in items.items()}
        return items

    async def stored_as(self, urls: Sequence[str]) -> Mapping[str, str]:
        """Return the stored URL of each URL that names a stored item."""
        by_key = {key(url): url for url in urls}
        async with self.database.connection() as connection:
            rows = await store_items.known(connection, self.source.id, list(by_key), self._reading)
        return {by_key[row[0]]: row[2] for row in rows}

    async def everything(self) -> AsyncIterator[Sequence[StoredState]]:
        """Yield all stored items in batches."""
        async with self.database.connection() as connection:
            async for batch in store_items.every_known(connection, self.source.id, self._reading):
                self.ids.add_all((row.url, row.id) for row in batch)
                yield [
                    StoredState(
                        row.url,
                        None if self.distrust else row.etag,
                        None if self.distrust else row.last_modified,
                        row.body_hash,
                        tuple(row.links.split("\n")) if row.links else (),
                        row.depth,
                        row.content_hash,
                        row.id in self.leaving,
                    )
                    for row in batch
                ]

    async def recall(self, room: str, names: Sequence[str]) -> Mapping[str, Any]:
        """Return the notes with these names."""
        if self.forgets or not names:
            return {}
        async with self.database.connection() as connection:
            return await sources.recall_notes(connection, self.source.id, room, names)

    async def recall_all(self, room: str) -> AsyncIterator[Mapping[str, Any]]:
        """Yield all notes of a room in batches."""
        if self.forgets:
            return
        async with self.database.connection() as connection:
            async for batch in sources.all_notes(connection, self.source.id, room):
                yield batch

    async def announced(self, after: int) -> AsyncIterator[Sequence[Announcement]]:
        """Yield the announcements after a line of the change log, from the feed source with the same URL."""
        async with self.database.connection() as connection:
            feed = await push.feed_of(connection, self.source.id, self.source.url)
            if feed is None:
                raise SourceError(
                    f"There is no feed source for {redact(self.source.url)}, so its announcements are unknown.",
                    hint=Hint("Add it first: ", action("add", f"ldes:{self.source.url}"), "."),
                )
            async for batch in push.announced_after(connection, feed[0], after=after):
                yield batch
