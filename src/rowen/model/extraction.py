"""Extraction: facts of items under a schema, the schemas of sources, and evaluations of models."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeAlias

from rowen.model.changes import FieldChange, leaves
from rowen.model.hashes import data_hash

Grounding: TypeAlias = Literal["off", "warn", "null", "fail"]
Origin: TypeAlias = Literal["model", "structured", "rules"]


class Evidence(NamedTuple):
    """The evidence for a value in the text: the quote, its offset, and the way in which the value was matched."""

    path: str
    found: Literal["exact", "number", "date", "words", "none"]
    quote: str = ""
    at: int = -1


@dataclass(frozen=True, slots=True)
class Extracted:
    """Facts of one page, with their origin, their cost, and evidence for them in the text.

    `reused` says that the model's answer was cached; `calls`, `tokens` and `usd` are the cost of this extraction.
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
        """The fields whose values do not occur in the text."""
        return tuple(item.path for item in self.evidence if item.found == "none")


@dataclass(frozen=True, slots=True)
class Extraction:
    """One version of an item's facts; `checks` counts how often the version was confirmed, up to `checked_at`.

    `content_hash` is the hash of the text from which the version was made; None if an earlier release made it.
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
    """A schema that is attached to a source, and the progress of its extraction.

    `state` is `current`, `behind` (`pending` items have to be extracted), or `waiting` (`waits_for` names the cause).
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
        """The progress of the extraction."""
        return "waiting" if self.waits_for else "behind" if self.pending else "current"


@dataclass(slots=True)
class ExtractionReport:
    """The results, the cost and the avoided cost of one extraction pass over the items of a source.

    With `dry_run`, `calls` and `tokens` are estimates. `waits_for` is the reason why the pass ended early.
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
        """The number of questions that were not sent to a model, since the answer was known."""
        return self.avoided_reused + self.avoided_structured + self.avoided_rules


Verdict: TypeAlias = Literal["valid", "invalid", "error", "skipped"]


@dataclass(frozen=True, slots=True)
class PageScore:
    """The result of one model on one page.

    `invalid`: the answer was no JSON or broke the schema, even after a correction. `error`: there was no complete
    answer, and `code` is the reason. `skipped`: the budget was used up. For a cached answer (`reused`), tokens and
    price are those of the original call, and the duration is unknown. `wrong` lists the fields that differ from the
    expected values.
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
    """The results of one model on all pages."""

    model: str
    pages: tuple[PageScore, ...]

    def count(self, verdict: Verdict) -> int:
        """Return the number of pages with this verdict."""
        return sum(page.verdict == verdict for page in self.pages)

    @property
    def expected(self) -> int:
        """The number of expected values on all pages."""
        return sum(page.expected for page in self.pages)

    @property
    def right(self) -> int:
        """The number of values that equal the expected value."""
        return self.expected - sum(len(page.wrong) for page in self.pages)

    @property
    def ungrounded(self) -> int:
        """The number of values that do not occur in the text of their page."""
        return sum(len(page.ungrounded) for page in self.pages)

    @property
    def tokens(self) -> int:
        """The tokens of all answers, including failed answers and corrections."""
        return sum(page.tokens for page in self.pages)

    @property
    def usd(self) -> float | None:
        """The cost of all answers; None if a price is unknown."""
        prices = [page.usd for page in self.pages]
        return None if None in prices else round(sum(price or 0.0 for price in prices), 6)

    @property
    def median_s(self) -> float | None:
        """The median duration of a page; None if all answers were cached."""
        times = sorted(page.seconds for page in self.pages if page.seconds is not None)
        return round((times[(len(times) - 1) // 2] + times[len(times) // 2]) / 2, 3) if times else None

    @property
    def slowest_s(self) -> float | None:
        """The duration of the slowest page."""
        return max((page.seconds for page in self.pages if page.seconds is not None), default=None)

    def to_json(self) -> dict[str, Any]:
        """Return the score as plain values."""
        names = ("expected", "right", "ungrounded", "tokens", "usd", "median_s", "slowest_s")
        verdicts = {name: self.count(name) for name in ("valid", "invalid", "error", "skipped")}
        return {"model": self.model, **verdicts, **{name: getattr(self, name) for name in names}}


def wrong_fields(expected: Mapping[str, Any], data: Any) -> tuple[int, tuple[str, ...]]:
    """Return the number of expected values, and the pointers of the wrong values; unexpected fields are ignored."""
    values, wanted = _values(data), _values(expected)
    wrong = [path for path in wanted if path not in values or data_hash(values[path]) != data_hash(wanted[path])]
    return len(wanted), tuple(wrong)


def _values(data: Any) -> dict[str, Any]:
    """Return the leaf values by their pointers, including empty lists and objects at the top level."""
    fields = data.items() if isinstance(data, Mapping) else ()
    return {**dict(leaves(data)), **{f"/{name}": inner for name, inner in fields if inner in ([], {})}}
