"""Format numbers, times and states for pages: the filters of the templates."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from markupsafe import Markup

from rowen.errors import Action, Hint, UsageError
from rowen.model.passages import snippet
from rowen.model.schedules import Schedule
from rowen.model.sources import Overview
from rowen.model.wording import age, count, percent, seconds, size

# Below one stale item in twenty, a source counts as fresh.
_STALE = 0.05
# Enough characters for two lines, whatever markup they contain.
_GIST_CHARS = 2_000
_AHEAD = ((86_400, "d"), (3_600, "h"), (60, "min"))


class Mark(NamedTuple):
    """A state: one of four meanings with its own symbol (`fresh`, `stale`, `failing`, `waiting`), and a word."""

    meaning: str
    word: str


def state_of(source: Overview) -> Mark:
    """Return the state of a source."""
    if source.state == "paused":
        return Mark("stale", "paused")
    match source.last_status:
        case None:
            return Mark("waiting", "not read yet")
        case "running":
            return Mark("waiting", "reading now")
        case "failed":
            return Mark("failing", "failed")
        case "partial":
            return Mark("failing", "incomplete")
    if source.deletions_held:
        return Mark("waiting", count(source.deletions_held, "pending deletion"))
    if source.stale is not None and source.stale >= _STALE:
        return Mark("stale", f"{percent(source.stale)} stale")
    return Mark("fresh", "fresh")


def checked_at(source: Overview) -> datetime | None:
    """Return when all items of a source were last confirmed, by a complete run or by the source's listing."""
    return source.last_run_at if source.last_status == "completed" else source.last_complete_at


def when(at: datetime | str | None) -> Markup:
    """Return a moment as an absolute and a relative time."""
    moment = _moment(at)
    if moment is None:
        return Markup('<span class="quiet">never</span>')
    return Markup(
        '<time datetime="{}"><span class="abs">{:%Y-%m-%d %H:%M}</span> <span class="rel">{}</span></time>'
    ).format(moment.isoformat(timespec="seconds"), moment, relative(moment))


def relative(at: datetime | str | None) -> str:
    """Return the time since or until a moment in words."""
    moment, now = _moment(at), datetime.now(UTC)
    if moment is None:
        return "never"
    ahead_s = (moment - now).total_seconds()
    if ahead_s <= 0:
        return age(moment, now)
    for unit_s, unit in _AHEAD:
        if ahead_s >= unit_s:
            return f"in {ahead_s // unit_s:.0f} {unit}"
    return "in a moment"


def _moment(at: datetime | str | None) -> datetime | None:
    if isinstance(at, str):
        try:
            at = datetime.fromisoformat(at)
        except ValueError:
            return None
    if at is None:
        return None
    return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)


def number(value: float | None) -> str:
    """Return a number with separators between thousands."""
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def usd(value: float | None) -> str:
    """Return an amount in US dollars, with four decimals below one dollar."""
    if value is None:
        return "unknown"
    return f"{value:,.2f} USD" if value >= 1 or not value else f"{value:.4f} USD"


def share(value: float | None) -> str:
    """Return a share with one decimal, never rounded up to 100 %."""
    if value is None:
        return "–"
    return f"{int(value * 1000 + 1e-9) / 10:g} %"


def short(text: str, most: int = 160) -> str:
    """Return a text, truncated to `most` characters."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def gist(text: str) -> str:
    """Return the first words of a Markdown text without markup."""
    return " ".join(snippet(text[:_GIST_CHARS], None, lines=2))


def bare(url: str) -> str:
    """Return an address without its scheme."""
    return url.removeprefix("https://").removeprefix("http://").rstrip("/")


def schedule(text: str | None) -> str:
    """Return a schedule in words."""
    if not text:
        return "only on request"
    try:
        return Schedule.parse(text).words()
    except UsageError:
        return text


def value(thing: Any) -> str:
    """Return a field of facts or of a record as one line."""
    return thing if isinstance(thing, str) else json.dumps(thing, ensure_ascii=False)


def pieces(hint: str | None, of: str | None = None) -> list[tuple[str, Action | None]]:
    """Return a hint as pieces of text and actions with commands; a leading name `of` is left out."""
    if not hint:
        return []
    parts = hint.parts if isinstance(hint, Hint) else (hint,)
    pairs = [(part, None) if isinstance(part, str) else (part.command, part) for part in parts]
    first = pairs[0][0].removeprefix(f"{of}: ") if of else pairs[0][0]
    return [(first[:1].upper() + first[1:] if of else first, pairs[0][1]), *pairs[1:]]


FILTERS: Mapping[str, Callable[..., Any]] = {
    "bare": bare,
    "checked_at": checked_at,
    "count": count,
    "gist": gist,
    "number": number,
    "percent": percent,
    "pieces": pieces,
    "relative": relative,
    "schedule": schedule,
    "seconds": seconds,
    "share": share,
    "short": short,
    "size": size,
    "usd": usd,
    "value": value,
    "when": when,
}
