"""Views become answers: HTML by templates that escape everything, or JSON."""

from datetime import UTC, datetime
from functools import cache, partial
from typing import Any

import jinja2
import msgspec
from starlette.requests import Request
from starlette.responses import Response

from rowen.errors import RowenError
from rowen.interfaces.web import charts, words
from rowen.interfaces.web.addresses import PageAddresses, outside
from rowen.interfaces.web.files import address_of
from rowen.interfaces.web.forms import field_of
from rowen.interfaces.web.view import ToldProblem, View, may
from rowen.model.status import Status
from rowen.operations.facts import fact
from rowen.version import __version__

__all__ = ["THEMES", "drawn", "in_json", "plain", "told_trouble", "trouble"]

THEMES = ("light", "dark")

# What the server's cookie is called, over TLS with something before it: who has one can log out.
_SESSION = "rowen_session"
# Nothing from elsewhere, no script or style in a page, no frame around it: what a hostile title could try fails twice.
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


@cache
def _templates() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("rowen.interfaces.web"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {**words.FILTERS, "outside": outside}
    made.globals |= {
        "chart": charts,
        "form_field": field_of,
        "file": address_of,
        "version": __version__,
        "state_of": words.state_of,
    }
    return made


def drawn(request: Request, view: View, state: Status | None) -> Response:
    """A view as a page."""
    at = PageAddresses(request.scope.get("root_path", ""))
    theme = request.cookies.get("rowen_theme", "")
    context: dict[str, Any] = {
        **view.context,
        "at": at,
        "commands": view.commands,
        "has_session": any(name.endswith(_SESSION) for name in request.cookies),
        "may": partial(may, request),
        "now": datetime.now(UTC),
        "here": request.url.path + (f"?{request.url.query}" if request.url.query else ""),
        "path": request.url.path.removeprefix(at.root),
        "query": request.query_params.get("q", "") if view.template == "search.html" else "",
        "state": state,
        "theme": theme if theme in THEMES else "",
        "title": view.title,
        "twin": _twin(request, at) if view.facts is not None else None,
        "with_query": lambda name, value: str(
            request.url.include_query_params(**{name: value}).replace(scheme="", netloc="")
        ),
    }
    html = _templates().get_template(view.template).render(context)
    return Response(html, view.status, _HEADERS, "text/html; charset=utf-8")


def in_json(view: View) -> Response:
    """The same facts for programs."""
    body = msgspec.json.encode(plain(view.facts), enc_hook=str)
    return Response(body, view.status, _HEADERS, "application/json")


def plain(thing: Any) -> Any:
    """Whatever a view holds as plain values; what the service returned in the one way that all interfaces have."""
    match thing:
        case None | str() | int() | float() | datetime():
            return thing
        case dict():
            return {str(name): plain(value) for name, value in thing.items()}
        case list() | tuple() if not hasattr(thing, "_fields"):
            return [plain(one) for one in thing]
    try:
        return fact(thing)
    except TypeError:
        return str(thing)


def trouble(problem: RowenError) -> View:
    """An error in the words of the terminal, with its code and what to do next."""
    return View(
        "trouble.html", "That did not work", {"problem": problem}, problem.to_json(), status=problem.http_status
    )


def told_trouble(problem: bytes) -> View:
    """The same of a problem that another interface has put into JSON."""
    told = msgspec.json.decode(problem, type=ToldProblem)
    return View("trouble.html", "That did not work", {"problem": told}, status=told.status)


def _twin(request: Request, at: PageAddresses) -> str:
    path = request.url.path
    path = f"{at.root}/overview" if path == f"{at.root}/" else path
    return f"{path}.json" + (f"?{request.url.query}" if request.url.query else "")
