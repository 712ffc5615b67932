"""Embedders over HTTP: OpenAI's API, which many servers implement, and Google's Gemini."""

import base64
import binascii
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from rowen.enrich.base import WAITING, Embedded, EmbedderTools, Limits, Spec
from rowen.enrich.provider import GEMINI_HOME, Key, PaidCall, Provider, api_address, gemini_model, known_price
from rowen.errors import (
    BadVectorsError,
    BudgetExceededError,
    ConfigurationError,
    EmbedderDownError,
    EmbeddingError,
    ProviderAnswerError,
    ProviderDownError,
    ProviderError,
    ProviderKeyError,
    ProviderRefusedError,
    TextsRefusedError,
)
from rowen.model.models import Price, TokenUsage, tokens
from rowen.net.target import parse, redact

# English has about four characters per token. Used for estimates, and if a provider reports no counts.
_CHARS_PER_TOKEN = 4


class _RemoteEmbedder(ABC):
    """A model of a provider, with the key, the price, and the conversion of errors."""

    kind: ClassVar[str]
    home: ClassVar[str]
    default_model: ClassVar[str]
    # The reference to the usual key, the header for the key, and the format of the header.
    key: ClassVar[tuple[str, str, str]]
    weight = 1.0

    def __init__(self, spec: Spec, tools: EmbedderTools, limits: Limits) -> None:
        settings = tools.settings
        url = api_address(spec.url, self.home, key_setting="ROWEN_EMBEDDER_KEY")
        model = self._model(spec.model, url)
        self.spec = Spec(self.kind, model, spec.dimensions, url)
        self.name = f"{self.kind}:{model}" + (f":{spec.dimensions}" if spec.dimensions else "")
        self.limits = limits.within(settings)
        listed = known_price(url, model)
        self.price = settings.embedder_price if settings.embedder_price is not None else listed and listed.sent_usd
        # The key is sent only to the address in the settings. The address in the specification may come from a database
        # that other users can write.
        is_meant = settings.embedder in (None, self.kind)
        named = (settings.embedder_url if is_meant else None) or self.home
        default, header, form = self.key
        usual = default if parse(named).origin == parse(self.home).origin else None
        value = settings.embedder_key.get_secret_value() if is_meant and settings.embedder_key else usual
        key = Key.for_address(named, value, header=header, form=form, setting="ROWEN_EMBEDDER_KEY")
        self._provider = Provider(url, key=key, client=tools.client, settings=settings, ledger=tools.ledger)

    @abstractmethod
    async def embed(self, texts: Sequence[str], *, question: bool = False) -> Embedded:
        """Return the vectors in the order of the texts."""

    async def close(self) -> None:
        """Wait until every attempt is recorded; the HTTP client is not closed, since its owner is the flow."""
        await self._provider.close()

    def _model(self, named: str | None, url: str) -> str:
        return named or self.default_model

    def _usage(self, answer: dict[str, Any]) -> TokenUsage | None:
        """Return the token counts of the provider; None if the answer has none."""
        return None

    async def _post(self, path: str, request: dict[str, Any], texts: Sequence[str]) -> dict[str, Any]:
        """Return the JSON object of the answer; raise an `EmbeddingError` if the call fails."""
        call = PaidCall(
            purpose="embed",
            model=str(self.spec.model),
            inputs=len(texts),
            expected=TokenUsage(_guessed_tokens(texts)),
            price=None if self.price is None else Price(self.price),
            usage=self._usage,
        )
        try:
            return await self._provider.post(f"{self.spec.url}{path}", request, call)
        except ProviderError as problem:
            # Callers recognise an open circuit by the cause.
            raise self._as_embedding_error(problem) from problem.__cause__ or problem

    def _unreadable(self, why: str) -> EmbeddingError:
        return self._as_embedding_error(self._provider.unreadable(why))

    def _as_embedding_error(self, problem: ProviderError) -> EmbeddingError:
        message = str(problem)
        match problem:
            case ProviderAnswerError():
                return BadVectorsError(
                    f"{message} Nothing of it was stored.",
                    hint="Is ROWEN_EMBEDDER_URL the base address of its API, and not of its web page?",
                )
            case ProviderKeyError() if self._provider.is_named:
                hint = "ROWEN_EMBEDDER_KEY holds it, or says where it is found: env:NAME or file:PATH."
                return EmbeddingError(message, hint=hint)
            case ProviderKeyError():
                hint = "No key was sent, since the address comes from the database."
                return EmbeddingError(message, hint=f"{hint} Name it in ROWEN_EMBEDDER_URL as well.")
            case ProviderRefusedError():
                return TextsRefusedError(message)
            case ProviderDownError():
                hint_now = problem.hint or WAITING
                return EmbedderDownError(message, retry_in_s=problem.retry_in_s, busy=problem.busy, hint=hint_now)
            case BudgetExceededError(scope="price"):
                return EmbeddingError(message, hint="Set ROWEN_EMBEDDER_PRICE; 0 for a server of your own.")
            case BudgetExceededError():
                hint = "The texts keep waiting. ROWEN_BUDGET_RUN_USD, _SOURCE_USD and _DAY_USD set the budgets."
                return EmbeddingError(message, hint=hint)
        return EmbeddingError(message, hint=problem.hint or "Check ROWEN_EMBEDDER_URL and ROWEN_EMBEDDER_MODEL.")


class OpenAI(_RemoteEmbedder):
    """Any server that implements `POST /embeddings`: OpenAI, Ollama, vLLM, llama.cpp, LM Studio and many others."""

    kind = "openai"
    home = "https://api.openai.com/v1"
    default_model = "text-embedding-3-small"
    key = ("env:OPENAI_API_KEY", "Authorization", "Bearer {}")

    def __init__(self, spec: Spec, tools: EmbedderTools) -> None:
        # OpenAI accepts 2,048 texts, 300,000 tokens and 8,192 tokens per text. Smaller requests lose less in a failure,
        # and fit into the memory of private servers.
        super().__init__(spec, tools, Limits(texts=128, tokens=100_000, chars_per_text=8_000, concurrency=4))

    def _model(self, named: str | None, url: str) -> str:
        if named is None and url != self.home:
            raise ConfigurationError(f"No model of {redact(url)} is set.", hint="Set ROWEN_EMBEDDER_MODEL to its name.")
        return named or self.default_model

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> Embedded:
        """Return the vectors in the order of the texts; in the answer, each vector has the index of its text."""
        request: dict[str, Any] = {"model": self.spec.model, "input": list(texts)}
        if self.spec.url == self.home:
            # base64 needs a third of the bytes. Servers that do not support it ignore the parameter.
            request["encoding_format"] = "base64"
        if self.spec.dimensions:
            request["dimensions"] = self.spec.dimensions
        answer = await self._post("/embeddings", request, texts)
        entries = answer.get("data")
        if not isinstance(entries, list):
            raise self._unreadable("it has no list `data`")
        if not all(isinstance(entry, dict) for entry in entries):
            raise self._unreadable("an entry of `data` is no object")
        indexes = [entry.get("index", place) for place, entry in enumerate(entries)]
        if sorted(map(str, indexes)) != sorted(map(str, range(len(entries)))):
            raise self._unreadable("the indexes of its vectors are not those of the texts")
        vectors: list[Any] = [None] * len(entries)
        for index, entry in zip(indexes, entries, strict=True):
            vector = entry.get("embedding")
            if isinstance(vector, str):
                import numpy as np

                try:
                    vector = np.frombuffer(base64.b64decode(vector, validate=True), "<f4")
                except (binascii.Error, ValueError):
                    raise self._unreadable("a vector in base64 is broken") from None
            elif not isinstance(vector, list):
                raise self._unreadable("an entry of `data` has no vector")
            vectors[int(index)] = vector
        usage = self._usage(answer)
        return Embedded(vectors, usage.sent if usage else _guessed_tokens(texts))

    def _usage(self, answer: dict[str, Any]) -> TokenUsage | None:
        # Many local servers do not report tokens.
        usage = answer.get("usage")
        for name in ("total_tokens", "prompt_tokens"):
            if isinstance(usage, dict) and (count := tokens(usage.get(name))):
                return TokenUsage(count)
        return None


class Gemini(_RemoteEmbedder):
    """`batchEmbedContents` of Google's Gemini API, with task types for passages and questions."""

    kind = "gemini"
    home = GEMINI_HOME
    default_model = "gemini-embedding-001"
    key = ("env:GEMINI_API_KEY", "x-goog-api-key", "{}")

    def __init__(self, spec: Spec, tools: EmbedderTools) -> None:
        # The API accepts 100 texts of 2,048 tokens, which are 6,000 characters in most languages.
        super().__init__(spec, tools, Limits(texts=100, tokens=20_000, chars_per_text=6_000, concurrency=4))

    def _model(self, named: str | None, url: str) -> str:
        return gemini_model(named or self.default_model)

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> Embedded:
        """Return the vectors in the order of the texts. The tokens are estimated, since Gemini does not count them."""
        common: dict[str, Any] = {
            "model": f"models/{self.spec.model}",
            "taskType": "RETRIEVAL_QUERY" if question else "RETRIEVAL_DOCUMENT",
        }
        if self.spec.dimensions:
            common["outputDimensionality"] = self.spec.dimensions
        requests = [{**common, "content": {"parts": [{"text": text}]}} for text in texts]
        answer = await self._post(f"/models/{self.spec.model}:batchEmbedContents", {"requests": requests}, texts)
        entries = answer.get("embeddings")
        if not isinstance(entries, list):
            raise self._unreadable("it has no list `embeddings`")
        vectors = [entry.get("values") if isinstance(entry, dict) else None for entry in entries]
        if not all(isinstance(vector, list) for vector in vectors):
            raise self._unreadable("an entry of `embeddings` has no vector")
        return Embedded(vectors, _guessed_tokens(texts))


def _guessed_tokens(texts: Sequence[str]) -> int:
    return sum(len(text) // _CHARS_PER_TOKEN + 1 for text in texts)
