"""Plan writes: decide the outcome of each observation in a group, and the writes that it needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rowen.harvest import sieve
from rowen.harvest.known import Seen, StoredKnown
from rowen.harvest.observations import Group
from rowen.harvest.parse_pool import Workers
from rowen.harvest.parse_worker import Passages, Prepared, Refused, Text, check_url
from rowen.harvest.sieve import Recipes
from rowen.model.datasets import DATASET
from rowen.model.hashes import Hash
from rowen.model.items import Checkpoint, Document, Failed, Raw, Unchanged
from rowen.model.runs import Outcome
from rowen.model.sources import Source
from rowen.model.url import key as key_of
from rowen.store.database import Database
from rowen.store.items import items
from rowen.store.items.deletions import EarlierDeletions
from rowen.store.items.items import InlineCheck, ItemCheck, StoredItem
from rowen.store.items.moves import Arrival, arrival

if TYPE_CHECKING:
    from rowen.model.passages import Chunk


@dataclass(frozen=True, slots=True)
class Write:
    """A document to store; `check` is set if its check is stored in the item's own row."""

    key: Hash
    document: Document
    verdict: sieve.Verdict
    stored: StoredItem | None
    chunks: list[Chunk]
    check: InlineCheck | None = None

    @property
    def renamed(self) -> bool:
        """Whether the title or language changed; if so, unchanged passages are indexed again too."""
        before, now = self.stored, self.document
        return before is not None and ((before.title, before.text_language) != (now.title, now.text_language))


@dataclass(slots=True)
class Plan:
    """The writes of one transaction.

    `keys` is set for groups of a chronological source. `gone` maps keys to ids of items that the source reported gone;
    they are `marked`, and deleted at the end of the run if the guard allows it. Marked items that are observed again
    are `unmarked`.
    """

    writes: list[Write] = field(default_factory=list)
    checks: list[ItemCheck] = field(default_factory=list)
    gone: dict[Hash, int] = field(default_factory=dict)
    marked: list[int] = field(default_factory=list)
    unmarked: list[int] = field(default_factory=list)
    failed: list[tuple[Hash, Failed]] = field(default_factory=list)
    released: list[Hash] = field(default_factory=list)
    checkpoint: Checkpoint | None = None
    counts: Counter[str] = field(default_factory=Counter)
    keys: set[Hash] = field(default_factory=set)

    @property
    def idle(self) -> bool:
        """Whether the plan writes nothing but the cursor."""
        return not (self.writes or self.checks or self.marked or self.unmarked or self.failed or self.released)

    @property
    def apart(self) -> bool:
        """Whether the plan may be written concurrently with earlier plans, because they share no rows."""
        return not (self.marked or self.unmarked or self.failed or self.released)


@dataclass(slots=True, kw_only=True, eq=False)
class Planner:
    """Turns groups into plans, one after the other, and records which items the run has observed.

    `gone` contains the marked items: marked in this run, or in an earlier run and not observed since. When the run
    began, the source had `count` items, `marked_before` marked items and the `pending` deletions; `failed_before`
    means that items were in quarantine. `states` means that the source has RDF statements.
    """

    database: Database
    source: Source
    known: StoredKnown
    recipes: Recipes
    workers: Workers
    quarantined: set[Hash]
    redirects: Mapping[Hash, Hash]
    marked: InitVar[Iterable[int]] = ()
    pending: EarlierDeletions
    chronological: bool = False
    states: bool = False
    seen: Seen = field(default_factory=Seen)
    gone: Seen = field(default_factory=Seen)
    failed: set[Hash] = field(default_factory=set)
    marked_before: int = field(init=False)
    failed_before: bool = field(init=False)
    _unsettled: set[Hash] = field(default_factory=set)
    _arriving: set[Hash] = field(default_factory=set)
    _arrivals: dict[Hash, Arrival] = field(default_factory=dict)
    _contents: dict[Hash, Hash] = field(default_factory=dict)

    def __post_init__(self, marked: Iterable[int]) -> None:
        self.marked_before = self.gone.add_all(marked)
        self.failed_before = bool(self.quarantined)

    @property
    def count(self) -> int:
        """The number of items when the run began."""
        return self.known.count

    def settle(self, plan: Plan) -> None:
        """Record that a plan was committed."""
        self._unsettled.difference_update(plan.keys)
        self._arriving.difference_update(write.key for write in plan.writes if write.stored is None)

    @property
    def encountered(self) -> int:
        """The number of items that the run observed, that failed, or that a dry run would create."""
        return len(self.seen) + len(self.failed) + len(self._arriving)

    @property
    def returned(self) -> list[int]:
        """The ids of items with pending deletions that were observed again."""
        return [item_id for item_id in self.pending.item_ids if item_id in self.seen]

    def note_arrivals(self, plan: Plan) -> None:
        """Record the items that a dry run would create, since they may be moved items under new keys."""
        for write in plan.writes:
            if write.stored is None and write.document.media_type == DATASET:
                self._arrivals[write.key] = arrival(write.document)
            elif write.stored is None:
                self._contents[write.key] = write.document.content_hash

    @property
    def redirected_arrivals(self) -> Sequence[tuple[Hash, Hash]]:
        """Pairs of a redirected key and the content hash of its target, for targets that a dry run would create."""
        return [(old, self._contents[new]) for old, new in self.redirects.items() if new in self._contents]

    @property
    def arrivals(self) -> Sequence[Arrival]:
        """The datasets that a dry run would create."""
        return list(self._arrivals.values())

    async def plan(self, group: Group, settled: Callable[[], Awaitable[None]]) -> Plan:
        """Return the plan of a group; `settled` waits until all earlier plans are committed."""
        plan = Plan(checkpoint=group.checkpoint, keys=group.keys)
        if not self._unsettled.isdisjoint(group.keys):
            await settled()
        self._unsettled |= group.keys
        fetched = [(key_of(item.url), item) for item in group.fetched]
        gone = [key_of(url) for url in group.gone]
        if any(key in self._arriving for key in gone):
            await settled()
        unknown = self._pass_unchanged(group.unchanged, plan, same_bodies=group.same_bodies)
        # New items may be committed and settled between the query and the use of its result.
        arriving = self._arriving.intersection(key for key, _ in fetched)
        parts = (group.rechecked, group.failed, group.skipped, unknown)
        keys = [*(key for key, _ in fetched), *gone, *(key_of(item.url) for part in parts for item in part)]
        stored: dict[Hash, StoredItem] = {}
        if keys:
            async with self.database.connection() as connection:
                stored = await items.find_stored(connection, self.source.id, keys)
        self._recheck([*group.rechecked, *unknown], stored, plan)
        plan.gone = {key: stored[key].id for key in gone if key in stored}
        self._release(gone, plan)
        # Withdraw the failures of items that the same run reports gone.
        for key in self.failed.intersection(gone):
            self.failed.discard(key)
            plan.released.append(key)
            plan.counts[Outcome.FAILED] -= 1
        await self._read([(key, item) for key, item in fetched if key not in arriving or key in stored], stored, plan)
        plan.counts["duplicates"] += sum(key in arriving and key not in stored for key, _ in fetched)
        for failed in group.failed:
            self._fail(key_of(failed.url), failed, stored, plan)
        for skipped in group.skipped:
            self._see(stored.get(key_of(skipped.url)), plan)
            plan.counts[Outcome.SKIPPED] += 1
        # Items that are gone are marked even if the run observed them before.
        for item_id in plan.gone.values():
            self.seen.discard(item_id)
            if self.gone.add(item_id):
                plan.marked.append(item_id)
        return plan

    def _pass_unchanged(self, urls: list[str], plan: Plan, *, same_bodies: int) -> list[Unchanged]:
        """Count unchanged items; return those that were not looked up before and must be found by key."""
        ids = self.known.ids.take(urls)
        unknown = [Unchanged(url) for url, item_id in zip(urls, ids, strict=True) if item_id is None]
        count = self.seen.add_all(item_id for item_id in ids if item_id is not None)
        self._unmark((item_id for item_id in ids if item_id is not None), plan)
        plan.counts[Outcome.UNCHANGED] += count
        # Duplicates are not assigned to a level.
        plan.counts["stopped_at_body"] += min(same_bodies, count)
        plan.counts["stopped_at_validator"] += max(count - same_bodies, 0)
        plan.counts["duplicates"] += len(urls) - count - len(unknown)
        if self.quarantined:
            self._release([key_of(url) for url in urls], plan)
        return unknown

    def _recheck(self, unchanged: list[Unchanged], stored: dict[Hash, StoredItem], plan: Plan) -> None:
        for observation in unchanged:
            key = key_of(observation.url)
            row = stored.get(key)
            self.known.ids.recent.pop(observation.url, None)
            if row is None:
                failed = Failed(observation.url, "The source reported an unknown item as unchanged.")
                self._fail(key, failed, stored, plan)
                continue
            self._unmark([row.id], plan)
            if not self.seen.add(row.id):
                plan.counts["duplicates"] += 1
                continue
            self._release([key], plan)
            plan.counts[Outcome.UNCHANGED] += 1
            plan.counts["stopped_at_body" if observation.by_body else "stopped_at_validator"] += 1
            if check := sieve.recheck(observation, row):
                plan.checks.append(check)

    def _unmark(self, item_ids: Iterable[int], plan: Plan) -> None:
        if len(self.gone):
            plan.unmarked.extend(item_id for item_id in item_ids if self.gone.discard(item_id))

    async def _read(
        self, fetched: list[tuple[Hash, Document | Raw]], stored: dict[Hash, StoredItem], plan: Plan
    ) -> None:
        """Parse new bodies and judge all documents."""
        unread: list[tuple[Hash, Raw]] = []
        documents: list[tuple[Hash, Document, list[Chunk] | None]] = []
        for key, item in fetched:
            self.known.ids.recent.pop(item.url, None)
            row = stored.get(key)
            if row is not None:
                self._unmark([row.id], plan)
            # Only the first version of an item counts, but each version of a chronological source.
            is_first = key not in self._arriving if row is None else self.seen.add(row.id)
            if row is None and not self.chronological:
                self._arriving.add(key)
            if not (is_first or self.chronological):
                plan.counts["duplicates"] += 1
            elif isinstance(item, Document):
                documents.append((key, item, None))
            elif row is not None and sieve.same_body(item, row, self.recipes):
                plan.counts[Outcome.UNCHANGED] += 1
                plan.counts["stopped_at_body"] += 1
                self._release([key], plan)
                if check := sieve.unread_check(item, row):
                    plan.checks.append(check)
            else:
                unread.append((key, item))
        answers = await self.workers.prepare([raw for _, raw in unread])
        for (key, raw), answer in zip(unread, answers, strict=True):
            match answer:
                case Prepared(document, chunks):
                    check_url(document.url, raw.url)
                    documents.append((key, document, chunks))
                case Refused(error, hint):
                    self._fail(key, Failed(raw.url, error, hint, raw.body), stored, plan)
        await self._judge(documents, stored, plan)

    async def _judge(
        self, documents: list[tuple[Hash, Document, list[Chunk] | None]], stored: dict[Hash, StoredItem], plan: Plan
    ) -> None:
        # Datasets that were last read by another release, and whose source records may be unchanged.
        rows = {
            key: (stored[key].id, document.record.get("source"))
            for key, document, _ in documents
            if document.media_type == DATASET and key in stored and sieve.is_reread(document, stored[key], self.recipes)
        }
        records: Mapping[int, Any] = {}
        if rows:
            async with self.database.connection() as connection:
                records = await items.source_records(connection, [item_id for item_id, _ in rows.values()])
        same = {key for key, (item_id, source) in rows.items() if records.get(item_id) == source}
        verdicts = await self._verdicts([(document, stored.get(key), key in same) for key, document, _ in documents])
        uncut: list[Write] = []
        for (key, document, chunks), verdict in zip(documents, verdicts, strict=True):
            row = stored.get(key)
            plan.counts[verdict.outcome] += 1
            plan.counts["stopped_at_content"] += verdict.outcome is Outcome.UNCHANGED
            if self.chronological and key in self.failed:
                # The source delivers a failed item again, which withdraws the failure.
                self.failed.discard(key)
                self.quarantined.add(key)
                plan.counts[Outcome.FAILED] -= 1
            own = None
            if verdict.write_item and verdict.write_check and not (row is not None and row.checked_apart):
                # A check that fits into the item's row needs no row of its own.
                now = document.validators
                if not (now.etag or now.last_modified or document.depth or document.links):
                    own = InlineCheck(now.body_hash, self.recipes.of(document))
            if verdict.write_item:
                write = Write(key, document, verdict, row, chunks or [], own)
                plan.writes.append(write)
                if verdict.write_chunks and chunks is None:
                    uncut.append(write)
            if verdict.write_check and row is not None and own is None:
                plan.checks.append(check_of(row.id, document, self.recipes))
        texts = [Text(write.document.url, write.document.text) for write in uncut]
        refused: set[Hash] = set()
        for write, answer in zip(uncut, await self.workers.prepare(texts), strict=True):
            if isinstance(answer, Refused):
                refused.add(write.key)
                plan.writes.remove(write)
                # With the new validators the next run would consider the item unchanged and never retry it.
                row = write.stored
                plan.checks = [check for check in plan.checks if row is None or check.item_id != row.id]
                plan.counts[write.verdict.outcome] -= 1
                self._fail(write.key, Failed(write.document.url, answer.error, answer.hint), stored, plan)
            elif isinstance(answer, Passages):
                check_url(answer.url, write.document.url)
                write.chunks.extend(answer.chunks)
        self._release([key for key, _, _ in documents if key not in refused], plan)

    async def _verdicts(self, documents: list[tuple[Document, StoredItem | None, bool]]) -> list[sieve.Verdict]:
        """Return the verdict on each document; stored texts are read only for updated items with an equal title."""
        verdicts = [sieve.judge(document, row, self.recipes, same_record=same) for document, row, same in documents]
        doubtful = {
            at: row.id
            for at, (document, row, _) in enumerate(documents)
            if row is not None and verdicts[at].outcome is Outcome.UPDATED and row.title == document.title
        }
        if not doubtful:
            return verdicts
        async with self.database.connection() as c:
            texts = await items.contents(c, list(doubtful.values()))
        for at, item_id in doubtful.items():
            if item_id in texts and sieve.only_markup_differs(documents[at][0], texts[item_id]):
                verdicts[at] = replace(verdicts[at], outcome=Outcome.AMENDED)
        return verdicts

    def _fail(self, key: Hash, failed: Failed, stored: dict[Hash, StoredItem], plan: Plan) -> None:
        row = stored.get(key)
        if failed.keeps_copy:
            self._see(row, plan)
        elif row is not None:
            plan.gone[key] = row.id
        self._arriving.discard(key)
        if key in self.failed:
            plan.counts["duplicates"] += 1
            return
        self.failed.add(key)
        plan.failed.append((key, failed))
        plan.counts[Outcome.FAILED] += 1

    def _see(self, row: StoredItem | None, plan: Plan) -> None:
        if row is not None:
            self.seen.add(row.id)
            self._unmark([row.id], plan)

    def _release(self, keys: list[Hash], plan: Plan) -> None:
        if self.quarantined:
            released = self.quarantined.intersection(keys)
            self.quarantined -= released
            plan.released.extend(released)


def check_of(item_id: int, document: Document, recipes: Recipes) -> ItemCheck:
    """Return the check of a parsed document."""
    now = document.validators
    links = "\n".join(document.links)
    return ItemCheck(item_id, now.etag, now.last_modified, now.body_hash, document.depth, links, recipes.of(document))
