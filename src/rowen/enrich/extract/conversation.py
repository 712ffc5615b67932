"""Asking a model about a page until its answer is valid: one question, at most one correction, parts where it is long.

Whatever goes wrong has a name: cut off, refused, too long, no JSON, against the schema. Only the last two are asked
about again, once, with what is wrong; each attempt stands in the ledger.
"""

import asyncio
from dataclasses import replace
from typing import Any, NamedTuple

from rowen.enrich.extract.answers import parsed
from rowen.enrich.extract.merge import merged
from rowen.enrich.extract.parts import cut
from rowen.enrich.extract.prompt import PageText, asked, mended
from rowen.enrich.llm.base import LanguageModel, ModelQuestion, ModelReply
from rowen.enrich.schemas.derivation import without_nulls
from rowen.enrich.schemas.validation import Violation, violations
from rowen.errors import (
    AnswerInvalidError,
    AnswerMismatchError,
    AnswerRefusedError,
    AnswerTruncatedError,
    ContextOverflowError,
)
from rowen.model.models import TokenUsage
from rowen.model.schemas import Schema

__all__ = ["CHARS_PER_TOKEN", "ModelAnswer", "ModelTerms", "answer_of", "expected_tokens"]

CHARS_PER_TOKEN = 3
"""By which a page is cut: English has four or five, German three. A model that still finds it too long says so."""

# A page of which even a sixteenth is too long was measured wrongly, or the model is of no use for pages.
_MOST_HALVINGS = 4
# The instructions and the schema, beside the page.
_OVERHEAD_TOKENS = 600


class ModelAnswer(NamedTuple):
    """A valid answer, and what it took."""

    data: dict[str, Any]
    calls: int
    usage: TokenUsage
    parts: int = 1


class ModelTerms(NamedTuple):
    """On what terms a model is asked: how much at once, how long an answer and its time may be, what the user adds."""

    context_tokens: int
    answer_tokens: int
    instructions: str = ""
    limit_s: float | None = None


class _Told(NamedTuple):
    """One valid answer for one part, with the attempts behind it."""

    data: dict[str, Any]
    calls: int
    usage: TokenUsage


async def answer_of(model: LanguageModel, schema: Schema, page: PageText, terms: ModelTerms) -> ModelAnswer:
    """What a model makes of a page; raises an `ExtractionError` or a `ProviderError`."""
    most_chars = terms.context_tokens * CHARS_PER_TOKEN
    for _ in range(_MOST_HALVINGS + 1):
        parts = cut(page.text, most_chars)
        try:
            return await _in_parts(model, schema, page, parts, terms)
        except ContextOverflowError:
            most_chars = min(most_chars, len(page.text)) // 2
    raise ContextOverflowError(f"{page.url} is too long for {model.spec}, also in {len(parts):,} parts.")


def expected_tokens(schema: Schema, page: PageText, *, context_tokens: int) -> TokenUsage:
    """About what a page will take, before anything is asked."""
    parts = cut(page.text, context_tokens * CHARS_PER_TOKEN)
    size = len(str(dict(schema.definition))) // CHARS_PER_TOKEN
    sent = len(page.told) // 4 + len(parts) * (size + _OVERHEAD_TOKENS)
    # Filled in, a schema is about half as long as what describes it.
    return TokenUsage(sent, len(parts) * max(size // 2, 50))


async def _in_parts(
    model: LanguageModel, schema: Schema, page: PageText, parts: list[str], terms: ModelTerms
) -> ModelAnswer:
    async def one(text: str) -> _Told:
        part = page._replace(text=text)
        purpose = "extract" if len(parts) == 1 else "extract part"
        return await _valid(model, schema, part, terms, purpose, partial=len(parts) > 1)

    # Those that are out are paid for anyway; what failed first in the order of the page is told.
    told: list[_Told] = []
    for result in await asyncio.gather(*map(one, parts), return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
        told.append(result)
    data = merged(schema.definition, [answer.data for answer in told]) if len(told) > 1 else told[0].data
    wrong = violations(schema, data)
    if wrong:
        raise _mismatch(wrong)
    calls, sent, received = (sum(numbers) for numbers in zip(*((t.calls, *t.usage) for t in told), strict=True))
    return ModelAnswer(data, calls, TokenUsage(sent, received), len(parts))


async def _valid(
    model: LanguageModel, schema: Schema, page: PageText, terms: ModelTerms, purpose: str, *, partial: bool
) -> _Told:
    """A valid answer for one text; what is wrong with the first one is told, once."""
    messages = asked(page, terms.instructions)
    question = ModelQuestion(messages, schema.name, schema.definition, terms.answer_tokens, purpose, terms.limit_s)
    reply = await model.ask(question)
    data, wrong = _read(schema, reply, partial=partial)
    if not wrong:
        return _Told(data, 1, reply.usage)
    again = mended(messages, reply.text, wrong)
    second = await model.ask(replace(question, messages=again, purpose="extract repair"))
    data, still = _read(schema, second, partial=partial)
    if not still:
        return _Told(data, 2, TokenUsage(*map(sum, zip(reply.usage, second.usage, strict=True))))
    if all(isinstance(one, Violation) for one in still):
        raise _mismatch(still)
    raise AnswerInvalidError(f"{still[0]} So was the answer before.")


def _read(schema: Schema, reply: ModelReply, *, partial: bool) -> tuple[dict[str, Any], list[Any]]:
    """The data of an answer, and what is wrong with it; raises for what asking again would not mend."""
    if reply.finish == "length":
        raise AnswerTruncatedError(
            "The answer was cut off: it is longer than it may be.",
            hint="ROWEN_LLM_ANSWER_TOKENS sets how long it may be.",
        )
    if reply.finish == "refused":
        raise AnswerRefusedError(f"The model will not answer: {' '.join(reply.text.split())[:200]}")
    try:
        data = without_nulls(parsed(reply.text), schema.definition)
    except AnswerInvalidError as problem:
        return {}, [str(problem)]
    wrong: list[Any] = [*violations(schema, data, partial=partial)]
    return data, wrong


def _mismatch(wrong: list[Any]) -> AnswerMismatchError:
    told = "; ".join(map(str, wrong[:3]))
    return AnswerMismatchError(f"The answer breaks the schema: {told}.")
