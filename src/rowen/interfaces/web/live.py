"""What goes on by itself: the server says when there is news, and the page asks for that part of itself again."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from hashlib import sha256
from typing import NamedTuple, TypeAlias, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from rowen.errors import RowenError
from rowen.interfaces.web.drawing import in_json, trouble
from rowen.model.queue import Job
from rowen.model.runs import Run
from rowen.operations import Rowen
from rowen.operations.facts import fact
from rowen.operations.feeds import KEEP_ALIVE, or_silence, until

__all__ = ["WATCHED", "Glance", "Watcher", "glance_at_job", "glance_at_run", "glance_at_runs", "newest_runs", "watch"]

T = TypeVar("T")

# Proxies cut connections that were silent for half a minute or more.
_KEEP_ALIVE_S = 15.0
# How many runs the front page shows: as many lines whatever goes on, so that nothing moves.
RUNS_SHOWN = 7
_RUNS_READ = 3 * RUNS_SHOWN
# Proxies that collect an answer before they pass it on are asked not to.
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Content-Type-Options": "nosniff"}


class Glance(NamedTuple):
    """A mark that differs when there is something new to see, and whether more may come."""

    mark: str
    goes_on: bool


Watcher: TypeAlias = Callable[[Rowen, Request], Awaitable[AsyncGenerator[Glance]]]


def glance_at_run(run: Run) -> Glance:
    """A run is watched until it is over."""
    return Glance(_mark(fact(run)), run.status == "running")


def glance_at_job(job: Job) -> Glance:
    """A job is watched until it is over, or has become a run."""
    return Glance(_mark(fact(job)), job.state in ("waiting", "running") and job.run is None)


def glance_at_runs(runs: list[Run]) -> Glance:
    """The last runs are watched for ever."""
    return Glance(_mark([(run.id, run.status, run.stats.seen) for run in runs]), goes_on=True)


async def newest_runs(rowen: Rowen) -> list[Run]:
    """The runs that the front page shows: live ones first."""
    return _shown(await rowen.runs.list(limit=_RUNS_READ))


def _shown(recent: Sequence[Run]) -> list[Run]:
    return sorted(recent, key=lambda run: run.status != "running")[:RUNS_SHOWN]


def _mark(seen: object) -> str:
    # Guards against a page that missed something, not against anybody.
    return sha256(msgspec.json.encode(seen, enc_hook=str)).hexdigest()[:12]


async def _run(rowen: Rowen, request: Request) -> AsyncGenerator[Glance]:
    run = await rowen.runs.get(int(request.path_params["number"]))
    return _glances(rowen.runs.watch(run), glance_at_run)


async def _job(rowen: Rowen, request: Request) -> AsyncGenerator[Glance]:
    job = await rowen.queue.get(int(request.path_params["number"]))
    return _glances(rowen.queue.watch(job), glance_at_job)


async def _runs(rowen: Rowen, request: Request) -> AsyncGenerator[Glance]:
    recent = await rowen.runs.list(limit=_RUNS_READ)
    states = rowen.runs.watch_recent(list(recent), limit=_RUNS_READ)
    return _glances(states, lambda runs: glance_at_runs(_shown(runs)))


async def _glances(states: AsyncGenerator[T], glance_at: Callable[[T], Glance]) -> AsyncGenerator[Glance]:
    async with aclosing(states):
        async for state in states:
            yield glance_at(state)


WATCHED: dict[str, Watcher] = {
    "/live": _runs,
    "/jobs/{number:int}/live": _job,
    "/runs/{number:int}/live": _run,
}
"""What can be watched, as server-sent events: a message when there is news, and `end` when there will be no more."""


async def watch(rowen: Rowen, request: Request, watcher: Watcher) -> Response:
    """News of something since the page that asks was drawn, which says what it shows by a mark."""
    try:
        glances = await watcher(rowen, request)
    except RowenError as problem:
        return in_json(trouble(problem))
    news = _news(glances, request.query_params.get("seen", ""))
    return StreamingResponse(until(request.app.state.closing, news), media_type="text/event-stream", headers=_HEADERS)


async def _news(glances: AsyncGenerator[Glance], shown: str) -> AsyncGenerator[bytes]:
    # A browser learns so that there is a stream at all, before there is news.
    yield b": watching\n\n"
    async with aclosing(or_silence(glances, _KEEP_ALIVE_S)) as news:
        async for glance in news:
            if glance is None:
                yield KEEP_ALIVE
                continue
            if glance.mark != shown:
                yield b"data: news\n\n"
                shown = glance.mark
            if not glance.goes_on:
                break
    yield b"event: end\ndata: end\n\n"
