"""Responses from views: HTML by templates that escape everything, or JSON; and static files."""

from datetime import UTC, datetime
from functools import cache, partial
from hashlib import sha256
from importlib.resources import files
from typing import Any

import jinja2
import msgspec
from starlette.requests import Request
from starlette.responses import Response

from rowen.errors import RowenError
from rowen.interfaces.web import charts, words
from rowen.interfaces.web.forms import field_of
from rowen.interfaces.web.view import PageAddresses, View, may, outside
from rowen.model.status import Status
from rowen.operations.facts import fact
from rowen.version import __version__

THEMES = ("light", "dark")

# The end of the name of the server's session cookie, which has a prefix over TLS; a caller with it can log out.
_SESSION = "rowen_session"
# No content from other sites, no inline script or style, no frame: an injected script has to pass two defences.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; font-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_FILE_TYPES = {
    "rowen.css": "text/css; charset=utf-8",
    "rowen.js": "text/javascript; charset=utf-8",
    "htmx.min.js": "text/javascript; charset=utf-8",
    "rowen.svg": "image/svg+xml",
}
# The address of a file contains a digest of its content, so the content at an address never changes.
_FOREVER = "public, max-age=31536000, immutable"


def drawn(request: Request, view: View, state: Status | None) -> Response:
    """Return a view as a page."""
    at = PageAddresses(request.scope.get("root_path", ""))
    path, query = request.url.path, f"?{request.url.query}" if request.url.query else ""
    page = f"{at.root}/overview" if path == f"{at.root}/" else path
    theme = request.cookies.get("rowen_theme", "")
    context: dict[str, Any] = {
        **view.context,
        "at": at,
        "commands": view.commands,
        "has_session": any(name.endswith(_SESSION) for name in request.cookies),
        "may": partial(may, request),
        "now": datetime.now(UTC),
        "here": path + query,
        "path": path.removeprefix(at.root),
        "query": request.query_params.get("q", "") if view.template == "search.html" else "",
        "state": state,
        "theme": theme if theme in THEMES else "",
        "title": view.title,
        "twin": f"{page}.json{query}" if view.facts is not None else None,
        "with_query": lambda name, value: str(
            request.url.include_query_params(**{name: value}).replace(scheme="", netloc="")
        ),
    }
    html = _templates().get_template(view.template).render(context)
    return Response(html, view.status, _HEADERS, "text/html; charset=utf-8")


@cache
def _templates() -> jinja2.Environment:
    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("rowen.interfaces.web"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {**words.FILTERS, "outside": outside}
    templates.globals |= {
        "chart": charts,
        "file": file_address,
        "form_field": field_of,
        "state_of": words.state_of,
        "version": __version__,
    }
    return templates


def in_json(view: View) -> Response:
    """Return the facts of a view as JSON."""
    return Response(msgspec.json.encode(_plain(view.facts), enc_hook=str), view.status, _HEADERS, "application/json")


def _plain(thing: Any) -> Any:
    """Return plain values; results of operations have the same JSON form as in all interfaces."""
    match thing:
        case None | str() | int() | float() | datetime():
            return thing
        case dict():
            return {str(name): _plain(value) for name, value in thing.items()}
        case list() | tuple() if not hasattr(thing, "_fields"):
            return [_plain(part) for part in thing]
    try:
        return fact(thing)
    except TypeError:
        return str(thing)


def trouble(problem: RowenError) -> View:
    """Return an error with its code and its hint as a view."""
    facts = problem.to_json()
    return View("trouble.html", "That did not work", {"problem": problem}, facts, status=problem.http_status)


class _ReportedProblem(msgspec.Struct):
    detail: str
    code: str
    status: int
    hint: str | None = None

    def __str__(self) -> str:
        return self.detail


def problem_view(problem: bytes) -> View:
    """Return an RFC 9457 problem of another interface as a view."""
    reported = msgspec.json.decode(problem, type=_ReportedProblem)
    return View("trouble.html", "That did not work", {"problem": reported}, status=reported.status)


@cache
def _file(name: str) -> tuple[bytes, str]:
    """Return the content of a static file, and its digest."""
    body = (files("rowen.interfaces.web") / "static" / name).read_bytes()
    return body, sha256(body).hexdigest()[:12]


def file_address(name: str) -> str:
    """Return the path of a static file, which contains its digest."""
    return f"/static/{_file(name)[1]}/{name}"


async def serve_file(request: Request) -> Response:
    """Serve a style sheet, script or image of the package."""
    name = request.path_params["name"]
    if name not in _FILE_TYPES:
        return Response("There is no such file.", 404, media_type="text/plain")
    body, digest = _file(name)
    headers = {"X-Content-Type-Options": "nosniff", "ETag": f'"{digest}"'}
    if request.path_params["mark"] == digest:
        headers["Cache-Control"] = _FOREVER
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(None, 304, headers)
    return Response(body, 200, headers, _FILE_TYPES[name])
