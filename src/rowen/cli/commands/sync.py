"""sync."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rowen.cli.command import command
from rowen.cli.invocation import Invocation
from rowen.errors import Hint, NotFoundError, RowenError, action

if TYPE_CHECKING:
    from rowen.cli.progress import ProgressBars
    from rowen.model.run import Run
    from rowen.service import Rowen

__all__ = ["COMMANDS"]

Results = list["Run | Exception"]


@command("sync")
@click.argument("targets", nargs=-1, metavar="[NAME|URL|PATH]...")
@click.option("--full-sync", "full", is_flag=True, help="Read everything again, whatever the validators say.")
@click.option("--accept-deletions", is_flag=True, help="Let deletions through that were held back.")
@click.option("--dry-run", is_flag=True, help="Say what would happen; store nothing.")
def sync(call: Invocation, targets: tuple[str, ...], full: bool, accept_deletions: bool, dry_run: bool) -> int:
    """Bring sources up to date; pay only for what changed.

    Without a name: all sources that are not paused. An address that is new is added first, so
    `rowen sync ./folder` needs nothing else.
    """
    how = {"full": full, "accept_deletions": accept_deletions, "dry_run": dry_run}
    report = _Report(call, dry=dry_run)
    call.ask(partial(_sync, call=call, targets=tuple(dict.fromkeys(targets)), report=report, how=how), gently=True)
    return report.end()


async def _sync(
    rowen: "Rowen", *, call: Invocation, targets: tuple[str, ...], report: "_Report", how: dict[str, bool]
) -> None:
    from rowen.cli.found import found_words
    from rowen.cli.progress import progress

    held = {source.name for source in await rowen.sources()}
    names = targets or await _active(rowen, call)
    report.width = max((len(name) for name in names if name in held), default=0)
    report.expected = len(names)
    if names:
        with progress(shown=call.out.watched) as report.bars:
            await rowen.sync_all(
                names,
                observe=report.bars,
                finished=report.add,
                found=lambda what: call.out.say(found_words(what)),
                **how,
            )
    for remark in rowen.embedding_remarks():
        call.out.say(remark)


async def _active(rowen: "Rowen", call: Invocation) -> tuple[str, ...]:
    sources = await rowen.sources()
    if not sources:
        call.out.say("There are no sources yet. `rowen sync ./folder` adds one and reads it.")
    elif all(source.state == "paused" for source in sources):
        call.out.say("All sources are paused. `rowen resume NAME` takes one in again.")
    return tuple(source.name for source in sources if source.state == "active")


class _Report:
    """Tells of each source as soon as it is done, and of all of them at the end."""

    def __init__(self, call: Invocation, *, dry: bool) -> None:
        self.width = self.expected = 0
        self.bars: ProgressBars | None = None
        self._door = call
        self._dry = dry
        self._results: Results = []
        self._codes: list[int] = []

    def add(self, target: str, result: "Run | Exception") -> None:
        """One more is done."""
        self._results.append(result)
        if self.bars is not None:
            self.bars.step_aside(target if isinstance(result, Exception) else result.source)
        if isinstance(result, RowenError):
            self._codes.append(_report_error(self._door, target, result))
        elif not isinstance(result, Exception):
            self._codes.append(_report_run(self._door, result, width=self.width, dry=self._dry))

    def end(self) -> int:
        """All are done: the exit code. What is no error of ours is thrown only now, when all others were told."""
        from rowen.cli.tally import worst
        from rowen.service.tally import together

        for result in self._results:
            if isinstance(result, Exception) and not isinstance(result, RowenError):
                raise result
        runs = [result for result in self._results if not isinstance(result, Exception)]
        if self.expected > 1 and not self._door.out.json:
            self._door.out.say(together(runs, of=len(self._results), expected=self.expected))
        return worst(self._codes)


def _report_run(call: Invocation, run: "Run", *, width: int, dry: bool) -> int:
    from rowen.cli.tally import exit_code, line
    from rowen.service.facts import fact
    from rowen.service.tally import remarks

    call.out.answer({**fact(run), "dry_run": dry}, *line(run, width=width, dry=dry))
    for remark in remarks(run, dry=dry):
        call.out.say(remark)
    if run.status == "failed":
        call.out.fail(
            f"Source {run.source!r} could not be read: {run.error}",
            hint=Hint("What is stored of it was left untouched; ", action("sync", run.source), " tries again."),
            exit_code=exit_code(run),
            source=run.source,
        )
    return exit_code(run)


def _report_error(call: Invocation, target: str, problem: RowenError) -> int:
    if isinstance(problem, NotFoundError) and Path(target).exists():
        problem.hint = Hint(action("sync", f"./{target}"), " reads the folder or file of that name.")
    return call.out.fail_with(problem, source=target)


COMMANDS = {"sync": sync}
