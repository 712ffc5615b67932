"""Commands on the queue: jobs, worker."""

from __future__ import annotations

import os
import socket
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from rowen.errors import StoreUnavailableError, UsageError
from rowen.interfaces.cli.command import command, listing_group, options_of
from rowen.interfaces.cli.invocation import Invocation
from rowen.interfaces.cli.session import patience
from rowen.interfaces.cli.summary import line
from rowen.model.queue import SIDE_PLACES, Job, JobEnd, JobState
from rowen.model.wording import age, count, moment, seconds

if TYPE_CHECKING:
    from rowen.operations import Rowen

_STYLES = {"waiting": "", "running": "cyan", "done": "green", "failed": "bold red", "cancelled": "yellow"}


@listing_group("jobs")
@options_of("queue.list", leave_out=("after",))
def jobs(call: Invocation, state: JobState | None, source: str | None, limit: int) -> None:
    """List jobs, newest first; cancel, retry, pause, resume."""
    listed = call.ask(lambda rowen: rowen.queue.list(source, state=state, limit=limit))
    now = datetime.now(UTC)
    call.out.listing(
        listed,
        {
            "job": lambda job: str(job.id),
            "task": lambda job: job.task,
            "source": lambda job: (job.source or "", "bold"),
            "state": lambda job: (job.state, _STYLES[job.state]),
            "tries": lambda job: str(job.tries),
            "queued": lambda job: age(job.queued_at, now) if call.out.terminal else moment(job.queued_at),
            "worker": lambda job: job.worker or "",
            "progress": lambda job: _progress(job, now),
        },
    )
    if not listed:
        call.out.say("There are no jobs. `rowen worker` creates one for each due source.")


def _progress(job: Job, now: datetime) -> str:
    if job.state == "running" and job.seen is not None:
        return f"{count(job.seen, 'item')} so far, {count(job.requests or 0, 'request')}"
    if job.state == "waiting" and job.starts_at is not None and job.starts_at > now:
        start = f"starts in {seconds((job.starts_at - now).total_seconds())}"
        return f"{start}: {job.error}" if job.error else start
    if job.state in {"failed", "waiting"}:
        return job.error or ""
    return f"run {job.run}" if job.run is not None else ""


@command("show")
@click.argument("number", type=int)
def show(call: Invocation, number: int) -> None:
    """Show one job in full."""
    call.out.card(call.ask(lambda rowen: rowen.queue.get(number)))


@command("cancel")
@click.argument("number", type=int)
def cancel(call: Invocation, number: int) -> None:
    """Cancel a job; a running one ends within seconds, at a checkpoint."""
    call.out.card(call.ask(lambda rowen: rowen.queue.cancel(number)))


@command("retry")
@click.argument("number", type=int)
def retry(call: Invocation, number: int) -> None:
    """Restart a job that failed or was cancelled."""
    call.out.card(call.ask(lambda rowen: rowen.queue.retry(number)))


@command("pause")
def pause(call: Invocation) -> None:
    """Start no job on any machine until the queue is resumed; running jobs continue."""
    call.ask(lambda rowen: rowen.queue.pause())
    call.out.answer({"paused": True}, "The queue is paused.")


@command("resume")
def resume(call: Invocation) -> None:
    """Start jobs again after a pause."""
    call.ask(lambda rowen: rowen.queue.resume())
    call.out.answer({"paused": False}, "The queue is resumed.")


@command("worker")
@click.option(
    "--places",
    multiple=True,
    metavar="[KIND=]N",
    help="Concurrent jobs of a kind, sync=4 or just 4; may be repeated. Default: side_by_side syncs.",
)
@click.option("--until-idle", is_flag=True, help="Run the jobs that are due now, and exit.")
@click.option("--check", is_flag=True, help="Exit with 0 if a worker of this machine is alive: for health checks.")
def worker(call: Invocation, places: tuple[str, ...], until_idle: bool, check: bool) -> int:
    """Keep sources fresh: run due jobs until stopped.

    Any number of workers on any number of machines share one database. Ctrl-C or SIGTERM lets running jobs end at a
    checkpoint; a second one ends at once. Nothing is lost either way.
    """
    if check:
        return _check(call)
    concurrency = _parse_places(places)

    async def work(rowen: Rowen) -> bool:
        call.out.say(await _greeting(rowen))
        return await rowen.queue.work(places=concurrency, until_idle=until_idle, told=lambda end: _print(call, end))

    # With --until-idle, cron starts the next worker soon: if each of them waited for the database, they would pile up.
    again = call.ask(work, gently=True, patience=None if until_idle else patience(call))
    if again:
        call.out.say("Restarting to release memory.")
        os.execv(sys.executable, [sys.executable, "-m", "rowen", *sys.argv[1:]])  # noqa: S606 (this very program)
    return 0


def _check(call: Invocation) -> int:
    """Return 0 if a worker of this machine or container sent a heartbeat within its lease."""
    lease_s = call.settings.lease_s
    workers = call.ask(lambda rowen: rowen.queue.list_workers())
    alive = [live for live in workers if live.silent_s < lease_s and live.host == socket.gethostname()]
    for live in alive:
        call.out.answer(live, f"{live.host}:{live.pid}\t{count(live.running, 'job')}\t{moment(live.heard_at)}")
    if not alive:
        call.out.say("No worker of this machine is alive. `rowen worker` starts one.")
    return 0 if alive else 1


def _parse_places(texts: tuple[str, ...]) -> dict[str, int] | None:
    """Return the number of concurrent jobs by kind; a number without a kind sets syncs only."""
    places: dict[str, int] = {}
    for text in texts:
        kind, _, number = text.rpartition("=")
        if not (number.isascii() and number.isdigit() and int(number) > 0):
            raise UsageError(
                f"--places {text} is not a number of jobs.", hint="Such as --places 4, or --places sync=4."
            )
        if not kind.strip():
            places |= SIDE_PLACES
        places[kind.strip() or "sync"] = int(number)
    return places or None


async def _greeting(rowen: Rowen) -> str:
    try:
        sources, others = await rowen.sources.list(), len(await rowen.queue.list_workers())
    except StoreUnavailableError:
        # The worker itself waits for the database.
        return "Working. Ctrl-C stops."
    scheduled = sum(source.schedule is not None for source in sources)
    beside = f", beside {count(others, 'other worker')}" if others else ""
    if not scheduled:
        return f"Working{beside}. No source has a schedule yet: `rowen edit NAME --every auto` adds one."
    return f"Working{beside}: {count(scheduled, 'source')} on a schedule. Ctrl-C stops."


def _print(call: Invocation, end: JobEnd) -> None:
    fields = {"job": end.job, "state": end.state, "error": end.error, "wait_s": end.wait_s}
    if end.run is not None:
        call.out.answer(end.run, *line(end.run), **fields)
    elif end.error is None:
        call.out.answer(fields, f"job {end.job}\t{end.task}\t{end.state}")
    if end.error is not None:
        retried = "It has failed." if end.wait_s is None else f"It is tried again in {seconds(end.wait_s)}."
        call.out.say(f"Job {end.job}: {end.error} {retried}")


for _command in (show, cancel, retry, pause, resume):
    jobs.add_command(_command)

COMMANDS = {"jobs": jobs, "worker": worker}
