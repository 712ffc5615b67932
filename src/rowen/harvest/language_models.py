"""The language models of one process, and what a source's schemas want of its pages."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from rowen.enrich.extract.structured import wanted_names
from rowen.enrich.ledger import Ledger
from rowen.enrich.llm.base import ModelTools
from rowen.enrich.llm.registry import make
from rowen.model.facts import FactsWanted
from rowen.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowen.enrich.llm.base import LanguageModel
    from rowen.fetch.client import Client
    from rowen.store.carried_schemas import Carried

__all__ = ["LanguageModels", "facts_wanted"]


class LanguageModels:
    """Made when first asked for, with a client and circuits of their own: a dead web site does not trip them."""

    def __init__(self, settings: Settings, ledger: Ledger) -> None:
        self._settings = settings
        self._ledger = ledger
        self._made: dict[str | None, LanguageModel] = {}
        self._client: Client | None = None
        self._open = AsyncExitStack()

    @property
    def is_set(self) -> bool:
        """Whether there is anybody to ask."""
        return self._settings.llm is not None

    def of(self, model: str | None = None) -> LanguageModel:
        """The model that the settings name, or another one at the same address."""
        if model not in self._made:
            self._made[model] = make(ModelTools(self._opened_client, self._settings, self._ledger), model=model)
        return self._made[model]

    async def close(self) -> None:
        """Finish the ledger, and let go of everything."""
        for model in self._made.values():
            await model.close()
        self._made.clear()
        await self._open.aclose()
        self._client = None

    async def _opened_client(self) -> Client:
        if self._client is None:
            from rowen.fetch.client import Client
            from rowen.fetch.politeness import Throttle

            # A provider is asked as often as it allows, and by as many at a time as the settings say.
            settings = self._settings.for_source(self._settings.llm_url or "")
            most, longest_s = settings.llm_concurrency, settings.retry_after_limit_s
            throttle = Throttle(delay_s=0, concurrency=most, longest_s=longest_s)
            self._client = await self._open.enter_async_context(Client(settings, throttle=throttle))
        return self._client


def facts_wanted(carried: Sequence[Carried]) -> FactsWanted | None:
    """What is kept of the markup of pages, for the schemas that their source carries; None for none."""
    if not carried:
        return None
    rules = [
        (f"{one.schema.name}.{name}", rule["at"])
        for one in carried
        for name, rule in sorted(one.rules.items())
        if "at" in rule
    ]
    return FactsWanted(wanted_names([one.schema for one in carried]), tuple(rules)) or None
