"""The language models of one process, and what a source's schemas want of its pages."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from rowen.model.facts import FactsWanted
from rowen.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rowen.enrich.ledger import Ledger
    from rowen.enrich.llm.base import LanguageModel
    from rowen.net.breaker import Breakers
    from rowen.net.client import Client
    from rowen.store.source_schemas import Carried

__all__ = ["LanguageModels", "facts_wanted"]


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
