"""Ask a model about a page until the answer is valid: one question, at most one correction; long pages in parts.

Whatever goes wrong has a name: cut off, refused, too long, no JSON, against the schema. Only the last two are asked
about again, once, with what is wrong; each attempt stands in the ledger.
"""

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, NamedTuple, NoReturn

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
from rowen.model.hashes import canonical_json, storable
from rowen.model.models import TokenUsage
from rowen.model.schemas import Schema
from rowen.model.text import finite

CHARS_PER_TOKEN = 3
"""By which a page is cut: English has four or five, German three. A model that still finds it too long says so."""
# A page of which even a sixteenth is too long was measured wrongly, or the model is of no use for pages.
_MOST_HALVINGS = 4
# The instructions and the schema, beside the page.
_OVERHEAD_TOKENS = 600
_ANSWER_FENCE = re.compile(r"```[a-zA-Z]*\s*\n(.*?)(?:\n```|\Z)", re.DOTALL)
_COMMA = re.compile(r",(\s*[}\]])")
# An answer has up to 8,192 tokens, 40 kB of JSON; ten times that is none.
_MOST_CHARS = 1_000_000
# By which field the entries of a list are known, where the schema does not say what is required.
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
    """The limits of a question: context, length and time of the answer; and instructions that the user adds."""

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
    """Return the model's answer for a page; raise an `ExtractionError` or a `ProviderError`."""
    most_chars = terms.context_tokens * CHARS_PER_TOKEN
    for _ in range(_MOST_HALVINGS + 1):
        parts = cut(page.text, most_chars)
        try:
            return await _in_parts(model, schema, page, parts, terms)
        except ContextOverflowError:
            most_chars = min(most_chars, len(page.text)) // 2
    raise ContextOverflowError(f"{page.url} is too long for {model.spec}, also in {len(parts):,} parts.")


def expected_tokens(schema: Schema, page: PageText, *, context_tokens: int) -> TokenUsage:
    """Estimate the tokens for a page before the model is queried."""
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
    """Return a valid answer for one text; ask once more, with the errors, if the first answer is invalid."""
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
    """Return the data of an answer and its errors; raise for errors that a second question cannot correct."""
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


def parsed(text: str) -> dict[str, Any]:
    """Return the object, without what cannot be stored; raise `AnswerInvalidError` where there is none."""
    if len(text) > _MOST_CHARS:
        raise AnswerInvalidError(f"The answer has {len(text):,} characters.")
    for candidate in _candidates(text.strip()):
        try:
            found = json.loads(candidate, parse_constant=_refuse, parse_float=_number, parse_int=_whole)
            if isinstance(found, dict):
                return dict(storable(found)[0])
        except (ValueError, RecursionError):
            continue
    shown = " ".join(text.split())[:80]
    raise AnswerInvalidError(f"The answer is no JSON object: {shown!r}." if shown else "The answer is empty.")


def _candidates(text: str) -> list[str]:
    """Return the text, what stands in a code fence, what stands between braces; each also without trailing commas."""
    found = [text]
    if fence := _ANSWER_FENCE.search(text):
        found.append(fence[1])
    begin, end = text.find("{"), text.rfind("}")
    if 0 <= begin < end:
        found.append(text[begin : end + 1])
    return [*found, *(_COMMA.sub(r"\1", one) for one in found)]


def _number(digits: str) -> float:
    """Return a number that can be written again: 1e999 cannot."""
    number = finite(float(digits))
    return _refuse(digits) if number is None else number


def _whole(digits: str) -> int:
    """Return an integer that other programs can read: one of 400 digits is infinite to most."""
    number = int(digits)
    return _refuse(digits) if finite(number) is None else number


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word[:20]} is no JSON")


def merged(definition: Mapping[str, Any], answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the answers for the parts of a page: append lists, keep the first of single values."""
    whole: dict[str, Any] = {}
    for answer in answers:
        whole = _objects(definition, whole, answer)
    return whole


def _values(node: Any, first: Any, second: Any) -> Any:
    if first is None:
        return second
    if isinstance(first, list) and isinstance(second, list):
        return _lists(node.get("items") if isinstance(node, Mapping) else None, [*first, *second])
    if isinstance(first, dict) and isinstance(second, dict):
        return _objects(node, first, second)
    return first


def _objects(node: Any, first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    fields = (node.get("properties") or {}) if isinstance(node, Mapping) else {}
    return {
        name: _values(fields.get(name), first.get(name), second.get(name))
        for name in [*first, *(name for name in second if name not in first)]
    }


def _lists(node: Any, entries: Sequence[Any]) -> list[Any]:
    """Entries without repetitions: of the same name they are one, which has what any of them has."""
    found: dict[bytes, Any] = {}
    for entry in entries:
        key = _key(node, entry)
        found[key] = _objects(node, found[key], entry) if key in found and isinstance(entry, dict) else entry
    return list(found.values())


def _key(node: Any, entry: Any) -> bytes:
    if not isinstance(entry, dict):
        return canonical_json([entry])
    required = node.get("required") if isinstance(node, Mapping) else None
    name = next((name for name in (*_NAMES, *(required or ())) if entry.get(name) not in (None, "")), None)
    # What has the same name and costs something else is something else.
    rest = {other: value for other, value in entry.items() if isinstance(value, int | float)}
    return canonical_json([name, entry[name], rest] if name else [None, entry])


class _Section(NamedTuple):
    """A heading with what follows it, and the headings above."""

    above: tuple[str, ...]
    text: str


def cut(text: str, most_chars: int) -> list[str]:
    """Return the parts of a text, none longer than that; neighbouring sections share a part as long as they fit."""
    if len(text) <= most_chars:
        return [text]
    parts: list[str] = []
    for section in _sections(text):
        for piece in _pieces(section, most_chars):
            if parts and len(parts[-1]) + len(piece) + 2 <= most_chars:
                # The part has its headings from its first section; what follows in the text needs them no more.
                parts[-1] += "\n\n" + piece.removeprefix("\n\n".join(section.above)).lstrip("\n")
            else:
                parts.append(piece)
    return parts


def _sections(text: str) -> Iterator[_Section]:
    path: list[tuple[int, str]] = []
    above: tuple[str, ...] = ()
    lines: list[str] = []
    fenced = False
    for line in text.split("\n"):
        fenced ^= bool(_FENCE.match(line))
        found = None if fenced else _HEADING.match(line)
        if found:
            if lines:
                yield _Section(above, "\n".join(lines))
            depth = len(found[1])
            path = [one for one in path if one[0] < depth]
            above, lines = tuple(words for _, words in path), []
            path.append((depth, line))
        lines.append(line)
    if lines:
        yield _Section(above, "\n".join(lines))


def _pieces(section: _Section, most_chars: int) -> Iterator[str]:
    """Yield a section with its headings; one that is too long is cut at blank lines, at lines, at last anywhere."""
    head = "\n\n".join(section.above)
    # Headings that fill a quarter of a part are left out.
    head = head + "\n\n" if head and len(head) < most_chars // 4 else ""
    room = most_chars - len(head)
    held = ""
    for block in _blocks(section.text, room):
        if held and len(held) + len(block) > room:
            yield head + held.strip("\n")
            held = ""
        held += block
    if held.strip():
        yield head + held.strip("\n")


def _blocks(text: str, room: int) -> Iterator[str]:
    for paragraph in re.split(r"(?<=\n\n)", text):
        if len(paragraph) <= room:
            yield paragraph
            continue
        for line in paragraph.splitlines(keepends=True):
            for begin in accumulate([0] + [room] * (len(line) // room)):
                if begin < len(line):
                    yield line[begin : begin + room]
