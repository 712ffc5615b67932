"""Each operation is sent the worst texts of the languages that its fields take, and others are answered meanwhile."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ScratchDatabase
from tests.hostile.every_operation import PARTS, Attack, attacked
from tests.hostile.families import LANGUAGES, languages_of
from tests.hostile.operations import ANYWHERE, Field, Operation
from tests.hostile.test_caller_input import answering
from tests.hostile.test_no_io_before_reach import options
from tests.hostile.values import Verbatim

pytestmark = pytest.mark.unwatched  # the steps of the event loop are watched by the attack itself

BODY_CHARS = 90_000
QUERY_CHARS = 5_000
"""A request line may have 64 kB, and a letter is written as nine."""


SHARE = 10
"""Headers are read before the operation is known: one operation of so many is sent their worst texts."""
SCHEDULE = ("every", "cron", "tz", "during")


def texts(field: Field) -> Iterator[tuple[str, Any]]:
    """The worst texts for a field, each as a text and, where it stands for an object, as JSON."""
    is_body = field.place == "body"
    for called, name, text in worst(field.name, BODY_CHARS if is_body else QUERY_CHARS):
        yield called, text
        if name in ("JSON Schema", "JSON") and is_body:
            yield f"{called} as JSON", Verbatim(text)
    if field.name == "options" and is_body:
        for option in sorted({option for kind, option in options() if kind in ("web", "files")}):
            yield from ((f"{called} in {option}", {option: text}) for called, _, text in worst(option, BODY_CHARS))
    if field.name == "source" and is_body:
        source = {"name": "more", "kind": "web", "url": "https://192.0.2.1/"}
        for key in SCHEDULE:
            yield from ((f"{called} in {key}", [source | {key: text}]) for called, _, text in worst(key, BODY_CHARS))


def worst(field: str, size: int) -> Iterator[tuple[str, str, str]]:
    for name in languages_of(field):
        for family, made in LANGUAGES[name].families.items():
            yield f"{name}: {family}", name, made(size)


async def send_families(it: Attack, operations: Iterable[Operation]) -> None:
    for at, operation in enumerate(operations):
        for field in operation.fields:
            if field in ANYWHERE and at % SHARE:
                continue
            for called, text in texts(field):
                await it.send(operation, f"{called} in {field.name}", operation.request({field: text}), "admin")


@pytest.mark.parametrize("part", ["REST", "pages", "tools"])
async def test_the_worst_texts_of_each_language_keep_nobody_waiting(
    database: ScratchDatabase, tmp_path: Path, part: str
) -> None:
    async with attacked(database, tmp_path / "guide") as it:
        with answering(f"{it.base}/healthz") as late:
            await send_families(it, PARTS[part](it))

    print(it.figures())
    assert list(it.findings.values()) == []
    assert late == []
    assert sum(it.sent.values()) > 300
