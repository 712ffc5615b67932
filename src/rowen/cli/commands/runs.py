"""runs, run, quarantine."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from rowen.cli.command import command
from rowen.cli.door import Door
from rowen.cli.output import Piece
from rowen.cli.words import age, moment, seconds

if TYPE_CHECKING:
    from rowen.model.run import Run

__all__ = ["COMMANDS"]

_STATUS = {"completed": "green", "partial": "yellow", "cancelled": "yellow", "failed": "bold red", "running": "cyan"}


@command("runs")
@click.argument("name", required=False)
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many.")
def runs(door: Door, name: str | None, limit: int) -> None:
    """List the last runs, newest first."""
    found = door.ask(lambda rowen: rowen.runs(name, limit=limit))
    now = datetime.now(UTC)
    door.out.listing(
        found,
        {
            "run": lambda run: str(run.id),
            "source": lambda run: (run.source, "bold"),
            "mode": lambda run: run.mode,
            "status": _status,
            "started": lambda run: age(run.started_at, now) if door.out.terminal else moment(run.started_at),
            "took": lambda run: seconds(run.tally.seconds),
            "what": _what,
        },
        fact=lambda run: run.to_json(),
    )
    if not found:
        door.out.say("There were no runs yet. `rowen sync` makes one.")


@command("run")
@click.argument("number", type=int)
def run(door: Door, number: int) -> None:
    """Show one run with its whole tally."""
    from rowen.cli.tally import remarks

    found = door.ask(lambda rowen: rowen.run(number))
    fact = found.to_json()
    always = ("run", "source", "kind", "mode", "status", "complete", "started_at", "finished_at")
    lines = {name.replace("_", " "): str(value) for name, value in fact.items() if value or name in always}
    door.out.card(fact, lines)
    for remark in remarks(found):
        door.out.say(remark)


@command("quarantine")
@click.argument("name", required=False)
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="At most so many.")
def quarantine(door: Door, name: str | None, limit: int) -> None:
    """List what could not be read, and why."""
    found = door.ask(lambda rowen: rowen.quarantine(name, limit=limit))
    door.out.listing(
        found,
        {
            "source": lambda case: (case.source, "bold"),
            "why": lambda case: case.error,
            "what to do": lambda case: case.hint or "",
            "tries": lambda case: str(case.tries),
            "since": lambda case: moment(case.first_at),
            "url": lambda case: case.url,
        },
        fact=asdict,
    )
    if not found:
        door.out.say("Nothing is in quarantine.")
    else:
        door.out.say("Their last good copies stay; each sync tries them again.")


def _status(run: "Run") -> Piece:
    return run.status, _STATUS[run.status]


def _what(run: "Run") -> str:
    from rowen.cli.tally import counts

    return run.error or " · ".join(text for text, _ in counts(run.tally)) or "nothing there"


COMMANDS = {"runs": runs, "run": run, "quarantine": quarantine}
