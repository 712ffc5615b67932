"""Embedding models: compute vectors, switch models, and delete old models."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rowen.enrich import base as embedders
from rowen.enrich.base import Embedder, Spec
from rowen.errors import EmbeddingError, UsageError
from rowen.harvest.background import POLL_S
from rowen.harvest.models import DEFAULT, spec_of, wanted_spec
from rowen.model.access import Scope
from rowen.model.models import EmbeddingEstimate, EmbeddingProgress, EmbeddingReport, FetchedModel, ModelStatus
from rowen.model.sources import one_or_more
from rowen.operations.operation import ResourceGroup, operation
from rowen.store import sources as source_store
from rowen.store.database import Connection
from rowen.store.search import embeddings, pending_texts
from rowen.store.search.embeddings import Model
from rowen.store.search.pending_texts import VectorCoverage

if TYPE_CHECKING:
    from typing import Annotated

    from msgspec import Meta

    from rowen.harvest.embed import Embedding, Spent
    from rowen.operations.parameters import Limit, OnlySources

# As long as the tries of a job; a longer outage is a matter for the schedule or for a user.
PATIENCE_S = 1_800.0

CHARS_PER_TOKEN = 4
"""The value for English prose, used for estimates; requests are divided with a smaller value, to be safe."""


class Embeddings(ResourceGroup):
    """Embedding models and their vectors."""

    def _prepare(self) -> None:
        self._embedders = self._engine.embedders
        self._embedding = self._engine.embedding

    @operation(scope=None)
    async def embed(
        self,
        *,
        embedder: Annotated[
            str | None, Meta(description="Kind of embedder to use instead of the one in the settings.")
        ] = None,
        model: Annotated[str | None, Meta(description="Embedding model.")] = None,
        dimensions: Annotated[int | None, Meta(description="Number of dimensions of the vectors.")] = None,
        url: Annotated[str | None, Meta(description="Address of the embedder.")] = None,
        limit: Annotated[Limit | None, Meta(description="Maximum number of passages.")] = None,
        sources: str | OnlySources = (),
        again: Annotated[bool, Meta(description="Also replace vectors that exist.")] = False,
        agreed: Callable[[EmbeddingEstimate], bool] | None = None,
        observe: Callable[[EmbeddingProgress], None] | None = None,
    ) -> EmbeddingReport | None:
        """Compute the missing vectors of all sources or some, by default under the model of the settings.

        Vectors of another model are computed beside the current ones; search switches when all exist. With `again`,
        texts that have a vector get a new one; an interrupted order continues without it. Returns None if `agreed`,
        which is called with the estimated cost, returns false.
        """
        async with self._database.connection() as c:
            active = await embeddings.active(c)
            chosen_ids = [(await source_store.get(c, name)).id for name in one_or_more(sources)]
        meant = self._meant(active, Spec(embedder or "", model, dimensions, url))
        chosen = self._embedders.of(meant, named=url is not None)
        estimate = await self._estimate(chosen, active, chosen_ids, again=again)
        if agreed is not None and not agreed(estimate):
            return None
        started = time.monotonic()
        if again:
            ordered = await self._embedding.model_of(chosen)
            async with self._database.transaction() as c:
                await pending_texts.list_texts(c, ordered, sources=chosen_ids)
        spent, error = await self._embed_all(chosen, limit, observe, chosen_ids)
        async with self._database.connection() as c:
            found = await embeddings.find(c, chosen.name)
            left = await pending_texts.amount(c, found, sources=chosen_ids)
            listed = await pending_texts.amount_listed(c, found, sources=chosen_ids)
        return EmbeddingReport(
            model=chosen.name,
            state=found.state if found is not None else "building",
            switched=active is not None and found is not None and found.state == "active" and found.id != active.id,
            embedded=spent.texts,
            pending=left.texts,
            again=listed.texts,
            truncated=spent.truncated,
            refused=spent.refused,
            tokens=spent.tokens,
            usd=None if chosen.price is None else round(spent.usd, 6),
            seconds=round(time.monotonic() - started, 3),
            error=str(error) if error else None,
            hint=error.hint if error else None,
        )

    @operation(scope=None)
    async def fetch_model(
        self, name: Annotated[str, Meta(description="A sentence model: `owner/model[@revision]`.")]
    ) -> FetchedModel:
        """Download a sentence model, `owner/model[@revision]`, from the hub of the settings into the data folder."""
        # Every sync asks this group for remarks, but needs no hub, so the import is here.
        from rowen.enrich.hub import fetch_model, hub_address
        from rowen.net.client import Client

        async with Client(self._settings.for_source(hub_address(self._settings))) as client:
            return await fetch_model(name, client, self._settings)

    @operation(scope=None)
    def remarks(self) -> list[str]:
        """Return the problems of the embedding in this process."""
        return self._embedding.remarks()

    @operation(scope=None)
    async def drop_old(self) -> int:
        """Delete models that are neither searched nor being computed; return the number of their vectors."""
        dropped = 0
        async with self._database.connection() as c:
            for model in await embeddings.every(c):
                if model.state == "retired":
                    await embeddings.drop_index(c, model.id)
                    dropped += await embeddings.drop(c, model.id)
        return dropped

    @operation(scope=None)
    async def check(self) -> str:
        """Request one vector and describe it; raise if none came."""
        async with self._database.connection() as c:
            active = await embeddings.active(c)
        embedder, remark = self._embedders.choose(active, wanted_spec(self._settings))
        if embedder is None and remark is not None:
            raise EmbeddingError(remark)
        if embedder is None:
            return "none wanted (ROWEN_EMBEDDER is none): search goes by words alone"
        started = time.monotonic()
        dimensions = active.dimensions if active is not None else None
        answer = await self._embedders.ask(embedder, ["Is anybody there?"], dimensions=dimensions)
        passed_s = time.monotonic() - started
        return f"{embedder.name} gave {answer.dimensions} numbers in {passed_s:.2f} s" + (
            f". {remark}" if remark else ""
        )

    def _meant(self, active: Model | None, flags: Spec) -> Spec:
        """Return the specification of the wanted model, from flags, else from settings, else from the database.

        Options of another kind of embedder are ignored.
        """
        wanted = wanted_spec(self._settings)
        bases = [base for base in (wanted, spec_of(active) if active else None, DEFAULT) if base is not None]
        kind = flags.kind or bases[0].kind
        if kind == embedders.NONE:
            raise UsageError(
                "The embedder `none` makes no vectors.", hint="ROWEN_EMBEDDER or --embedder names another."
            )
        base = next((base for base in bases if base.kind == kind), Spec(kind))
        if flags.model and flags.model != base.model:
            base = Spec(kind, flags.model, None, base.url)
        return Spec(kind, base.model, flags.dimensions or base.dimensions, flags.url or base.url)

    async def _estimate(
        self, embedder: Embedder, active: Model | None, sources: Sequence[int], *, again: bool
    ) -> EmbeddingEstimate:
        async with self._database.connection() as c:
            found = await embeddings.find(c, embedder.name)
            left = await pending_texts.amount(c, found, sources=sources)
            listed = await (pending_texts.amount_to_repeat if again else pending_texts.amount_listed)(
                c, found, sources=sources
            )
        tokens = (left.chars + listed.chars) // CHARS_PER_TOKEN
        usd = None if embedder.price is None else round(tokens * embedder.price / 1e6, 6)
        other = active.name if active is not None and active.name != embedder.name else None
        return EmbeddingEstimate(embedder.name, other, left.texts + listed.texts, tokens, usd, listed.texts)

    async def _embed_all(
        self,
        embedder: Embedder,
        limit: int | None,
        observe: Callable[[EmbeddingProgress], None] | None,
        sources: Sequence[int],
    ) -> tuple[Spent, EmbeddingError | None]:
        """Embed until all passages have vectors and the search has switched; wait for another process that embeds."""
        from rowen.harvest.embed import Spent

        spent = Spent()

        def tell(live: Embedding) -> None:
            if observe is not None:
                observe(EmbeddingProgress(live.spent.texts, live.failing is not None))

        async with self._engine.work() as work:
            model = await self._embedding.model_of(embedder)
            while not work.stopped and (limit is None or spent.texts < limit):
                async with self._embedding.claimed(model) as claim:
                    if claim is None:
                        await asyncio.sleep(POLL_S)
                        continue
                    left = None if limit is None else limit - spent.texts
                    try:
                        done = await self._embedding.embed(
                            *(embedder, claim),
                            limit=left,
                            observe=tell,
                            spent=spent,
                            sources=sources,
                            again=True,
                            patience_s=PATIENCE_S,
                        )
                    except EmbeddingError as problem:
                        return spent, problem
                if done.done:
                    async with self._database.transaction() as c:
                        is_switched = await pending_texts.activate(c, done.model)
                    if is_switched or sources:
                        break
        return spent, None

    @operation(scope=Scope.READ)
    async def list(self) -> list[ModelStatus]:
        """List all models that have vectors; the active one is searched."""
        async with self._database.connection() as c:
            return [await _status(c, model) for model in await embeddings.every(c)]


async def _status(c: Connection, model: Model) -> ModelStatus:
    by_source = (await pending_texts.coverage_by_source(c, model)).values()
    return ModelStatus(
        model.name,
        model.state,
        model.dimensions,
        await embeddings.count_texts(c, model.id),
        (await pending_texts.amount(c, model)).texts,
        await embeddings.count_refused(c, model.id),
        (await embeddings.index_state(c, model.id)).valid,
        model.trouble,
        VectorCoverage(sum(part.passages for part in by_source), sum(part.waiting for part in by_source)).share,
        await pending_texts.count_listed(c, model.id),
    )
