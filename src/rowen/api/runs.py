"""Runs: looking at them, following one as it goes, ending one."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from rowen.api.access import Service, takes
from rowen.api.answers import DEFAULT_LIMIT, After, Limit, listed, page, told
from rowen.api.examples import example, list_example, page_example
from rowen.api.shapes import list_shape, page_shape, shape
from rowen.api.streams import MEDIA_TYPE_EVENTS, event, events
from rowen.service import Rowen
from rowen.service.facts import fact

__all__ = ["Of", "router"]

router = APIRouter(tags=["runs"])

# A run writes its tally when it renews its lease, about so often; who looks more often sees nothing more.
_LOOK_S = 1.0

# A bigint of the database.
_MOST = 2**63 - 1
RunNumber = Annotated[int, Path(ge=1, le=_MOST, description="the number of a run", examples=[42])]
Of = Annotated[str | None, Query(description="only of this source")]


@router.get("/runs", response_model=page_shape("Run"), responses={200: page_example("Run")})
async def list_runs(
    request: Request, rowen: Service, source: Of = None, limit: Limit = DEFAULT_LIMIT, after: After = None
) -> Response:
    """The last runs, newest first, each with its tally."""
    return page(request, await rowen.runs(source, limit=limit, after=after))


@router.get("/runs/{number}", response_model=shape("Run"), responses={200: example("Run")})
async def get_run(request: Request, number: RunNumber, rowen: Service) -> Response:
    """One run with its whole tally; of a live one, what it has done so far."""
    return told(request, await rowen.run(number))


@router.get(
    "/runs/{number}/troubles", response_model=list_shape("TroubleGroup"), responses={200: list_example("TroubleGroup")}
)
async def list_troubles(request: Request, number: RunNumber, rowen: Service) -> Response:
    """Why items could not be read in a run, the most frequent reason first."""
    return listed(request, await rowen.troubles(number))


@router.get(
    "/runs/{number}/events",
    responses={200: {"content": {MEDIA_TYPE_EVENTS: {"example": 'event: progress\ndata: {"run":42}\n\n'}}}},
    response_class=Response,
)
async def follow_run(request: Request, number: RunNumber, rowen: Service) -> Response:
    """A live run as server-sent events: `progress` whenever its tally differs, and `end` when it is over."""
    await rowen.run(number)
    return events(request, _progress(rowen, number))


async def _progress(rowen: Rowen, number: int) -> AsyncGenerator[bytes]:
    before = None
    while True:
        run = await rowen.run(number)
        facts = fact(run)
        if run.status != "running":
            yield event("end", facts)
            return
        if facts != before:
            yield event("progress", facts)
            before = facts
        await asyncio.sleep(_LOOK_S)


@router.post(
    "/runs/{number}/cancel",
    status_code=202,
    response_model=shape("Run"),
    responses={202: example("Run")},
    dependencies=takes("cancel_run"),
)
async def cancel_run(request: Request, number: RunNumber, rowen: Service) -> Response:
    """Ask a live run to end early, whichever process it runs in; what it stored is kept."""
    answer = told(request, await rowen.cancel_run(number))
    answer.status_code = 202
    return answer
