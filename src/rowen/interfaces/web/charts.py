"""Pictures as SVG, made by the server: a few hundred bytes each, coloured by the style sheet, with words for all."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup, escape

from rowen.model.runs import Run
from rowen.model.wording import count

__all__ = ["bars", "shares", "spark"]

_BAR, _GAP, _HEIGHT = 5, 2, 24
# A run that changed nothing is still a run: it must be seen.
_LEAST = 3


def bars(runs: Sequence[Run], places: int = 30) -> Markup:
    """The last runs as bars: how much each changed, and how it ended; the newest at the right."""
    most = max((_changed(run) for run in runs), default=0) or 1
    width = places * (_BAR + _GAP)
    first = places - len(runs)
    base = Markup('<rect class="base" x="0" y="{}" width="{}" height="1"/>').format(_HEIGHT - 1, width)
    drawn = base + Markup("").join(_bar(run, (first + place) * (_BAR + _GAP), most) for place, run in enumerate(runs))
    return Markup(
        '<svg class="bars" viewBox="0 0 {} {}" width="{}" height="{}" role="img" aria-label="{}">{}</svg>'
    ).format(width, _HEIGHT, width, _HEIGHT, _told(runs), drawn)


def _changed(run: Run) -> int:
    return run.stats.created + run.stats.updated + run.stats.amended + run.stats.deleted


def _bar(run: Run, x: int, most: int) -> Markup:
    # The root makes a run that changed a hundredth of what another did still visible.
    height = max(_LEAST, round((_changed(run) / most) ** 0.5 * _HEIGHT))
    kind = run.status if _changed(run) or run.status != "completed" else "quiet"
    return Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>').format(
        kind, x, _HEIGHT - height, _BAR, height
    )


def _told(runs: Sequence[Run]) -> str:
    if not runs:
        return "no runs yet"
    ends: dict[str, int] = {}
    for run in runs:
        ends[run.status] = ends.get(run.status, 0) + 1
    told = ", ".join(f"{number} {status}" for status, number in ends.items())
    return f"{count(len(runs), 'run')}: {told}; {count(sum(map(_changed, runs)), 'change')}"


def shares(parts: Sequence[tuple[str, float]], label: str, colours: Sequence[int] = range(5)) -> Markup:
    """Amounts as one stacked bar, in the order given; what is there at all is seen."""
    total = sum(value for _, value in parts) or 1
    drawn, x = [], 0.0
    for number, (_, value) in zip(colours, parts, strict=False):
        width = max(value / total * 1000, 2.0) if value else 0.0
        drawn.append(
            Markup('<rect class="part{}" x="{:.1f}" y="0" width="{:.1f}" height="24"/>').format(number, x, width)
        )
        x += width
    told = ", ".join(f"{name} {value:,}" for name, value in parts)
    return Markup(
        '<svg class="shares" viewBox="0 0 {:.1f} 24" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>'
    ).format(max(x, 1.0), escape(f"{label}: {told}"), Markup("").join(drawn))


def spark(values: Sequence[Any]) -> Markup:
    """A series of numbers as a line with a dot at its end; nothing for what is no series."""
    numbers = [float(value) for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(numbers) < 2:
        return Markup("")
    low, high = min(numbers), max(numbers)
    span = (high - low) or 1.0
    step = 72 / (len(numbers) - 1)
    points = [(round(4 + step * place, 1), round(18 - (one - low) / span * 14, 1)) for place, one in enumerate(numbers)]
    line = " ".join(f"{x:g},{y:g}" for x, y in points)
    last_x, last_y = points[-1]
    told = f"from {numbers[0]:g} to {numbers[-1]:g} in {len(numbers)} versions"
    return Markup(
        '<svg class="spark" viewBox="0 0 80 22" width="80" height="22" role="img" aria-label="{}">'
        '<polyline points="{}"/><circle cx="{:g}" cy="{:g}" r="2.5"/></svg>'
    ).format(told, line, last_x, last_y)
