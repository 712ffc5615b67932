"""Live progress of each source, on a terminal."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rowen.interfaces.cli.summary import counts
from rowen.model.wording import seconds

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from rowen.model.runs import RunStats
    from rowen.model.sources import Source

__all__ = ["ProgressBars", "progress", "progress_words"]


@contextmanager
def progress(*, shown: bool) -> Iterator["ProgressBars | None"]:
    """An observer that draws a bar for each source, or none where nobody looks."""
    if not shown:
        yield None
        return
    with _bars() as bars:
        yield ProgressBars(bars)


def _bars() -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[told]}", markup=False),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        # Results are data for stdout, which bars on stderr must not take in.
        redirect_stdout=False,
        redirect_stderr=False,
    )


class ProgressBars:
    """Bars by source. What a walk knows of, or else the number of items of the last run, is a good guess at the end."""

    def __init__(self, bars: "Progress") -> None:
        self._bars = bars
        self._tasks: dict[int, TaskID] = {}
        self._waiting: TaskID | None = bars.add_task("looking", total=None, told="")

    def step_aside(self, source: str) -> None:
        """Let a result be printed where the bars are; they come back when another source gets on."""
        self._bars.stop()
        for task in [task for task in self._bars.tasks if task.description == source]:
            self._bars.remove_task(task.id)

    def __call__(self, source: "Source", stats: "RunStats") -> None:
        """Show how far a source is."""
        self._bars.start()
        if self._waiting is not None:
            self._bars.remove_task(self._waiting)
            self._waiting = None
        if source.id not in self._tasks:
            self._tasks[source.id] = self._bars.add_task(source.name, total=source.items or None, told="")
        task = self._tasks[source.id]
        elapsed_s = next(t.elapsed for t in self._bars.tasks if t.id == task) or 0.0
        total = max(source.items, stats.known)
        self._bars.update(
            task,
            completed=stats.seen,
            total=max(total, stats.seen) if total else None,
            told=progress_words(stats, total=total, elapsed_s=elapsed_s),
        )


def progress_words(stats: "RunStats", *, total: int, elapsed_s: float) -> str:
    """How far a source is: what became of its items, how many there are, how fast it goes, how long it will take."""
    words = [text for text, _ in counts(stats)]
    words += [f"{stats.embedded:,} embedded"] if stats.embedded else []
    words += [f"{stats.seen:,} of {total:,} known"] if total > stats.seen else []
    # Before that, a rate says more about how it began than about how it goes on.
    if elapsed_s > 0.5 and stats.seen:
        rate = stats.seen / elapsed_s
        words.append(f"{rate:,.1f}/s" if rate < 10 else f"{rate:,.0f}/s")
        words += [f"{_left((total - stats.seen) / rate)} left"] if total > stats.seen else []
    return " · ".join(words)


def _left(time_s: float) -> str:
    """A guess at a length of time: whole seconds are exact enough."""
    return f"{time_s:.0f} s" if time_s < 60 else seconds(time_s)
