"""Google's Gemini API for text."""

from collections.abc import Mapping
from typing import Any, ClassVar

from rowen.enrich.gemini import HOME, model_name
from rowen.enrich.llm.base import Finish, ModelQuestion, ModelReply, ModelSpec, ModelTools
from rowen.enrich.llm.remote import RemoteLanguageModel, with_schema
from rowen.enrich.schemas.derivation import lenient
from rowen.model.models import TokenUsage, tokens

__all__ = ["GeminiChat"]

DEFAULT_MODEL = "gemini-2.5-flash-lite"
_SCHEMA, _JSON = range(2)
_ENDS: Mapping[str, Finish] = {"STOP": "done", "MAX_TOKENS": "length", "FINISH_REASON_UNSPECIFIED": "done"}


class GeminiChat:
    """`generateContent` with a JSON schema, or with JSON alone where that is refused."""

    kind: ClassVar[str] = "gemini"

    def __init__(self, tools: ModelTools, model: str | None = None) -> None:
        chosen = model_name(model or tools.settings.llm_model or DEFAULT_MODEL)
        key = ("env:GEMINI_API_KEY", "x-goog-api-key", "{}")
        self._remote = RemoteLanguageModel(kind=self.kind, home=HOME, tools=tools, model=chosen, key=key)
        self.spec = ModelSpec(self.kind, chosen, self._remote.url)
        self.price = self._remote.price

    async def ask(self, question: ModelQuestion) -> ModelReply:
        """One answer; a prompt that was blocked has no candidates at all."""
        path = f"/models/{self.spec.model}:generateContent"
        _, answer = await self._remote.ask(path, question, 2, lambda rung: self._asked(question, rung), _usage)
        used = _usage(answer) or TokenUsage()
        candidates = answer.get("candidates")
        if not isinstance(candidates, list) or not candidates or not isinstance(candidates[0], dict):
            blocked = answer.get("promptFeedback")
            why = blocked.get("blockReason") if isinstance(blocked, dict) else None
            if why is None:
                raise self._remote.unreadable("it has no candidates")
            return ModelReply(str(why), "refused", used)
        content = candidates[0].get("content")
        parts = content.get("parts") if isinstance(content, dict) else None
        text = "".join(str(p.get("text") or "") for p in parts or () if isinstance(p, dict) and not p.get("thought"))
        reason = str(candidates[0].get("finishReason") or "STOP")
        finish = _ENDS.get(reason, "refused")
        return ModelReply(text or reason if finish == "refused" else text, finish, used)

    async def close(self) -> None:
        """Wait until every attempt is recorded."""
        await self._remote.close()

    def _asked(self, question: ModelQuestion, rung: int) -> Mapping[str, Any]:
        derived = lenient(question.schema)
        messages = question.messages if rung == _SCHEMA else with_schema(question.messages, derived)
        roles = {"user": "user", "assistant": "model"}
        form: dict[str, Any] = {
            "temperature": 0,
            "maxOutputTokens": question.answer_tokens,
            "responseMimeType": "application/json",
        }
        if rung == _SCHEMA:
            form["responseJsonSchema"] = derived
        return {
            "systemInstruction": {"parts": [{"text": one.text} for one in messages if one.role == "system"]},
            "contents": [
                {"role": roles[one.role], "parts": [{"text": one.text}]} for one in messages if one.role != "system"
            ],
            "generationConfig": form,
        }


def _usage(answer: dict[str, Any]) -> TokenUsage | None:
    told = answer.get("usageMetadata")
    if not isinstance(told, dict):
        return None
    received = tokens(told.get("candidatesTokenCount")) + tokens(told.get("thoughtsTokenCount"))
    numbers = [tokens(told.get("promptTokenCount")), received]
    return TokenUsage(*numbers) if any(numbers) else None
