"""Own the embedders, language models and circuits of an engine; commands that only query the database need none."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import cached_property, partial
from typing import TYPE_CHECKING

from rowen.harvest.background import BackgroundEmbedding
from rowen.harvest.circuits import CircuitReports
from rowen.harvest.models import Embedders
from rowen.settings import Settings
from rowen.store.database import Database
from rowen.store.ledger import ProviderLedger

if TYPE_CHECKING:
    from rowen.harvest.language_models import LanguageModels


class Resources:
    """Owns the circuits, the embedders with their background task, and the language models."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._ledger = ProviderLedger(database)
        self.circuits = CircuitReports(database, settings, recovered=lambda: self.embedding.retry())
        self.embedders = Embedders(settings, self._ledger, breakers=partial(self.circuits.breakers, "embedder"))
        self.embedding = BackgroundEmbedding(settings, database, self.embedders)

    @cached_property
    def language_models(self) -> LanguageModels:
        """The language models, which only an extraction needs."""
        from rowen.harvest.language_models import LanguageModels

        return LanguageModels(self._settings, self._ledger, breakers=partial(self.circuits.breakers, "model"))

    async def close(self) -> None:
        """Close all resources, even if one of them fails."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.circuits.close)
            if "language_models" in vars(self):
                stack.push_async_callback(self.language_models.close)
            stack.push_async_callback(self.embedders.close)
            stack.push_async_callback(self.embedding.close)
