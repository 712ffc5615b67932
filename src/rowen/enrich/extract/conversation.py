"""Extraction by a language model: one question, at most one correction; long pages are divided into parts.

An answer that is no JSON, or breaks the schema, is corrected once. Truncated and refused answers, and texts that are
too long, are errors. Each attempt is recorded in the ledger.
"""

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, NamedTuple, NoReturn

from rowen.enrich.extract.prompt import PageText, correction_question, page_question
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
from rowen.model.hashes import canonical_json, storable
from rowen.model.models import TokenUsage
from rowen.model.schemas import Schema
from rowen.model.text import finite

CHARS_PER_TOKEN = 3
"""An estimate for dividing a page: English has four or five characters per token, German three. A model rejects a text
that is too long.
"""
# If a sixteenth of a page is still too long, the limit is wrong, or the model is not suitable for pages.
_MOST_HALVINGS = 4
# The instructions and the schema, which are sent with the page.
_OVERHEAD_TOKENS = 600
_ANSWER_FENCE = re.compile(r"```[a-zA-Z]*\s*\n(.*?)(?:\n```|\Z)", re.DOTALL)
_COMMA = re.compile(r",(\s*[}\]])")
# An answer has up to 8,192 tokens, or 40 kB of JSON; a much longer text is not a useful answer.
_MOST_CHARS = 1_000_000
# Fields that identify the entries of a list; they precede the fields that the schema requires.
_NAMES = ("id", "url", "sku", "version", "name", "title")
_HEADING = re.compile(r"(#{1,6})\s+(.*)")
_FENCE = re.compile(r"\s*(```|~~~)")


class ModelAnswer(NamedTuple):
    """A valid answer and its cost."""

    data: dict[str, Any]
    calls: int
    usage: TokenUsage
    parts: int = 1


class ModelTerms(NamedTuple):
    """The limits of a question: context size, answer length and time; and the user's additional instructions."""

    context_tokens: int
    answer_tokens: int
    instructions: str = ""
    limit_s: float | None = None


async def answer_of(model: LanguageModel, schema: Schema, page: PageText, terms: ModelTerms) -> ModelAnswer:
    """Return the model's answer for a page; raise an `ExtractionError` or a `ProviderError`."""
    most_chars = terms.context_tokens * CHARS_PER_TOKEN
    for _ in range(_MOST_HALVINGS + 1):
        parts = cut(page.text, most_chars)
        questions = [
            _valid_answer(model, schema, page._replace(text=part), terms, partial=len(parts) > 1) for part in parts
        ]
        # All questions are paid for; if several fail, the first error in the order of the page is raised.
        answers: list[ModelAnswer] = []
        try:
            for result in await asyncio.gather(*questions, return_exceptions=True):
                if isinstance(result, BaseException):
                    raise result
                answers.append(result)
        except ContextOverflowError:
            most_chars = min(most_chars, len(page.text)) // 2
            continue
        data = merged(schema.definition, [answer.data for answer in answers]) if len(answers) > 1 else answers[0].data
        if wrong := violations(schema, data):
            raise _mismatch(wrong)
        calls = sum(answer.calls for answer in answers)
        usage = TokenUsage(*map(sum, zip(*(answer.usage for answer in answers), strict=True)))
        return ModelAnswer(data, calls, usage, len(parts))
    raise ContextOverflowError(f"{page.url} is too long for {model.spec}, also in {len(parts):,} parts.")


def expected_tokens(schema: Schema, page: PageText, *, context_tokens: int) -> TokenUsage:
    """Estimate the tokens of a page before the call of the model."""
    parts = cut(page.text, context_tokens * CHARS_PER_TOKEN)
    size = len(str(dict(schema.definition))) // CHARS_PER_TOKEN
    sent = len(page.prompt) // 4 + len(parts) * (size + _OVERHEAD_TOKENS)
    # An answer is about half as long as its schema.
    return TokenUsage(sent, len(parts) * max(size // 2, 50))


async def _valid_answer(
    model: LanguageModel, schema: Schema, page: PageText, terms: ModelTerms, *, partial: bool
) -> ModelAnswer:
    """Return a valid answer for one text; if the first answer is invalid, repeat the question once with the errors."""
    messages = page_question(page, terms.instructions)
    purpose = "extract part" if partial else "extract"
    question = ModelQuestion(messages, schema.name, schema.definition, terms.answer_tokens, purpose, terms.limit_s)
    reply = await model.ask(question)
    data, wrong = _read(schema, reply, partial=partial)
    if not wrong:
        return ModelAnswer(data, 1, reply.usage)
    messages = correction_question(messages, reply.text, wrong)
    second = await model.ask(replace(question, messages=messages, purpose="extract repair"))
    data, wrong = _read(schema, second, partial=partial)
    if not wrong:
        return ModelAnswer(data, 2, TokenUsage(*map(sum, zip(reply.usage, second.usage, strict=True))))
    if all(isinstance(error, Violation) for error in wrong):
        raise _mismatch(wrong)
    raise AnswerInvalidError(f"{wrong[0]} So was the answer before.")


def _read(schema: Schema, reply: ModelReply, *, partial: bool) -> tuple[dict[str, Any], list[Any]]:
    """Return the data of an answer and its violations; raise an error if a correction cannot help."""
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
    return AnswerMismatchError(f"The answer breaks the schema: {'; '.join(map(str, wrong[:3]))}.")


def parsed(text: str) -> dict[str, Any]:
    """Return the JSON object in an answer, made storable; raise `AnswerInvalidError` if there is none.

    Try the whole text first, then a code fence, then the text between braces; then each of these without trailing
    commas.
    """
    if len(text) > _MOST_CHARS:
        raise AnswerInvalidError(f"The answer has {len(text):,} characters.")
    candidates = [text.strip()]
    if fence := _ANSWER_FENCE.search(candidates[0]):
        candidates.append(fence[1])
    begin, end = candidates[0].find("{"), candidates[0].rfind("}")
    if 0 <= begin < end:
        candidates.append(candidates[0][begin : end + 1])
    for candidate in [*candidates, *(_COMMA.sub(r"\1", candidate) for candidate in candidates)]:
        try:
            value = json.loads(candidate, parse_constant=_refuse, parse_float=_number, parse_int=_whole)
            if isinstance(value, dict):
                return dict(storable(value)[0])
        except (ValueError, RecursionError):
            continue
    shown = " ".join(text.split())[:80]
    raise AnswerInvalidError(f"The answer is no JSON object: {shown!r}." if shown else "The answer is empty.")


def _number(digits: str) -> float:
    """Return a number; raise `ValueError` if JSON cannot represent it, such as 1e999."""
    number = finite(float(digits))
    return _refuse(digits) if number is None else number


def _whole(digits: str) -> int:
    """Return an integer; raise an error if it is infinite in other programs, such as an integer of 400 digits."""
    number = int(digits)
    return _refuse(digits) if finite(number) is None else number


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word[:20]} is no JSON")


def merged(definition: Mapping[str, Any], answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the answers for the parts of a page: concatenate lists, and keep the first of several single values."""
    whole: dict[str, Any] = {}
    for answer in answers:
        whole = _objects(definition, whole, answer)
    return whole


def _values(node: Any, first: Any, second: Any) -> Any:
    if first is None:
        return second
    if isinstance(first, list) and isinstance(second, list):
        node = node.get("items") if isinstance(node, Mapping) else None
        # Entries of the same name are merged.
        entries: dict[bytes, Any] = {}
        for entry in [*first, *second]:
            key = _key(node, entry)
            entries[key] = _objects(node, entries[key], entry) if key in entries and isinstance(entry, dict) else entry
        return list(entries.values())
    return _objects(node, first, second) if isinstance(first, dict) and isinstance(second, dict) else first


def _objects(node: Any, first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    fields = (node.get("properties") or {}) if isinstance(node, Mapping) else {}
    return {name: _values(fields.get(name), first.get(name), second.get(name)) for name in {**first, **second}}


def _key(node: Any, entry: Any) -> bytes:
    if not isinstance(entry, dict):
        return canonical_json([entry])
    required = node.get("required") if isinstance(node, Mapping) else None
    name = next((name for name in (*_NAMES, *(required or ())) if entry.get(name) not in (None, "")), None)
    # Entries with the same name but different numbers are different.
    rest = {other: value for other, value in entry.items() if isinstance(value, int | float)}
    return canonical_json([name, entry[name], rest] if name else [None, entry])


def cut(text: str, most_chars: int) -> list[str]:
    """Divide a text into parts of at most `most_chars` characters; adjacent sections share a part if they fit."""
    if len(text) <= most_chars:
        return [text]
    parts: list[str] = []
    for above, section in _sections(text):
        for piece in _pieces(above, section, most_chars):
            if parts and len(parts[-1]) + len(piece) + 2 <= most_chars:
                # Only the headings of the first section of a part are needed.
                parts[-1] += "\n\n" + piece.removeprefix(above).lstrip("\n")
            else:
                parts.append(piece)
    return parts


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """Yield each section of a text, with the headings above the section."""
    path: list[tuple[int, str]] = []
    above = ""
    lines: list[str] = []
    fenced = False
    for line in text.split("\n"):
        fenced ^= bool(_FENCE.match(line))
        if not fenced and (heading := _HEADING.match(line)):
            if lines:
                yield above, "\n".join(lines)
            depth = len(heading[1])
            path = [(level, words) for level, words in path if level < depth]
            above, lines = "\n\n".join(words for _, words in path), []
            path.append((depth, line))
        lines.append(line)
    if lines:
        yield above, "\n".join(lines)


def _pieces(above: str, section: str, most_chars: int) -> Iterator[str]:
    """Yield the parts of a section with the headings above; divide at blank lines, else at lines, else anywhere."""
    # Headings are left out if they fill more than a quarter of a part.
    head = above + "\n\n" if above and len(above) < most_chars // 4 else ""
    room = most_chars - len(head)
    piece = ""
    for block in _blocks(section, room):
        if piece and len(piece) + len(block) > room:
            yield head + piece.strip("\n")
            piece = ""
        piece += block
    if piece.strip():
        yield head + piece.strip("\n")


def _blocks(text: str, room: int) -> Iterator[str]:
    for paragraph in re.split(r"(?<=\n\n)", text):
        if len(paragraph) <= room:
            yield paragraph
            continue
        for line in paragraph.splitlines(keepends=True):
            for begin in accumulate([0] + [room] * (len(line) // room)):
                if begin < len(line):
                    yield line[begin : begin + room]
