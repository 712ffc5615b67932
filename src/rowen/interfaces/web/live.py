"""Live pages: the server sends an event when the state changes, and the page fetches its changed part again."""

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

T = TypeVar("T")

# Proxies close connections on which nothing is sent for half a minute or more.
_KEEP_ALIVE_S = 15.0
# The runs on the front page: a constant number of lines, so that nothing moves.
RUNS_SHOWN = 7
_RUNS_READ = 3 * RUNS_SHOWN
# The header `X-Accel-Buffering` asks proxies not to buffer the response.
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Content-Type-Options": "nosniff"}


class Glance(NamedTuple):
    """A digest of a state, which differs after each change, and whether more changes may follow."""

    mark: str
    goes_on: bool


Watcher: TypeAlias = Callable[[Rowen, Request], Awaitable[AsyncGenerator[Glance]]]


def glance_at_run(run: Run) -> Glance:
    """Return the state of a run; more changes may follow until the run ends."""
    return Glance(_mark(fact(run)), run.status == "running")


def glance_at_job(job: Job) -> Glance:
    """Return the state of a job; more changes may follow until the job ends or has a run."""
    return Glance(_mark(fact(job)), job.state in ("waiting", "running") and job.run is None)


def glance_at_runs(runs: list[Run]) -> Glance:
    """Return the state of the last runs; more changes may always follow."""
    return Glance(_mark([(run.id, run.status, run.stats.seen) for run in runs]), goes_on=True)


async def newest_runs(rowen: Rowen) -> list[Run]:
    """Return the runs on the front page, live runs first."""
    return _live_first(await rowen.runs.list(limit=_RUNS_READ))


def _live_first(recent: Sequence[Run]) -> list[Run]:
    return sorted(recent, key=lambda run: run.status != "running")[:RUNS_SHOWN]


def _mark(state: object) -> str:
    # A digest for comparison; it does not protect against attackers.
    return sha256(msgspec.json.encode(state, enc_hook=str)).hexdigest()[:12]


async def _watch_run(rowen: Rowen, request: Request) -> AsyncGenerator[Glance]:
    run = await rowen.runs.get(int(request.path_params["number"]))
    return _glances(rowen.runs.watch(run), glance_at_run)


async def _watch_job(rowen: Rowen, request: Request) -> AsyncGenerator[Glance]:
    job = await rowen.queue.get(int(request.path_params["number"]))
    return _glances(rowen.queue.watch(job), glance_at_job)


async def _watch_runs(rowen: Rowen, request: Request) -> AsyncGenerator[Glance]:
    recent = await rowen.runs.list(limit=_RUNS_READ)
    states = rowen.runs.watch_recent(list(recent), limit=_RUNS_READ)
    return _glances(states, lambda runs: glance_at_runs(_live_first(runs)))


async def _glances(states: AsyncGenerator[T], glance_at: Callable[[T], Glance]) -> AsyncGenerator[Glance]:
    async with aclosing(states):
        async for state in states:
            yield glance_at(state)


WATCHED: dict[str, Watcher] = {
    "/live": _watch_runs,
    "/jobs/{number:int}/live": _watch_job,
    "/runs/{number:int}/live": _watch_run,
}
"""Streams of server-sent events: a message for each change, and `end` after the last one."""


async def watch(rowen: Rowen, request: Request, watcher: Watcher) -> Response:
    """Stream the changes since the page was drawn; the request contains the digest of the state on the page."""
    try:
        glances = await watcher(rowen, request)
    except RowenError as problem:
        return in_json(trouble(problem))
    news = _news(glances, request.query_params.get("seen", ""))
    return StreamingResponse(until(request.app.state.closing, news), media_type="text/event-stream", headers=_HEADERS)


async def _news(glances: AsyncGenerator[Glance], mark: str) -> AsyncGenerator[bytes]:
    # A browser reports the stream as open only after the first bytes.
    yield b": watching\n\n"
    async with aclosing(or_silence(glances, _KEEP_ALIVE_S)) as news:
        async for glance in news:
            if glance is None:
                yield KEEP_ALIVE
                continue
            if glance.mark != mark:
                yield b"data: news\n\n"
                mark = glance.mark
            if not glance.goes_on:
                break
    yield b"event: end\ndata: end\n\n"
