"""What no database can hold is refused by every operation before anything is done with it."""

import json
import re
from typing import Any

import pytest

from rowen import RowenError
from rowen.model.text import is_storable
from tests.conftest import ScratchDatabase
from tests.server.interfaces import interface

_UNSTORABLE: list[Any] = ["a\0b", "\ud800", float("nan"), float("inf"), {"\0": 1}, [{"x": ["\udfff"]}]]


@pytest.mark.parametrize("value", _UNSTORABLE)
def test_what_cannot_be_stored_is_told_from_what_can(value: Any) -> None:
    assert not is_storable(value)
    assert not is_storable({"x": [value]})
    assert is_storable([None, True, -(10**400), 1e308, "näher \U0001f600", {"x": ()}])


async def test_every_operation_refuses_what_cannot_be_stored(database: ScratchDatabase) -> None:
    wrong = {}
    asked = 0
    async with interface(database, requests_per_minute=10**6) as it:
        for path, methods in it.interfaces.inner.openapi()["paths"].items():
            filled = re.sub(r"{\w+(?::\w+)?}", "1", path)
            for method, operation in methods.items():
                for name in _fields(it.interfaces.inner.openapi(), operation):
                    for value in _UNSTORABLE:
                        body = json.dumps({name: value})
                        answer = await it.http.request(
                            method, filled, content=body, headers={"Content-Type": "application/json"}
                        )
                        asked += 1
                        if answer.status_code != 400 or "atabase" in answer.text:
                            wrong[(method, path, name, repr(value))] = (answer.status_code, answer.text[:200])
                if path in ("/healthz", "/readyz"):
                    continue
                nul = await it.http.request(method, f"{filled}?x=a%00b")
                if nul.status_code != 400:
                    wrong[(method, path, "the address", "NUL")] = (nul.status_code, nul.text[:200])

    assert wrong == {}
    assert asked > 200


def _fields(document: dict[str, Any], operation: dict[str, Any]) -> list[str]:
    """The fields of a JSON body."""
    schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    for one in (schema, *schema.get("anyOf", ()), *schema.get("allOf", ())):
        name = one.get("$ref", "").rpartition("/")[2]
        one = document["components"]["schemas"].get(name, one)
        if "properties" in one:
            return list(one["properties"])
    return []


async def test_a_form_and_a_path_with_a_nul_are_refused(database: ScratchDatabase) -> None:
    async with interface(database) as it:
        form = await it.http.post("/add", data={"address": "https://a.example", "name": "a\0b"})
        path = await it.http.get("/api/v1/sources/a%00b")
        page = await it.http.get("/sources/a%00b")

    assert [form.status_code, path.status_code, page.status_code] == [400, 400, 400]


async def test_half_of_a_pair_is_an_error_of_our_own_in_python(database: ScratchDatabase) -> None:
    async with database.open() as r:
        with pytest.raises(RowenError, match="surrogate"):
            await r.sources.get("\ud800")
