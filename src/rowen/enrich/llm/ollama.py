"""Ollama's own API, which holds a model to a schema more reliably than its imitation of OpenAI's."""

from collections.abc import Mapping
from typing import Any, ClassVar

from rowen.enrich.llm.base import Finish, ModelQuestion, ModelReply, ModelSpec, ModelTools
from rowen.enrich.llm.remote import CHARS_PER_TOKEN, RemoteLanguageModel, with_schema
from rowen.enrich.schemas.derivation import lenient
from rowen.errors import ConfigurationError
from rowen.model.models import Price, TokenUsage, tokens

__all__ = ["Ollama"]

HOME = "http://127.0.0.1:11434"
_SEED = 7
# Ollama cuts a prompt without a word at the context that it was told, 4,096 tokens unless told otherwise.
_SPARE_TOKENS = 512


class Ollama:
    """`/api/chat` of a server of one's own: no key, and no price."""

    kind: ClassVar[str] = "ollama"

    def __init__(self, tools: ModelTools, model: str | None = None) -> None:
        chosen = model or tools.settings.llm_model
        if chosen is None:
            raise ConfigurationError("Which model of Ollama?", hint="ROWEN_LLM_MODEL names it, such as llama3.2.")
        key = ("", "Authorization", "Bearer {}")
        self._remote = RemoteLanguageModel(kind=self.kind, home=HOME, tools=tools, model=chosen, key=key)
        self.spec = ModelSpec(self.kind, chosen, self._remote.url)
        if self._remote.price is None:
            self._remote.price = Price(0.0)
        self.price = self._remote.price

    async def ask(self, question: ModelQuestion) -> ModelReply:
        """One answer. The schema stands in the prompt as well: the grammar alone lets a model write empty objects."""
        _, answer = await self._remote.ask("/api/chat", question, 1, lambda _: self._asked(question), _usage)
        message = answer.get("message")
        if not isinstance(message, dict):
            raise self._remote.unreadable("it has no message")
        finish: Finish = "length" if answer.get("done_reason") == "length" else "done"
        return ModelReply(str(message.get("content") or ""), finish, _usage(answer) or TokenUsage())

    async def close(self) -> None:
        """Wait until every attempt is recorded."""
        await self._remote.close()

    def _asked(self, question: ModelQuestion) -> Mapping[str, Any]:
        derived = lenient(question.schema)
        messages = with_schema(question.messages, derived)
        tokens = sum(len(one.text) for one in messages) // CHARS_PER_TOKEN + question.answer_tokens + _SPARE_TOKENS
        return {
            "model": self.spec.model,
            "messages": [{"role": one.role, "content": one.text} for one in messages],
            "stream": False,
            "format": derived,
            "options": {"temperature": 0, "seed": _SEED, "num_predict": question.answer_tokens, "num_ctx": tokens},
        }


def _usage(answer: dict[str, Any]) -> TokenUsage | None:
    numbers = [tokens(answer.get("prompt_eval_count")), tokens(answer.get("eval_count"))]
    return TokenUsage(*numbers) if any(numbers) else None
