"""embed."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

import click

from rowen.cli.command import command
from rowen.cli.door import Door
from rowen.cli.words import count, seconds

if TYPE_CHECKING:
    from rowen.harvest.embed import Embedding
    from rowen.service import Rowen
    from rowen.service.embed import Estimate, Report

__all__ = ["COMMANDS"]

Watcher = Callable[["Embedding"], None]


@command("embed")
@click.option("--embedder", metavar="KIND", help="Another kind: local, local-fast, openai, gemini.")
@click.option("--model", metavar="NAME", help="Another model of it, by the name that it has there.")
@click.option("--dimensions", type=click.IntRange(1, 4000), help="Length of the vectors, where one may choose.")
@click.option("--url", metavar="URL", help="Base address of its API.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many passages.")
@click.option("--drop-old", is_flag=True, help="Forget the vectors of models that are not used any more.")
@click.option("--yes", is_flag=True, help="Do not ask, whatever it costs.")
def embed(door: Door, drop_old: bool, yes: bool, limit: int | None, **which: str | int | None) -> int:
    """Make the vectors that are missing, or those of another model.

    Those of another model are made beside the ones in use; search switches when all are there. What was interrupted
    goes on where it ended. Nothing is read from the sources, and no text is paid for twice.
    """
    if drop_old:
        dropped = door.ask(lambda rowen: rowen.drop_old_embeddings())
        door.out.answer({"dropped": dropped}, f"{count(dropped, 'vector')} of other models dropped")
        return 0
    report = door.ask(partial(_embed, door=door, yes=yes, limit=limit, which=which), gently=True)
    if report is None:
        door.out.say("Nothing was done.")
        return 5
    return _show(door, report)


async def _embed(
    rowen: "Rowen", *, door: Door, yes: bool, limit: int | None, which: dict[str, str | int | None]
) -> "Report | None":
    told: list[Estimate] = []

    def agreed(estimate: "Estimate") -> bool:
        told.append(estimate)
        return _agreed(door, estimate, yes=yes)

    with _progress(door, told) as observe:
        return await rowen.embed(**which, limit=limit, agreed=agreed, observe=observe)  # type: ignore[arg-type]


def _agreed(door: Door, estimate: "Estimate", *, yes: bool) -> bool:
    """Tell what it takes; ask where it costs something, or may, and somebody is there to answer."""
    price = "at a price that is not known" if estimate.usd is None else f"for about {estimate.usd:,.4f} USD"
    cost = "" if estimate.usd == 0 else f" {price}"
    switch = f", to switch from {estimate.switches_from}" if estimate.switches_from else ""
    if estimate.texts:
        size = f"{count(estimate.texts, 'passage')}, about {count(estimate.tokens, 'token')}"
        door.out.say(f"{size}, by {estimate.model}{cost}{switch}.")
    if yes or not cost or not estimate.texts or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    return click.confirm("Go on?", err=True)


@contextmanager
def _progress(door: Door, told: "list[Estimate]") -> Iterator[Watcher | None]:
    """A bar on a terminal; it begins with the first answer, after all questions."""
    if not door.out.watched:
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    bars = Progress(console=Console(stderr=True), transient=True)
    task = bars.add_task("embedding", total=None)

    def watch(work: "Embedding") -> None:
        bars.start()
        waiting = " (waiting for the embedder)" if work.failing else ""
        total = max(told[0].texts, work.spent.texts) if told else None
        bars.update(task, description=f"embedding{waiting}", total=total, completed=work.spent.texts)

    try:
        yield watch
    finally:
        bars.stop()


def _show(door: Door, report: "Report") -> int:
    from rowen.cli.tally import price

    state = f"{report.pending:,} pending" if report.pending else "all there"
    refused = f", {report.refused:,} refused" if report.refused else ""
    cut = f", {report.truncated:,} too long and cut" if report.truncated else ""
    line = f": {report.embedded:,} embedded in {seconds(report.seconds)}{price(report.usd)}{cut}{refused}, {state}"
    door.out.answer(asdict(report), (report.model, "bold"), line)
    if report.switched:
        door.out.say("Search uses this model now. `rowen embed --drop-old` forgets the vectors of the one before.")
    if report.error:
        return door.out.fail(report.error, hint=report.hint, exit_code=1)
    if report.pending and report.state == "building":
        door.out.say(
            "Search goes on with the model in use until all are there; the same command goes on with this one."
        )
    return 0


COMMANDS = {"embed": embed}
