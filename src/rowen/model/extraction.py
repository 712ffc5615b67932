"""Extractions: what an item yields under a schema, in versions, with what differs between them and where it stands."""

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict

from rowen.model.hashes import Hash, canonical_json

__all__ = [
    "CostLine",
    "Costs",
    "Evidence",
    "Extracted",
    "Extraction",
    "ExtractionLimits",
    "ExtractionReport",
    "FieldChange",
    "Grounding",
    "Origin",
    "PageOptions",
    "SourceSchema",
    "data_hash",
    "differences",
    "flattened",
    "leaves",
]

Grounding: TypeAlias = Literal["off", "warn", "null", "fail"]
Origin: TypeAlias = Literal["model", "structured", "rules"]
FieldOp: TypeAlias = Literal["added", "removed", "changed"]


class ExtractionLimits(TypedDict, total=False):
    """How a pass over a source may be narrowed, and what it may spend."""

    force: bool
    budget_usd: float | None
    budget_tokens: int | None
    model: str | None
    limit: int | None


class PageOptions(TypedDict, total=False):
    """How one page is read for facts, beside its schema.

    `rules` say where fields stand; `model` is another one than that of the settings; `force` asks again what was
    answered before; `instructions` are added to what a model is told, which reads at most `max_chars` of the text and
    may take `model_limit_s`. `render` draws the page in a browser; `proxy` is asked for it, and `fetch_limit_s` is how
    long that may take.
    """

    grounding: Grounding
    rules: Mapping[str, str] | None
    model: str | None
    force: bool
    instructions: str | None
    max_chars: int | None
    model_limit_s: float | None
    render: bool
    proxy: str | None
    fetch_limit_s: float | None


class FieldChange(NamedTuple):
    """One field that differs between two versions, by its JSON pointer (RFC 6901)."""

    op: FieldOp
    path: str
    before: Any = None
    after: Any = None

    def to_json(self) -> dict[str, Any]:
        """The change as plain values, without what it does not have."""
        told: dict[str, Any] = {"op": self.op, "path": self.path}
        if self.op != "added":
            told["before"] = self.before
        if self.op != "removed":
            told["after"] = self.after
        return told


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


class CostLine(NamedTuple):
    """What calls for one thing cost, and what was not spent beside."""

    source: str | None
    purpose: str
    subject: str | None
    model: str | None
    calls: int
    failed: int
    tokens_sent: int
    tokens_received: int
    usd: float | None
    avoided: int = 0
    avoided_tokens: int = 0
    avoided_usd: float = 0.0


@dataclass(frozen=True, slots=True)
class Costs:
    """What paid calls cost since a moment, and what was avoided."""

    since: datetime
    lines: tuple[CostLine, ...]

    @property
    def usd(self) -> float:
        """All that is known to have been paid."""
        return sum(line.usd or 0.0 for line in self.lines)

    @property
    def avoided_usd(self) -> float:
        """About what would have been paid without."""
        return sum(line.avoided_usd for line in self.lines)


def data_hash(data: Any) -> Hash:
    """What facts say: keys sorted, no white space, nothing escaped, 5.0 the same as 5."""
    return hashlib.sha256(canonical_json(_plain(data))).digest()


def _plain(value: Any) -> Any:
    match value:
        case float() if math.isfinite(value) and value == int(value):
            return int(value)
        case dict():
            return {name: _plain(one) for name, one in value.items()}
        case list():
            return [_plain(one) for one in value]
    return value


def differences(before: Any, after: Any) -> Iterator[FieldChange]:
    """What differs between two values, field by field: objects by their keys, lists by position."""
    yield from _differences(before, after, "")


def _differences(before: Any, after: Any, path: str) -> Iterator[FieldChange]:
    if type(before) is type(after) and isinstance(before, dict):
        for name in [*before, *(name for name in after if name not in before)]:
            yield from _one(before, after, name, f"{path}/{_escaped(name)}")
    elif type(before) is type(after) and isinstance(before, list):
        for number in range(max(len(before), len(after))):
            yield from _one(dict(enumerate(before)), dict(enumerate(after)), number, f"{path}/{number}")
    elif canonical_json(_plain(before)) != canonical_json(_plain(after)):
        yield FieldChange("changed", path, before, after)


def _one(before: Mapping[Any, Any], after: Mapping[Any, Any], name: Any, path: str) -> Iterator[FieldChange]:
    if name not in after:
        yield FieldChange("removed", path, before=before[name])
    elif name not in before:
        yield FieldChange("added", path, after=after[name])
    else:
        yield from _differences(before[name], after[name], path)


def leaves(data: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The single values of data with their JSON pointers."""
    if isinstance(data, dict):
        for name, one in data.items():
            yield from leaves(one, f"{path}/{_escaped(name)}")
    elif isinstance(data, list):
        for number, one in enumerate(data):
            yield from leaves(one, f"{path}/{number}")
    else:
        yield path, data


def flattened(data: Any, path: str = "") -> dict[str, Any]:
    """The fields of nested data as one row: `offer.price`; a list is one value."""
    if not isinstance(data, Mapping):
        return {path or "value": data}
    made: dict[str, Any] = {}
    for name, one in data.items():
        made |= flattened(one, f"{path}.{name}" if path else str(name))
    return made


def _escaped(name: str) -> str:
    return str(name).replace("~", "~0").replace("/", "~1")
