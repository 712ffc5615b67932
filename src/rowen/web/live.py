"""What goes on by itself: the server says when there is news, and the page asks for that part of itself again."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from hashlib import sha256
from typing import NamedTuple, TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from rowen.errors import RowenError
from rowen.model.job import Job
from rowen.model.run import Run
from rowen.service import Rowen
from rowen.service.facts import fact
from rowen.service.streams import until
from rowen.web.drawing import in_json, trouble

__all__ = ["WATCHED", "Glance", "Watcher", "glance_at_job", "glance_at_run", "glance_at_runs", "newest_runs", "watch"]

# A run writes its tally when it renews its lease, about so often; who looks more often sees nothing more.
LOOK_S = 1.0
# Proxies cut connections that were silent for half a minute or more.
_SILENT_LOOKS = 15
# How many runs the front page shows: as many lines whatever goes on, so that nothing moves.
RUNS_SHOWN = 7
# Proxies that collect an answer before they pass it on are asked not to.
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Content-Type-Options": "nosniff"}


class Glance(NamedTuple):
    """A mark that differs when there is something new to see, and whether more may come."""

    mark: str
    goes_on: bool


Watcher: TypeAlias = Callable[[Rowen, Request], Awaitable[Glance]]


def glance_at_run(run: Run) -> Glance:
    """A run is watched until it is over."""
    return Glance(_mark(fact(run)), run.status == "running")


def glance_at_job(job: Job) -> Glance:
    """A job is watched until it is over, or has become a run."""
    return Glance(_mark(fact(job)), job.state in ("waiting", "running") and job.run is None)


def glance_at_runs(runs: list[Run]) -> Glance:
    """The last runs are watched for ever."""
    return Glance(_mark([(run.id, run.status, run.tally.seen) for run in runs]), goes_on=True)


async def newest_runs(rowen: Rowen) -> list[Run]:
    """The runs that the front page shows: live ones first."""
    found = await rowen.runs(limit=3 * RUNS_SHOWN)
    return sorted(found, key=lambda run: run.status != "running")[:RUNS_SHOWN]


def _mark(seen: object) -> str:
    # Guards against a page that missed something, not against anybody.
    return sha256(msgspec.json.encode(seen, enc_hook=str)).hexdigest()[:12]


async def _run(rowen: Rowen, request: Request) -> Glance:
    return glance_at_run(await rowen.run(int(request.path_params["number"])))


async def _job(rowen: Rowen, request: Request) -> Glance:
    return glance_at_job(await rowen.job(int(request.path_params["number"])))


async def _runs(rowen: Rowen, request: Request) -> Glance:
    return glance_at_runs(await newest_runs(rowen))


WATCHED: dict[str, Watcher] = {
    "/live": _runs,
    "/jobs/{number:int}/live": _job,
    "/runs/{number:int}/live": _run,
}
"""What can be watched, as server-sent events: a message when there is news, and `end` when there will be no more."""


async def watch(rowen: Rowen, request: Request, watcher: Watcher) -> Response:
    """News of something since the page that asks was drawn, which says what it shows by a mark."""
    try:
        first = await watcher(rowen, request)
    except RowenError as problem:
        return in_json(trouble(problem))
    news = _news(rowen, request, watcher, first)
    return StreamingResponse(until(request.app.state.closing, news), media_type="text/event-stream", headers=_HEADERS)


async def _news(rowen: Rowen, request: Request, watcher: Watcher, first: Glance) -> AsyncGenerator[bytes]:
    shown, seen, silent = request.query_params.get("seen", ""), first, 0
    # A browser learns so that there is a stream at all, before there is news.
    yield b": watching\n\n"
    while True:
        if seen.mark != shown or silent >= _SILENT_LOOKS:
            yield b"data: news\n\n" if seen.mark != shown else b": still here\n\n"
            shown, silent = seen.mark, 0
        if not seen.goes_on:
            yield b"event: end\ndata: end\n\n"
            return
        await asyncio.sleep(LOOK_S)
        silent += 1
        seen = await watcher(rowen, request)
