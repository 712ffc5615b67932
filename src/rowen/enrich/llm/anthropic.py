"""Anthropic's messages."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from rowen.enrich.llm.base import Finish, ModelQuestion, ModelReply, ModelSpec, ModelTools
from rowen.enrich.llm.remote import RemoteLanguageModel
from rowen.enrich.schemas.derivation import lenient, strict
from rowen.model.models import TokenUsage, tokens

__all__ = ["Anthropic"]

HOME = "https://api.anthropic.com/v1"
DEFAULT_MODEL = "claude-haiku-4-5"
_FORMAT, _TOOL = range(2)
_ENDS: Mapping[str, Finish] = {"max_tokens": "length", "refusal": "refused", "model_context_window_exceeded": "length"}


class Anthropic:
    """Structured output where the model has it, else a tool that it must call, by which all models give data."""

    kind: ClassVar[str] = "anthropic"

    def __init__(self, tools: ModelTools, model: str | None = None) -> None:
        chosen = model or tools.settings.llm_model or DEFAULT_MODEL
        self._remote = RemoteLanguageModel(
            kind=self.kind,
            home=HOME,
            tools=tools,
            model=chosen,
            key=("env:ANTHROPIC_API_KEY", "x-api-key", "{}"),
            headers={"anthropic-version": "2023-06-01"},
        )
        self.spec = ModelSpec(self.kind, chosen, self._remote.url)
        self.price = self._remote.price

    async def ask(self, question: ModelQuestion) -> ModelReply:
        """One answer; what a tool was called with is JSON again."""
        _, answer = await self._remote.ask("/messages", question, 2, lambda rung: self._asked(question, rung), _usage)
        blocks = answer.get("content")
        if not isinstance(blocks, list):
            raise self._remote.unreadable("it has no content")
        finish = _ENDS.get(str(answer.get("stop_reason")), "done")
        return ModelReply("".join(map(_text, blocks)), finish, _usage(answer) or TokenUsage())

    async def close(self) -> None:
        """Wait until every attempt is recorded."""
        await self._remote.close()

    def _asked(self, question: ModelQuestion, rung: int) -> Mapping[str, Any] | None:
        derived = strict(question.schema)
        asked: dict[str, Any] = {
            "model": self.spec.model,
            "max_tokens": question.answer_tokens,
            "temperature": 0,
            "system": "\n\n".join(one.text for one in question.messages if one.role == "system"),
            "messages": [{"role": m.role, "content": m.text} for m in question.messages if m.role != "system"],
        }
        if rung == _FORMAT:
            if derived is None:
                return None
            return {**asked, "output_config": {"format": {"type": "json_schema", "schema": derived}}}
        told = {"name": question.name, "description": "The facts.", "input_schema": derived or lenient(question.schema)}
        return {**asked, "tools": [told], "tool_choice": {"type": "tool", "name": question.name}}


def _text(block: Any) -> str:
    if not isinstance(block, dict):
        return ""
    if block.get("type") == "tool_use":
        return json.dumps(block.get("input"), ensure_ascii=False)
    return str(block.get("text") or "") if block.get("type") == "text" else ""


def _usage(answer: dict[str, Any]) -> TokenUsage | None:
    told = answer.get("usage")
    if not isinstance(told, dict):
        return None
    sent = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    numbers = [sum(tokens(told.get(name)) for name in sent), tokens(told.get("output_tokens"))]
    return TokenUsage(*numbers) if any(numbers) else None
