"""jobs: the queue."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, get_args

import click

from rowen.interfaces.cli.command import command, listing_group
from rowen.interfaces.cli.completing import source_names
from rowen.interfaces.cli.invocation import Invocation
from rowen.interfaces.cli.output import Piece
from rowen.model.queue import JobState
from rowen.model.wording import age, count, moment, seconds

if TYPE_CHECKING:
    from rowen.model.queue import Job

__all__ = ["COMMANDS"]

_STYLES = {"waiting": "", "running": "cyan", "done": "green", "failed": "bold red", "cancelled": "yellow"}


@listing_group("jobs")
@click.option("--state", type=click.Choice(get_args(JobState)), help="Only those.")
@click.option("--source", metavar="NAME", shell_complete=source_names, help="Only those of one source.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many.")
def jobs(call: Invocation, state: JobState | None, source: str | None, limit: int) -> None:
    """List what waits and what was done, newest first; cancel, retry, pause, resume."""
    found = call.ask(lambda rowen: rowen.queue.list(source, state=state, limit=limit))
    now = datetime.now(UTC)
    call.out.listing(
        found,
        {
            "job": lambda job: str(job.id),
            "task": lambda job: job.task,
            "source": lambda job: (job.source or "", "bold"),
            "state": _state,
            "tries": lambda job: str(job.tries),
            "queued": lambda job: age(job.queued_at, now) if call.out.terminal else moment(job.queued_at),
            "worker": lambda job: job.worker or "",
            "what": lambda job: _what(job, now),
        },
    )
    if not found:
        call.out.say("There are no jobs. `rowen worker` makes one of each source that is due.")


def _state(job: "Job") -> Piece:
    return job.state, _STYLES[job.state]


def _what(job: "Job", now: datetime) -> str:
    if job.state == "running" and job.seen is not None:
        return f"{count(job.seen, 'item')} so far, {count(job.requests or 0, 'request')}"
    if job.state == "waiting" and job.starts_at is not None and job.starts_at > now:
        then = f"begins in {seconds((job.starts_at - now).total_seconds())}"
        return f"{then}: {job.error}" if job.error else then
    if job.state in {"failed", "waiting"}:
        return job.error or ""
    return f"run {job.run}" if job.run is not None else ""


@command("show")
@click.argument("number", type=int)
def show(call: Invocation, number: int) -> None:
    """Show all that is known of one job."""
    _card(call, call.ask(lambda rowen: rowen.queue.get(number)))


@command("cancel")
@click.argument("number", type=int)
def cancel(call: Invocation, number: int) -> None:
    """Take a job out of the queue; a running one ends within seconds, at a checkpoint."""
    _card(call, call.ask(lambda rowen: rowen.queue.cancel(number)))


@command("retry")
@click.argument("number", type=int)
def retry(call: Invocation, number: int) -> None:
    """Begin a job again that failed or was cancelled."""
    _card(call, call.ask(lambda rowen: rowen.queue.retry(number)))


@command("pause")
def pause(call: Invocation) -> None:
    """Begin no job, on any machine, until the queue is resumed; what runs is finished."""
    call.ask(lambda rowen: rowen.queue.pause())
    call.out.answer({"paused": True}, "The queue is paused.")


@command("resume")
def resume(call: Invocation) -> None:
    """Go on after a pause."""
    call.ask(lambda rowen: rowen.queue.resume())
    call.out.answer({"paused": False}, "The queue goes on.")


def _card(call: Invocation, job: "Job") -> None:
    from rowen.operations.facts import fact

    told = fact(job)
    lines = {name.replace("_", " "): str(value) for name, value in told.items() if value not in (None, {}, 0)}
    call.out.card(told, lines)


for _command in (show, cancel, retry, pause, resume):
    jobs.add_command(_command)

COMMANDS = {"jobs": jobs}
