"""sync."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rowen.cli.command import command
from rowen.cli.door import Door
from rowen.errors import NotFoundError, RowenError

if TYPE_CHECKING:
    from rowen.cli.progress import Drawing
    from rowen.model.run import Run
    from rowen.service import Rowen

__all__ = ["COMMANDS"]

Results = list["Run | Exception"]


@command("sync")
@click.argument("targets", nargs=-1, metavar="[NAME|URL|PATH]...")
@click.option("--full-sync", "full", is_flag=True, help="Read everything again, whatever the validators say.")
@click.option("--accept-deletions", is_flag=True, help="Let deletions through that were held back.")
@click.option("--dry-run", is_flag=True, help="Say what would happen; store nothing.")
def sync(door: Door, targets: tuple[str, ...], full: bool, accept_deletions: bool, dry_run: bool) -> int:
    """Bring sources up to date; pay only for what changed.

    Without a name: all sources that are not paused. An address that is new is added first, so
    `rowen sync ./folder` needs nothing else.
    """
    how = {"full": full, "accept_deletions": accept_deletions, "dry_run": dry_run}
    report = _Report(door, dry=dry_run)
    door.ask(partial(_sync, door=door, targets=tuple(dict.fromkeys(targets)), report=report, how=how), gently=True)
    return report.end()


async def _sync(
    rowen: "Rowen", *, door: Door, targets: tuple[str, ...], report: "_Report", how: dict[str, bool]
) -> None:
    from rowen.cli.found import found_words
    from rowen.cli.progress import progress

    held = {source.name for source in await rowen.sources()}
    names = targets or await _active(rowen, door)
    report.width = max((len(name) for name in names if name in held), default=0)
    report.expected = len(names)
    if names:
        with progress(shown=door.out.watched) as report.drawing:
            await rowen.sync_all(
                names,
                observe=report.drawing,
                finished=report.add,
                found=lambda what: door.out.say(found_words(what)),
                **how,
            )
    for remark in rowen.embedding_remarks():
        door.out.say(remark)


async def _active(rowen: "Rowen", door: Door) -> tuple[str, ...]:
    sources = await rowen.sources()
    if not sources:
        door.out.say("There are no sources yet. `rowen sync ./folder` adds one and reads it.")
    elif all(source.state == "paused" for source in sources):
        door.out.say("All sources are paused. `rowen resume NAME` takes one in again.")
    return tuple(source.name for source in sources if source.state == "active")


class _Report:
    """Tells of each source as soon as it is done, and of all of them at the end."""

    def __init__(self, door: Door, *, dry: bool) -> None:
        self.width = self.expected = 0
        self.drawing: Drawing | None = None
        self._door = door
        self._dry = dry
        self._results: Results = []
        self._codes: list[int] = []

    def add(self, target: str, result: "Run | Exception") -> None:
        """One more is done."""
        self._results.append(result)
        if self.drawing is not None:
            self.drawing.step_aside(target if isinstance(result, Exception) else result.source)
        if isinstance(result, RowenError):
            self._codes.append(_report_error(self._door, target, result))
        elif not isinstance(result, Exception):
            self._codes.append(_report_run(self._door, result, width=self.width, dry=self._dry))

    def end(self) -> int:
        """All are done: the exit code. What is no error of ours is thrown only now, when all others were told."""
        from rowen.cli.tally import together, worst

        for result in self._results:
            if isinstance(result, Exception) and not isinstance(result, RowenError):
                raise result
        runs = [result for result in self._results if not isinstance(result, Exception)]
        if self.expected > 1 and not self._door.out.json:
            self._door.out.say(together(runs, of=len(self._results), expected=self.expected))
        return worst(self._codes)


def _report_run(door: Door, run: "Run", *, width: int, dry: bool) -> int:
    from rowen.cli.tally import exit_code, line, remarks

    door.out.answer({**run.to_json(), "dry_run": dry}, *line(run, width=width, dry=dry))
    for remark in remarks(run, dry=dry):
        door.out.say(remark)
    if run.status == "failed":
        door.out.fail(
            f"Source {run.source!r} could not be read: {run.error}",
            hint=f"What is stored of it was left untouched; `rowen sync {run.source}` tries again.",
            exit_code=exit_code(run),
            source=run.source,
        )
    return exit_code(run)


def _report_error(door: Door, target: str, problem: RowenError) -> int:
    hint = problem.hint
    if isinstance(problem, NotFoundError) and Path(target).exists():
        hint = f"`rowen sync ./{target}` reads the folder or file of that name."
    return door.out.fail(str(problem), hint=hint, exit_code=problem.exit_code, source=target)


COMMANDS = {"sync": sync}
