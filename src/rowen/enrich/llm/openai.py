"""OpenAI's chat completions, which llama.cpp, vLLM, LM Studio, Ollama and many others speak as well."""

from collections.abc import Mapping
from typing import Any, ClassVar

from rowen.enrich.llm.base import ModelQuestion, ModelReply, ModelSpec, ModelTools
from rowen.enrich.llm.remote import RemoteLanguageModel, with_schema
from rowen.enrich.schemas.derivation import lenient, strict
from rowen.errors import ConfigurationError
from rowen.model.models import TokenUsage, tokens
from rowen.net.target import redact

__all__ = ["OpenAIChat"]

HOME = "https://api.openai.com/v1"
DEFAULT_MODEL = "gpt-4o-mini"
# Fixed, so that the same question has the same answer where a server can promise it.
_SEED = 7
_STRICT, _LENIENT, _JSON, _PLAIN = range(4)


class OpenAIChat:
    """Any server that answers `POST /chat/completions`.

    First a strict JSON schema is tried, then one that is not, then any JSON, then plain text: servers differ in what
    they know, and say so by refusing.
    """

    kind: ClassVar[str] = "openai"

    def __init__(self, tools: ModelTools, model: str | None = None) -> None:
        url = tools.settings.llm_url
        chosen = model or tools.settings.llm_model or (DEFAULT_MODEL if url is None else None)
        if chosen is None:
            raise ConfigurationError(f"Which model of {redact(url or HOME)}?", hint="ROWEN_LLM_MODEL names it.")
        key = ("env:OPENAI_API_KEY", "Authorization", "Bearer {}")
        self._remote = RemoteLanguageModel(kind=self.kind, home=HOME, tools=tools, model=chosen, key=key)
        self.spec = ModelSpec(self.kind, chosen, self._remote.url)
        self.price = self._remote.price
        self._limit = "max_completion_tokens" if self._remote.url == HOME else "max_tokens"

    async def ask(self, question: ModelQuestion) -> ModelReply:
        """One answer. The length is looked at first: what was cut off may have no content at all."""
        _, answer = await self._remote.ask(
            "/chat/completions", question, 4, lambda rung: self._asked(question, rung), usage
        )
        choices = answer.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(choice, dict) or not isinstance(message, dict):
            raise self._remote.unreadable("it has no message")
        used = usage(answer) or TokenUsage()
        if choice.get("finish_reason") == "length":
            return ModelReply(_text(message.get("content")), "length", used)
        if message.get("refusal") or choice.get("finish_reason") == "content_filter":
            return ModelReply(_text(message.get("refusal")) or "it was filtered", "refused", used)
        return ModelReply(_text(message.get("content")), "done", used)

    async def close(self) -> None:
        """Wait until every attempt is recorded."""
        await self._remote.close()

    def _asked(self, question: ModelQuestion, rung: int) -> Mapping[str, Any] | None:
        messages = question.messages if rung <= _LENIENT else with_schema(question.messages, lenient(question.schema))
        asked: dict[str, Any] = {
            "model": self.spec.model,
            "messages": [{"role": one.role, "content": one.text} for one in messages],
            "temperature": 0,
            "seed": _SEED,
            self._limit: question.answer_tokens,
        }
        if rung <= _LENIENT:
            derived = strict(question.schema) if rung == _STRICT else lenient(question.schema)
            if derived is None:
                return None
            form = {"name": question.name, "strict": rung == _STRICT, "schema": derived}
            asked["response_format"] = {"type": "json_schema", "json_schema": form}
        elif rung == _JSON:
            asked["response_format"] = {"type": "json_object"}
        return asked


def _text(content: Any) -> str:
    """The text of a message, which some servers send in parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def usage(answer: dict[str, Any]) -> TokenUsage | None:
    """What the provider counted; all zeros are no count."""
    told = answer.get("usage")
    counted = [told.get(name) for name in ("prompt_tokens", "completion_tokens")] if isinstance(told, dict) else []
    numbers = [*map(tokens, counted)]
    return TokenUsage(*numbers) if any(numbers) else None
