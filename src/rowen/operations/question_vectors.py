"""The vectors of questions: made once, under the model that search uses."""

import asyncio
from typing import NamedTuple

from rowen.enrich import registry
from rowen.errors import ConfigurationError, EmbeddingError
from rowen.harvest.engine import Engine
from rowen.harvest.models import wanted_spec
from rowen.model.hashes import text_hash
from rowen.model.text import normalise
from rowen.store.search import embeddings
from rowen.store.search.embeddings import Model

__all__ = ["QuestionVector", "QuestionVectors"]

QUESTION_CHARS = 2_000
"""About 500 tokens, which every model reads whole; a longer question is a document, and its beginning tells enough."""


class QuestionVector(NamedTuple):
    """The vector of what is asked, under the model that search uses; or why there is none."""

    vector: str | None
    model: Model | None = None
    trouble: str | None = None


class QuestionVectors:
    """Turns questions into vectors; those that were asked before are stored."""

    def __init__(self, engine: Engine) -> None:
        self._settings = engine.settings
        self._database = engine.database
        self._embedders = engine.embedders

    async def vector_of(self, text: str) -> QuestionVector:
        """The vector of what is asked; None where only words can be searched for."""
        text = normalise(text)[:QUESTION_CHARS].strip()
        if not text or self._settings.embedder == registry.NONE:
            return QuestionVector(None)
        async with self._database.connection() as c:
            model = await embeddings.active(c)
            if model is None or model.dimensions is None:
                return QuestionVector(None, model)
            known = await embeddings.query_vector(c, model.id, text_hash(text))
        if known is not None:
            return QuestionVector(known, model)
        try:
            vector = await self._ask(text, model)
        except (EmbeddingError, ConfigurationError, TimeoutError) as problem:
            why = str(problem) or f"{model.name} did not answer in {self._settings.embedder_question_limit_s:g} s."
            return QuestionVector(None, model, why)
        async with self._database.connection() as c:
            await embeddings.store_query_vector(c, model.id, text_hash(text), vector)
        return QuestionVector(vector, model)

    async def _ask(self, text: str, model: Model) -> str:
        from rowen.enrich.vectors import written

        embedder, remark = self._embedders.choose(model, wanted_spec(self._settings))
        if embedder is None:
            raise EmbeddingError(remark or f"There is no embedder for {model.name}.")
        # A model of this machine takes as long to load as it takes; only others can keep one waiting.
        limit_s = None if embedder.limits.heavy else self._settings.embedder_question_limit_s
        async with asyncio.timeout(limit_s):
            answer = await self._embedders.ask(embedder, [text], dimensions=model.dimensions, question=True)
        return written(answer.vectors[0][0])
