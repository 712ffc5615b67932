"""Runs: their statistics, the progress of a live one, and its cancellation."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.responses import Response

from rowen.interfaces.rest.answers import MEDIA_TYPE_EVENTS, event, events
from rowen.interfaces.rest.derived import RouteCall, RouteGroup, accepted, custom, fact_of, list_of, page_of
from rowen.interfaces.rest.shapes import Responses
from rowen.model.runs import Run
from rowen.operations import Rowen
from rowen.operations.facts import fact
from rowen.operations.feeds import KEEP_ALIVE, or_silence

router = RouteGroup(tags=["runs"])

# Proxies close connections on which nothing was sent for a minute.
_KEEP_ALIVE_S = 25.0

router.offer("list_runs", "GET /runs", "runs.list", page_of("Run"))
router.offer("get_run", "GET /runs/{number}", "runs.get", fact_of("Run"))
router.offer("list_troubles", "GET /runs/{number}/troubles", "runs.error_groups", list_of("TroubleGroup"))

_EVENTS: Responses = {200: {"content": {MEDIA_TYPE_EVENTS: {"example": 'event: progress\ndata: {"run":42}\n\n'}}}}


@router.derive("GET /runs/{number}/events", "runs.get", answer=custom(_EVENTS))
async def follow_run(call: RouteCall) -> Response:
    """Return a live run as server-sent events: `progress` when its statistics differ, and `end` when it is over."""
    return events(call.request, _progress(call.rowen, await call.rowen.runs.get(**call.arguments)))


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


@router.derive("POST /runs/{number}/cancel", "runs.get", "runs.cancel", answer=accepted("Run"))
async def cancel_run(call: RouteCall) -> Run:
    """Request that a live run ends early, in whichever process it is; what it stored is kept."""
    return await call.rowen.runs.cancel(call.arguments["run_id"])
