"""How well models read pages: what became of each page, beside the answer that was expected, and the sum of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal, TypeAlias

from rowen.model.extraction import data_hash, leaves

__all__ = ["ModelScore", "PageScore", "Verdict", "wrong_fields"]

Verdict: TypeAlias = Literal["valid", "invalid", "error", "skipped"]


@dataclass(frozen=True, slots=True)
class PageScore:
    """What one model made of one page.

    `invalid`: no JSON, or against the schema, also after a correction. `error`: no whole answer was to be had, and
    `code` says why. `skipped`: beyond the budget. Of an answer that was known (`reused`), tokens and price are those of
    the time when it was paid for, and nobody knows how long it took. `wrong` are fields that were expected otherwise.
    """

    page: str
    verdict: Verdict
    data: Any = None
    code: str | None = None
    error: str | None = None
    reused: bool = False
    calls: int = 0
    tokens: int = 0
    usd: float | None = 0.0
    seconds: float | None = None
    ungrounded: tuple[str, ...] = ()
    expected: int = 0
    wrong: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelScore:
    """What one model made of all pages."""

    model: str
    pages: tuple[PageScore, ...]

    def count(self, verdict: Verdict) -> int:
        """How many pages ended so."""
        return sum(page.verdict == verdict for page in self.pages)

    @property
    def expected(self) -> int:
        """How many fields were expected, over all pages."""
        return sum(page.expected for page in self.pages)

    @property
    def right(self) -> int:
        """How many of them are as expected."""
        return self.expected - sum(len(page.wrong) for page in self.pages)

    @property
    def ungrounded(self) -> int:
        """How many values do not stand in the text of their page."""
        return sum(len(page.ungrounded) for page in self.pages)

    @property
    def tokens(self) -> int:
        """What all answers took, failed ones and corrections as well."""
        return sum(page.tokens for page in self.pages)

    @property
    def usd(self) -> float | None:
        """What they cost; None if nobody knows the price."""
        prices = [page.usd for page in self.pages]
        return None if None in prices else round(sum(price or 0.0 for price in prices), 6)

    @property
    def median_s(self) -> float | None:
        """How long half of the pages took at most; None if all answers were known."""
        times = [page.seconds for page in self.pages if page.seconds is not None]
        return round(median(times), 3) if times else None

    @property
    def slowest_s(self) -> float | None:
        """How long the slowest page took."""
        return max((page.seconds for page in self.pages if page.seconds is not None), default=None)

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        names = ("expected", "right", "ungrounded", "tokens", "usd", "median_s", "slowest_s")
        verdicts = {name: self.count(name) for name in ("valid", "invalid", "error", "skipped")}
        return {"model": self.model, **verdicts, **{name: getattr(self, name) for name in names}}


def wrong_fields(expected: Mapping[str, Any], data: Any) -> tuple[int, tuple[str, ...]]:
    """How many single values were expected, and the pointers of those that differ. What is not expected is not judged.

    An empty list or object that is expected is a value as well.
    """
    told = dict(_values(data))
    wanted = list(_values(expected))
    wrong = [path for path, value in wanted if path not in told or data_hash(told[path]) != data_hash(value)]
    return len(wanted), tuple(wrong)


def _values(data: Any) -> list[tuple[str, Any]]:
    """Single values, and what is empty."""
    found = list(leaves(data))
    for name, one in data.items() if isinstance(data, Mapping) else ():
        if one in ([], {}):
            found.append((f"/{name}", one))
    return found
