"""Embed texts by usefulness: titles and openings first, then texts that searches found, then all others; newest first.

Each text is sent once, and every answer is stored at once. A batch is a few concurrent requests; a crash loses at most
the paid work of one batch.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter

from rowen.enrich.base import Embedder
from rowen.enrich.ledger import charged_to
from rowen.errors import (
    BudgetExceededError,
    CircuitOpenError,
    EmbedderDownError,
    EmbeddingError,
    ItemError,
    StoreError,
    TextsRefusedError,
)
from rowen.harvest.models import EmbeddedTexts, Embedders
from rowen.model.text import one_item
from rowen.net.circuits import CircuitLimits
from rowen.settings import Settings
from rowen.store.database import Database, translate_database_errors
from rowen.store.search import embeddings, pending_texts
from rowen.store.search.embeddings import Claim, Model
from rowen.store.search.pending_texts import Depth, PendingText

log = logging.getLogger(__name__)

# English has four or five characters a token, German three, Chinese fewer: requests stay below the provider's limit.
CHARS_PER_TOKEN = 3
PROBE = "Is anybody there?"
# With pauses that double from one second, this is about a minute: longer than a restart, shorter than a user waits.
MOST_FAILURES = 6
# How long a user accepts a progress bar without progress. It limits pauses that neither the provider nor its circuit
# requests; requested pauses last as requested, up to five minutes by default.
LONGEST_PAUSE_S = 30.0
# How often a pause checks whether the circuit was reset: a user who did so should see progress.
_LOOK_S = 0.5
# With fewer vectors, which are stored within a few seconds, the rate is not meaningful.
LEAST_MEASURED = 2_000
INDEX_INSERTS_PER_S = 500
"""The insertion rate of an index; a faster load should build it afterwards."""


@dataclass(slots=True)
class Spent:
    """The cost of embedding."""

    texts: int = 0
    tokens: int = 0
    truncated: int = 0
    refused: int = 0
    usd: float = 0.0

    def add(self, more: "Spent") -> None:
        """Add other costs."""
        self.texts += more.texts
        self.tokens += more.tokens
        self.truncated += more.truncated
        self.refused += more.refused
        self.usd += more.usd


@dataclass(slots=True)
class _Layer:
    """The ranges of text ids that are still to be searched at one depth; the newest range is last."""

    depth: Depth
    seen_to: int
    spans: list[tuple[int, int]] = field(default_factory=list)

    def narrow(self, pending: Sequence[PendingText], wanted: int) -> None:
        """Remove the part of the newest range that a query has searched."""
        low, _ = self.spans.pop()
        if len(pending) == wanted:
            self.spans.append((low, pending[-1].id - 1))


class _Backlog:
    """The ranges of text ids still to be searched: titles of all items first, then openings, then other passages."""

    def __init__(self, covered_to: int) -> None:
        self._layers = [_Layer(depth, covered_to) for depth in Depth]

    def next(self, last: int) -> _Layer | None:
        """Return the layer to search next, given the highest text id; None if all layers were searched."""
        for layer in self._layers:
            if last > layer.seen_to:
                layer.spans.append((layer.seen_to, last))
                layer.seen_to = last
        return next((layer for layer in self._layers if layer.spans), None)


@dataclass(slots=True, kw_only=True, eq=False)
class Embedding:
    """Embeds pending texts with one model, as the holder of its claim."""

    database: Database
    embedders: Embedders
    embedder: Embedder
    model: Model
    claim: Claim
    settings: Settings
    harvesting: Callable[[], bool] = lambda: False
    observe: Callable[["Embedding"], None] | None = None
    left: int | None = None
    spent: Spent = field(default_factory=Spent)
    sources: Sequence[int] = ()
    again: bool = False
    patience_s: float = 0.0
    done: bool = field(default=False, init=False)
    by_source: dict[int, Spent] = field(default_factory=dict, init=False)
    failing: EmbedderDownError | None = field(default=None, init=False)
    _again_after: bytes = field(default=b"", init=False)
    _replacing: bool = field(default=False, init=False)
    _added: int = field(default=0, init=False)
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _over_budget: dict[int, EmbeddingError] = field(default_factory=dict, init=False)
    _stopped: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _failing_since: float = field(default=0.0, init=False)
    _store_s: float = field(default=0.0, init=False)
    _started: float = field(default=0.0, init=False)
    _rows_before: int | None = field(default=None, init=False)
    _dimensions: int | None = field(init=False)
    _backlog: _Backlog = field(init=False)

    def __post_init__(self) -> None:
        self._dimensions = self.model.dimensions
        self._backlog = _Backlog(self.model.covered_to)

    def stop(self) -> None:
        """End after the pending requests; their answers are stored."""
        self._stopped.set()

    async def run(self) -> bool:
        """Embed until no text is left; return whether that succeeded, and raise if the embedder keeps failing."""
        self._started = time.monotonic()
        self._backlog = _Backlog(self.model.covered_to)
        failures = 0
        while not self._stopped.is_set() and (passages := await self._next()):
            try:
                await self._embed(passages)
                self.failing, failures = None, 0
            except EmbedderDownError as problem:
                failures += 1
                await self._wait_or_give_up(problem, failures)
            self._report()
            await self._maintain_index(loading=True)
        await self._maintain_index(loading=False)
        if self.again and not self._stopped.is_set() and self.left != 0:
            await pending_texts.forget_removed(self.database, self.model.id)
        for exceeded in self._over_budget.values():
            raise exceeded
        self.done = not self._stopped.is_set() and self.left != 0
        return self.done

    async def _next(self) -> list[PendingText]:
        """Return the most useful texts without a vector, then texts to embed again; empty if no text is left."""
        self._replacing = False
        limits = self.embedder.limits
        most = limits.texts * limits.concurrency
        most = most if self.left is None else min(most, self.left)
        while most:
            async with self.database.connection() as c:
                layer = self._backlog.next(await embeddings.last_text(c))
                texts: list[PendingText] = []
                if not self.sources and (layer is None or layer.depth is Depth.PASSAGES):
                    # Titles and openings make every item findable, so searched texts come after them. An explicit
                    # choice of sources takes precedence.
                    texts = await pending_texts.pending_wanted(c, self.model, limit=most, without=self._over_budget)
                if layer is None and not texts:
                    break
                if layer is not None and not texts:
                    low, high = layer.spans[-1]
                    texts = await pending_texts.pending(
                        c, self.model.id, layer.depth, above=low, upto=high, limit=most, sources=self.sources
                    )
                    layer.narrow(texts, most)
            affordable = [text for text in texts if text.source_id not in self._over_budget]
            if affordable:
                return list({text.text_hash: text for text in affordable}.values())
        if not self.again:
            return []
        async with self.database.connection() as c:
            texts = await pending_texts.pending_listed(
                *(c, self.model.id),
                after=self._again_after,
                limit=most,
                sources=self.sources,
                without=self._over_budget,
            )
        self._replacing = bool(texts)
        self._again_after = texts[-1].text_hash if texts else b""
        return texts

    async def _embed(self, passages: list[PendingText]) -> None:
        """Embed a batch in concurrent requests; await all requests that were sent, then raise the first failure.

        After an error of the store no further request is sent: its paid answer could not be stored.
        """
        limits = self.embedder.limits
        is_lost = False
        places = asyncio.Semaphore(1 if limits.heavy and self.harvesting() else limits.concurrency)

        async def send(part: list[PendingText]) -> None:
            nonlocal is_lost
            async with places:
                if not (self._stopped.is_set() or is_lost) and part[0].source_id not in self._over_budget:
                    with charged_to(source_id=part[0].source_id):
                        try:
                            await self.claim.check()
                            await self._embed_part(part)
                        except StoreError:
                            is_lost = True
                            raise
                        except EmbeddingError as problem:
                            cause = problem.__cause__
                            if not isinstance(cause, BudgetExceededError) or cause.scope != "source":
                                raise
                            # The texts of this source wait; other sources continue.
                            self._over_budget[part[0].source_id] = problem

        by_source = groupby(sorted(passages, key=attrgetter("source_id")), key=attrgetter("source_id"))
        parts = [batches(list(group), texts=limits.texts, tokens=limits.tokens) for _, group in by_source]
        results = await asyncio.gather(*(send(part) for group in parts for part in group), return_exceptions=True)
        problems = [result for result in results if isinstance(result, BaseException)]
        for problem in sorted(problems, key=_rank):
            raise problem

    async def _embed_part(self, part: list[PendingText]) -> None:
        """Embed texts in one request and store their vectors; bisect a refused request to find the refused texts."""
        for passage in part:
            if not passage.text.strip():
                await self._refuse(passage, "blank")
        part = [passage for passage in part if passage.text.strip()]
        if not part:
            return
        try:
            answer = await self._ask([passage.text for passage in part])
        except (TextsRefusedError, ItemError) as problem:
            # If a bug makes the embedder refuse every text, no text is marked as refused: all wait until the bug is
            # fixed.
            if not self.spent.texts or isinstance(problem, ItemError):
                try:
                    await self._ask([PROBE])
                except (TextsRefusedError, ItemError):
                    raise EmbeddingError(str(problem), hint=problem.hint) from problem
            if len(part) == 1:
                await self._refuse(part[0], str(problem))
                return
            middle = len(part) // 2
            await self._embed_part(part[:middle])
            await self._embed_part(part[middle:])
            return
        async with self._writing:
            started = time.monotonic()
            vectors = [(text.text_hash, rows) for text, rows in zip(part, answer.vectors, strict=True)]
            dimensions = answer.dimensions if self._dimensions is None else None
            if self._replacing:
                await self.claim.replace(vectors, dimensions=dimensions)
            else:
                await self.claim.store(vectors, dimensions=dimensions)
                self._added += len(part)
            self._dimensions = self._dimensions or answer.dimensions
            self._store_s += time.monotonic() - started
        usd = answer.tokens * (self.embedder.price or 0.0) / 1e6
        self.spent.add(Spent(len(part), answer.tokens, answer.truncated, usd=usd))
        if self.left is not None:
            self.left -= len(part)
        longest = {p.text_hash for p in sorted(part, key=lambda p: -len(p.text))[: answer.truncated]}
        chars = sum(len(passage.text) for passage in part)
        for passage in part:
            share = len(passage.text) / chars
            part_spent = Spent(1, round(answer.tokens * share), passage.text_hash in longest, usd=usd * share)
            self.by_source.setdefault(passage.source_id, Spent()).add(part_spent)

    async def _ask(self, texts: list[str]) -> EmbeddedTexts:
        with one_item(f"A request to embed {len(texts):,} texts", MemoryError):
            return await self.embedders.ask(self.embedder, texts, dimensions=self._dimensions)

    async def _refuse(self, passage: PendingText, why: str) -> None:
        self.spent.refused += 1
        async with self.database.connection() as c:
            if self._replacing:
                # The text keeps its vector, if it has one; otherwise it was refused before.
                await embeddings.unlist(c, self.model.id, [passage.text_hash])
            else:
                await embeddings.refuse(c, self.model.id, passage.text_hash, why)

    async def _wait_or_give_up(self, problem: EmbedderDownError, failures: int) -> None:
        """Wait before the next try, as long as the provider or its circuit requests; raise if retrying is pointless.

        A provider that asked to wait or has answered before gets the full patience; a provider that never answered may
        have a wrong address.
        """
        if self.failing is None:
            self._failing_since = time.monotonic()
        problem.busy = problem.busy or (self.failing is not None and self.failing.busy)
        is_open = isinstance(problem.__cause__, CircuitOpenError)
        if self.patience_s and (problem.busy or self.spent.texts):
            is_hopeless = time.monotonic() - self._failing_since > self.patience_s
        else:
            is_hopeless = failures >= MOST_FAILURES or (is_open and not problem.busy)
        longest_wait_s = max(self.settings.cb_max_recovery_timeout_secs, self.settings.retry_after_limit_s)
        if is_hopeless or problem.retry_in_s > longest_wait_s:
            raise problem
        self.failing = problem
        self._backlog, self._again_after = _Backlog(self.model.covered_to), b""
        self._report()
        # Even without an open circuit, embedding resumes within one recovery time-out after an outage.
        longest_s = min(LONGEST_PAUSE_S, CircuitLimits.of(self.settings).first_pause_s)
        wait_s = problem.retry_in_s or min(2.0 ** min(failures - 1, 10), longest_s)
        log.info("waiting %.1f s for the embedder %s", wait_s, self.embedder.name)
        until = time.monotonic() + wait_s
        while (left_s := until - time.monotonic()) > 0 and not self._stopped.is_set():
            if is_open and not self.embedders.is_circuit_open():
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), min(left_s, _LOOK_S))

    async def _maintain_index(self, *, loading: bool) -> None:
        """Build the vector index when it is due, or drop it during a load so large that rebuilding it is faster."""
        if self._stopped.is_set():
            return
        with translate_database_errors(self.database.place):
            index = await embeddings.index_state(self.claim.connection, self.model.id)
            elapsed_s = time.monotonic() - self._started
            fast = loading and not self._replacing and self.spent.texts > INDEX_INSERTS_PER_S * elapsed_s
            is_slower = False
            if index.valid and fast and self._store_s >= elapsed_s / 2 and self.spent.texts >= LEAST_MEASURED:
                # Storing takes most of the time; the index is slower if most of the load is still to come.
                async with self.database.connection() as c:
                    left = await embeddings.last_text(c) - self.model.covered_to - self.spent.texts
                is_slower = left > max(self.settings.vector_index_from, await self._rows() // 2)
            if is_slower:
                log.info("dropped the index of %s for a large load; it is rebuilt afterwards", self.model.name)
                await embeddings.drop_index(self.claim.connection, self.model.id)
            elif not index.valid and not fast and await self._rows() >= self.settings.vector_index_from:
                await embeddings.build_index(
                    self.claim.connection,
                    self.model,
                    dimensions=self._dimensions or 0,
                    rows=await self._rows(),
                    embedded=self.database.embedded is not None,
                )

    async def _rows(self) -> int:
        if self._rows_before is None:
            async with self.database.connection() as c:
                self._rows_before = await embeddings.count_texts(c, self.model.id) - self._added
        return self._rows_before + self._added

    def _report(self) -> None:
        if self.observe is not None:
            self.observe(self)


def _rank(problem: BaseException) -> tuple[bool, bool]:
    """Return the sort key of a failure in a batch: a bug or wrong setting first, a request to wait, an outage."""
    if isinstance(problem, EmbedderDownError):
        return True, not problem.busy
    return False, False


def batches(passages: Sequence[PendingText], *, texts: int, tokens: int) -> list[list[PendingText]]:
    """Group passages into requests within an embedder's limits; texts of similar length share a request."""
    parts: list[list[PendingText]] = []
    room_tokens = 0
    for passage in sorted(passages, key=lambda passage: len(passage.text)):
        needed = len(passage.text) // CHARS_PER_TOKEN + 1
        if not parts or len(parts[-1]) == texts or needed > room_tokens:
            parts.append([])
            room_tokens = tokens
        parts[-1].append(passage)
        room_tokens -= needed
    return parts
