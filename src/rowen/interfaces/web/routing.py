"""Which address shows which page, and how what went wrong is shown."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from rowen.errors import RowenError
from rowen.interfaces.web.addresses import local
from rowen.interfaces.web.drawing import THEMES, drawn, in_json, trouble
from rowen.interfaces.web.files import serve_file
from rowen.interfaces.web.forms import read_form
from rowen.interfaces.web.live import WATCHED, Watcher, watch
from rowen.interfaces.web.pages import (
    add,
    attention,
    changes,
    extractions,
    item,
    overview,
    runs,
    saved,
    search,
    sources,
    tokens,
    upkeep,
    work,
)
from rowen.interfaces.web.pages import webhooks as receivers
from rowen.interfaces.web.view import Goto, Handler
from rowen.model.status import Status
from rowen.operations import Rowen

__all__ = ["all_routes"]

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]

# A choice of colours is kept for a year.
_YEAR_S = 366 * 86_400

PAGES: dict[str, Handler] = {
    "/": overview.overview,
    "/add": add.add_page,
    "/changes": changes.changes,
    "/changes/{number:int}": changes.change,
    "/costs": upkeep.costs,
    "/extractions": extractions.extractions,
    "/following": upkeep.following,
    "/health": upkeep.health,
    "/held": attention.held,
    "/help": overview.help_page,
    "/item": item.item,
    "/jobs": work.jobs,
    "/jobs/{number:int}": work.job,
    "/quarantine": attention.quarantine,
    "/runs": runs.listing,
    "/runs/{number:int}": runs.run,
    "/saved": saved.listing,
    "/saved/{number:int}": saved.search_news,
    "/search": search.search,
    "/sources": sources.listing,
    "/sources/{name}": sources.source,
    "/tokens": tokens.tokens,
    "/webhooks": receivers.webhooks,
    "/webhooks/{name}": receivers.webhook,
}
"""What can be looked at; each has a twin that ends in `.json`."""

QUESTIONS: dict[str, Handler] = {
    "/sources/{name}/remove": sources.remove,
    "/tokens/{name}/revoke": tokens.revoke,
}
"""What is asked before it is done."""

ACTIONS: dict[str, Handler] = {
    "/add": add.add,
    "/extractions/carry": extractions.carry,
    "/extractions/drop": extractions.drop,
    "/held": attention.decide,
    "/jobs/pause": work.pause,
    "/jobs/resume": work.resume,
    "/jobs/{number:int}/cancel": work.cancel,
    "/jobs/{number:int}/retry": work.retry,
    "/runs/{number:int}/cancel": runs.cancel,
    "/saved": saved.save,
    "/saved/{number:int}/forget": saved.forget,
    "/sources/{name}/edit": sources.edit_source,
    "/sources/{name}/pause": sources.pause,
    "/sources/{name}/remove": sources.remove,
    "/sources/{name}/resume": sources.resume,
    "/sources/{name}/sync": sources.sync,
    "/tokens": tokens.add,
    "/tokens/{name}/revoke": tokens.revoke,
    "/webhooks": receivers.add,
    "/webhooks/{name}/remove": receivers.remove,
    "/webhooks/{name}/replay": receivers.replay,
    "/webhooks/{name}/state": receivers.set_state,
}
"""What can be done; each needs the right to write, or that of an administrator."""


def all_routes(rowen: Rowen) -> list[BaseRoute]:
    """All of them, twins before the pages that would hide them."""
    made: list[BaseRoute] = [
        Route("/static/{mark}/{name}", serve_file, name="static"),
        Route("/theme", _set_theme, methods=["POST"], name="theme"),
    ]
    for path, handler in PAGES.items():
        twin = "/overview.json" if path == "/" else f"{path}.json"
        made.append(Route(twin, _endpoint(rowen, handler, is_twin=True), name=f"json {path}"))
    for path, handler in {**PAGES, **QUESTIONS}.items():
        made.append(Route(path, _endpoint(rowen, handler), name=f"page {path}"))
    for path, watcher in WATCHED.items():
        made.append(Route(path, _watching(rowen, watcher), name=f"live {path}"))
    for path, handler in ACTIONS.items():
        made.append(Route(path, _endpoint(rowen, handler), methods=["POST"], name=f"deed {path}"))
    return made


def _endpoint(rowen: Rowen, handler: Handler, *, is_twin: bool = False) -> Endpoint:
    async def answer(request: Request) -> Response:
        try:
            found = await handler(rowen, request)
        except RowenError as problem:
            found = trouble(problem)
        if isinstance(found, Goto):
            return _going(request, found)
        if is_twin:
            return in_json(found)
        return drawn(request, found, await _state(rowen))

    return answer


def _watching(rowen: Rowen, watcher: Watcher) -> Endpoint:
    async def answer(request: Request) -> Response:
        return await watch(rowen, request, watcher)

    return answer


def _going(request: Request, to: Goto) -> Response:
    address = f"{request.scope.get('root_path', '')}{to.address}"
    if request.headers.get("hx-request") == "true":
        return Response(None, 204, {"HX-Redirect": address})
    return RedirectResponse(address, 303)


async def _state(rowen: Rowen) -> Status | None:
    """What the head of each page says; a page that tells what is wrong with the database does without."""
    try:
        return await rowen.status.get()
    except RowenError:
        return None


async def _set_theme(request: Request) -> Response:
    """Remember how somebody likes the page to look; anybody may choose."""
    form = await read_form(request)
    chosen = form.text("theme")
    response = RedirectResponse(local(form.text("back")), 303)
    if chosen in THEMES:
        response.set_cookie("rowen_theme", str(chosen), max_age=_YEAR_S, httponly=True, samesite="strict")
    else:
        response.delete_cookie("rowen_theme")
    return response
