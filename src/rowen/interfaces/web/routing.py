"""The routes of the pages, and error handling."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from rowen.errors import RowenError
from rowen.interfaces.web.drawing import THEMES, drawn, in_json, serve_file, trouble
from rowen.interfaces.web.forms import read_form
from rowen.interfaces.web.live import WATCHED, Watcher, watch
from rowen.interfaces.web.pages import access, changes, extraction, items, overview, runs, search, sources, webhooks
from rowen.interfaces.web.view import Goto, Handler, local
from rowen.operations import Rowen

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]

_YEAR_S = 366 * 86_400

PAGES: dict[str, Handler] = {
    "/": overview.overview,
    "/add": sources.add_page,
    "/changes": changes.changes,
    "/changes/{number:int}": changes.change,
    "/costs": overview.costs,
    "/extractions": extraction.extractions,
    "/following": overview.following,
    "/health": overview.health,
    "/held": runs.pending_deletions,
    "/help": overview.help_page,
    "/item": items.item,
    "/jobs": runs.jobs,
    "/jobs/{number:int}": runs.job,
    "/quarantine": runs.quarantine,
    "/runs": runs.listing,
    "/runs/{number:int}": runs.run,
    "/saved": search.listing,
    "/saved/{number:int}": search.search_news,
    "/search": search.search,
    "/sources": sources.listing,
    "/sources/{name}": sources.source,
    "/tokens": access.tokens,
    "/webhooks": webhooks.webhooks,
    "/webhooks/{name}": webhooks.webhook,
}
"""Pages; each has a JSON version whose address ends in `.json`."""

QUESTIONS: dict[str, Handler] = {
    "/sources/{name}/remove": sources.remove,
    "/tokens/{name}/revoke": access.revoke,
}
"""Pages that ask for confirmation."""

ACTIONS: dict[str, Handler] = {
    "/add": sources.add,
    "/extractions/carry": extraction.carry,
    "/extractions/drop": extraction.drop,
    "/held": runs.decide,
    "/jobs/pause": runs.pause,
    "/jobs/resume": runs.resume,
    "/jobs/{number:int}/cancel": runs.cancel_job,
    "/jobs/{number:int}/retry": runs.retry,
    "/runs/{number:int}/cancel": runs.cancel,
    "/saved": search.save,
    "/saved/{number:int}/forget": search.forget,
    "/sources/{name}/edit": sources.edit_source,
    "/sources/{name}/pause": sources.pause,
    "/sources/{name}/remove": sources.remove,
    "/sources/{name}/resume": sources.resume,
    "/sources/{name}/sync": sources.sync,
    "/tokens": access.add,
    "/tokens/{name}/revoke": access.revoke,
    "/webhooks": webhooks.add,
    "/webhooks/{name}/remove": webhooks.remove,
    "/webhooks/{name}/replay": webhooks.replay,
    "/webhooks/{name}/state": webhooks.set_state,
}
"""Actions; each requires the scope `write` or `admin`."""


def routes(rowen: Rowen) -> list[BaseRoute]:
    """Return the routes of all pages, their JSON versions and static files, for the root of the server.

    JSON versions come before pages that would match their addresses. The state of the application has the event
    `closing`, which ends the streams of watched pages.
    """
    routes: list[BaseRoute] = [
        Route("/static/{mark}/{name}", serve_file, name="static"),
        Route("/theme", _set_theme, methods=["POST"], name="theme"),
    ]
    for path, handler in PAGES.items():
        twin = "/overview.json" if path == "/" else f"{path}.json"
        routes.append(Route(twin, _endpoint(rowen, handler, is_twin=True), name=f"json {path}"))
    for path, handler in {**PAGES, **QUESTIONS}.items():
        routes.append(Route(path, _endpoint(rowen, handler), name=f"page {path}"))
    for path, watcher in WATCHED.items():
        routes.append(Route(path, _watching(rowen, watcher), name=f"live {path}"))
    for path, handler in ACTIONS.items():
        routes.append(Route(path, _endpoint(rowen, handler), methods=["POST"], name=f"deed {path}"))
    return routes


def _endpoint(rowen: Rowen, handler: Handler, *, is_twin: bool = False) -> Endpoint:
    async def answer(request: Request) -> Response:
        try:
            result = await handler(rowen, request)
        except RowenError as problem:
            result = trouble(problem)
        if isinstance(result, Goto):
            address = f"{request.scope.get('root_path', '')}{result.address}"
            if request.headers.get("hx-request") == "true":
                return Response(None, 204, {"HX-Redirect": address})
            return RedirectResponse(address, 303)
        if is_twin:
            return in_json(result)
        try:
            state = await rowen.status.get()
        except RowenError:
            # If the database is unavailable, the head of the page shows no state.
            state = None
        return drawn(request, result, state)

    return answer


def _watching(rowen: Rowen, watcher: Watcher) -> Endpoint:
    async def answer(request: Request) -> Response:
        return await watch(rowen, request, watcher)

    return answer


async def _set_theme(request: Request) -> Response:
    """Store the colour theme that the caller chose."""
    form = await read_form(request)
    chosen = form.text("theme")
    response = RedirectResponse(local(form.text("back")), 303)
    if chosen in THEMES:
        response.set_cookie("rowen_theme", str(chosen), max_age=_YEAR_S, httponly=True, samesite="strict")
    else:
        response.delete_cookie("rowen_theme")
    return response
