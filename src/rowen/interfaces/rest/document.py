"""The OpenAPI document, with scope and errors of every route, and the same document as a page for people."""

import json
from collections.abc import Iterator
from html import escape
from typing import Any

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute, RouteContext, iter_route_contexts

from rowen.errors import (
    BusyError,
    ConfigurationError,
    NotFoundError,
    RefusedError,
    RequestTooLargeError,
    RowenError,
    StoreRejectedError,
    StoreUnavailableError,
    TooManyRequestsError,
    UnauthenticatedError,
    UsageError,
)
from rowen.interfaces.rest.derived import Requirement
from rowen.interfaces.rest.problems import ProblemDetails, described
from rowen.model.access import Scope
from rowen.version import __version__

OPEN = ("/healthz", "/readyz", "/push/")
"""Paths that need no token: probes, and signed messages."""

# Streams have no validator, and metrics differ each time.
_UNVALIDATED = ("/events", "/exports/", "/dump", "/catalog/data.json", "/metrics")

_ABOUT = """
Rowen keeps a searchable copy of other people's catalogs, sites, repositories and feeds fresh.

Errors are RFC 9457 problems. Lists have opaque cursors: `next` in the answer, and a `Link` header. Answers have an
`ETag`; `If-None-Match` gets status 304. A `POST` with an `Idempotency-Key` may be repeated. What is below `/api/v1`
only grows; see the page on stability.
"""
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "The same request with the same key is done once; its answer is repeated for a day.",
    "schema": {"type": "string", "maxLength": 200},
    "example": "5f2b9c1d-e04a-4788-9c1d-0b1f6a1c2d3e",
}


def document(app: FastAPI) -> dict[str, Any]:
    """Return the whole document; it is created once."""
    if app.openapi_schema is not None:
        return app.openapi_schema
    whole = get_openapi(
        title="Rowen", version=__version__, openapi_version="3.1.0", description=_ABOUT, routes=app.routes
    )
    if address := app.state.rowen.settings.public_url:
        whole["servers"] = [{"url": address.rstrip("/")}]
    parts = whole.setdefault("components", {})
    parts.setdefault("schemas", {})["Problem"] = ProblemDetails.model_json_schema()
    for name in ("HTTPValidationError", "ValidationError"):
        parts["schemas"].pop(name, None)
    parts["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "description": "a token of `rowen token add`, or of OIDC"},
        "session": {"type": "apiKey", "in": "cookie", "name": "rowen_session"},
    }
    for route in iter_route_contexts(app.routes):
        if isinstance(route.original_route, APIRoute) and route.include_in_schema:
            for method in route.methods or ():
                _finish(whole["paths"][route.path_format][method.lower()], route, method)
    app.openapi_schema = whole
    return whole


def _finish(operation: dict[str, Any], route: RouteContext, method: str) -> None:
    scope, path = scope_of(route), route.path or ""
    is_open = path.startswith(OPEN)
    operation["security"] = [] if is_open else [{"token": []}, {"session": []}]
    if not is_open:
        operation["x-scope"] = str(scope)
        operation["description"] = f"{operation.get('description', '')}\n\nNeeds the scope `{scope}`.".strip()
    if method == "POST" and path.startswith("/api/") and path != "/api/v1/tokens":
        operation.setdefault("parameters", []).append(_KEY)
    answers = operation["responses"]
    answers.pop("422", None)
    for kind in _problems(route, method, is_open=is_open):
        answer = answers.setdefault(str(kind.http_status), {})
        error = described(kind)
        answer["description"] = answer.get("description") or error["description"]
        answer.setdefault("content", {}).update(error["content"])
    answers["default"] = described(RowenError) | {"description": "Any other error, by its own status."}
    if method == "GET" and not is_open and not any(part in path for part in _UNVALIDATED):
        answers["304"] = {"description": "It is what the client has already."}


def _problems(route: RouteContext, method: str, *, is_open: bool) -> Iterator[type[RowenError]]:
    yield from (UsageError, TooManyRequestsError, StoreRejectedError, StoreUnavailableError)
    if not is_open:
        yield from (UnauthenticatedError, RefusedError)
    if "{" in (route.path or "") or route.dependant.query_params or route.dependant.body_params:
        yield NotFoundError
    if method in ("POST", "PUT", "PATCH"):
        yield RequestTooLargeError
    if method != "GET" and not is_open:
        yield from (BusyError, ConfigurationError)


def scope_of(route: RouteContext) -> Scope:
    """Return the scope that a caller of the route needs."""
    scopes = [requirement.scope for requirement in _requirements(route.dependant)]
    return max(scopes, key=list(Scope).index, default=Scope.READ)


def _requirements(dependant: Dependant) -> Iterator[Requirement]:
    for dependency in dependant.dependencies:
        if isinstance(dependency.call, Requirement):
            yield dependency.call
        yield from _requirements(dependency)


_STYLE = """
:root { color-scheme: light dark; --line: color-mix(in srgb, currentColor 18%, transparent); }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1.5rem; }
h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
details { border: 1px solid var(--line); border-radius: .4rem; margin: .5rem 0; padding: .4rem .8rem; }
summary { cursor: pointer; } summary code { font-weight: 600; }
pre { overflow-x: auto; padding: .7rem; border: 1px solid var(--line); border-radius: .4rem; font-size: .85rem; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
td, th { text-align: left; vertical-align: top; padding: .25rem .6rem .25rem 0; border-top: 1px solid var(--line); }
.scope { float: right; opacity: .7; font-size: .85rem; } nav a { margin-right: .8rem; }
"""


def docs_page(document: dict[str, Any], *, base: str = "") -> str:
    """Return the page; `base` is the common prefix of all paths."""
    groups: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            tag = operation.get("tags", ["other"])[0]
            groups.setdefault(tag, []).append(_operation(base + path, method.upper(), operation))
    links = "".join(f'<a href="#{escape(tag)}">{escape(tag)}</a>' for tag in groups)
    parts = (f'<h2 id="{escape(tag)}">{escape(tag)}</h2>{"".join(group)}' for tag, group in groups.items())
    about = _paragraphs(document["info"]["description"].strip())
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Rowen API</title>'
        '<link rel="icon" href="data:,">'
        f"<style>{_STYLE}</style></head><body><h1>Rowen API {escape(document['info']['version'])}</h1>{about}"
        f'<p><a href="{escape(base)}/api/openapi.json">openapi.json</a></p><nav>{links}</nav>'
        f"{''.join(parts)}</body></html>"
    )


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(parameter['name'])}</code></td><td>{escape(parameter['in'])}</td>"
        f"<td>{escape(parameter.get('description', ''))}</td></tr>"
        for parameter in operation.get("parameters", ())
    )
    table = f"<table><tr><th>parameter</th><th>in</th><th>meaning</th></tr>{rows}</table>" if rows else ""
    examples = ""
    for status, answer in operation["responses"].items():
        for media, content in answer.get("content", {}).items():
            if status < "300" and "example" in content:
                example = content["example"]
                text = example if isinstance(example, str) else json.dumps(example, indent=2, ensure_ascii=False)
                examples += f"<p>{escape(status)} <code>{escape(media)}</code></p><pre>{escape(text)}</pre>"
    return (
        f"<details><summary><code>{method} {escape(path)}</code> {escape(operation.get('summary', ''))}"
        f'<span class="scope">{escape(operation.get("x-scope") or "open")}</span></summary>'
        f"{_paragraphs(operation.get('description', ''))}{table}{examples}</details>"
    )


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{escape(paragraph)}</p>" for paragraph in text.split("\n\n"))
