"""Models compared on pages of one's own: each reads each page as a schema, and what it makes of them is counted."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rowen.concurrency import together
from rowen.enrich.ledger import Purse, charged_to, paid_from
from rowen.errors import (
    AnswerInvalidError,
    AnswerMismatchError,
    BudgetExceededError,
    NotFoundError,
    RowenError,
    UsageError,
)
from rowen.harvest.page_facts import PageFacts
from rowen.model.address import Address
from rowen.model.evaluation import ModelScore, PageScore, wrong_fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rowen.harvest.engine import Engine
    from rowen.harvest.extractor import Extractor
    from rowen.harvest.page_facts import PageInput, PageReading

__all__ = ["EXPECTED", "evaluate"]

EXPECTED = ".expected.json"
"""Beside `lamp.html`, what it should yield: `lamp.expected.json`."""


class _Fixture(NamedTuple):
    """A page that is to be read, or why it cannot be, and what is expected of it."""

    name: str
    page: PageInput | RowenError
    expected: Mapping[str, Any] | None


async def evaluate(
    engine: Engine, extractor: Extractor, folder: Path, reading: PageReading, *, models: Sequence[str], purse: Purse
) -> list[ModelScore]:
    """What each model makes of each page of a folder; their markup is left out, since models are what is compared."""
    reading = reading._replace(markup=False)
    fixtures = [await _read(extractor, folder, path, reading) for path in await asyncio.to_thread(_pages, folder)]
    reader = PageFacts(engine.database, engine.language_models, engine.settings)
    scores = []
    for name in models:
        model = str(engine.language_models.of(name or None).spec)
        asked = reading._replace(model=name or None)
        with charged_to(subject=reading.schema.name):
            pages = await together(*(_score(reader, one, asked, Purse(within=purse)) for one in fixtures))
        priced = engine.language_models.of(name or None).price is not None
        scores.append(ModelScore(model, tuple(page if priced else _unpriced(page) for page in pages)))
    return scores


def _pages(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise NotFoundError(f"{str(folder)!r} is no folder.")
    found = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith(".")]
    pages = [path for path in found if not path.name.endswith(EXPECTED)]
    if not pages:
        raise NotFoundError(f"{str(folder)!r} has no pages.", hint="Put some there, such as lamp.html.")
    return pages


async def _read(extractor: Extractor, folder: Path, path: Path, reading: PageReading) -> _Fixture:
    expected = await asyncio.to_thread(_expected, path)
    name = str(path.relative_to(folder))
    try:
        return _Fixture(
            name, await extractor.read(Address(f"./{path}" if not path.is_absolute() else str(path)), reading), expected
        )
    except RowenError as problem:
        return _Fixture(name, problem, expected)


def _expected(path: Path) -> dict[str, Any] | None:
    """What should come out, from the file beside a page; its name may have the page's ending or not."""
    for beside in (path.with_name(path.name + EXPECTED), path.with_name(path.stem + EXPECTED)):
        if beside.is_file():
            try:
                found = json.loads(beside.read_text("utf-8"))
            except (ValueError, RecursionError, OSError) as problem:
                raise UsageError(f"{beside} cannot be read: {problem}.") from None
            if not isinstance(found, dict):
                raise UsageError(f"{beside} is no JSON object, as an answer is.")
            return found
    return None


async def _score(reader: PageFacts, fixture: _Fixture, reading: PageReading, purse: Purse) -> PageScore:
    expected = fixture.expected or {}
    missed = wrong_fields(expected, None)
    if isinstance(fixture.page, RowenError):
        return _failed(fixture, fixture.page, purse, missed)
    with paid_from(purse):
        try:
            found, _ = await reader.read(fixture.page, reading)
        except RowenError as problem:
            return _failed(fixture, problem, purse, missed)
    total, wrong = wrong_fields(expected, found.data)
    asked = None if found.reused else round(purse.seconds, 3)
    return PageScore(
        fixture.name,
        "valid",
        found.data,
        reused=found.reused,
        calls=found.calls,
        tokens=found.tokens,
        usd=found.usd,
        seconds=asked,
        ungrounded=found.ungrounded,
        expected=total,
        wrong=wrong,
    )


def _failed(fixture: _Fixture, problem: RowenError, purse: Purse, missed: tuple[int, tuple[str, ...]]) -> PageScore:
    """A page without an answer; what was paid for it counts all the same."""
    match problem:
        case AnswerInvalidError() | AnswerMismatchError():
            verdict = "invalid"
        case BudgetExceededError():
            verdict = "skipped"
        case _:
            verdict = "error"
    spent = {"calls": purse.calls, "tokens": purse.spent_tokens, "usd": purse.spent_usd}
    times = {"seconds": round(purse.seconds, 3) if purse.calls else None}
    total, wrong = missed if verdict != "skipped" else (0, ())
    told = {"code": problem.code, "error": str(problem), "expected": total, "wrong": wrong}
    return PageScore(fixture.name, verdict, **spent, **times, **told)  # type: ignore[arg-type]


def _unpriced(page: PageScore) -> PageScore:
    from dataclasses import replace

    return replace(page, usd=None) if page.calls or page.reused else page
