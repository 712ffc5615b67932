"""Runs on a terminal: progress bars while they are running, then a line and an exit code for each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rowen.errors import ItemError
from rowen.interfaces.cli.output import Piece
from rowen.model.runs import Run, RunStats
from rowen.model.wording import seconds
from rowen.operations.summary import cost, noun, spared
from rowen.operations.summary import counts as counted

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from rowen.model.sources import Source

DONE, FAILED, SOME_FAILED, UNDECIDED, INTERRUPTED = 0, 1, 3, 5, 130

_STYLES = {
    "created": "green",
    "updated": "yellow",
    "amended": "yellow",
    "unchanged": "dim",
    "deleted": "red",
    "failed": "bold red",
    "skipped": "magenta",
    "not_asked": "dim",
    "missing": "bold red",
    "truncated": "yellow",
}
# From the most harmless code to the code that a script must notice first.
_SEVERITY = (DONE, SOME_FAILED, 2, 4, UNDECIDED, FAILED, INTERRUPTED)


def line(run: Run, *, width: int = 0, dry: bool = False) -> list[Piece]:
    """Return the line of a run as pieces with styles."""
    pieces: list[Piece] = [(run.source.ljust(width), "bold"), ("  ", "")]
    if dry:
        pieces.append(("would be: ", "cyan"))
    if run.status != "completed":
        pieces.append((f"{run.status}: ", "bold red" if run.status == "failed" else "yellow"))
    for place, piece in enumerate(counts(run.stats) or [("nothing there", "dim")]):
        pieces += [(" · ", "dim"), piece] if place else [piece]
    pieces.append((f" — {cost(run.stats)}", ""))
    if avoided := spared(run.stats, noun(run.kind)):
        pieces.append((f"; {avoided}", "green"))
    return pieces


def counts(stats: RunStats) -> list[Piece]:
    """Return the number of items of each outcome, as pieces with styles."""
    return [(text, _STYLES[outcome]) for text, outcome in counted(stats)]


def exit_code(run: Run, *, dry: bool = False) -> int:
    """Return the exit code of a run; in a dry run, held deletions do not need a decision."""
    match run.status:
        case "cancelled":
            return INTERRUPTED
        case "completed" if run.stats.deletions_held and not dry:
            return UNDECIDED
        case "completed":
            return SOME_FAILED if run.stats.failed or run.stats.missing else DONE
        case "partial" if run.error is None or run.error_code == ItemError.code:
            return SOME_FAILED
    return FAILED


def worst(codes: list[int]) -> int:
    """Return the most severe of several exit codes."""
    return max(codes, key=_SEVERITY.index, default=DONE)


@contextmanager
def progress(*, is_visible: bool) -> Iterator[ProgressBars | None]:
    """Yield an observer that draws a bar for each source; None if there is no terminal."""
    if not is_visible:
        yield None
        return
    from rich import console, progress

    with progress.Progress(
        progress.SpinnerColumn(),
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(bar_width=24),
        progress.TextColumn("{task.fields[words]}", markup=False),
        progress.TimeElapsedColumn(),
        console=console.Console(stderr=True),
        transient=True,
        # Results go to stdout; the bars on stderr must not capture them.
        redirect_stdout=False,
        redirect_stderr=False,
    ) as bars:
        yield ProgressBars(bars)


class ProgressBars:
    """A bar for each source. The total is the number of items found by the walk so far, or that of the last run."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._tasks: dict[int, TaskID] = {}
        self._waiting: TaskID | None = bars.add_task("looking", total=None, words="")

    def step_aside(self, source: str) -> None:
        """Clear the bars, so that a line can be printed; the next progress of another source draws them again."""
        self._bars.stop()
        for task in [task for task in self._bars.tasks if task.description == source]:
            self._bars.remove_task(task.id)

    def __call__(self, source: Source, stats: RunStats) -> None:
        """Show the progress of a source."""
        self._bars.start()
        if self._waiting is not None:
            self._bars.remove_task(self._waiting)
            self._waiting = None
        if source.id not in self._tasks:
            self._tasks[source.id] = self._bars.add_task(source.name, total=source.items or None, words="")
        task = self._tasks[source.id]
        elapsed_s = next(t.elapsed for t in self._bars.tasks if t.id == task) or 0.0
        total = max(source.items, stats.known)
        self._bars.update(
            task,
            completed=stats.seen,
            total=max(total, stats.seen) if total else None,
            words=progress_words(stats, total=total, elapsed_s=elapsed_s),
        )


def progress_words(stats: RunStats, *, total: int, elapsed_s: float) -> str:
    """Return the counts by outcome, the number of known items, the rate, and the estimated time left."""
    words = [text for text, _ in counts(stats)]
    words += [f"{stats.embedded:,} embedded"] if stats.embedded else []
    words += [f"{stats.seen:,} of {total:,} known"] if total > stats.seen else []
    # Over a shorter time, the rate only shows how the run began.
    if elapsed_s > 0.5 and stats.seen:
        rate = stats.seen / elapsed_s
        words.append(f"{rate:,.1f}/s" if rate < 10 else f"{rate:,.0f}/s")
        if total > stats.seen:
            left_s = (total - stats.seen) / rate
            words.append(f"{left_s:.0f} s left" if left_s < 60 else f"{seconds(left_s)} left")
    return " · ".join(words)
