"""The command `sync`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from rowen.errors import Hint, NotFoundError, RowenError, UsageError, action
from rowen.interfaces.cli.command import command, options_of, source_argument
from rowen.interfaces.cli.invocation import Invocation
from rowen.interfaces.cli.summary import ProgressBars, exit_code, line, progress, worst
from rowen.model.runs import Run
from rowen.model.wording import count
from rowen.operations import Rowen
from rowen.operations.summary import remarks, together
from rowen.operations.validation import check_new_targets


@command("sync")
@source_argument("targets", nargs=-1, metavar="[NAME|URL|PATH]...")
@options_of("runs.sync", full={"flag": "--full-sync"})
def sync(
    call: Invocation,
    targets: tuple[str, ...],
    full: bool,
    accept_deletions: bool,
    only: tuple[str, ...],
    dry_run: bool,
) -> int:
    """Bring sources up to date; only changes cost anything.

    Without a name: all sources that are not paused, due ones first. A new address is added first, so
    `rowen sync ./folder` needs nothing else. `rowen sync NAME --only URL URL` checks only these items.
    """
    if only:
        source, *more = targets or ("",)
        if not source or not all("/" in url for url in more):
            raise UsageError(
                "--only needs exactly one source. Nothing was done.",
                hint="Name the source first: `rowen sync NAME --only URL`.",
            )
        targets, only = (source,), (*only, *more)
    check_new_targets(call.settings, targets)
    report = _Report(call, dry=dry_run)

    async def answer(rowen: Rowen) -> None:
        names = tuple(dict.fromkeys(targets)) or await _active(rowen, call)
        known = {source.name for source in await rowen.sources.list(counted=False)}
        report.width = max((len(name) for name in names if name in known), default=0)
        report.expected = len(names)
        if names:
            with progress(is_visible=call.out.watched) as report.bars:
                await rowen.runs.sync_all(
                    names,
                    observe=report.bars,
                    finished=report.add,
                    found=lambda what: call.out.say(what.words),
                    full=full,
                    accept_deletions=accept_deletions,
                    dry_run=dry_run,
                    only=only,
                )
        for remark in rowen.embeddings.remarks():
            call.out.say(remark)

    call.ask(answer, gently=True)
    return report.end()


async def _active(rowen: Rowen, call: Invocation) -> tuple[str, ...]:
    """Return all sources that are not paused, due sources first; print the number of due sources unless all are due."""
    sources = await rowen.sources.list_due()
    if not sources:
        paused = bool(await rowen.sources.list(limit=1))
        first = "There are no sources yet. `rowen sync ./folder` adds one and reads it."
        call.out.say("All sources are paused. `rowen resume NAME` includes one again." if paused else first)
    now = datetime.now(UTC)
    due = sum(source.due_at is not None and source.due_at <= now for source in sources)
    if 0 < due < len(sources):
        call.out.say(f"{count(due, 'source')} of {len(sources):,} {'is' if due == 1 else 'are'} due and read first.")
    return tuple(source.name for source in sources)


class _Report:
    """Prints each source when it is done, and a summary at the end."""

    def __init__(self, call: Invocation, *, dry: bool) -> None:
        self.width = self.expected = 0
        self.bars: ProgressBars | None = None
        self._call = call
        self._dry = dry
        self._results: list[Run | Exception] = []
        self._codes: list[int] = []

    def add(self, target: str, result: Run | Exception) -> None:
        """Print the result of one source."""
        self._results.append(result)
        if self.bars is not None:
            self.bars.step_aside(target if isinstance(result, Exception) else result.source)
        if isinstance(result, NotFoundError) and Path(target).exists():
            result.hint = Hint(action("sync", f"./{target}"), " reads the folder or file of that name.")
        if isinstance(result, RowenError):
            self._codes.append(self._call.out.fail_with(result, source=target))
        elif not isinstance(result, Exception):
            self._print(result)
            self._codes.append(exit_code(result, dry=self._dry))

    def _print(self, run: Run) -> None:
        out = self._call.out
        out.answer(run, *line(run, width=self.width, dry=self._dry), dry_run=self._dry)
        for remark in remarks(run, dry=self._dry):
            out.say(remark)
        if run.status == "failed":
            out.fail(
                f"Source {run.source!r} could not be read: {run.error}",
                hint=Hint("Its items were left untouched; ", action("sync", run.source), " tries again."),
                exit_code=exit_code(run),
                source=run.source,
            )

    def end(self) -> int:
        """Print the summary and return the exit code; raise unexpected errors only now, after all results."""
        for result in self._results:
            if isinstance(result, Exception) and not isinstance(result, RowenError):
                raise result
        runs = [result for result in self._results if not isinstance(result, Exception)]
        if self.expected > 1 and not self._call.out.json:
            self._call.out.say(together(runs, of=len(self._results), expected=self.expected))
        return worst(self._codes)


COMMANDS = {"sync": sync}
