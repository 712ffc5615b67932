"""The change log: pages of its lines, single lines, and a stream of new lines."""

from typing import Annotated

from fastapi import Header, Query, Request
from fastapi.routing import APIRoute
from msgspec import Meta
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope

from rowen.errors import NotFoundError
from rowen.interfaces.rest.answers import MEDIA_TYPE_EVENTS, events
from rowen.interfaces.rest.derived import RouteCall, RouteGroup, Service, fact_of, page_of
from rowen.model.changes import Change
from rowen.operations.paging import Page

router = RouteGroup(tags=["changes"])


class ForPrograms(APIRoute):
    """A route that is skipped for browsers, so that they get the page at the same address."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return the match of the route; no match for a browser."""
        is_person = scope["type"] == "http" and "text/html" in Headers(scope=scope).get("accept", "")
        return (Match.NONE, {}) if is_person else super().matches(scope)


# Feeds and streams link to a line at this address. It is outside /api, so that it stays valid if the API changes.
lines = RouteGroup(tags=["changes"], route_class=ForPrograms)


@router.derive("GET /changes", "changes.list", answer=page_of("Change"))
async def list_changes(call: RouteCall) -> Page[Change]:
    """Return the change log in order, from a number or a time on."""
    await _check_source(call)
    return await call.rowen.changes(**call.arguments)


@router.derive("GET /changes/newest", "changes.newest", answer=page_of("Change"))
async def list_newest_changes(call: RouteCall) -> Page[Change]:
    """Return the change log, newest first, with filters."""
    await _check_source(call)
    return await call.rowen.changes.newest(**call.arguments)


async def _check_source(call: RouteCall) -> None:
    if "source" in call.arguments:
        await call.rowen.sources.get(call.arguments["source"], counted=False)


_EVENT = 'id: 4711\nevent: updated\ndata: {"number":4711,"kind":"updated"}\n\n'


@router.get(
    "/changes/events", response_class=Response, responses={200: {"content": {MEDIA_TYPE_EVENTS: {"example": _EVENT}}}}
)
async def follow_changes(
    request: Request,
    rowen: Service,
    source: Annotated[str | None, Query(description="Only this source.")] = None,
    last_event_id: Annotated[str | None, Header(description="Number of the last line that was received.")] = None,
    since: Annotated[int | None, Query(ge=0, description="The same, for clients that cannot set a header.")] = None,
) -> Response:
    """Return new lines of the log as server-sent events, after the last one received; without one, from now on."""
    if source is not None:
        await rowen.sources.get(source, counted=False)
    seen = last_event_id or (None if since is None else str(since))
    return events(request, rowen.feeds.events(last_event_id=seen, source=source))


_NUMBER = {
    "number": (Annotated[int, Meta(ge=1, le=2**63 - 1, description="Number of a change.", examples=[4711])], ...)
}


@router.derive("GET /changes/{number}", "changes.list", answer=fact_of("Change"), only=(), adds=_NUMBER)
async def get_change(call: RouteCall) -> Change:
    """Return one line of the change log."""
    return await _line(call)


@lines.derive("GET /changes/{number:int}", "changes.list", answer=fact_of("Change"), only=(), adds=_NUMBER)
async def get_published_change(call: RouteCall) -> Change:
    """Return one line of the change log, at the address that feeds and event streams name."""
    return await _line(call)


async def _line(call: RouteCall) -> Change:
    number: int = call.added["number"]
    changes = await call.rowen.changes(since=number - 1, limit=1)
    if not changes or changes[0].number != number:
        raise NotFoundError(f"The change log has no line {number} yet.")
    return changes[0]
