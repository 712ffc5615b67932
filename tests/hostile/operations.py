"""Every operation of the server, read from its declarations, and how a request of it is written."""

import inspect
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal, NamedTuple, TypeAlias
from urllib.parse import quote

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import Route

from rowen.connectors import registry
from rowen.interfaces.mcp.docs_server import DOCS_SERVER_TOOLS
from rowen.interfaces.mcp.tools import TOOLS
from rowen.interfaces.web.live import WATCHED
from rowen.interfaces.web.routing import ACTIONS, PAGES, QUESTIONS
from rowen.interfaces.web.view import Guarded
from tests.hostile.values import Verbatim, as_json, as_text

__all__ = [
    "ANYWHERE",
    "BROKEN",
    "DOCUMENTATION_SERVER",
    "Field",
    "Operation",
    "Request",
    "World",
    "address_of",
    "option_operations",
    "page_operations",
    "rest_operations",
    "tool_operations",
]

Place: TypeAlias = Literal["path", "query", "header", "body", "form", "option", "whole"]
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
    writes: Literal["json", "form", "tool", "option"] = "json"
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
        inner: dict[str, Any] = {one.name: value for one, value in values.items() if one.place == "body"}
        if self.writes == "tool":
            inner = called(self.label, inner)
        if self.writes == "option":
            chosen = [one for one in values if one.place == "option"]
            inner["options"] = {**inner.get("options", {}), **{one.name: values[one] for one in chosen}}
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


# Web pages, and all other routes that are not in the document

_FORMS_KNOWN: dict[str, dict[str, Any]] = {
    "/add": {"address": "https://192.0.2.1/", "name": Fresh("page"), "kind": "web"},
    "/extractions/carry": {"source": "guide", "schema": "tool@1.0.0"},
    "/extractions/drop": {"source": "guide", "schema": "tool@1.0.0"},
    "/held": {"source": "guide", "url": "https://192.0.2.1/", "decision": "keep"},
    "/login": {"token": "rowen_x"},
    "/saved": {"name": Fresh("page"), "query": "hay"},
    "/tokens": {"name": Fresh("page"), "scope": "read", "days": "1"},
    "/webhooks": {"name": Fresh("page"), **_HOOK},
    "/webhooks/{name}/replay": {"since": "0"},
    "/webhooks/{name}/state": {"state": "paused"},
}
_READ_BY = re.compile(r'(?:text\(request, |form\.\w+\(|query_params\.\w+\(|given\.get\()"(\w+)"')
_NAMED_TOGETHER = re.compile(r"(?:for name in|^_[A-Z]+ =) \(([^()]*)\)", re.MULTILINE)


def page_operations(app: FastAPI, world: World) -> list[Operation]:
    """All routes that the document does not have; forms and queries by the names that their modules read."""
    handlers: dict[str, Any] = {f"GET {path}": one for path, one in {**PAGES, **QUESTIONS, **WATCHED}.items()}
    handlers |= {f"POST {path}": one for path, one in ACTIONS.items()}
    found = []
    for route in app.router.routes:
        if not isinstance(route, Route) or isinstance(route, APIRoute) or route.path.startswith("/mcp"):
            continue
        for method in sorted((route.methods or set()) - {"HEAD"}):
            told = f"{method} {route.path.removesuffix('.json')}".replace("/overview", "/")
            handler = handlers.get(told, route.endpoint)
            found.append(_page(method, route.path, handler, world, endless=route.path in WATCHED))
    return sorted(found, key=lambda one: (one.method, "remove" in one.path or "revoke" in one.path))


def _page(method: str, path: str, handler: Any, world: World, *, endless: bool) -> Operation:
    inner = handler.handler if isinstance(handler, Guarded) else handler
    source = inspect.getsource(sys.modules[inner.__module__])
    together = " ".join(_NAMED_TOGETHER.findall(source))
    names = sorted({*_READ_BY.findall(source), *re.findall(r'"(\w+)"', together)})
    place: Place = "form" if method == "POST" else "query"
    plain = re.sub(r"{(\w+):\w+}", r"{\1}", path)
    parts = [Field("path", name) for name in re.findall(r"{(\w+)}", plain)]
    known = {one: _known(one, plain, world) for one in parts} | {
        Field(place, name): value for name, value in _FORMS_KNOWN.get(plain, {}).items()
    }
    known |= {Field("path", "mark"): "x"} if "{mark}" in plain else {}
    known |= {Field("query", "url"): world.page} if plain.startswith("/item") else {}
    open_to_all = path.startswith(("/login", "/logout"))
    scope = str(handler.scope) if isinstance(handler, Guarded) else "read"
    return Operation(
        f"{method} {path}",
        method,
        plain,
        None if open_to_all else scope,
        (*parts, *(Field(place, name) for name in names), *ANYWHERE),
        known,
        writes="form",
        endless=endless,
    )


# Tools and resources for assistants

_TOOLS_KNOWN: dict[str, Any] = {
    "address": "https://192.0.2.1/",
    "id": "",
    "items": 1,
    "jobId": "1",
    "library": "guide",
    "name": "guide",
    "query": "hay",
    "schema": "tool@1.0.0",
    "url": "https://192.0.2.1/",
    "since": "1d",
}
_MCP_HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
DOCUMENTATION_SERVER = "/mcp/documentation"
"""Where the attacked server has the tools of `rowen docs-server`, which otherwise has no address."""


def tool_operations(world: World) -> list[Operation]:
    """All tools of both servers for assistants, and reading a resource of each."""
    found = []
    for path, tools in (("/mcp", TOOLS), (DOCUMENTATION_SERVER, DOCS_SERVER_TOOLS)):
        for tool in tools:
            schema = tool.input_schema
            names = [*schema.get("properties", {}), "undeclared"]
            known = {name: _TOOLS_KNOWN.get(name, "x") for name in schema.get("required", ())}
            known |= {"id": world.page} if "id" in known else {}
            found.append(_called(path, f"tool {tool.name}", str(tool.scope), names, known))
        found.append(_called(path, "resource", "read", ["uri"], {"uri": "rowen://sources"}))
        found.append(_called(path, "method", "read", ["method", "params"], {"method": "tools/list", "params": {}}))
    return sorted(found, key=lambda one: "remove" in one.label)


def _called(path: str, told: str, scope: str, names: list[str], known: Mapping[str, Any]) -> Operation:
    headers = {Field("header", name): value for name, value in _MCP_HEADERS.items()}
    fields = [Field("body", name) for name in names]
    return Operation(
        f"{path} {told}",
        "POST",
        path,
        scope,
        (*fields, Field("whole", ""), *headers, *ANYWHERE),
        headers | {Field("body", name): value for name, value in known.items()},
        writes="tool",
    )


def called(label: str, inner: dict[str, Any]) -> dict[str, Any]:
    """A message of the protocol of assistants."""
    _, kind, *rest = label.split(" ")
    if kind == "method":
        return {"jsonrpc": "2.0", "id": 1, **inner}
    if kind == "resource":
        return {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": inner}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": rest[0], "arguments": inner}}


# Options of sources


def option_operations(world: World) -> list[Operation]:
    """Each option of each kind, in each operation that takes options."""
    found = []
    for kind in registry.kinds():
        address = world.folder if kind == "files" else address_of(kind)
        for name in sorted(registry.connector(kind).Options.model_fields):
            known = {"address": address, "kind": kind}
            for method, path, body in (
                ("POST", "/api/v1/sources", {**known, "name": Fresh(kind)}),
                ("POST", "/api/v1/preview", known),
                ("PATCH", f"/api/v1/sources/held-{kind}", {}),
            ):
                found.append(
                    Operation(
                        f"option {kind}.{name} by {method} {path}",
                        method,
                        path,
                        "write",
                        (Field("option", name),),
                        {Field("body", one): value for one, value in body.items()},
                        writes="option",
                    )
                )
    return found


def address_of(kind: str) -> str:
    """An address that a kind takes for its own, and that nobody answers."""
    return _ADDRESSES.get(kind, f"https://192.0.2.1/{kind}")


_ADDRESSES = {
    "announced": "https://192.0.2.1/feed",
    "git": "https://192.0.2.1/x.git",
    "github": "https://github.com/rowen/rowen",
    "npm": "npm:rowen",
    "pypi": "pypi:rowen",
}
