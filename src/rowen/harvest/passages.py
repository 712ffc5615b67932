"""Plan edits of an item's passages that write only differences, and renew passages after an upgrade."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rowen.content import readers
from rowen.harvest.parse_pool import Workers
from rowen.harvest.parse_worker import Passages, Text, check_url
from rowen.model.hashes import Hash, text_hash
from rowen.model.languages import item_language, passage_language
from rowen.store.database import Connection, Database
from rowen.store.items import passages as store_passages
from rowen.store.items.passages import PASSAGE_HASHES, NewPassage, OutdatedItem, StoredPassage
from rowen.store.search import embeddings

if TYPE_CHECKING:
    from rowen.model.passages import Chunk

GAP = 1 << 20
"""The distance between two passages: twenty insertions at the same place fit before positions are renumbered."""


@dataclass(slots=True)
class Edit:
    """The changes that turn an item's stored passages into the new ones.

    `rehash` contains unchanged passages whose `text_hash` an earlier version of Rowen computed differently;
    `languages` contains unchanged passages that are now indexed in another language.
    """

    delete: list[int] = field(default_factory=list)
    move: list[tuple[int, int]] = field(default_factory=list)
    insert: list[NewPassage] = field(default_factory=list)
    rehash: list[tuple[StoredPassage, Hash]] = field(default_factory=list)
    languages: list[tuple[int, str | None]] = field(default_factory=list)
    kept: int = 0


def first_edit(item_id: int, chunks: Sequence[Chunk], language: str | None) -> Edit:
    """Return the edit that inserts all passages of a new item; `language` is the item's language."""
    places = enumerate(chunks, start=1)
    return Edit(insert=[NewPassage(item_id, n * GAP, new, passage_language(new.text, language)) for n, new in places])


def plan_edit(item_id: int, stored: Sequence[StoredPassage], chunks: Sequence[Chunk], language: str | None) -> Edit:
    """Return the edit that keeps equal passages, moves as few as possible and inserts new passages between them."""
    # Each new passage reuses the first unused stored passage with the same text and headings.
    pool: dict[tuple[bytes, tuple[str, ...], str | None], deque[StoredPassage]] = defaultdict(deque)
    for old in stored:
        pool[old.exact_hash, old.heading, old.anchor].append(old)
    candidates = [pool.get((text_hash(chunk.text), chunk.heading, chunk.anchor)) for chunk in chunks]
    matches = [same.popleft() if same else None for same in candidates]
    anchored = _longest_increasing([(n, old.position) for n, old in enumerate(matches) if old is not None])
    positions = _positions(anchored, len(chunks)) or [(n + 1) * GAP for n in range(len(chunks))]
    edit = Edit()
    reused_ids = set()
    for reused, chunk, position in zip(matches, chunks, positions, strict=True):
        own_language = passage_language(chunk.text, language)
        if reused is None:
            edit.insert.append(NewPassage(item_id, position, chunk, own_language))
            continue
        reused_ids.add(reused.id)
        if reused.text_hash != chunk.text_hash:
            edit.rehash.append((reused, chunk.text_hash))
        if reused.language != own_language:
            edit.languages.append((reused.id, own_language))
        if reused.position == position:
            edit.kept += 1
        else:
            edit.move.append((reused.id, position))
    edit.delete = [old.id for old in stored if old.id not in reused_ids]
    return edit


def _longest_increasing(pairs: Sequence[tuple[int, int]]) -> dict[int, int]:
    """Return the longest subsequence of (index, position) pairs with increasing positions, which need not move."""
    tails: list[int] = []
    tail_at: list[int] = []
    before: list[int | None] = []
    for at, (_, position) in enumerate(pairs):
        place = bisect_left(tails, position)
        before.append(tail_at[place - 1] if place else None)
        tails[place : place + 1] = [position]
        tail_at[place : place + 1] = [at]
    chain: dict[int, int] = {}
    step: int | None = tail_at[-1] if tail_at else None
    while step is not None:
        index, position = pairs[step]
        chain[index] = position
        step = before[step]
    return chain


def _positions(anchored: dict[int, int], count: int) -> list[int] | None:
    """Return positions for all passages, keeping the anchored ones; None if a gap is too narrow."""
    positions = [0] * count
    at, low = 0, 0
    for index in [*sorted(anchored), count]:
        fresh = index - at
        high = anchored.get(index, low + (fresh + 1) * GAP)
        step = (high - low) // (fresh + 1)
        if fresh and step < 1:
            return None
        for n in range(fresh):
            positions[at + n] = low + (n + 1) * step
        if index < count:
            positions[index] = high
        at, low = index + 1, high
    return positions


async def write_edits(c: Connection, edits: Sequence[Edit]) -> Counter[str]:
    """Apply edits and return the counts; if the hash of a text changes, the text keeps its vector."""
    await store_passages.delete(c, [chunk_id for edit in edits for chunk_id in edit.delete])
    await store_passages.move(c, [place for edit in edits for place in edit.move])
    rehashed = [change for edit in edits for change in edit.rehash]
    await embeddings.carry(c, [(old.text_hash, new) for old, new in rehashed])
    await store_passages.rehash(c, [(old.id, new) for old, new in rehashed])
    languages = [change for edit in edits for change in edit.languages]
    await store_passages.set_languages(c, languages)
    fresh = [chunk for edit in edits for chunk in edit.insert]
    reused = await embeddings.count_reused(c, [new.chunk.text_hash for new in fresh]) if fresh else 0
    await store_passages.insert(c, fresh)
    written = sum(len(edit.insert) + len(edit.move) for edit in edits)
    return Counter(
        chunks_written=written,
        chunks_kept=sum(edit.kept for edit in edits),
        embeddings_reused=reused,
        rows_written=written + len(rehashed) + len(languages) + sum(len(edit.delete) for edit in edits),
    )


# A short transaction, with about a megabyte of text in memory.
_AT_ONCE = 200

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Recut:
    """Renews passages that an earlier version of Rowen split or hashed differently, from the stored texts.

    No source is contacted and no text is embedded again: the vector of an unchanged passage is copied to its new hash.
    All sources are renewed together, since equal texts of two sources share their vectors.
    """

    database: Database
    workers: Workers
    _version: int = 0

    async def run(self, *, stopped: Callable[[], bool]) -> int:
        """Renew the remaining items of an earlier version and return their number.

        Returns early when `stopped`; the next call continues.
        """
        version = readers.CHUNKER_VERSION
        if self._version == version:
            return 0
        async with self.database.connection() as c:
            self._version = await store_passages.hash_version(c, PASSAGE_HASHES)
        if self._version >= version:
            return 0
        renewed = after = 0
        while True:
            async with self.database.connection() as c:
                batch = await store_passages.outdated(c, after=after, chunker=version, limit=_AT_ONCE)
            if not batch:
                break
            if stopped():
                return renewed
            if not renewed:
                log.warning("renewing the passages that an earlier version of Rowen wrote; no source is contacted")
            answers = await self.workers.prepare([Text(item.url, item.text) for item in batch])
            cut: dict[int, tuple[OutdatedItem, list[Chunk]]] = {}
            for item, answer in zip(batch, answers, strict=True):
                # An item whose text can no longer be split keeps its passages until it is read again.
                if isinstance(answer, Passages):
                    check_url(answer.url, item.url)
                    cut[item.id] = item, answer.chunks
            async with self.database.transaction() as c:
                await embeddings.share_passages(c)
                same = await store_passages.lock_outdated(c, [item for item, _ in cut.values()], chunker=version)
                stored = await store_passages.of_items(c, same)
                languages = {item.id: item_language(item.language, item.title, item.text) for item, _ in cut.values()}
                await store_passages.set_chunker(c, {item_id: languages[item_id] for item_id in same}, version)
                edits = [plan_edit(item_id, stored[item_id], cut[item_id][1], languages[item_id]) for item_id in same]
                await write_edits(c, edits)
            renewed += len(same)
            after = batch[-1].id
        async with self.database.transaction() as c:
            await store_passages.set_hash_version(c, PASSAGE_HASHES, version)
        self._version = version
        if renewed:
            log.warning("renewed the passages of %d items", renewed)
        return renewed
