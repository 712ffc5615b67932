"""sync."""

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rowen.errors import Hint, NotFoundError, RowenError, UsageError, action
from rowen.interfaces.cli.command import command, options_of
from rowen.interfaces.cli.completing import source_names
from rowen.interfaces.cli.invocation import Invocation
from rowen.model.wording import count

if TYPE_CHECKING:
    from rowen.interfaces.cli.progress import ProgressBars
    from rowen.model.runs import Run
    from rowen.operations import Rowen

__all__ = ["COMMANDS"]

Results = list["Run | Exception"]


@command("sync")
@click.argument("targets", nargs=-1, shell_complete=source_names, metavar="[NAME|URL|PATH]...")
@options_of("runs.sync", full={"flag": "--full-sync"})
def sync(
    call: Invocation,
    targets: tuple[str, ...],
    full: bool,
    accept_deletions: bool,
    only: tuple[str, ...],
    dry_run: bool,
) -> int:
    """Bring sources up to date; pay only for what changed.

    Without a name: all sources that are not paused, those first that are due. An address that is new is added first,
    so `rowen sync ./folder` needs nothing else. `rowen sync NAME --only URL URL` looks again at just these items.
    """
    from rowen.operations.validation import check_new_targets

    if only:
        targets, only = _one_source(targets, only)
    how = {"full": full, "accept_deletions": accept_deletions, "dry_run": dry_run, "only": only}
    report = _Report(call, dry=dry_run)
    check_new_targets(call.settings, targets)
    call.ask(partial(_sync, call=call, targets=tuple(dict.fromkeys(targets)), report=report, how=how), gently=True)
    return report.end()


def _one_source(targets: tuple[str, ...], only: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The source of a narrow look, and its items: all that is named beside the source."""
    source, *more = targets or ("",)
    if not source or not all("/" in one for one in more):
        raise UsageError(
            "--only looks at items of one source. Nothing was done.",
            hint="`rowen sync NAME --only URL` names the source first.",
        )
    return (source,), (*only, *more)


async def _sync(
    rowen: "Rowen", *, call: Invocation, targets: tuple[str, ...], report: "_Report", how: dict[str, Any]
) -> None:
    from rowen.interfaces.cli.progress import progress

    held = {source.name for source in await rowen.sources.list(counted=False)}
    names = targets or await _active(rowen, call)
    report.width = max((len(name) for name in names if name in held), default=0)
    report.expected = len(names)
    if names:
        with progress(shown=call.out.watched) as report.bars:
            await rowen.runs.sync_all(
                names,
                observe=report.bars,
                finished=report.add,
                found=lambda what: call.out.say(what.words),
                **how,
            )
    for remark in rowen.embeddings.remarks():
        call.out.say(remark)


async def _active(rowen: "Rowen", call: Invocation) -> tuple[str, ...]:
    """All that are not paused; it is said which of them come first, if that is not all."""
    sources = await rowen.sources.list_due()
    if not sources:
        paused = bool(await rowen.sources.list(limit=1))
        first = "There are no sources yet. `rowen sync ./folder` adds one and reads it."
        call.out.say("All sources are paused. `rowen resume NAME` takes one in again." if paused else first)
    now = datetime.now(UTC)
    due = sum(source.due_at is not None and source.due_at <= now for source in sources)
    if 0 < due < len(sources):
        call.out.say(f"{count(due, 'source')} of {len(sources):,} {'is' if due == 1 else 'are'} due, and first.")
    return tuple(source.name for source in sources)


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
        from rowen.interfaces.cli.summary import worst
        from rowen.operations.summary import together

        for result in self._results:
            if isinstance(result, Exception) and not isinstance(result, RowenError):
                raise result
        runs = [result for result in self._results if not isinstance(result, Exception)]
        if self.expected > 1 and not self._door.out.json:
            self._door.out.say(together(runs, of=len(self._results), expected=self.expected))
        return worst(self._codes)


def _report_run(call: Invocation, run: "Run", *, width: int, dry: bool) -> int:
    from rowen.interfaces.cli.summary import exit_code, line
    from rowen.operations.summary import remarks

    facts = _facts(run) if call.out.json else {}
    call.out.answer({**facts, "dry_run": dry}, *line(run, width=width, dry=dry))
    for remark in remarks(run, dry=dry):
        call.out.say(remark)
    if run.status == "failed":
        call.out.fail(
            f"Source {run.source!r} could not be read: {run.error}",
            hint=Hint("What is stored of it was left untouched; ", action("sync", run.source), " tries again."),
            exit_code=exit_code(run),
            source=run.source,
        )
    return exit_code(run, dry=dry)


def _facts(run: "Run") -> dict[str, Any]:
    from rowen.operations.facts import fact

    return fact(run)


def _report_error(call: Invocation, target: str, problem: RowenError) -> int:
    if isinstance(problem, NotFoundError) and Path(target).exists():
        problem.hint = Hint(action("sync", f"./{target}"), " reads the folder or file of that name.")
    return call.out.fail_with(problem, source=target)


COMMANDS = {"sync": sync}
