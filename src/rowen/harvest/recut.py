"""Renews the passages that an earlier version of Rowen cut or hashed in another way, from the stored texts.

It asks no source and embeds no text again: a passage that stays takes its vector along to its new hash. It is done for
all sources at once, since equal texts of two sources share their vectors.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from rowen.content import readers
from rowen.harvest.commit import write_edits
from rowen.harvest.passages import plan_edit
from rowen.harvest.prepare import Workers
from rowen.harvest.worker import Passages, Text
from rowen.store import chunks, embeddings, hash_versions, items
from rowen.store.database import Database
from rowen.store.hash_versions import PASSAGES
from rowen.store.items import UncutItem

__all__ = ["Recut"]

# A transaction of a moment; texts of a megabyte or so are in memory.
_AT_ONCE = 200

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Recut:
    """Renews the passages of one database, in transactions of a few hundred items."""

    database: Database
    workers: Workers
    _version: int = 0

    async def run(self, *, stopped: Callable[[], bool]) -> int:
        """Renew what an earlier version wrote, unless that was done; returns the number of items.

        Ends early when it is `stopped`; the next call goes on with what is left.
        """
        version = readers.CHUNKER_VERSION
        if self._version == version:
            return 0
        async with self.database.connection() as c:
            self._version = await hash_versions.get(c, PASSAGES)
        if self._version >= version:
            return 0
        renewed = after = 0
        while True:
            async with self.database.connection() as c:
                batch = await items.uncut(c, after=after, chunker=version, limit=_AT_ONCE)
            if not batch:
                break
            if stopped():
                return renewed
            if not renewed:
                log.warning("renewing the passages that an earlier version of Rowen wrote; no source is asked")
            renewed += await self._renew(batch, version)
            after = batch[-1].id
        async with self.database.transaction() as c:
            await hash_versions.put(c, PASSAGES, version)
        self._version = version
        if renewed:
            log.warning("renewed the passages of %d items", renewed)
        return renewed

    async def _renew(self, batch: list[UncutItem], version: int) -> int:
        answers = await self.workers.prepare([Text(item.url, item.text) for item in batch])
        # What cannot be cut any more keeps its passages until it is read again.
        cut = {
            item.id: (item, answer.chunks)
            for item, answer in zip(batch, answers, strict=True)
            if isinstance(answer, Passages)
        }
        async with self.database.transaction() as c:
            await embeddings.share_passages(c)
            same = await items.hold_uncut(c, [item for item, _ in cut.values()], chunker=version)
            stored = await chunks.stored(c, same)
            await write_edits(c, [plan_edit(item_id, stored[item_id], cut[item_id][1]) for item_id in same])
            await items.set_chunker(c, same, version)
        return len(same)
