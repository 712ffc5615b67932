"""Every operation of the server, read from its declarations, and how a request of it is written."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal, NamedTuple, TypeAlias
from urllib.parse import quote

from fastapi import FastAPI

from tests.hostile.values import Verbatim, as_json, as_text

__all__ = ["Field", "Operation", "Request", "World", "rest_operations"]

Place: TypeAlias = Literal["path", "query", "header", "body", "form", "whole"]
QUERY_CHARS = 50_000
"""A request line may have 64 kB."""
_REPEATS = 500


class World(NamedTuple):
    """Names and addresses of what there is, so that a request reaches its depth."""

    folder: str
    page: str
    nobody: str


class Fresh(NamedTuple):
    """A name that nothing has yet."""

    start: str

    def name(self) -> str:
        """The next such name."""
        return f"{self.start}-{next(_NUMBERS)}"


_NUMBERS = count(1)


class Field(NamedTuple):
    """A place of a request where a caller writes something."""

    place: Place
    name: str


class Request(NamedTuple):
    """A request as it is sent."""

    method: str
    target: str
    headers: Mapping[str, str]
    content: bytes


@dataclass(frozen=True)
class Operation:
    """One thing that a caller can ask for; `known` are the values of a request that is answered well."""

    label: str
    method: str
    path: str
    scope: str | None
    fields: tuple[Field, ...]
    known: Mapping[Field, Any] = field(default_factory=dict)
    writes: Literal["json", "form", "tool", "resource"] = "json"
    endless: bool = False
    """Whether the answer goes on for as long as somebody reads it."""

    def request(self, changed: Mapping[Field, Any], *, repeated: bool = False) -> Request:
        """Write the request with these values in the place of the known ones."""
        values = {one: value.name() if isinstance(value, Fresh) else value for one, value in self.known.items()}
        values |= changed
        target = self.path
        for one, value in values.items():
            if one.place == "path":
                target = target.replace(f"{{{one.name}}}", quoted(as_text(value)[:5_000]) or "%20")
        query = [f"{quoted(one.name)}={quoted(text)}" for one, text in self._query(values)]
        query *= _REPEATS // max(1, sum(map(len, query)) // 100) if repeated else 1
        headers = {one.name: header(as_text(value)) for one, value in values.items() if one.place == "header"}
        content, kind = self._content(values)
        return Request(
            self.method,
            f"{target}?{'&'.join(query)[:QUERY_CHARS].rstrip('%')}" if query else target,
            headers | ({"Content-Type": kind} if content else {}),
            content,
        )

    @staticmethod
    def _query(values: Mapping[Field, Any]) -> Iterator[tuple[Field, str]]:
        for one, value in values.items():
            if one.place == "query":
                listed = value if isinstance(value, list) and all(isinstance(part, str) for part in value) else [value]
                for part in listed[:_REPEATS]:
                    yield one, as_text(part)[: QUERY_CHARS // 9]

    def _content(self, values: Mapping[Field, Any]) -> tuple[bytes, str]:
        whole = next((value for one, value in values.items() if one.place == "whole"), None)
        if whole is not None:
            text = whole if isinstance(whole, str) else as_json(whole)
            return text.encode("utf-8", "surrogatepass"), "application/json"
        if self.writes == "form":
            pairs = [
                f"{quoted(one.name)}={quoted(as_text(value))}" for one, value in values.items() if one[0] == "form"
            ]
            return "&".join(pairs).encode(), "application/x-www-form-urlencoded"
        inner = {one.name: value for one, value in values.items() if one.place == "body"}
        return (as_json(inner).encode(), "application/json") if inner else (b"", "")


def quoted(text: str) -> str:
    """A text in percent signs, dots too: a client would follow those of a path itself."""
    return quote(text, safe="", errors="surrogatepass").replace(".", "%2E")


def header(text: str) -> str:
    """A text as a header can be sent at all; line breaks are tried on the wire, by tests of connections."""
    return re.sub(r"[\x00-\x1f\x7f]", " ", text)[:8_000].encode("utf-8", "surrogatepass").decode("latin-1")


ANYWHERE = (
    *(Field("header", name) for name in ("Accept", "Accept-Language", "If-None-Match", "Range", "Cookie", "Host")),
    Field("query", "undeclared"),
)
"""What can be written into any request."""

# REST

_KNOWN_PATHS = {"name": "guide", "ref": "tool@1.0.0", "number": 1, "node": "pages/0", "secret": "x"}
_NAMES = {"webhooks": "builds", "tokens": "dashboard", "saved-searches": "dry hay", "circuits": "192.0.2.1"}
_FORMS = {"exports": "jsonl", "feeds": "atom"}
_HOOK = {"url": "https://192.0.2.1/hook", "secret": "env:HOOK_SECRET"}
_BODIES: dict[str, dict[str, Any]] = {
    "POST /api/v1/sources": {"address": "https://192.0.2.1/", "name": Fresh("more"), "kind": "web"},
    "POST /api/v1/apply": {"source": [{"name": "site", "kind": "web", "url": "https://192.0.2.1/"}]},
    "POST /api/v1/schemas": {"ref": "field@1.0.0", "definition": {"type": "object", "properties": {"a": {}}}},
    "POST /api/v1/webhooks": {"name": Fresh("calls"), **_HOOK},
    "POST /api/v1/webhooks/{name}/rotate": {"secret": "env:HOOK_SECRET"},
    "POST /api/v1/notices": {"name": Fresh("people"), "target": "env:HOOK_SECRET", "secret": None},
    "POST /api/v1/sources/{name}/extract": {"schema": "tool@1"},
    "POST /api/v1/saved-searches": {"name": Fresh("wet hay"), "query": "hay"},
    "POST /api/v1/tokens": {"name": Fresh("another"), "scope": "read"},
    "PATCH /api/v1/sources/{name}": {"every": "1d"},
    "POST /api/v1/poke": {"targets": ["guide"]},
}


def rest_operations(document: Mapping[str, Any], world: World) -> list[Operation]:
    """All operations of the OpenAPI document; at the end those that leave less for others."""
    found = [
        _rest(document, method, path, operation, world)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    return sorted(found, key=lambda one: ("GET", "POST", "PUT", "PATCH", "DELETE").index(one.method))


def _rest(document: Mapping[str, Any], method: str, path: str, told: Mapping[str, Any], world: World) -> Operation:
    label = f"{method.upper()} {path}"
    fields = [Field(one["in"], one["name"]) for one in told.get("parameters", ())]
    required = {Field(one["in"], one["name"]) for one in told.get("parameters", ()) if one.get("required")}
    known = {one: value for one in fields if one in required and (value := _known(one, path, world)) is not None}
    content = told.get("requestBody", {}).get("content", {})
    if "application/json" in content:
        schema = resolved(document, content["application/json"]["schema"])
        example = {**schema.get("example", {}), **_of_the_world(label, world), **_BODIES.get(label, {})}
        fields += [Field("body", name) for name in {**schema.get("properties", {}), **example}]
        example |= {name: "x" for name in schema.get("required", ()) if name not in example}
        known |= {Field("body", name): value for name, value in example.items() if value is not None}
    fields += [Field("whole", "")] if method != "get" else []
    fields += ANYWHERE
    return Operation(
        label,
        method.upper(),
        path,
        told.get("x-scope"),
        tuple(fields),
        known,
        endless=path.endswith("/events"),
    )


def _known(one: Field, path: str, world: World) -> Any:
    parts = path.removeprefix("/api/v1").split("/")
    room = parts[1]
    match one.name:
        case "name" if one.place == "path":
            return _NAMES.get(room, "guide")
        case "form":
            return next((form for part, form in _FORMS.items() if part in path), "jsonl")
        case "url":
            return world.page
        case "endpoint":
            return f"{world.nobody}/sparql"
        case "older" | "newer":
            return "tool@1.0.0"
        case "q":
            return "hay"
        case "schema":
            return "tool@1.0.0"
        case "library":
            return "guide"
    return _KNOWN_PATHS.get(one.name)


def _of_the_world(label: str, world: World) -> dict[str, Any]:
    return {
        "POST /api/v1/preview": {"address": world.folder},
        "POST /api/v1/extractions": {"url": world.page, "schema": "tool@1"},
        "POST /api/v1/sources/{name}/endpoints/push": {"endpoint": f"{world.nobody}/sparql"},
        "POST /api/v1/sources/{name}/endpoints": {"endpoint": f"{world.nobody}/sparql"},
    }.get(label, {})


def resolved(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema of the document without the reference that stands for it."""
    if "$ref" in schema:
        return resolved(document, document["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    parts = [resolved(document, one) for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    return parts[0] if parts else schema


BROKEN: tuple[Any, ...] = (
    "",
    "{",
    '{"a": 1',
    "[]",
    '"guide"',
    "null",
    "\ufeff{}",
    "\xff\xfe",
    '{"name": "a", "name": "b"}',
    '{"\\ud800": 1}',
    Verbatim("[" * 10_000 + "]" * 10_000),
    json.dumps({str(at): at for at in range(20_000)}),
)
"""Bodies that are wrong as a whole."""


def documented(app: FastAPI) -> Mapping[str, Any]:
    """The OpenAPI document of the application."""
    return app.openapi()
