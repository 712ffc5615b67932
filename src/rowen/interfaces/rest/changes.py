"""The change log: reading it, one line of it, and following it."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request
from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope

from rowen.errors import NotFoundError
from rowen.interfaces.rest.access import Service
from rowen.interfaces.rest.answers import DEFAULT_LIMIT, After, Limit, page, told
from rowen.interfaces.rest.examples import example, page_example
from rowen.interfaces.rest.shapes import page_shape, shape
from rowen.interfaces.rest.streams import MEDIA_TYPE_EVENTS, events
from rowen.interfaces.rest.times import since_of
from rowen.model.changes import ChangeKind
from rowen.operations import Rowen

__all__ = ["lines", "router"]

router = APIRouter(tags=["changes"])


class ForPrograms(APIRoute):
    """A route that leaves browsers to the page at the same address."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether it answers."""
        is_person = scope["type"] == "http" and "text/html" in Headers(scope=scope).get("accept", "")
        return (Match.NONE, {}) if is_person else super().matches(scope)


# Where feeds and streams say that a line is found; not below /api, since it stays whatever becomes of that.
lines = APIRouter(tags=["changes"], route_class=ForPrograms)

Of = Annotated[str | None, Query(description="only of this source")]
LineNumber = Annotated[int, Path(ge=1, le=2**63 - 1, description="the number of a line of the log", examples=[4711])]


@router.get("/changes", response_model=page_shape("Change"), responses={200: page_example("Change")})
async def list_changes(
    request: Request,
    rowen: Service,
    since: Annotated[str | None, Query(description="after this number, or since `1d`, or a date")] = None,
    source: Of = None,
    limit: Limit = DEFAULT_LIMIT,
    after: After = None,
) -> Response:
    """The change log in order, from a number or a moment on."""
    if source is not None:
        await rowen.sources.get(source, counted=False)
    return page(request, await rowen.changes(since=since_of(since), source=source, limit=limit, after=after))


@router.get("/changes/newest", response_model=page_shape("Change"), responses={200: page_example("Change")})
async def list_newest_changes(
    request: Request,
    rowen: Service,
    source: Of = None,
    kind: Annotated[tuple[ChangeKind, ...], Query(description="only of these kinds")] = (),
    run: Annotated[int | None, Query(ge=1, le=2**63 - 1, description="only those of this run")] = None,
    query: Annotated[str | None, Query(max_length=1000, description="only of items that have these words")] = None,
    field: Annotated[str | None, Query(max_length=200, description="only where this field of facts differs")] = None,
    limit: Limit = DEFAULT_LIMIT,
    after: After = None,
) -> Response:
    """The change log, newest first, and only what is wanted of it."""
    if source is not None:
        await rowen.sources.get(source, counted=False)
    wanted: dict[str, Any] = {"source": source, "kinds": kind, "run": run, "query": query, "field": field}
    return page(request, await rowen.changes.newest(**wanted, limit=limit, after=after))


_EVENT = 'id: 4711\nevent: updated\ndata: {"number":4711,"kind":"updated"}\n\n'


@router.get(
    "/changes/events", response_class=Response, responses={200: {"content": {MEDIA_TYPE_EVENTS: {"example": _EVENT}}}}
)
async def follow_changes(
    request: Request,
    rowen: Service,
    source: Of = None,
    last_event_id: Annotated[str | None, Header(description="the number of the last line that was seen")] = None,
    since: Annotated[int | None, Query(ge=0, description="the same, where no header can be set")] = None,
) -> Response:
    """New lines of the log as server-sent events, from the one that was seen last; without one, from now on."""
    if source is not None:
        await rowen.sources.get(source, counted=False)
    seen = last_event_id or (None if since is None else str(since))
    return events(request, rowen.feeds.events(last_event_id=seen, source=source))


@router.get("/changes/{number}", response_model=shape("Change"), responses={200: example("Change")})
async def get_change(request: Request, number: LineNumber, rowen: Service) -> Response:
    """One line of the log."""
    return await _line(request, number, rowen)


@lines.get("/changes/{number:int}", response_model=shape("Change"), responses={200: example("Change")})
async def get_published_change(request: Request, number: LineNumber, rowen: Service) -> Response:
    """One line of the log, at the address that feeds and event streams name."""
    return await _line(request, number, rowen)


async def _line(request: Request, number: int, rowen: Rowen) -> Response:
    found = await rowen.changes(since=number - 1, limit=1)
    if not found or found[0].number != number:
        raise NotFoundError(f"The change log has no line {number} yet.")
    return told(request, found[0])
