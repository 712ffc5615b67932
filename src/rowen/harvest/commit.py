"""Write plans, each in one transaction.

Several transactions run concurrently and commit in the order of their plans. They touch shared rows (the run's fence,
the cursor, the change log) last, after all earlier transactions have committed.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from rowen.errors import StoreRejectedError
from rowen.harvest.known import Seen
from rowen.harvest.passages import first_edit, plan_edit, write_edits
from rowen.harvest.plan import Plan, check_of
from rowen.harvest.sieve import Recipes
from rowen.model.changes import ChangeKind
from rowen.model.hashes import Hash
from rowen.model.items import Checkpoint, Cursor, Failed
from rowen.model.rdf import compared, stated
from rowen.model.runs import Outcome
from rowen.model.sources import Source
from rowen.store import changes, rdf, runs, sources
from rowen.store.database import Connection, Database
from rowen.store.items import deletions, items, passages
from rowen.store.search import embeddings

CHECKPOINT_S = 5.0
"""How long a checkpoint waits for other writes: the part of an unchanged walk that a killed run repeats."""

_ANNOUNCED: dict[Outcome, ChangeKind] = {
    Outcome.CREATED: "created",
    Outcome.UPDATED: "updated",
    Outcome.AMENDED: "amended",
}


class _Turn(NamedTuple):
    """A position in the order of commits: `before` is set after all earlier commits, `after` after its own commit."""

    before: asyncio.Event
    after: asyncio.Event


@dataclass(slots=True)
class Committer:
    """Writes the plans of one run and collects the `created` items.

    With `restores`, returning items get back the history of their withdrawn copies. With `forgets`, the first
    checkpoint deletes the notes of an earlier cursor. With `states`, RDF statements are compared with the stored ones.
    """

    database: Database
    source: Source
    run_id: int
    recipe: Recipes
    revisions_kept: int
    seen: Seen
    failed: set[Hash]
    restores: bool = False
    forgets: bool = False
    states: bool = False
    created: Seen = field(default_factory=Seen)
    clock: Callable[[], float] = time.monotonic
    _waiting: Checkpoint | None = None
    _cursor: Cursor = field(init=False)
    _moved_at: float = field(init=False)
    _last: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._cursor = self.source.cursor
        self._moved_at = self.clock()
        self._last.set()

    async def commit(self, plan: Plan) -> Counter[str]:
        """Write a plan and return the counts to add to the plan's own; commits happen in the order of the calls.

        A document that the database rejects is found by bisection and quarantined alone. A checkpoint without other
        writes is delayed, so that a walk over an unchanged source needs few transactions.
        """
        checkpoint, waiting = plan.checkpoint, self._waiting
        if checkpoint is None or waiting is None:
            checkpoint = checkpoint or waiting
        else:
            notes = {**waiting.notes, **checkpoint.notes}
            checkpoint = replace(checkpoint, version=checkpoint.version or waiting.version, notes=notes)
        if plan.idle and (checkpoint is None or self.clock() < self._moved_at + CHECKPOINT_S):
            self._waiting = checkpoint
            return Counter()
        self._waiting = None
        return await self._commit_in_turn(replace(plan, checkpoint=checkpoint))

    async def finish(self) -> None:
        """Write the delayed checkpoint, unless its cursor is stored already."""
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return
        is_written = waiting.cursor == self._cursor and waiting.version in (None, self.source.version)
        if is_written and not waiting.notes:
            return
        await self._commit_in_turn(Plan(checkpoint=waiting))

    async def _commit_in_turn(self, plan: Plan) -> Counter[str]:
        turn = _Turn(self._last, asyncio.Event())
        self._last = turn.after
        counts = await self._commit(plan, turn)
        turn.after.set()
        return counts

    async def _commit(self, plan: Plan, turn: _Turn) -> Counter[str]:
        if not plan.apart:
            await turn.before.wait()
        try:
            async with self.database.transaction() as c:
                counts = await self._write(c, plan, turn)
        except StoreRejectedError as refusal:
            if not plan.writes:
                raise
            counts = Counter()
            for part in _parts(plan, refusal):
                counts.update(part.counts)
                counts.update(await self._commit(part, turn))
        self._moved_at = self.clock()
        if plan.checkpoint is not None:
            self._cursor, self.forgets = plan.checkpoint.cursor, False
        return counts

    async def _write(self, c: Connection, plan: Plan, turn: _Turn) -> Counter[str]:
        known = [(write, write.stored) for write in plan.writes if write.stored is not None]
        states = known and (self.states or any(stated(write.document.record) for write in plan.writes))
        stated_before = await rdf.of_items(c, [row.id for _, row in known]) if states else {}
        if plan.writes:
            await embeddings.share_passages(c)
        new = [(write.key, write.document, write.check) for write in plan.writes if write.stored is None]
        ids: dict[bytes, int] = await items.insert(c, self.source.id, new, chunker=self.recipe.chunker)
        if self.restores and ids:
            await deletions.restore_withdrawn(c, self.source.id, list(ids.values()), revisions_kept=self.revisions_kept)
        revised = [row.id for write, row in known if write.verdict.revised]
        await items.keep_revisions(c, revised, revisions_kept=self.revisions_kept)
        await items.update(
            c,
            [(row.id, write.document, write.verdict.revised, write.check) for write, row in known],
            chunker=self.recipe.chunker,
            revisions_kept=self.revisions_kept,
        )
        ids = ids | {write.key: row.id for write, row in known}
        recut = [row.id for write, row in known if write.verdict.write_chunks]
        stored_passages = await passages.of_items(c, recut) if recut else {}
        edits = [
            first_edit(ids[write.key], write.chunks, write.document.text_language)
            if write.stored is None
            else plan_edit(
                write.stored.id, stored_passages[write.stored.id], write.chunks, write.document.text_language
            )
            for write in plan.writes
            if write.verdict.write_chunks
        ]
        retitled = await passages.retitle(c, [ids[write.key] for write in plan.writes if write.renamed])
        counts = await write_edits(c, edits)
        counts["rows_written"] += retitled
        fresh = [
            check_of(ids[write.key], write.document, self.recipe)
            for write in plan.writes
            if write.stored is None and write.check is None
        ]
        await items.store_checks(c, self.run_id, [*plan.checks, *fresh])
        await deletions.unmark_gone(c, plan.unmarked)
        await deletions.mark_gone(c, self.source.id, plan.marked)
        await items.quarantine(c, self.source.id, plan.failed)
        await items.release_quarantined(c, self.source.id, plan.released)
        lines = []
        for write in plan.writes:
            if kind := _ANNOUNCED.get(write.verdict.outcome):
                document = write.document
                hashes = document.content_hash, document.record_hash
                before = stated_before.get(write.stored.id, []) if write.stored is not None else []
                delta = compared(before, stated(document.record)) or None
                lines.append(changes.LogLine(kind, write.key, document.url, document.title, *hashes, statements=delta))
        deltas = [line.statements for line in lines if line.statements is not None]
        counts["statements_added"] += sum(len(delta.added) for delta in deltas)
        counts["statements_removed"] += sum(len(delta.removed) for delta in deltas)
        counts["rows_written"] += len(deltas)
        await self.database.wait_inside(c, turn.before)
        await runs.fence(c, self.run_id)
        if plan.checkpoint is not None:
            checkpoint = plan.checkpoint
            await sources.move_cursor(c, self.source.id, checkpoint.cursor, version=checkpoint.version)
            if self.forgets:
                await sources.forget_notes(c, self.source.id)
            await sources.write_notes(c, self.source.id, checkpoint.notes, run_id=self.run_id)
            counts["rows_written"] += len(checkpoint.notes)
        await changes.append(c, self.source, self.run_id, lines)
        marks = len(plan.marked) + len(plan.unmarked)
        counts["rows_written"] += len(plan.writes) + len(plan.checks) + len(fresh) + marks + len(lines)
        self.seen.add_all(ids.values())
        self.created.add_all(ids[write.key] for write in plan.writes if write.stored is None)
        self.failed.update(key for key, _ in plan.failed)
        return counts


def _parts(plan: Plan, refusal: StoreRejectedError) -> Iterator[Plan]:
    """Split a plan in two; if it has a single document, the rejected one, turn this document into a failure.

    Checks and releases go with their documents: a rejected document keeps its former validators and stays in
    quarantine.
    """
    middle = len(plan.writes) // 2
    first = plan.writes[: middle or 1]
    keys = {write.key for write in first}
    ids = {write.stored.id for write in first if write.stored is not None}
    rest = replace(
        plan,
        writes=plan.writes[len(first) :],
        checks=[check for check in plan.checks if check.item_id not in ids],
        released=[key for key in plan.released if key not in keys],
        counts=Counter(),
    )
    if not middle:
        [write] = first
        rest.counts = Counter({write.verdict.outcome: -1, Outcome.FAILED: 1})
        rest.failed = [*plan.failed, (write.key, Failed(write.document.url, str(refusal)))]
        yield rest
        return
    yield Plan(
        writes=first,
        checks=[check for check in plan.checks if check.item_id in ids],
        released=[key for key in plan.released if key in keys],
    )
    yield rest
