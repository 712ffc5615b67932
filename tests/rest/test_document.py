"""The OpenAPI document is complete and true: what routes answer is what it says, and so are its examples."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from pydantic import TypeAdapter

from rowen.errors import RowenError
from rowen.interfaces.rest.app import api_of
from rowen.interfaces.rest.shapes import EXAMPLES, SHAPES
from rowen.operations import Rowen
from rowen.settings import Settings
from tests.conftest import ScratchDatabase
from tests.docs.markdown import ROOT
from tests.server.interfaces import interface


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    # Through JSON, as others get it.
    found: dict[str, Any] = json.loads(json.dumps(api_of(Rowen(Settings(embedder="none"))).openapi()))
    return found


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def test_every_operation_says_what_it_does_and_shows_an_example(document: dict[str, Any]) -> None:
    told = dict(operations(document))
    good = {
        name: next(answer for status, answer in one["responses"].items() if status < "300")
        for name, one in told.items()
    }
    blank = [name for name in told if good[name].get("content") and not _has_example(good[name])]
    bodies = [name for name, one in told.items() if "requestBody" in one]

    assert document["openapi"].startswith("3.1")
    assert [name for name, one in told.items() if len(one.get("description", "")) < 20 or not one.get("tags")] == []
    # A tar archive cannot be shown.
    assert [name for name in blank if "/exports/" not in name] == []
    assert len({one["operationId"] for one in told.values()}) == len(told)
    assert {"POST /api/v1/sources", "POST /api/v1/tokens"} <= set(bodies)


def _has_example(answer: dict[str, Any]) -> bool:
    return all("example" in content or "examples" in content for content in answer["content"].values())


def test_every_error_is_a_problem_in_the_document(document: dict[str, Any]) -> None:
    errors = 0
    for name, operation in operations(document):
        for status, answer in operation["responses"].items():
            if status >= "400" and "hooks" not in operation["tags"]:
                schema = answer["content"]["application/problem+json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/Problem"}, (name, status)
                errors += 1

    assert errors > 100


def test_examples_have_the_shape_that_is_promised() -> None:
    assert set(EXAMPLES) == set(SHAPES)
    for name, shape in SHAPES.items():
        TypeAdapter(shape).validate_python(EXAMPLES[name])


async def test_answers_have_the_shape_that_is_promised(
    database: ScratchDatabase, tmp_path: Path, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", "x" * 32)
    (tmp_path / "hay.md").write_text("# Hay\n\nCut it dry.")
    url = (tmp_path / "hay.md").as_uri()
    asked = {"url": url, "q": "hay", "schema": "product", "older": "product", "newer": "product", "library": "docs"}
    values = {"name": "docs", "number": "1", "ref": "product"}
    looked = []
    async with interface(database, push_key="k" * 24) as it:
        await it.rowen.sources.add(str(tmp_path), name="docs")
        await it.rowen.queue.enqueue("docs")
        await it.rowen.queue.work(until_idle=True)
        await it.rowen.searches.save("docs", "hay")
        await it.rowen.webhooks.add("docs", "https://ci.example/hook", secret="env:HOOK_SECRET")
        await it.http.post("/api/v1/tokens", json={"name": "ci"})
        for path, methods in document["paths"].items():
            operation = methods.get("get", {})
            content = operation.get("responses", {}).get("200", {}).get("content", {}).get("application/json", {})
            if "schema" not in content or path.endswith(("/following", "/history", "/field-diff")):
                continue
            known = {one["name"] for one in operation.get("parameters", ()) if one.get("required")}
            filled = re.sub(r"\{(\w+)\}", lambda found: values[found[1]], path)
            answer = await it.http.get(filled, params={name: asked[name] for name in known & set(asked)})
            assert answer.status_code == 200, (path, answer.text)
            schema = {"$ref": content["schema"].get("$ref", "#"), "components": document["components"]}
            if "$ref" in content["schema"]:
                jsonschema_rs.validate(schema, answer.json())
                looked.append(path)

    assert len(looked) > 25


def test_the_page_for_people_needs_nothing_from_elsewhere(document: dict[str, Any]) -> None:
    from rowen.interfaces.rest.document import docs_page

    hostile = {**document, "info": {**document["info"], "description": "<script>alert(1)</script>"}}
    page = docs_page(hostile)

    assert not re.search(r'(?:src|href)="(?:https?:)?//', page)
    assert "<script" not in page
    assert "GET /api/v1/search" in page


def test_every_path_and_every_code_stands_on_the_page_of_the_api(document: dict[str, Any]) -> None:
    page = (ROOT / "docs" / "api.md").read_text("utf-8")
    codes = {one.code for one in _below(RowenError)}

    assert [path for path in document["paths"] if f"`{path.removeprefix('/api/v1')}`" not in page] == []
    assert [code for code in sorted(codes) if f"`{code}`" not in page] == []


def _below(kind: type[RowenError]) -> Iterator[type[RowenError]]:
    for child in kind.__subclasses__():
        if child.__module__ == "rowen.errors" and not child.__name__.startswith("_"):
            yield child
            yield from _below(child)
