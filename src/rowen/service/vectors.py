"""Vectors for the house: those of passages are made behind the harvest, those of questions at once."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from rowen.enrich import registry
from rowen.enrich.base import Embedder
from rowen.errors import ConfigurationError, EmbeddingError, RowenError
from rowen.harvest.embed import Embedding, Spent
from rowen.harvest.embedder import Embedders, wish
from rowen.model.hashes import text_hash
from rowen.model.run import Run
from rowen.model.text import normalise
from rowen.settings import Settings
from rowen.store import embeddings, runs, vector_care
from rowen.store.database import Database
from rowen.store.embeddings import Claim, Model

__all__ = ["Question", "Vectors"]

log = logging.getLogger(__name__)

QUESTION_CHARS = 2_000
LOOK_AGAIN_S = 0.5


class Question(NamedTuple):
    """The vector of what is asked, under the model that search uses; or why there is none."""

    vector: list[float] | None
    model: Model | None = None
    trouble: str | None = None


class Vectors:
    """What the service asks of embedders."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self.embedders = Embedders(settings)
        self.trouble: str | None = None
        self.remark: str | None = None
        self.harvests = 0
        self._settings = settings
        self._database = database
        self._spent: dict[int, Spent] = {}
        self._live: Embedding | None = None
        self._task: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._given_up = False
        self._patient = True
        self._sessions = 0

    async def question(self, text: str) -> Question:
        """The vector of what is asked, under the model that search uses; None where only words can be searched for."""
        text = normalise(text)[:QUESTION_CHARS].strip()
        if not text or self._settings.embedder == registry.NONE:
            return Question(None)
        async with self._database.connection() as c:
            model = await embeddings.active(c)
            if model is None or model.dimensions is None:
                return Question(None, model)
            known = await vector_care.query_vector(c, model.id, text_hash(text))
        if known is not None:
            return Question(_floats(known), model)
        try:
            vector = await self._ask(text, model)
        except (EmbeddingError, ConfigurationError, TimeoutError) as problem:
            why = str(problem) or f"{model.name} did not answer in {self._settings.embedder_question_limit_s:g} s."
            return Question(None, model, why)
        async with self._database.connection() as c:
            await vector_care.keep_query(c, model.id, text_hash(text), vector)
        return Question(_floats(vector), model)

    async def _ask(self, text: str, model: Model) -> str:
        from rowen.enrich.vectors import written

        embedder, remark = self.embedders.choose(model, wish(self._settings))
        if embedder is None:
            raise EmbeddingError(remark or f"There is no embedder for {model.name}.")
        # A model of this machine takes as long to load as it takes; only others can keep one waiting.
        limit_s = None if embedder.limits.heavy else self._settings.embedder_question_limit_s
        async with asyncio.timeout(limit_s):
            answer = await self.embedders.ask(embedder, [text], dimensions=model.dimensions, question=True)
        return written(answer.vectors[0])

    @property
    def off(self) -> bool:
        """Whether no vectors are wanted."""
        return self._settings.embedder == registry.NONE

    @asynccontextmanager
    async def session(self) -> AsyncIterator[None]:
        """Embed in the background while sources are harvested inside; sessions may lie within each other."""
        if not self._sessions:
            self.begin()
        self._sessions += 1
        if not self.off and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._work())
            self._task.add_done_callback(self._ended)
        try:
            yield
        finally:
            self._sessions -= 1
            if not self._sessions:
                await self._end()

    @asynccontextmanager
    async def behind(self) -> AsyncIterator[None]:
        """Leave the machine to the harvest that runs inside."""
        self.harvests += 1
        try:
            yield
        finally:
            self.harvests -= 1
            self.wake()

    def wake(self) -> None:
        """Say that there may be something to embed."""
        if self._task is not None and not self._given_up:
            self._idle.clear()
            self._woken.set()

    def begin(self) -> None:
        """Forget that somebody gave up before."""
        self._given_up, self._patient, self.trouble = False, True, None

    def stop(self) -> None:
        """End soon; answers that are on their way are stored."""
        self._given_up = True
        if self._live is not None:
            self._live.stop()

    async def settle(self, told: Callable[[], None] | None = None) -> None:
        """Give the background some time; who waited in vain once in a session does not wait again."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._settings.embed_wait_s
        while self._patient and not self._rested:
            down = self._live is not None and self._live.failing is not None
            self._patient = not down and loop.time() < until
            if self._patient:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._idle.wait(), min(LOOK_AGAIN_S, until - loop.time()))
                if told is not None:
                    told()

    def embedded_for(self, source_id: int) -> int:
        """How many texts of a source were embedded since its run was last told."""
        live = self._live.by_source if self._live is not None else {}
        return sum(spent[source_id].texts for spent in (self._spent, live) if source_id in spent)

    async def _end(self) -> None:
        """Wait for what is on its way, and for no more."""
        if not self._rested:
            self.stop()
            await self._idle.wait()

    @property
    def _rested(self) -> bool:
        return self._task is None or self._task.done() or self._idle.is_set()

    async def told(self, run: Run, source_id: int) -> Run:
        """A run with what was embedded for its source, and how many of its texts still have no vector."""
        spent = self._spent.pop(source_id, Spent())
        async with self._database.connection() as c:
            model = None if self.off else await embeddings.active(c)
            pending = await embeddings.pending_of(c, model, source_id) if model is not None else 0
            if spent == Spent() and pending == run.tally.embeddings_pending:
                return run
            tally = replace(run.tally, embeddings_pending=pending)
            tally.add({"embedded": spent.texts, "embedding_tokens": spent.tokens})
            tally.add({"embeddings_truncated": spent.truncated})
            tally.embedding_usd = round(tally.embedding_usd + spent.usd, 6)
            await runs.amend(c, run.id, tally)
        return replace(run, tally=tally)

    async def close(self) -> None:
        """End the background task and let go of the embedders."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        await self.embedders.close()

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Let nobody wait for a task that is over; an embedder of another package may fail in ways of its own."""
        self._idle.set()
        if not task.cancelled() and (problem := task.exception()) is not None:
            self.trouble = f"Embedding broke off: {type(problem).__name__}: {problem}"
            log.error("embedding broke off", exc_info=problem)

    async def _work(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            try:
                await self._pass()
            except RowenError as problem:
                log.warning("stopped embedding: %s", problem)
                self.trouble, self._given_up = str(problem), True
            if not self._woken.is_set() or self._given_up:
                self._woken.clear()
                self._idle.set()

    async def _pass(self) -> None:
        """Embed what is pending under the model that goes on; costs two look-ups where nothing is."""
        async with self._database.connection() as c:
            active = await embeddings.active(c)
            last = await embeddings.last_passage(c)
        if not last or (active is not None and active.covered_to >= last):
            return
        embedder, self.remark = self.embedders.choose(active, wish(self._settings))
        if embedder is None:
            return
        model = await self.model_of(embedder)
        async with self.claimed(model) as claim:
            if claim is None:
                self.trouble = "Another process is embedding at this moment; it takes these texts as well."
                return
            work = await self.work(embedder, claim)
            self.trouble = str(work.failing) if work.failing else None

    async def model_of(self, embedder: Embedder) -> Model:
        """The stored model of an embedder, made if it is new."""
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
        """The right to embed under a model, None while another has it."""
        claim = await Claim.take(self._database, model.id)
        try:
            yield claim
        finally:
            if claim is not None:
                await claim.release()

    async def work(
        self,
        embedder: Embedder,
        claim: Claim,
        *,
        limit: int | None = None,
        observe: Callable[[Embedding], None] | None = None,
        spent: Spent | None = None,
    ) -> Embedding:
        """Embed all that is pending, and write down that nothing is, if so."""
        # Read after the claim was taken: who had it before may just have finished.
        model = await self.model_of(embedder)
        work = self._live = Embedding(
            self._database,
            self.embedders,
            embedder,
            model=model,
            claim=claim,
            settings=self._settings,
            harvesting=lambda: self.harvests > 0,
            observe=observe,
            limit=limit,
            spent=spent,
        )
        if self._given_up:
            work.stop()
        try:
            while await work.run():
                async with self._database.transaction() as c:
                    if await embeddings.cover(c, model) is not False:
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
        """Leave word for `status`; nothing is written while all is well."""
        trouble: dict[str, Any] | None = None
        if problem is not None:
            circuits = {name: asdict(stats) for name, stats in self.embedders.circuits().items()}
            trouble = {"error": str(problem), "hint": problem.hint, "circuits": circuits}
        if trouble is not None or model.trouble is not None:
            async with self._database.connection() as c:
                await embeddings.note_trouble(c, model.id, trouble)


def _floats(vector: str) -> list[float]:
    return [float(number) for number in vector[1:-1].split(",")]
