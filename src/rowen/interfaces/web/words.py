"""Numbers, times and states as pages say them."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from markupsafe import Markup

from rowen.errors import Action, Hint, RowenError, UsageError
from rowen.interfaces.web.view import ToldProblem
from rowen.model.passages import snippet
from rowen.model.schedules import Schedule
from rowen.model.sources import Overview
from rowen.model.wording import age, count, percent, seconds, size

__all__ = ["FILTERS", "Mark", "checked_at", "state_of"]

# Less than one item in twenty is expected to be stale: what a reader would still call fresh.
_STALE = 0.05
# Enough for two lines, whatever markup stands between the words.
_GIST_CHARS = 2_000
_AHEAD = ((86_400, "d"), (3_600, "h"), (60, "min"))


class Mark(NamedTuple):
    """One of four meanings, each with its own shape (`fresh`, `stale`, `failing`, `waiting`), and the word for it."""

    meaning: str
    word: str


def state_of(source: Overview) -> Mark:
    """How a source is doing, in a word."""
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
            return Mark("failing", "not seen whole")
    if source.deletions_held:
        return Mark("waiting", f"{count(source.deletions_held, 'deletion')} held")
    if source.stale is not None and source.stale >= _STALE:
        return Mark("stale", f"{percent(source.stale)} stale")
    return Mark("fresh", "fresh")


def checked_at(source: Overview) -> datetime | None:
    """When all of a source was last known to be as we hold it: by a look at all of it, or by what its listing said."""
    return source.last_run_at if source.last_status == "completed" else source.last_complete_at


def when(at: datetime | str | None) -> Markup:
    """A moment: absolute, with the relative one beside it."""
    moment = _moment(at)
    if moment is None:
        return Markup('<span class="quiet">never</span>')
    return Markup(
        '<time datetime="{}"><span class="abs">{:%Y-%m-%d %H:%M}</span> <span class="rel">{}</span></time>'
    ).format(moment.isoformat(timespec="seconds"), moment, relative(moment))


def relative(at: datetime | str | None) -> str:
    """How long ago, or how soon."""
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
    """A count with its thousands apart."""
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def usd(value: float | None) -> str:
    """An amount of money; four digits where two would say nothing."""
    if value is None:
        return "unknown"
    return f"{value:,.2f} USD" if value >= 1 or not value else f"{value:.4f} USD"


def share(value: float | None) -> str:
    """A share with one digit, never rounded to a whole that it is not."""
    if value is None:
        return "–"
    told = int(value * 1000 + 1e-9) / 10
    return f"{told:g} %"


def short(text: str, most: int = 160) -> str:
    """A text cut to so many characters."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def gist(text: str) -> str:
    """The first words of a Markdown text, without its markup."""
    return " ".join(snippet(text[:_GIST_CHARS], None, lines=2))


def bare(url: str) -> str:
    """An address without what all have."""
    return url.removeprefix("https://").removeprefix("http://").rstrip("/")


def schedule(text: str | None) -> str:
    """When a source is looked at, in words."""
    if not text:
        return "only when somebody asks"
    try:
        return Schedule.parse(text).words()
    except UsageError:
        return text


def value(thing: Any) -> str:
    """A field of facts or of a record, in one line."""
    if isinstance(thing, str):
        return thing
    return json.dumps(thing, ensure_ascii=False)


def pieces(hint: str | None, of: str | None = None) -> list[tuple[str, Action | None]]:
    """A hint as text and the actions that it names, each with its command; without the name that it begins with."""
    if not hint:
        return []
    parts = hint.parts if isinstance(hint, Hint) else (hint,)
    told = [(part, None) if isinstance(part, str) else (part.command, part) for part in parts]
    first = told[0][0].removeprefix(f"{of}: ") if of else told[0][0]
    return [(first[:1].upper() + first[1:] if of else first, told[0][1]), *told[1:]]


def code_of(problem: RowenError | ToldProblem) -> str:
    """The name of an error, the same at every interface."""
    return problem.code


FILTERS: Mapping[str, Callable[..., Any]] = {
    "bare": bare,
    "checked_at": checked_at,
    "code_of": code_of,
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
