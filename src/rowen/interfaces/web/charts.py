"""Charts as SVG of a few hundred bytes, coloured by the style sheet, with a text label."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup, escape

from rowen.model.runs import Run
from rowen.model.wording import count

_BAR, _GAP, _HEIGHT = 5, 2, 24
# The height of the bar for a run without changes.
_LEAST = 3


def bars(runs: Sequence[Run], places: int = 30) -> Markup:
    """Draw the last runs as bars that show changes and status, the newest run at the right."""
    most = max(map(_changes, runs), default=0) or 1
    width = places * (_BAR + _GAP)
    drawn = [Markup('<rect class="base" x="0" y="{}" width="{}" height="1"/>').format(_HEIGHT - 1, width)]
    for place, run in enumerate(runs, start=places - len(runs)):
        # With a square root, a run with a hundredth of another run's changes stays visible.
        height = max(_LEAST, round((_changes(run) / most) ** 0.5 * _HEIGHT))
        kind = run.status if _changes(run) or run.status != "completed" else "quiet"
        drawn.append(
            Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>').format(
                kind, place * (_BAR + _GAP), _HEIGHT - height, _BAR, height
            )
        )
    statuses = ", ".join(f"{number} {status}" for status, number in Counter(run.status for run in runs).items())
    label = f"{count(len(runs), 'run')}: {statuses}; {count(sum(map(_changes, runs)), 'change')}"
    return Markup(
        '<svg class="bars" viewBox="0 0 {} {}" width="{}" height="{}" role="img" aria-label="{}">{}</svg>'
    ).format(width, _HEIGHT, width, _HEIGHT, label if runs else "no runs yet", Markup("").join(drawn))


def _changes(run: Run) -> int:
    return run.stats.created + run.stats.updated + run.stats.amended + run.stats.deleted


def shares(parts: Sequence[tuple[str, float]], label: str, colours: Sequence[int] = range(5)) -> Markup:
    """Draw amounts as one stacked bar in the given order; each amount above zero is visible."""
    total = sum(value for _, value in parts) or 1
    drawn, x = [], 0.0
    for number, (_, value) in zip(colours, parts, strict=False):
        width = max(value / total * 1000, 2.0) if value else 0.0
        drawn.append(
            Markup('<rect class="part{}" x="{:.1f}" y="0" width="{:.1f}" height="24"/>').format(number, x, width)
        )
        x += width
    amounts = ", ".join(f"{name} {value:,}" for name, value in parts)
    return Markup(
        '<svg class="shares" viewBox="0 0 {:.1f} 24" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>'
    ).format(max(x, 1.0), escape(f"{label}: {amounts}"), Markup("").join(drawn))


def spark(values: Sequence[Any]) -> Markup:
    """Draw a series of numbers as a line with a dot at its end; return nothing for fewer than two numbers."""
    numbers = [float(value) for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(numbers) < 2:
        return Markup("")
    low, high = min(numbers), max(numbers)
    span = (high - low) or 1.0
    step = 72 / (len(numbers) - 1)
    points = [
        (round(4 + step * place, 1), round(18 - (value - low) / span * 14, 1)) for place, value in enumerate(numbers)
    ]
    line = " ".join(f"{x:g},{y:g}" for x, y in points)
    last_x, last_y = points[-1]
    label = f"from {numbers[0]:g} to {numbers[-1]:g} in {len(numbers)} versions"
    return Markup(
        '<svg class="spark" viewBox="0 0 80 22" width="80" height="22" role="img" aria-label="{}">'
        '<polyline points="{}"/><circle cx="{:g}" cy="{:g}" r="2.5"/></svg>'
    ).format(label, line, last_x, last_y)
