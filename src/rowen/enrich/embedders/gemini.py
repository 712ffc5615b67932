"""Google's Gemini API for embeddings."""

from collections.abc import Sequence
from typing import Any, ClassVar

from rowen.enrich.base import Embedded, EmbedderTools, Limits, Spec
from rowen.enrich.embedders.remote import RemoteModel, base_url, embedder_key, embedder_price, guessed_tokens
from rowen.enrich.gemini import HOME, model_name

__all__ = ["Gemini"]

DEFAULT_MODEL = "gemini-embedding-001"


class Gemini:
    """`batchEmbedContents` of one model. Passages and questions are told apart, as the model was trained."""

    kind: ClassVar[str] = "gemini"

    def __init__(self, spec: Spec, tools: EmbedderTools) -> None:
        url = base_url(spec.url, HOME)
        model = model_name(spec.model or DEFAULT_MODEL)
        settings = tools.settings
        self._spec = Spec(self.kind, model, spec.dimensions, url)
        self.name = f"gemini:{model}" + (f":{spec.dimensions}" if spec.dimensions else "")
        self.weight = 1.0
        self.price = embedder_price(settings, url, model)
        # The API takes 100 texts of 2,048 tokens: 6,000 characters are no more than that in most languages.
        self.limits = Limits(texts=100, tokens=20_000, chars_per_text=6_000, concurrency=4).within(settings)
        how = {"default": "env:GEMINI_API_KEY", "header": "x-goog-api-key"}
        key = embedder_key(settings, kind=self.kind, home=HOME, **how)
        self._remote = RemoteModel(url, model, tools=tools, key=key, price=self.price)

    @property
    def spec(self) -> Spec:
        """With the address and the model that are meant where none was named."""
        return self._spec

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> Embedded:
        """The vectors in the order of the texts; Gemini does not say how many tokens they were."""
        task = "RETRIEVAL_QUERY" if question else "RETRIEVAL_DOCUMENT"
        answer = await self._remote.post(
            f"{self._spec.url}/models/{self._spec.model}:batchEmbedContents",
            {"requests": [self._request(text, task) for text in texts]},
            texts,
        )
        found = answer.get("embeddings")
        if not isinstance(found, list):
            raise self._remote.unreadable("it has no list `embeddings`")
        vectors = [one.get("values") if isinstance(one, dict) else None for one in found]
        if not all(isinstance(vector, list) for vector in vectors):
            raise self._remote.unreadable("an entry of `embeddings` has no vector")
        return Embedded(vectors, guessed_tokens(texts))

    async def close(self) -> None:
        """Finish the ledger; the client belongs to the flow."""
        await self._remote.close()

    def _request(self, text: str, task: str) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": f"models/{self._spec.model}",
            "content": {"parts": [{"text": text}]},
            "taskType": task,
        }
        if self._spec.dimensions:
            request["outputDimensionality"] = self._spec.dimensions
        return request
