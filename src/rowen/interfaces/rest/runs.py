"""Runs: looking at them, following one as it goes, ending one."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from rowen.interfaces.rest.access import Service, takes
from rowen.interfaces.rest.answers import DEFAULT_LIMIT, After, Limit, listed, page, told
from rowen.interfaces.rest.examples import example, list_example, page_example
from rowen.interfaces.rest.shapes import list_shape, page_shape, shape
from rowen.interfaces.rest.streams import MEDIA_TYPE_EVENTS, event, events
from rowen.model.runs import Run
from rowen.operations import Rowen
from rowen.operations.facts import fact
from rowen.operations.streams import KEEP_ALIVE, or_silence

__all__ = ["Of", "router"]

router = APIRouter(tags=["runs"])

# Proxies cut connections that say nothing for a minute.
_KEEP_ALIVE_S = 25.0

# A bigint of the database.
_MOST = 2**63 - 1
RunNumber = Annotated[int, Path(ge=1, le=_MOST, description="the number of a run", examples=[42])]
Of = Annotated[str | None, Query(description="only of this source")]


@router.get("/runs", response_model=page_shape("Run"), responses={200: page_example("Run")})
async def list_runs(
    request: Request, rowen: Service, source: Of = None, limit: Limit = DEFAULT_LIMIT, after: After = None
) -> Response:
    """The last runs, newest first, each with its statistics."""
    return page(request, await rowen.runs.list(source, limit=limit, after=after))


@router.get("/runs/{number}", response_model=shape("Run"), responses={200: example("Run")})
async def get_run(request: Request, number: RunNumber, rowen: Service) -> Response:
    """One run with its full statistics; of a live one, what it has done so far."""
    return told(request, await rowen.runs.get(number))


@router.get(
    "/runs/{number}/troubles", response_model=list_shape("TroubleGroup"), responses={200: list_example("TroubleGroup")}
)
async def list_troubles(request: Request, number: RunNumber, rowen: Service) -> Response:
    """Why items could not be read in a run, the most frequent reason first."""
    return listed(request, await rowen.runs.error_groups(number))


@router.get(
    "/runs/{number}/events",
    responses={200: {"content": {MEDIA_TYPE_EVENTS: {"example": 'event: progress\ndata: {"run":42}\n\n'}}}},
    response_class=Response,
)
async def follow_run(request: Request, number: RunNumber, rowen: Service) -> Response:
    """A live run as server-sent events: `progress` whenever its statistics differ, and `end` when it is over."""
    return events(request, _progress(rowen, await rowen.runs.get(number)))


async def _progress(rowen: Rowen, first: Run) -> AsyncGenerator[bytes]:
    async with aclosing(or_silence(rowen.runs.watch(first), _KEEP_ALIVE_S)) as states:
        async for run in states:
            if run is None:
                yield KEEP_ALIVE
            elif run.status == "running":
                yield event("progress", fact(run))
            else:
                yield event("end", fact(run))
                return


@router.post(
    "/runs/{number}/cancel",
    status_code=202,
    response_model=shape("Run"),
    responses={202: example("Run")},
    dependencies=takes("runs.cancel"),
)
async def cancel_run(request: Request, number: RunNumber, rowen: Service) -> Response:
    """Ask a live run to end early, whichever process it runs in; what it stored is kept."""
    answer = told(request, await rowen.runs.cancel(number))
    answer.status_code = 202
    return answer
