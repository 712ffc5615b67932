"""runs, run, cancel, quarantine."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from rowen.interfaces.cli.command import command, options_of
from rowen.interfaces.cli.completing import source_names
from rowen.interfaces.cli.invocation import Invocation
from rowen.interfaces.cli.output import Piece
from rowen.model.wording import age, moment, seconds

if TYPE_CHECKING:
    from rowen.model.runs import Run

__all__ = ["COMMANDS"]

_STATUS = {"completed": "green", "partial": "yellow", "cancelled": "yellow", "failed": "bold red", "running": "cyan"}


@command("runs")
@click.argument("name", shell_complete=source_names, required=False)
@options_of("runs.list", only=("limit",))
def runs(call: Invocation, name: str | None, limit: int) -> None:
    """List the last runs, newest first."""
    found = call.ask(lambda rowen: rowen.runs.list(name, limit=limit))
    now = datetime.now(UTC)
    call.out.listing(
        found,
        {
            "run": lambda run: str(run.id),
            "source": lambda run: (run.source, "bold"),
            "mode": lambda run: run.mode,
            "status": _status,
            "started": lambda run: age(run.started_at, now) if call.out.terminal else moment(run.started_at),
            "took": lambda run: seconds(run.stats.seconds),
            "what": _what,
        },
    )
    if not found:
        call.out.say("There were no runs yet. `rowen sync` makes one.")


@command("run")
@click.argument("number", type=int)
def run(call: Invocation, number: int) -> None:
    """Show one run with its full statistics."""
    from rowen.operations.facts import fact
    from rowen.operations.summary import remarks

    found = call.ask(lambda rowen: rowen.runs.get(number))
    told = fact(found)
    always = ("run", "source", "kind", "mode", "status", "complete", "started_at", "finished_at")
    lines = {name.replace("_", " "): str(value) for name, value in told.items() if value or name in always}
    call.out.card(told, lines)
    for remark in remarks(found):
        call.out.say(remark)


@command("cancel")
@click.argument("target", metavar="NAME|RUN")
def cancel(call: Invocation, target: str) -> None:
    """End a live run early, whichever process it runs in.

    It ends as cancelled within a few seconds. What was read is kept, and the next sync goes on from there.
    """
    from rowen.operations.facts import fact

    found = call.ask(lambda rowen: rowen.runs.cancel(target))
    ended = "asked to end" if found.status == "running" else f"{found.status}: {found.error}"
    call.out.answer(fact(found), (f"run {found.id}", "bold"), f"\t{found.source}\t{ended}")


@command("quarantine")
@click.argument("name", shell_complete=source_names, required=False)
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="At most so many.")
def quarantine(call: Invocation, name: str | None, limit: int) -> None:
    """List what could not be read, and why."""
    found = call.ask(lambda rowen: rowen.items.quarantine(name, limit=limit))
    call.out.listing(
        found,
        {
            "source": lambda case: (case.source, "bold"),
            "why": lambda case: case.error,
            "what to do": lambda case: case.hint or "",
            "tries": lambda case: str(case.tries),
            "since": lambda case: moment(case.first_at),
            "url": lambda case: case.url,
        },
    )
    if not found:
        call.out.say("Nothing is in quarantine.")
    else:
        call.out.say("Their last good copies stay; each sync tries them again.")


def _status(run: "Run") -> Piece:
    return run.status, _STATUS[run.status]


def _what(run: "Run") -> str:
    from rowen.interfaces.cli.summary import counts

    return run.error or " · ".join(text for text, _ in counts(run.stats)) or "nothing there"


COMMANDS = {"runs": runs, "run": run, "cancel": cancel, "quarantine": quarantine}
