"""Which embedder is meant, and one interface to all of them.

The database remembers the model that its vectors are of; the settings say what is wanted. While the two differ, the
model of the database goes on, since vectors of two models cannot be compared: `rowen embed` is what switches.


The language models of one process, and what a source's schemas want of its pages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from rowen.enrich import registry
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
from rowen.model.items import FactsWanted
from rowen.settings import Settings
from rowen.store.search.embeddings import Model

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rowen.enrich.ledger import Ledger
    from rowen.enrich.llm.base import LanguageModel
    from rowen.net.breaker import Breakers, Stats
    from rowen.net.client import Client
    from rowen.store.source_schemas import Carried

__all__ = [
    "Choice",
    "EmbeddedTexts",
    "Embedders",
    "LanguageModels",
    "facts_wanted",
    "in_embedding_words",
    "spec_of",
    "wanted_spec",
]

DEFAULT = Spec("local")


class Choice(NamedTuple):
    """The embedder to use, None for none, and what the user should know about it."""

    embedder: Embedder | None
    remark: str | None = None


class EmbeddedTexts(NamedTuple):
    """Unit vectors as they are stored, for each text one or several, and what they cost."""

    vectors: list[list[bytes]]
    dimensions: int
    tokens: int
    truncated: int


def wanted_spec(settings: Settings) -> Spec | None:
    """The embedder that the settings name; None if they leave it to the database."""
    if settings.embedder is None:
        return None
    return Spec(settings.embedder, settings.embedder_model, settings.embedder_dimensions, settings.embedder_url)


def spec_of(model: Model) -> Spec:
    """How to call the embedder of stored vectors again."""
    return Spec(model.kind, model.model, model.wanted, model.url)


class Embedders:
    """The embedders of one process; made when first asked for, with one client and one set of circuits."""

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
        """The embedder that is meant; `named` tells that the user gave its address himself, which may have his key."""
        settings = self._settings
        if named:
            settings = settings.model_copy(update={"embedder": spec.kind, "embedder_url": spec.url})
        if spec not in self._made:
            self._made[spec] = registry.make(spec, EmbedderTools(self._opened_client, settings, self._ledger))
        return self._made[spec]

    def choose(self, active: Model | None, wanted: Spec | None) -> Choice:
        """The embedder that goes on: the database's own if it has one, else the one that is wanted."""
        if wanted is not None and wanted.kind == registry.NONE:
            return Choice(None)
        if active is None:
            return Choice(self.of(wanted or DEFAULT))
        meant = self.of(wanted or spec_of(active))
        if meant.name == active.name:
            return Choice(meant)
        own = self.of(spec_of(active))
        if own.name == active.name:
            return Choice(own, _two_models(meant.name, active.name))
        return Choice(None, _outdated(active.name, own.name))

    async def ask(
        self, embedder: Embedder, texts: Sequence[str], *, dimensions: int | None, question: bool = False
    ) -> EmbeddedTexts:
        """Vectors that are fit to be stored; raises `EmbeddingError` where there are none to be had."""
        most = embedder.limits.chars_per_text
        cut = [text[:most] for text in texts]
        try:
            answer = await embedder.embed(cut, question=question)
        except FetchError as problem:
            raise in_embedding_words(problem) from problem
        from rowen.enrich.vectors import packed, units

        found = units(
            answer.vectors, name=embedder.name, count=len(texts), dimensions=dimensions, parts=answer.parts or None
        )
        vectors = iter(packed(found))
        by_text = [list(islice(vectors, count)) for count in answer.parts or [1] * len(texts)]
        truncated = max(answer.truncated, sum(len(text) > most for text in texts))
        return EmbeddedTexts(by_text, found.shape[1], answer.tokens, truncated)

    def circuits(self) -> dict[str, Stats]:
        """What the circuits of the providers have seen in this process."""
        return self._client.breakers.stats() if self._client is not None else {}

    def is_circuit_open(self) -> bool:
        """Whether a provider is not called at the moment."""
        return any(stats.state == "open" for stats in self.circuits().values())

    async def close(self) -> None:
        """Let go of everything."""
        for embedder in self._made.values():
            await embedder.close()
        self._made.clear()
        await self._open.aclose()
        self._client = None

    async def _opened_client(self) -> Client:
        if self._client is None:
            from rowen.net.client import Client
            from rowen.net.politeness import Throttle

            # A provider is asked as often as it allows; being polite is for those who did not invite us.
            throttle = Throttle(delay_s=0, concurrency=8, longest_s=self._settings.retry_after_limit_s)
            settings = self._settings.for_source(self._settings.embedder_url or "")
            breakers = self._breakers(settings) if self._breakers is not None else None
            client = Client(settings, throttle=throttle, breakers=breakers)
            self._client = await self._open.enter_async_context(client)
        return self._client


def _two_models(wanted: str, active: str) -> Hint:
    return Hint(
        f"The settings name the embedder {wanted}, the vectors here are of {active}, which goes on being used. ",
        action("embed"),
        " makes those of the other one beside them, and then switches.",
    )


def _outdated(active: str, now: str) -> Hint:
    return Hint(
        f"The vectors here are of {active}, which this version cannot make any more; search goes by words alone. ",
        action("embed"),
        f" makes those of {now} beside them, and then switches.",
    )


def in_embedding_words(problem: FetchError) -> EmbeddingError:
    """What a failed exchange means for embedding."""
    words: dict[str, Any] = {"hint": problem.hint or WAITING}
    if isinstance(problem, AddressRefusedError) or not (problem.retryable or isinstance(problem, CircuitOpenError)):
        return EmbeddingError(str(problem), **words)
    if isinstance(problem, CircuitOpenError):
        words["retry_in_s"] = problem.retry_in_s
    return EmbedderDownError(str(problem), **words)


class LanguageModels:
    """Made when first asked for, with a client and circuits of their own: a dead web site does not trip them."""

    def __init__(
        self, settings: Settings, ledger: Ledger, *, breakers: Callable[[Settings], Breakers] | None = None
    ) -> None:
        self._settings = settings
        self._breakers = breakers
        self._ledger = ledger
        self._made: dict[str | None, LanguageModel] = {}
        self._clients: dict[str | None, Client] = {}
        self._open = AsyncExitStack()

    def has(self, model: str | None = None) -> bool:
        """Whether there is anybody to ask."""
        return self._named(model)[0].llm is not None

    def of(self, model: str | None = None) -> LanguageModel:
        """The model that the settings name, or another one at the same address.

        `anthropic:claude-haiku-4-5` is one of another kind, at the provider's own address and with its usual key.
        """
        from rowen.enrich.llm.base import ModelTools
        from rowen.enrich.llm.registry import make

        if model not in self._made:
            settings, name = self._named(model)
            tools = ModelTools(lambda: self._opened_client(settings), settings, self._ledger)
            self._made[model] = make(tools, model=name)
        return self._made[model]

    async def close(self) -> None:
        """Finish the ledger, and let go of everything."""
        for model in self._made.values():
            await model.close()
        self._made.clear()
        await self._open.aclose()
        self._clients.clear()

    def _named(self, model: str | None) -> tuple[Settings, str | None]:
        """The settings for a model by its name, which may begin with its kind."""
        from rowen.enrich.llm.registry import KINDS

        kind, colon, name = (model or "").partition(":")
        if not (colon and name and kind in KINDS):
            return self._settings, model
        if kind == self._settings.llm:
            return self._settings, name
        # Neither address, key nor price of the settings are meant for it, save a price under its own name.
        named = [part for part in (self._settings.llm_price or "").split(",") if "=" in part]
        other = {"llm": kind, "llm_url": None, "llm_key": None, "llm_price": ",".join(named) or None}
        return self._settings.model_copy(update=other), name

    async def _opened_client(self, settings: Settings) -> Client:
        if settings.llm not in self._clients:
            from rowen.net.client import Client
            from rowen.net.politeness import Throttle

            # A provider is asked as often as it allows, and by as many at a time as the settings say.
            bound = settings.for_source(settings.llm_url or "")
            most, longest_s = bound.llm_concurrency, bound.retry_after_limit_s
            throttle = Throttle(delay_s=0, concurrency=most, longest_s=longest_s)
            breakers = self._breakers(bound) if self._breakers is not None else None
            client = Client(bound, throttle=throttle, breakers=breakers)
            self._clients[settings.llm] = client
            await self._open.enter_async_context(client)
        return self._clients[settings.llm]


def facts_wanted(carried: Sequence[Carried]) -> FactsWanted | None:
    """What is kept of the markup of pages, for the schemas that their source carries; None for none."""
    if not carried:
        return None
    from rowen.enrich.extract.structured import wanted_names

    rules = [
        (f"{one.schema.name}.{name}", rule["at"])
        for one in carried
        for name, rule in sorted(one.rules.items())
        if "at" in rule
    ]
    return FactsWanted(wanted_names([one.schema for one in carried]), tuple(rules)) or None
