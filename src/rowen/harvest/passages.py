"""Which passages of an item stay, move, go and come, so that an edit writes only what it touches."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rowen.model.hashes import Hash, text_hash
from rowen.store.chunks import NewChunk, StoredChunk

if TYPE_CHECKING:
    from rowen.model.chunk import Chunk

__all__ = ["Edit", "first_edit", "plan_edit"]

GAP = 1 << 20
"""Between two passages; twenty can be put one after the other into the same place before positions are given anew."""


@dataclass(slots=True)
class Edit:
    """What turns the stored passages of an item into the new ones.

    `rehash` are passages that stay, whose `text_hash` an earlier version of Rowen computed in another way.
    """

    delete: list[int] = field(default_factory=list)
    move: list[tuple[int, int]] = field(default_factory=list)
    insert: list[NewChunk] = field(default_factory=list)
    rehash: list[tuple[StoredChunk, Hash]] = field(default_factory=list)
    kept: int = 0


def first_edit(item_id: int, chunks: Sequence[Chunk]) -> Edit:
    """All passages of a new item."""
    return Edit(insert=[NewChunk(item_id, (n + 1) * GAP, chunk) for n, chunk in enumerate(chunks)])


def plan_edit(item_id: int, stored: Sequence[StoredChunk], chunks: Sequence[Chunk]) -> Edit:
    """Match equal passages, leave as many as possible where they are, put the others between them."""
    matches = _match(stored, chunks)
    anchored = _longest_rising([(n, old.position) for n, old in enumerate(matches) if old is not None])
    positions = _positions(anchored, len(chunks))
    if positions is None:
        positions = [(n + 1) * GAP for n in range(len(chunks))]
    edit = Edit()
    kept_ids = set()
    for n, (old, chunk) in enumerate(zip(matches, chunks, strict=True)):
        if old is None:
            edit.insert.append(NewChunk(item_id, positions[n], chunk))
            continue
        kept_ids.add(old.id)
        if old.text_hash != chunk.text_hash:
            edit.rehash.append((old, chunk.text_hash))
        if old.position == positions[n]:
            edit.kept += 1
        else:
            edit.move.append((old.id, positions[n]))
    edit.delete = [old.id for old in stored if old.id not in kept_ids]
    return edit


def _match(stored: Sequence[StoredChunk], chunks: Sequence[Chunk]) -> list[StoredChunk | None]:
    """For each new passage the stored one with the same text and headings, first come first served."""
    pool: dict[tuple[bytes, tuple[str, ...], str | None], deque[StoredChunk]] = defaultdict(deque)
    for old in stored:
        pool[old.exact_hash, old.heading, old.anchor].append(old)
    found: list[StoredChunk | None] = []
    for chunk in chunks:
        candidates = pool.get((text_hash(chunk.text), chunk.heading, chunk.anchor))
        found.append(candidates.popleft() if candidates else None)
    return found


def _longest_rising(pairs: Sequence[tuple[int, int]]) -> dict[int, int]:
    """The largest part of (index, position) pairs whose positions rise: these passages need not move."""
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
    """Positions for all, the anchored ones as they are; None when a gap is too narrow."""
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
