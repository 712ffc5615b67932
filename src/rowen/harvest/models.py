"""Create and hold the embedders of one process.

The database records the model of its vectors, the settings name the wanted model. While they differ, the model of the
database stays in use, since vectors of two models cannot be compared; `rowen embed` switches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from rowen.enrich import base as embedders
from rowen.enrich.base import WAITING, Embedder, EmbedderTools, Spec
from rowen.enrich.ledger import Ledger, NoLedger
from rowen.errors import (
    AddressRefusedError,
    CircuitOpenError,
    EmbedderDownError,
    EmbeddingError,
    FetchError,
    Hint,
    action,
)
from rowen.net.circuits import Breakers, Stats
from rowen.net.politeness import Throttle
from rowen.settings import Settings
from rowen.store.search.embeddings import Model

if TYPE_CHECKING:
    from rowen.net.client import Client

DEFAULT = Spec("local")


class Choice(NamedTuple):
    """The embedder to use, None if there is none, and a remark for the user."""

    embedder: Embedder | None
    remark: str | None = None


class EmbeddedTexts(NamedTuple):
    """Unit vectors in stored form, at least one for each text, and their cost."""

    vectors: list[list[bytes]]
    dimensions: int
    tokens: int
    truncated: int


def wanted_spec(settings: Settings) -> Spec | None:
    """Return the embedder that the settings name; None if the database decides."""
    if settings.embedder is None:
        return None
    return Spec(settings.embedder, settings.embedder_model, settings.embedder_dimensions, settings.embedder_url)


def spec_of(model: Model) -> Spec:
    """Return the specification of the embedder that made stored vectors."""
    return Spec(model.kind, model.model, model.wanted, model.url)


class Embedders:
    """The embedders of one process, with one client and one set of circuits."""

    def __init__(
        self,
        settings: Settings,
        ledger: Ledger | None = None,
        *,
        breakers: Callable[[Settings], Breakers] | None = None,
    ) -> None:
        self._settings = settings
        self._ledger = ledger or NoLedger()
        self._breakers = breakers
        self._made: dict[Spec, Embedder] = {}
        self._client: Client | None = None
        self._open = AsyncExitStack()

    def of(self, spec: Spec, *, named: bool = False) -> Embedder:
        """Return the embedder; `named` means that the user entered its address, which may receive the user's key."""
        settings = self._settings
        if named:
            settings = settings.model_copy(update={"embedder": spec.kind, "embedder_url": spec.url})
        if spec not in self._made:
            self._made[spec] = embedders.make(spec, EmbedderTools(self._opened_client, settings, self._ledger))
        return self._made[spec]

    def choose(self, active: Model | None, wanted: Spec | None) -> Choice:
        """Return the embedder of the database's vectors; if there are none, the wanted embedder."""
        if wanted is not None and wanted.kind == embedders.NONE:
            return Choice(None)
        if active is None:
            return Choice(self.of(wanted or DEFAULT))
        named = self.of(wanted or spec_of(active))
        if named.name == active.name:
            return Choice(named)
        own = self.of(spec_of(active))
        if own.name == active.name:
            return Choice(
                own,
                Hint(
                    f"The settings name the embedder {named.name}, but the vectors are of {active.name}, which stays in"
                    " use. ",
                    action("embed"),
                    " embeds everything with the new one, and then switches.",
                ),
            )
        return Choice(
            None,
            Hint(
                f"The vectors are of {active.name}, which this version cannot use any more; search finds words only. ",
                action("embed"),
                f" embeds everything with {own.name}, and then switches.",
            ),
        )

    async def ask(
        self, embedder: Embedder, texts: Sequence[str], *, dimensions: int | None, question: bool = False
    ) -> EmbeddedTexts:
        """Embed texts and return the vectors in stored form; raise `EmbeddingError` if the embedder fails."""
        most = embedder.limits.chars_per_text
        cut = [text[:most] for text in texts]
        try:
            answer = await embedder.embed(cut, question=question)
        except FetchError as problem:
            raise embedding_error(problem) from problem
        from rowen.enrich.vectors import packed, units

        matrix = units(
            answer.vectors, name=embedder.name, count=len(texts), dimensions=dimensions, parts=answer.parts or None
        )
        vectors = iter(packed(matrix))
        by_text = [list(islice(vectors, count)) for count in answer.parts or [1] * len(texts)]
        truncated = max(answer.truncated, sum(len(text) > most for text in texts))
        return EmbeddedTexts(by_text, matrix.shape[1], answer.tokens, truncated)

    def circuits(self) -> dict[str, Stats]:
        """Return the statistics of the providers' circuits in this process."""
        return self._client.breakers.stats() if self._client is not None else {}

    def is_circuit_open(self) -> bool:
        """Return whether the circuit of a provider is open."""
        return any(stats.state == "open" for stats in self.circuits().values())

    async def close(self) -> None:
        """Close all embedders and the client."""
        for embedder in self._made.values():
            await embedder.close()
        self._made.clear()
        await self._open.aclose()
        self._client = None

    async def _opened_client(self) -> Client:
        if self._client is None:
            settings = self._settings.for_source(self._settings.embedder_url or "")
            client = provider_client(settings, self._breakers, concurrency=8)
            self._client = await self._open.enter_async_context(client)
        return self._client


def embedding_error(problem: FetchError) -> EmbeddingError:
    """Return the embedding error of a failed request."""
    details: dict[str, Any] = {"hint": problem.hint or WAITING}
    if isinstance(problem, AddressRefusedError) or not (problem.retryable or isinstance(problem, CircuitOpenError)):
        return EmbeddingError(str(problem), **details)
    if isinstance(problem, CircuitOpenError):
        details["retry_in_s"] = problem.retry_in_s
    return EmbedderDownError(str(problem), **details)


def provider_client(settings: Settings, breakers: Callable[[Settings], Breakers] | None, *, concurrency: int) -> Client:
    """Return a client without delays between requests, since providers set their own limits."""
    from rowen.net.client import Client

    throttle = Throttle(delay_s=0, concurrency=concurrency, longest_s=settings.retry_after_limit_s)
    return Client(settings, throttle=throttle, breakers=breakers(settings) if breakers is not None else None)
