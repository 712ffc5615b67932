"""Embed passages in the background, while sources are read and for a while afterwards."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from rowen.enrich import base as embedders
from rowen.enrich.base import Embedder
from rowen.errors import BudgetExceededError, ConfigurationError, EmbeddingError, RowenError
from rowen.harvest.models import Embedders, wanted_spec
from rowen.model.runs import Run
from rowen.net.circuits import CircuitLimits
from rowen.settings import Settings
from rowen.store import runs
from rowen.store.database import Database
from rowen.store.search import embeddings, pending_texts
from rowen.store.search.embeddings import Claim, Model

if TYPE_CHECKING:
    from rowen.harvest.embed import Embedding, Spent
    from rowen.harvest.engine import Work

log = logging.getLogger(__name__)

# The daily budget resets at midnight; the budget of a source grows day by day.
_BUDGET_WAIT_S = 3600.0
# The interval between attempts to take the claim of another process: an attempt takes three statements, and no user
# waits for it.
_CLAIM_WAIT_S = 30.0
POLL_S = 0.5
"""The interval of progress reports and of checks for another process's claim: often enough to look live."""


class BackgroundEmbedding:
    """A background task that embeds while this process does any work.

    `trouble` is the reason why it gave up, `remark` a note for the user on the choice of the model. After an outage it
    retries during the current work; after a permanent error, it retries when the next work begins.
    """

    def __init__(self, settings: Settings, database: Database, embedders: Embedders) -> None:
        self.trouble: str | None = None
        self.remark: str | None = None
        self._settings = settings
        self._database = database
        self._embedders = embedders
        self._harvests = 0
        self._sessions = 0
        self._gave_up = self._is_stopped = False
        self._retry_at: float | None = None
        self._spent: dict[int, Spent] = {}
        self._live: Embedding | None = None
        self._task: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def off(self) -> bool:
        """Whether embedding is switched off."""
        return self._settings.embedder == embedders.NONE

    @asynccontextmanager
    async def session(self) -> AsyncIterator[None]:
        """Embed in the background during the block; retry after earlier failures."""
        self._gave_up, self._is_stopped, self.trouble = False, False, None
        if not self._sessions:
            # Unrecorded costs belong to texts of other sources, left over from their runs.
            self._spent.clear()
        self._sessions += 1
        if not self.off and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._work())
            self._task.add_done_callback(self._ended)
        try:
            yield
        finally:
            self._sessions -= 1
            if not self._sessions and not self._rested:
                self.stop()
                await self._idle.wait()

    @asynccontextmanager
    async def behind(self) -> AsyncIterator[None]:
        """Give the harvest that runs inside the block precedence over local embedding."""
        self._harvests += 1
        try:
            yield
        finally:
            self._harvests -= 1
            self.wake()

    def remarks(self) -> list[str]:
        """Return the user's notes on the embedding during the last sync."""
        return [note for note in (self.remark, self.trouble) if note]

    def wake(self) -> None:
        """Signal that there may be texts to embed."""
        if self._task is not None and not self._gave_up:
            self._idle.clear()
            self._woken.set()

    def stop(self) -> None:
        """Stop soon; answers to pending requests are still stored."""
        self._gave_up = self._is_stopped = True
        if self._live is not None:
            self._live.stop()

    async def settle(self, work: Work, report: Callable[[], None] | None = None) -> None:
        """Wait for the embedding up to `embed_wait_s`; `work` that once waited in vain does not wait again."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._settings.embed_wait_s
        while work.patient and not work.stopped and not self._rested:
            down = self._live is not None and self._live.failing is not None
            work.patient = not down and loop.time() < until
            if work.patient:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._idle.wait(), min(POLL_S, until - loop.time()))
                if report is not None:
                    report()

    def embedded_for(self, source_id: int) -> int:
        """Return how many texts of a source were embedded since its costs were last recorded."""
        live = self._live.by_source if self._live is not None else {}
        return sum(spent[source_id].texts for spent in (self._spent, live) if source_id in spent)

    async def record_spend(self, run: Run, source_id: int) -> Run:
        """Add the embedded texts of a source and the number of its pending texts to a run's statistics."""
        spent = self._spent.pop(source_id, None)
        async with self._database.connection() as c:
            model = None if self.off else await embeddings.active(c)
            pending = await pending_texts.count_pending(c, model, source_id) if model is not None else 0
            if spent is None and pending == run.stats.embeddings_pending:
                return run
            stats = replace(run.stats, embeddings_pending=pending)
            if spent is not None:
                stats.add({"embedded": spent.texts, "embedding_tokens": spent.tokens})
                stats.add({"embeddings_truncated": spent.truncated})
                stats.embedding_usd = round(stats.embedding_usd + spent.usd, 6)
            await runs.amend(c, run.id, stats)
        return replace(run, stats=stats)

    async def close(self) -> None:
        """End the background task."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    @property
    def _rested(self) -> bool:
        return self._task is None or self._task.done() or self._idle.is_set()

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Release the waiting callers when the task ends; an embedder of a plug-in may raise any exception."""
        self._idle.set()
        if not task.cancelled() and (problem := task.exception()) is not None:
            self.trouble = f"Embedding failed: {type(problem).__name__}: {problem}"
            log.error("embedding failed", exc_info=problem)

    def retry(self) -> None:
        """Retry now after an outage."""
        if self._retry_at is not None and not self._is_stopped:
            self._gave_up = False
            self.wake()

    async def _work(self) -> None:
        while True:
            # Wait until texts were stored or the next retry after an outage is due.
            while not self._woken.is_set():
                try:
                    async with asyncio.timeout_at(self._retry_at):
                        await self._woken.wait()
                except TimeoutError:
                    self.retry()
                    self._retry_at = None
            self._woken.clear()
            self._retry_at = None
            try:
                await self._pass()
            except RowenError as problem:
                log.warning("stopped embedding: %s", problem)
                self.trouble, self._gave_up = str(problem), True
                if isinstance(problem.__cause__, BudgetExceededError):
                    self._retry_later(_BUDGET_WAIT_S)
                elif problem.retryable:
                    recovery_s = CircuitLimits.of(self._settings).first_pause_s
                    self._retry_later(getattr(problem, "retry_in_s", 0.0) or recovery_s)
            if not self._woken.is_set() or self._gave_up:
                self._woken.clear()
                self._idle.set()

    def _retry_later(self, pause_s: float) -> None:
        self._retry_at = asyncio.get_running_loop().time() + pause_s

    async def _pass(self) -> None:
        """Embed pending texts with the current model; if there are none, this costs two queries."""
        async with self._database.connection() as c:
            active = await embeddings.active(c)
            last = await embeddings.last_text(c)
        if not last or (active is not None and active.covered_to >= last):
            return
        embedder, self.remark = self._embedders.choose(active, wanted_spec(self._settings))
        if embedder is None:
            return
        model = await self.model_of(embedder)
        async with self.claimed(model) as claim:
            if claim is None:
                self.trouble = "Another process is embedding at the moment; it also embeds these texts."
                # Retry, in case the other process ends or gives up.
                self._retry_later(min(_CLAIM_WAIT_S, CircuitLimits.of(self._settings).first_pause_s))
                return
            work = await self.embed(embedder, claim)
            self.trouble = str(work.failing) if work.failing else None

    async def model_of(self, embedder: Embedder) -> Model:
        """Return the stored model of an embedder; register it if it is new."""
        spec = embedder.spec
        async with self._database.connection() as c:
            return await embeddings.register(
                c,
                embedder.name,
                kind=spec.kind,
                model=spec.model,
                wanted=spec.dimensions,
                url=spec.url,
                weight=embedder.weight,
            )

    @asynccontextmanager
    async def claimed(self, model: Model) -> AsyncIterator[Claim | None]:
        """Claim the right to embed with a model; yield None if another process has the claim."""
        claim = await Claim.take(self._database, model.id)
        try:
            yield claim
        finally:
            if claim is not None:
                await claim.release()

    async def embed(
        self,
        embedder: Embedder,
        claim: Claim,
        *,
        limit: int | None = None,
        observe: Callable[[Embedding], None] | None = None,
        spent: Spent | None = None,
        sources: Sequence[int] = (),
        again: bool = False,
        patience_s: float = 0.0,
    ) -> Embedding:
        """Embed all pending texts of all or some sources; if none is left, record that all texts have vectors.

        A provider that has answered before, or that asks to wait, is waited for up to `patience_s`. With `again`,
        texts that are listed to be embedded again follow the texts without a vector.
        """
        from rowen.harvest.embed import Embedding, Spent

        # Read after the claim was taken, since its former holder may just have finished.
        model = await self.model_of(embedder)
        work = self._live = Embedding(
            database=self._database,
            embedders=self._embedders,
            embedder=embedder,
            model=model,
            claim=claim,
            settings=self._settings,
            harvesting=lambda: self._harvests > 0,
            observe=observe,
            left=limit,
            spent=spent if spent is not None else Spent(),
            sources=sources,
            again=again,
            patience_s=patience_s,
        )
        if self._gave_up:
            work.stop()
        try:
            while await work.run():
                async with self._database.transaction() as c:
                    if await pending_texts.cover(c, model) is not False or sources:
                        break
            await self._note(model, work.failing)
        except (EmbeddingError, ConfigurationError) as problem:
            await self._note(model, problem)
            raise
        finally:
            self._live = None
            for source_id, part in work.by_source.items():
                self._spent.setdefault(source_id, Spent()).add(part)
        return work

    async def _note(self, model: Model, problem: RowenError | None) -> None:
        """Store the error for `rowen status`; write nothing if there is none and none was stored."""
        trouble: dict[str, Any] | None = None
        if problem is not None:
            circuits = {name: asdict(stats) for name, stats in self._embedders.circuits().items()}
            trouble = {"error": str(problem), "hint": problem.hint, "circuits": circuits}
        if trouble is not None or model.trouble is not None:
            async with self._database.connection() as c:
                await embeddings.note_trouble(c, model.id, trouble)
