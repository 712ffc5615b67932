"""sync."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rowen.cli.command import command
from rowen.cli.door import Door
from rowen.errors import NotFoundError, RowenError

if TYPE_CHECKING:
    from rowen.model.run import Run
    from rowen.service import Rowen

__all__ = ["COMMANDS"]

Results = list[tuple[str, "Run | Exception"]]


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
    names = tuple(dict.fromkeys(targets))
    return _report(door, door.ask(partial(_sync, door=door, targets=names, how=how), gently=True), dry=dry_run)


async def _sync(rowen: "Rowen", *, door: Door, targets: tuple[str, ...], how: dict[str, bool]) -> Results:
    from rowen.cli.progress import progress

    names = targets or await _active(rowen, door)
    if not names:
        return []
    with progress(shown=door.out.watched) as observe:
        results = await rowen.sync_all(names, observe=observe, **how)
    return list(zip(names, results, strict=True))


async def _active(rowen: "Rowen", door: Door) -> tuple[str, ...]:
    sources = await rowen.sources()
    if not sources:
        door.out.say("There are no sources yet. `rowen sync ./folder` adds one and reads it.")
    elif all(source.state == "paused" for source in sources):
        door.out.say("All sources are paused. `rowen resume NAME` takes one in again.")
    return tuple(source.name for source in sources if source.state == "active")


def _report(door: Door, results: Results, *, dry: bool) -> int:
    from rowen.cli.tally import worst
    from rowen.model.run import Run

    width = max((len(result.source) for _, result in results if isinstance(result, Run)), default=0)
    codes = []
    for target, result in results:
        if isinstance(result, Run):
            codes.append(_report_run(door, result, width=width, dry=dry))
        elif isinstance(result, RowenError):
            codes.append(_report_error(door, target, result))
    for _, result in results:
        if isinstance(result, Exception) and not isinstance(result, RowenError):
            raise result
    return worst(codes)


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
