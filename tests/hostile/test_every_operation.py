"""Whatever a caller sends to any operation, the server answers as it should.

Operations are read from their declarations: a new one is attacked without a test of its own.
"""

from collections.abc import Iterable
from pathlib import Path

import pytest
from starlette.routing import Route

from rowen.connectors import registry
from tests.conftest import ScratchDatabase
from tests.hostile.every_operation import GOOD, PARTS, Attack, attacked, stored
from tests.hostile.operations import Operation
from tests.hostile.values import classes

pytestmark = pytest.mark.unwatched  # the steps of the event loop are watched by the attack itself

OPTION_VALUES = 2
"""To each option in each operation that takes some: 257 options make 1,500 requests."""


def confirm(it: Attack, operations: Iterable[Operation]) -> None:
    """Nothing was found, and each operation was sent each class of values."""
    print(it.figures())
    assert list(it.findings.values()) == []
    wanted = set(classes()) | {GOOD}
    missing = {one.label: sorted(wanted - it.by_class.get(one.label, set())) for one in operations}
    assert {label: names for label, names in missing.items() if names} == {}


@pytest.mark.parametrize("part", ["REST", "pages", "tools"])
async def test_readers_change_nothing_whatever_they_send(database: ScratchDatabase, tmp_path: Path, part: str) -> None:
    async with attacked(database, tmp_path / "guide") as it:
        operations = PARTS[part](it)
        before = stored(database)
        reading = [one for one in operations if one.scope in (None, "read")]
        await it.send_everything(reading, "read")
        await it.refuse([one for one in operations if one not in reading], "read")
        await it.refuse([one for one in operations if one.scope is not None], None)
        after = stored(database)

    confirm(it, reading)
    assert [name for name in before if before[name] != after[name]] == []
    # Most were asked something that they could answer well.
    assert sum(one.label in it.answered for one in reading) > len(reading) * 3 // 4


@pytest.mark.parametrize("part", ["REST", "pages", "tools"])
async def test_writers_and_administrators_get_no_further_than_they_may(
    database: ScratchDatabase, tmp_path: Path, part: str
) -> None:
    async with attacked(database, tmp_path / "guide") as it:
        operations = PARTS[part](it)
        await it.refuse([one for one in operations if one.scope == "admin"], "write")
        changing = [one for one in operations if one.scope in ("write", "admin")]
        for one in changing:
            await it.send_everything([one], one.scope)

    confirm(it, changing)
    assert sum(one.label in it.answered for one in changing) > len(changing) // 2


async def test_no_option_of_any_kind_lets_a_writer_further(database: ScratchDatabase, tmp_path: Path) -> None:
    async with attacked(database, tmp_path / "guide") as it:
        await it.hold_each_kind()
        operations = PARTS["options"](it)
        await it.send_everything(operations, "write", most=OPTION_VALUES)

    print(it.figures())
    assert list(it.findings.values()) == []
    assert {it.sent[one.label] for one in operations} == {OPTION_VALUES}


async def test_nothing_that_is_declared_is_left_out(database: ScratchDatabase, tmp_path: Path) -> None:
    """A new operation for which no request can be written fails here: give it its values in `operations.py`."""
    async with attacked(database, tmp_path / "guide") as it:
        operations = {name: {one.label: one for one in made(it)} for name, made in PARTS.items()}
        documented = it.interfaces.inner.openapi()["paths"]
        routes = [one for one in it.interfaces.inner.router.routes if type(one) is Route]
    rest = {f"{method.upper()} {path}" for path, methods in documented.items() for method in methods}
    pages = {f"{method} {one.path}" for one in routes for method in (one.methods or set()) - {"HEAD"}}
    options = {
        f"option {kind}.{name}" for kind in registry.kinds() for name in registry.connector(kind).Options.model_fields
    }
    unfilled = [label for those in operations.values() for label, one in those.items() if "{" in one.request({}).target]

    assert unfilled == [], "say in `operations.py` which value their parameters have"
    assert operations["REST"].keys() == rest
    assert operations["pages"].keys() == {one for one in pages if "/mcp" not in one}
    assert {label.partition(" by ")[0] for label in operations["options"]} == options
    assert len(operations["tools"]) > 20
