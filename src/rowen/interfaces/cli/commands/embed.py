"""embed."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import click

from rowen.errors import Hint, action
from rowen.interfaces.cli.command import command
from rowen.interfaces.cli.completing import source_names
from rowen.interfaces.cli.invocation import Invocation
from rowen.model.wording import count, seconds, size

if TYPE_CHECKING:
    from rowen.model.models import EmbeddingEstimate, EmbeddingProgress, EmbeddingReport, FetchedModel
    from rowen.operations import Rowen

__all__ = ["COMMANDS"]

Watcher = Callable[["EmbeddingProgress"], None]


@command("embed")
@click.option("--embedder", metavar="KIND", help="Another kind: local, openai, gemini.")
@click.option("--model", metavar="NAME", help="Another model of it, by the name that it has there.")
@click.option("--dimensions", type=click.IntRange(1, 4000), help="Length of the vectors, where one may choose.")
@click.option("--url", metavar="URL", help="Base address of its API.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many passages.")
@click.option(
    "--source",
    "sources",
    multiple=True,
    metavar="NAME",
    shell_complete=source_names,
    help="Only texts of this source; may be repeated.",
)
@click.option(
    "--again",
    is_flag=True,
    help="Embed also texts that have a vector; the new vectors replace the old ones one by one.",
)
@click.option("--drop-old", is_flag=True, help="Forget the vectors of models that are not used any more.")
@click.option("--fetch", metavar="NAME", help="Download owner/model[@revision] from the model hub; nothing else.")
@click.option("--yes", is_flag=True, help="Do not ask, whatever it costs.")
def embed(
    call: Invocation,
    drop_old: bool,
    fetch: str | None,
    yes: bool,
    limit: int | None,
    sources: tuple[str, ...],
    again: bool,
    **which: str | int | None,
) -> int:
    """Make the vectors that are missing, or those of another model.

    Those of another model are made beside the ones in use; search switches when all are there. What was interrupted
    goes on where it ended. Nothing is read from the sources, and no text is paid for twice unless `--again` says so.
    """
    if drop_old:
        dropped = call.ask(lambda rowen: rowen.embeddings.drop_old())
        call.out.answer({"dropped": dropped}, f"{count(dropped, 'vector')} of other models dropped")
        return 0
    if fetch is not None:
        return _show_fetched(call, call.ask(lambda rowen: rowen.embeddings.fetch_model(fetch)))
    report = call.ask(
        partial(_embed, call=call, yes=yes, limit=limit, sources=sources, again=again, which=which), gently=True
    )
    if report is None:
        call.out.say("Nothing was done.")
        return 5
    return _show(call, report)


async def _embed(
    rowen: "Rowen",
    *,
    call: Invocation,
    yes: bool,
    limit: int | None,
    sources: tuple[str, ...],
    again: bool,
    which: dict[str, str | int | None],
) -> "EmbeddingReport | None":
    told: list[EmbeddingEstimate] = []

    def agreed(estimate: "EmbeddingEstimate") -> bool:
        told.append(estimate)
        return _agreed(call, estimate, yes=yes)

    with _progress(call, told) as observe:
        how = {**which, "limit": limit, "sources": sources, "again": again}
        return await rowen.embeddings.embed(**how, agreed=agreed, observe=observe)  # type: ignore[arg-type]


def _agreed(call: Invocation, estimate: "EmbeddingEstimate", *, yes: bool) -> bool:
    """Tell what it takes; ask where it costs something, or may, and somebody is there to answer."""
    price = "at a price that is not known" if estimate.usd is None else f"for about {estimate.usd:,.4f} USD"
    cost = "" if estimate.usd == 0 else f" {price}"
    switch = f", to switch from {estimate.switches_from}" if estimate.switches_from else ""
    if estimate.texts:
        again = f", {estimate.again:,} of them again" if estimate.again else ""
        amount = f"{count(estimate.texts, 'passage')}{again}, about {count(estimate.tokens, 'token')}"
        call.out.say(f"{amount}, by {estimate.model}{cost}{switch}.")
    if yes or not cost or not estimate.texts or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    return click.confirm("Go on?", err=True)


@contextmanager
def _progress(call: Invocation, told: "list[EmbeddingEstimate]") -> Iterator[Watcher | None]:
    """A bar on a terminal; it begins with the first answer, after all questions."""
    if not call.out.watched:
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    bars = Progress(console=Console(stderr=True), transient=True)
    task = bars.add_task("embedding", total=None)

    def watch(live: "EmbeddingProgress") -> None:
        bars.start()
        waiting = " (waiting for the embedder)" if live.waiting else ""
        total = max(told[0].texts, live.embedded) if told else None
        bars.update(task, description=f"embedding{waiting}", total=total, completed=live.embedded)

    try:
        yield watch
    finally:
        bars.stop()


def _show_fetched(call: Invocation, fetched: "FetchedModel") -> int:
    from rowen.operations.facts import fact

    told = (
        f" at {fetched.revision}: {count(len(fetched.files), 'file')}, {size(fetched.size_bytes)}, in {fetched.folder}"
    )
    call.out.answer(fact(fetched), (fetched.name, "bold"), told)
    use = action("embed", embedder="local", model=fetched.name)
    setting = f"ROWEN_EMBEDDER=local and ROWEN_EMBEDDER_MODEL={fetched.name} make it the one that is wanted; "
    call.out.say(Hint(setting, use, " makes its vectors, and then switches."))
    return 0


def _show(call: Invocation, report: "EmbeddingReport") -> int:
    from rowen.operations.facts import fact
    from rowen.operations.summary import price

    state = f"{report.pending:,} pending" if report.pending else "all there"
    again = f", {report.again:,} still to be embedded again" if report.again else ""
    refused = f", {report.refused:,} refused" if report.refused else ""
    cut = f", {report.truncated:,} too long and cut" if report.truncated else ""
    line = (
        f": {report.embedded:,} embedded in {seconds(report.seconds)}{price(report.usd)}{cut}{refused}, {state}{again}"
    )
    call.out.answer(fact(report), (report.model, "bold"), line)
    if report.switched:
        call.out.say("Search uses this model now. `rowen embed --drop-old` forgets the vectors of the one before.")
    if report.error:
        return call.out.fail(report.error, hint=report.hint, exit_code=1)
    if report.again:
        call.out.say("Search uses the old vectors of the rest; `rowen embed` without `--again` goes on with it.")
    if report.state == "building":
        call.out.say("Search goes on with the model in use until all are there; `rowen embed` goes on with this one.")
    return 0


COMMANDS = {"embed": embed}
