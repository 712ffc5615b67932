"""The command `embed`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from rowen.errors import Hint, action
from rowen.interfaces.cli.command import command, options_of
from rowen.interfaces.cli.invocation import Invocation
from rowen.model.wording import count, seconds, size
from rowen.operations.summary import price

if TYPE_CHECKING:
    from rowen.model.models import EmbeddingEstimate, EmbeddingProgress, EmbeddingReport
    from rowen.operations import Rowen


@command("embed")
@options_of(
    "embeddings.embed",
    embedder={"help": "Kind of embedder to use instead of the one in the settings: local, openai, gemini."},
    dimensions={"type": click.IntRange(1, 4000)},
    again={"help": "Also replace vectors that exist, one by one."},
)
@click.option("--drop-old", is_flag=True, help="Delete the vectors of models that are no longer used.")
@click.option("--fetch", metavar="NAME", help="Only download owner/model[@revision] from the model hub.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation, whatever the cost.")
def embed(call: Invocation, drop_old: bool, fetch: str | None, yes: bool, **options: Any) -> int:
    """Create missing vectors, or those of another model.

    Vectors of another model are created beside those in use; search switches when all are there. An interrupted run
    continues where it ended. No source is read, and no text is paid for twice unless `--again` is given.
    """
    if drop_old:
        dropped = call.ask(lambda rowen: rowen.embeddings.drop_old())
        call.out.answer({"dropped": dropped}, f"{count(dropped, 'vector')} of other models deleted")
        return 0
    if fetch is not None:
        return _fetch(call, fetch)
    estimates: list[EmbeddingEstimate] = []

    def agree(estimate: EmbeddingEstimate) -> bool:
        estimates.append(estimate)
        return _confirm(call, estimate, yes=yes)

    async def answer(rowen: Rowen) -> EmbeddingReport | None:
        with _progress(call, estimates) as observe:
            return await rowen.embeddings.embed(**options, agreed=agree, observe=observe)

    report = call.ask(answer, gently=True)
    if report is None:
        call.out.say("Nothing was done.")
        return 5
    return _print(call, report)


def _fetch(call: Invocation, name: str) -> int:
    model = call.ask(lambda rowen: rowen.embeddings.fetch_model(name))
    files = f"{count(len(model.files), 'file')}, {size(model.size_bytes)}"
    call.out.answer(model, (model.name, "bold"), f" at {model.revision}: {files}, in {model.folder}")
    setting = f"ROWEN_EMBEDDER=local and ROWEN_EMBEDDER_MODEL={model.name} select it; "
    use = action("embed", embedder="local", model=model.name)
    call.out.say(Hint(setting, use, " creates its vectors, and then switches."))
    return 0


def _confirm(call: Invocation, estimate: EmbeddingEstimate, *, yes: bool) -> bool:
    """Print the estimate; if there is or may be a cost, ask for confirmation on a terminal."""
    cost = "" if estimate.usd == 0 else f" for about {estimate.usd or 0:,.4f} USD"
    if estimate.usd is None:
        cost = " at an unknown price"
    switch = f", to switch from {estimate.switches_from}" if estimate.switches_from else ""
    if estimate.texts:
        again = f", {estimate.again:,} of them again" if estimate.again else ""
        amount = f"{count(estimate.texts, 'passage')}{again}, about {count(estimate.tokens, 'token')}"
        call.out.say(f"{amount}, by {estimate.model}{cost}{switch}.")
    if yes or not cost or not estimate.texts or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    return click.confirm("Continue?", err=True)


@contextmanager
def _progress(
    call: Invocation, estimates: list[EmbeddingEstimate]
) -> Iterator[Callable[[EmbeddingProgress], None] | None]:
    """Yield an observer that draws a progress bar on a terminal; the bar appears after the confirmation."""
    if not call.out.watched:
        yield None
        return
    from rich import console, progress

    bars = progress.Progress(console=console.Console(stderr=True), transient=True)
    task = bars.add_task("embedding", total=None)

    def watch(live: EmbeddingProgress) -> None:
        bars.start()
        waiting = " (waiting for the embedder)" if live.waiting else ""
        total = max(estimates[0].texts, live.embedded) if estimates else None
        bars.update(task, description=f"embedding{waiting}", total=total, completed=live.embedded)

    try:
        yield watch
    finally:
        bars.stop()


def _print(call: Invocation, report: EmbeddingReport) -> int:
    parts = [
        f": {report.embedded:,} embedded in {seconds(report.seconds)}{price(report.usd)}",
        f"{report.truncated:,} truncated" if report.truncated else "",
        f"{report.refused:,} refused" if report.refused else "",
        f"{report.pending:,} pending" if report.pending else "all there",
        f"{report.again:,} still to be embedded again" if report.again else "",
    ]
    call.out.answer(report, (report.model, "bold"), ", ".join(part for part in parts if part))
    if report.switched:
        call.out.say("Search uses this model now. `rowen embed --drop-old` deletes the vectors of the previous one.")
    if report.error:
        return call.out.fail(report.error, hint=report.hint, exit_code=1)
    if report.again:
        call.out.say("Search uses the old vectors of the rest; `rowen embed` without `--again` continues.")
    if report.state == "building":
        call.out.say("Search uses the previous model until all vectors are there; `rowen embed` continues.")
    return 0


COMMANDS = {"embed": embed}
