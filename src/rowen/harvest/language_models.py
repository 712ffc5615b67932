"""Create and hold the language models of one process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from rowen.enrich.ledger import Ledger
from rowen.enrich.llm.base import KINDS, LanguageModel, ModelTools, make
from rowen.harvest.models import provider_client
from rowen.net.circuits import Breakers
from rowen.settings import Settings

if TYPE_CHECKING:
    from rowen.net.client import Client


class LanguageModels:
    """The language models of one process, with their own clients and circuits."""

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
        """Return whether a model is configured."""
        return self._named(model)[0].llm is not None

    def of(self, model: str | None = None) -> LanguageModel:
        """Return the model that the settings name, or the model `model` at the same address.

        `anthropic:claude-haiku-4-5` names a model of another kind, at its provider's own address and with its usual
        key.
        """
        if model not in self._made:
            settings, name = self._named(model)
            tools = ModelTools(lambda: self._opened_client(settings), settings, self._ledger)
            self._made[model] = make(tools, model=name)
        return self._made[model]

    async def close(self) -> None:
        """Close all models, which completes the ledger, and their clients."""
        for model in self._made.values():
            await model.close()
        self._made.clear()
        await self._open.aclose()
        self._clients.clear()

    def _named(self, model: str | None) -> tuple[Settings, str | None]:
        """Return the settings and the name of a model; the name may start with the model's kind."""
        kind, colon, name = (model or "").partition(":")
        if not (colon and name and kind in KINDS):
            return self._settings, model
        if kind == self._settings.llm:
            return self._settings, name
        # Address, key and price of the settings do not apply to another kind, except a price under its own name.
        named = [part for part in (self._settings.llm_price or "").split(",") if "=" in part]
        update: dict[str, Any] = {"llm": kind, "llm_url": None, "llm_key": None, "llm_price": ",".join(named) or None}
        return self._settings.model_copy(update=update), name

    async def _opened_client(self, settings: Settings) -> Client:
        if settings.llm not in self._clients:
            bound = settings.for_source(settings.llm_url or "")
            client = provider_client(bound, self._breakers, concurrency=bound.llm_concurrency)
            self._clients[settings.llm] = await self._open.enter_async_context(client)
        return self._clients[settings.llm]
