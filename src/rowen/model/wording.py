"""Numbers, sizes and times as people read them."""

from datetime import datetime

__all__ = ["age", "brief", "count", "moment", "percent", "seconds", "size"]

_AGES = ((86_400, "d"), (3_600, "h"), (60, "min"))


# A line of a notebook holds two of them.
_LONGEST_BRIEF = 60


def brief(what: object, *parts: str) -> str:
    """A short form for people who look at a value in a notebook: its type and what tells it from others."""
    cut = (part if len(part) <= _LONGEST_BRIEF else f"{part[: _LONGEST_BRIEF - 1]}…" for part in parts if part)
    return f"<{type(what).__name__} {' · '.join(cut)}>"


def count(number: int, noun: str) -> str:
    """A number with its noun: 1 file, 1,200 files."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def percent(share: float) -> str:
    """A share, never rounded up to a whole that it is not: 99.9 % is 99 %."""
    return "under 1 %" if 0 < share < 0.01 else f"{int(share * 100 + 1e-9)} %"


def size(size_bytes: float) -> str:
    """Bytes in the unit that fits."""
    for unit in ("B", "kB", "MB", "GB"):
        if size_bytes < 999.5:
            return f"{size_bytes:.0f} {unit}" if size_bytes >= 9.95 or unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:,.1f} TB"


def seconds(time_s: float) -> str:
    """A length of time."""
    if time_s < 60:
        return f"{time_s:.2f} s" if time_s < 0.095 else f"{time_s:.1f} s"
    minutes, rest = divmod(round(time_s), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def moment(at: datetime | None) -> str:
    """A point in time, to the second, in UTC."""
    return f"{at:%Y-%m-%d %H:%M:%S}Z" if at else "never"


def age(at: datetime | None, now: datetime) -> str:
    """How long ago something was."""
    if at is None:
        return "never"
    passed_s = (now - at).total_seconds()
    for unit_s, unit in _AGES:
        if passed_s >= unit_s:
            return f"{passed_s // unit_s:.0f} {unit} ago"
    return "just now"
