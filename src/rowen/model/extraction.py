"""Extraction: facts that items yield under a schema, the sources that carry schemas, and evaluations of models."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeAlias

from rowen.model.changes import FieldChange, leaves
from rowen.model.hashes import data_hash

__all__ = [
    "Evidence",
    "Extracted",
    "Extraction",
    "ExtractionReport",
    "Grounding",
    "ModelScore",
    "Origin",
    "PageScore",
    "SourceSchema",
    "Verdict",
    "wrong_fields",
]

Grounding: TypeAlias = Literal["off", "warn", "null", "fail"]
Origin: TypeAlias = Literal["model", "structured", "rules"]


class Evidence(NamedTuple):
    """Where a value stands in the text: what was found there, at which character, and how it was recognised."""

    path: str
    found: Literal["exact", "number", "date", "words", "none"]
    quote: str = ""
    at: int = -1


@dataclass(frozen=True, slots=True)
class Extracted:
    """Facts of one page: how they came about, what that took, and what of them does not stand in the text.

    `reused` says that the answer was paid for before; `calls` and tokens are those of this time.
    """

    url: str
    schema: str
    data: Any
    origin: Origin
    model: str | None = None
    reused: bool = False
    calls: int = 0
    tokens: int = 0
    usd: float | None = 0.0
    evidence: tuple[Evidence, ...] = ()
    remarks: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def ungrounded(self) -> tuple[str, ...]:
        """The fields whose values do not stand in the text."""
        return tuple(one.path for one in self.evidence if one.found == "none")


@dataclass(frozen=True, slots=True)
class Extraction:
    """One version of what an item yields; `checks` counts how often it was found again, up to `checked_at`.

    `content_hash` is that of the item's text that the version was made from, None if an earlier release made it.
    """

    source: str
    url: str
    schema: str
    number: int
    data: Any
    diff: tuple[FieldChange, ...]
    origin: Origin
    model: str | None
    at: datetime
    current: bool = True
    checks: int = 0
    checked_at: datetime | None = None
    evidence: tuple[Evidence, ...] = ()
    content_hash: str | None = None


@dataclass(frozen=True, slots=True)
class SourceSchema:
    """A schema that a source carries, and how far its items are extracted.

    `state` is `current`, `behind` with `pending` items, or `waiting`, and then `waits_for` says for what.
    """

    source: str
    schema: str
    grounding: Grounding
    learns: bool
    rules: Mapping[str, Mapping[str, Any]]
    conditions: tuple[str, ...]
    extracted_to: int
    pending: int
    current: int
    failed: int
    waits_for: str | None = None
    waits_until: datetime | None = None
    only_urls: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        """How it is doing, in one word."""
        return "waiting" if self.waits_for else "behind" if self.pending else "current"


@dataclass(slots=True)
class ExtractionReport:
    """What one pass over the items of a source did, what it spent, and what it avoided.

    With `dry_run`, `calls` and tokens are an estimate. `waits_for` says why it ended before all was done.
    """

    source: str
    schema: str
    looked_at: int = 0
    created: int = 0
    changed: int = 0
    same: int = 0
    removed: int = 0
    failed: int = 0
    pending: int = 0
    matched: int = 0
    calls: int = 0
    tokens: int = 0
    usd: float | None = 0.0
    avoided_reused: int = 0
    avoided_structured: int = 0
    avoided_rules: int = 0
    avoided_tokens: int = 0
    avoided_usd: float = 0.0
    learned: int = 0
    ungrounded: int = 0
    seconds: float = 0.0
    dry_run: bool = False
    waits_for: str | None = None
    errors: dict[str, int] = field(default_factory=dict)

    @property
    def avoided(self) -> int:
        """How many questions were not put to a model, because the answer was known."""
        return self.avoided_reused + self.avoided_structured + self.avoided_rules


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
        times = sorted(page.seconds for page in self.pages if page.seconds is not None)
        return round((times[(len(times) - 1) // 2] + times[len(times) // 2]) / 2, 3) if times else None

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
