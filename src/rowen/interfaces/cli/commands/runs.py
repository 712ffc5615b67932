"""Commands on runs, and on pending deletions and unreadable items: runs, run, cancel, quarantine, held."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from rowen.interfaces.cli.command import command, options_of, source_argument
from rowen.interfaces.cli.invocation import Invocation
from rowen.interfaces.cli.summary import counts
from rowen.model.wording import age, count, moment, seconds
from rowen.operations.summary import remarks

if TYPE_CHECKING:
    from rowen.operations import Rowen

_STATUS = {"completed": "green", "partial": "yellow", "cancelled": "yellow", "failed": "bold red", "running": "cyan"}


@command("runs")
@source_argument(required=False)
@options_of("runs.list", only=("limit",))
def runs(call: Invocation, name: str | None, limit: int) -> None:
    """List runs, newest first."""
    listed = call.ask(lambda rowen: rowen.runs.list(name, limit=limit))
    now = datetime.now(UTC)
    call.out.listing(
        listed,
        {
            "run": lambda run: str(run.id),
            "source": lambda run: (run.source, "bold"),
            "mode": lambda run: run.mode,
            "status": lambda run: (run.status, _STATUS[run.status]),
            "started": lambda run: age(run.started_at, now) if call.out.terminal else moment(run.started_at),
            "took": lambda run: seconds(run.stats.seconds),
            "result": lambda run: run.error or " · ".join(text for text, _ in counts(run.stats)) or "nothing there",
        },
    )
    if not listed:
        call.out.say("There are no runs yet. `rowen sync` starts one.")


@command("run")
@click.argument("number", type=int)
def run(call: Invocation, number: int) -> None:
    """Show one run with its full statistics."""
    run = call.ask(lambda rowen: rowen.runs.get(number))
    call.out.card(run, always=("run", "source", "kind", "mode", "status", "complete", "started_at", "finished_at"))
    for remark in remarks(run):
        call.out.say(remark)


@command("cancel")
@click.argument("target", metavar="NAME|RUN")
def cancel(call: Invocation, target: str) -> None:
    """Cancel a live run in any process.

    It ends within a few seconds. What was read is kept, and the next sync continues from there.
    """
    cancelled = call.ask(lambda rowen: rowen.runs.cancel(target))
    state = "asked to end" if cancelled.status == "running" else f"{cancelled.status}: {cancelled.error}"
    call.out.answer(cancelled, (f"run {cancelled.id}", "bold"), f"\t{cancelled.source}\t{state}")


@command("quarantine")
@source_argument(required=False)
@options_of("items.quarantine", only=("limit",))
def quarantine(call: Invocation, name: str | None, limit: int) -> None:
    """List unreadable items with their errors."""
    cases = call.ask(lambda rowen: rowen.items.quarantine(name, limit=limit))
    call.out.listing(
        cases,
        {
            "source": lambda case: (case.source, "bold"),
            "error": lambda case: case.error,
            "what to do": lambda case: case.hint or "",
            "tries": lambda case: str(case.tries),
            "since": lambda case: moment(case.first_at),
            "url": lambda case: case.url,
        },
    )
    call.out.say(
        "Their last good copies are kept; each sync tries them again." if cases else "Nothing is in quarantine."
    )


@command("held")
@source_argument(required=False)
@click.option("--accept", multiple=True, metavar="URL", help="Delete this item; may be repeated.")
@click.option(
    "--keep", multiple=True, metavar="URL", help="Keep this item until its source lists it again; may be repeated."
)
@options_of("deletions.list", only=("limit",))
def list_pending(
    call: Invocation, name: str | None, accept: tuple[str, ...], keep: tuple[str, ...], limit: int
) -> None:
    """List pending deletions, or decide about some."""
    if not accept and not keep:
        pending = call.ask(lambda rowen: rowen.deletions.list(name, limit=limit))
        call.out.listing(
            pending,
            {
                "source": lambda deletion: (deletion.source, "bold"),
                "since": lambda deletion: moment(deletion.since),
                "reason": lambda deletion: "reported as deleted" if deletion.told else "no longer listed",
                "decision": lambda deletion: f"kept since {moment(deletion.kept_at)}" if deletion.kept_at else "open",
                "title": lambda deletion: deletion.title,
                "url": lambda deletion: deletion.url,
            },
        )
        if not pending:
            call.out.say("No deletions are pending.")
        return
    if name is None:
        raise click.UsageError("--accept and --keep need the name of a source.")

    async def answer(rowen: Rowen) -> tuple[int, int]:
        accepted = await rowen.deletions.accept(name, accept) if accept else 0
        return accepted, await rowen.deletions.keep(name, keep) if keep else 0

    accepted, kept = call.ask(answer)
    parts = [
        f"{count(number, 'item')} {action}" for number, action in ((accepted, "deleted"), (kept, "kept")) if number
    ]
    call.out.answer({"source": name, "accepted": accepted, "kept": kept}, (name, "bold"), f"\t{', '.join(parts)}")


COMMANDS = {"runs": runs, "run": run, "cancel": cancel, "quarantine": quarantine, "held": list_pending}
