"""What language models over HTTP have in common: the provider with its key, the ladder of ways to ask, prices."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rowen.enrich.llm.base import Message, ModelQuestion, ModelTools
from rowen.enrich.prices import known_price, told_price
from rowen.enrich.provider import Key, PaidCall, Provider
from rowen.errors import ConfigurationError, ContextOverflowError, ProviderRefusedError
from rowen.model.models import TokenUsage
from rowen.net.target import parse, redact

__all__ = ["RemoteLanguageModel", "with_schema"]

# English has four characters a token, German three: an estimate that is too high only reserves too much.
CHARS_PER_TOKEN = 3
_OVERFLOW_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "string_above_max_length"})
# Some providers have no code for it: theirs is the same for all that they refuse.
_OVERFLOW_WORDS = ("prompt is too long", "context length", "context size", "maximum context", "input token count")

Ask = Callable[[int], Mapping[str, Any] | None]
"""The request for a rung of the ladder; None if the schema cannot be put so."""


class RemoteLanguageModel:
    """One model of a provider. It remembers by which rung of the ladder it can be asked."""

    def __init__(
        self,
        *,
        kind: str,
        home: str,
        tools: ModelTools,
        model: str,
        key: tuple[str, str, str],
        headers: Mapping[str, str] | None = None,
    ) -> None:
        settings = tools.settings
        self.url = _base_url(settings.llm_url, home)
        self.model = model
        self.price = told_price(settings.llm_price, model) or known_price(self.url, model)
        self._rung = 0
        self._answered: set[int] = set()
        self._limit_s = settings.llm_limit_s
        self._dropped: set[str] = set()
        default, header, form = key
        usual = default if parse(self.url).origin == parse(home).origin else None
        value = settings.llm_key.get_secret_value() if settings.llm_key else usual
        self._provider = Provider(
            self.url,
            key=Key.for_address(self.url, value, header=header, form=form, setting="ROWEN_LLM_KEY"),
            client=tools.client,
            settings=settings,
            ledger=tools.ledger,
            headers=headers,
        )
        self.kind = kind

    async def ask(
        self,
        path: str,
        question: ModelQuestion,
        rungs: int,
        request: Ask,
        usage: Callable[[dict[str, Any]], TokenUsage | None],
    ) -> tuple[int, dict[str, Any]]:
        """The answer, and the rung by which it came: the first one that the provider takes, from the last on."""
        refused: ProviderRefusedError | None = None
        form = hash(json.dumps(question.schema, sort_keys=True))
        for rung in range(self._rung, rungs):
            asked = request(rung)
            if asked is None:
                continue
            try:
                answer = await self._posted(path, dict(asked), question, usage)
            except ProviderRefusedError as problem:
                if rung == self._rung and form in self._answered:
                    # This step of the ladder answered another text with this schema, so this text is refused.
                    raise
                # What is wrong with the way of asking is not wrong with the next one; what is, is told as it was first.
                refused = refused or problem
                continue
            if rung != self._rung:
                self._answered.clear()
            self._rung = rung
            self._answered.add(form)
            return rung, answer
        raise refused or ProviderRefusedError(f"{self._provider.name} cannot be asked with this schema.")

    def unreadable(self, why: str) -> Exception:
        """The error for an answer of another shape than agreed."""
        return self._provider.unreadable(why)

    async def close(self) -> None:
        """Wait until every attempt is recorded."""
        await self._provider.close()

    async def _posted(
        self,
        path: str,
        asked: dict[str, Any],
        question: ModelQuestion,
        usage: Callable[[dict[str, Any]], TokenUsage | None],
    ) -> dict[str, Any]:
        """One request; a parameter that the provider does not know is left out from then on."""
        while True:
            sent = {name: value for name, value in asked.items() if name not in self._dropped}
            try:
                return await self._provider.post(f"{self.url}{path}", sent, self._call(sent, question, usage))
            except ProviderRefusedError as problem:
                _raise_overflow(problem)
                if problem.about is None or problem.about not in sent or problem.about in _ESSENTIAL:
                    raise
                self._dropped.add(problem.about)

    def _call(
        self, sent: Mapping[str, Any], question: ModelQuestion, usage: Callable[[dict[str, Any]], TokenUsage | None]
    ) -> PaidCall:
        chars = len(json.dumps(sent, ensure_ascii=False))
        limit_s = question.limit_s or self._limit_s
        return PaidCall(
            purpose=question.purpose,
            model=self.model,
            inputs=1,
            expected=TokenUsage(chars // CHARS_PER_TOKEN + 1, question.answer_tokens),
            price=self.price,
            usage=usage,
            limit_s=limit_s,
            idle_s=limit_s,
        )


_ESSENTIAL = frozenset({"model", "messages", "response_format", "tools", "tool_choice", "contents", "format"})


def with_schema(messages: Sequence[Message], schema: Mapping[str, Any]) -> list[Message]:
    """The conversation with the schema in its words, for models that are not held to it."""
    told = f"\n\nThe JSON Schema of your answer:\n{json.dumps(schema, ensure_ascii=False)}"
    return [Message(one.role, one.text + told) if one.role == "system" else one for one in messages]


def _raise_overflow(problem: ProviderRefusedError) -> None:
    told = str(problem).lower()
    if problem.reason in _OVERFLOW_CODES or any(words in told for words in _OVERFLOW_WORDS):
        raise ContextOverflowError(str(problem), hint="ROWEN_LLM_CONTEXT_TOKENS says how much is sent at once.")


def _base_url(given: str | None, home: str) -> str:
    url = (given or home).rstrip("/")
    if parse(url).login:
        raise ConfigurationError(
            f"{redact(url)} contains a password.",
            hint="Leave it out, and name where the key is found in ROWEN_LLM_KEY.",
        )
    return url
