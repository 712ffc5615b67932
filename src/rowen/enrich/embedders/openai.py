"""OpenAI's API for embeddings, which Ollama, vLLM, llama.cpp, LM Studio and many others speak as well."""

import base64
import binascii
from collections.abc import Sequence
from typing import Any, ClassVar

from rowen.enrich.base import Embedded, EmbedderTools, Limits, Spec
from rowen.enrich.embedders.remote import RemoteModel, base_url, embedder_key, embedder_price, guessed_tokens
from rowen.errors import ConfigurationError
from rowen.model.models import TokenUsage, tokens
from rowen.net.target import redact

__all__ = ["OpenAI"]

HOME = "https://api.openai.com/v1"
DEFAULT_MODEL = "text-embedding-3-small"


class OpenAI:
    """Any server that answers `POST /embeddings`."""

    kind: ClassVar[str] = "openai"

    def __init__(self, spec: Spec, tools: EmbedderTools) -> None:
        url = base_url(spec.url, HOME)
        model = spec.model or (DEFAULT_MODEL if url == HOME else None)
        if model is None:
            raise ConfigurationError(f"Which model of {redact(url)}?", hint="ROWEN_EMBEDDER_MODEL names it.")
        settings = tools.settings
        self._spec = Spec(self.kind, model, spec.dimensions, url)
        self.name = f"openai:{model}" + (f":{spec.dimensions}" if spec.dimensions else "")
        self.weight = 1.0
        # OpenAI takes 2,048 texts, 300,000 tokens and 8,192 tokens a text. We send less: a failure costs the whole
        # request, and servers of one's own have less memory.
        self.limits = Limits(texts=128, tokens=100_000, chars_per_text=8_000, concurrency=4).within(settings)
        self.price = embedder_price(settings, url, model)
        how = {"header": "Authorization", "form": "Bearer {}"}
        key = embedder_key(settings, kind=self.kind, home=HOME, default="env:OPENAI_API_KEY", **how)
        self._remote = RemoteModel(url, model, tools=tools, key=key, price=self.price)

    @property
    def spec(self) -> Spec:
        """With the address and the model that are meant where none was named."""
        return self._spec

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> Embedded:
        """The vectors, put into the order of the texts by the index that each one carries."""
        asked: dict[str, Any] = {"model": self._spec.model, "input": list(texts)}
        if self._spec.url == HOME:
            # A third of the bytes. Not every server knows it, but all that do not ignore it answer with numbers.
            asked["encoding_format"] = "base64"
        if self._spec.dimensions:
            asked["dimensions"] = self._spec.dimensions
        answer = await self._remote.post(f"{self._spec.url}/embeddings", asked, texts, _usage)
        data = answer.get("data")
        if not isinstance(data, list):
            raise self._remote.unreadable("it has no list `data`")
        usage = _usage(answer)
        return Embedded(self._in_order(data), usage.sent if usage else guessed_tokens(texts))

    async def close(self) -> None:
        """Finish the ledger; the client belongs to the flow."""
        await self._remote.close()

    def _in_order(self, data: list[Any]) -> list[Any]:
        if not all(isinstance(one, dict) for one in data):
            raise self._remote.unreadable("an entry of `data` is no object")
        indexes = [one.get("index", place) for place, one in enumerate(data)]
        if sorted(map(str, indexes)) != sorted(map(str, range(len(data)))):
            raise self._remote.unreadable("the indexes of its vectors are not those of the texts")
        vectors: list[Any] = [None] * len(data)
        for index, one in zip(indexes, data, strict=True):
            vectors[int(index)] = self._numbers(one.get("embedding"))
        return vectors

    def _numbers(self, vector: Any) -> Any:
        if isinstance(vector, list):
            return vector
        if not isinstance(vector, str):
            raise self._remote.unreadable("an entry of `data` has no vector")
        import numpy as np

        try:
            return np.frombuffer(base64.b64decode(vector, validate=True), "<f4")
        except (binascii.Error, ValueError):
            raise self._remote.unreadable("a vector in base64 is broken") from None


def _usage(answer: dict[str, Any]) -> TokenUsage | None:
    """What the provider counted; many local servers do not."""
    usage = answer.get("usage")
    for name in ("total_tokens", "prompt_tokens"):
        if isinstance(usage, dict) and (count := tokens(usage.get(name))):
            return TokenUsage(count)
    return None
