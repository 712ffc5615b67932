"""Whatever a caller sends to any operation, the server answers as it should.

Operations are read from their declarations: a new one is attacked without a test of its own.
"""

from collections.abc import Iterable
from pathlib import Path

import pytest
from fastapi.routing import APIRoute, iter_route_contexts

from rowen.api.app import api_of
from tests.conftest import House
from tests.hostile.every_operation import GOOD, Attack, attacked, stored
from tests.hostile.operations import Operation, World, rest_operations
from tests.hostile.values import classes

pytestmark = pytest.mark.unwatched  # the steps of the event loop are watched by the attack itself


def confirm(it: Attack, operations: Iterable[Operation]) -> None:
    """Nothing was found, and each operation was sent each class of values."""
    print(it.figures())
    assert list(it.findings.values()) == []
    wanted = set(classes()) | {GOOD}
    missing = {one.label: sorted(wanted - it.by_class.get(one.label, set())) for one in operations}
    assert {label: names for label, names in missing.items() if names} == {}


async def test_readers_change_nothing_whatever_they_send_over_rest(house: House, tmp_path: Path) -> None:
    async with attacked(house, tmp_path / "guide") as it:
        operations = rest_operations(it.doors.inner.openapi(), it.world)
        before = stored(house)
        reading = [one for one in operations if one.scope in (None, "read")]
        await it.send_everything(reading, "read")
        await it.refuse([one for one in operations if one not in reading], "read")
        await it.refuse([one for one in operations if one.scope is not None], None)
        after = stored(house)

    confirm(it, reading)
    assert [name for name in before if before[name] != after[name]] == []
    assert sum(one.label in it.answered for one in reading) > len(reading) * 3 // 4


async def test_every_documented_route_can_be_written_as_a_request(house: House, tmp_path: Path) -> None:
    """Else there is no attack on it: say in `operations.py` which values lead to its depth."""
    world = World(str(tmp_path), (tmp_path / "a.md").as_uri(), "https://192.0.2.1")
    async with house.open() as rowen:
        app = api_of(rowen)
        operations = {one.label: one for one in rest_operations(app.openapi(), world)}
    routes = {
        f"{method} {route.path_format}": route
        for route in iter_route_contexts(app.routes)
        for method in route.methods or ()
        if isinstance(route.original_route, APIRoute) and route.include_in_schema
    }
    unfilled = [label for label, one in operations.items() if "{" in one.request({}).target]

    assert sorted(routes.keys() - operations.keys()) == []
    assert unfilled == [], "give their parameters a value"


async def test_writers_get_no_further_than_their_scope_over_rest(house: House, tmp_path: Path) -> None:
    async with attacked(house, tmp_path / "guide") as it:
        operations = rest_operations(it.doors.inner.openapi(), it.world)
        await it.refuse([one for one in operations if one.scope == "admin"], "write")
        await it.send_everything([one for one in operations if one.scope == "write"], "write")
        await it.send_everything([one for one in operations if one.scope == "admin"], "admin")

    confirm(it, [one for one in operations if one.scope in ("write", "admin")])
