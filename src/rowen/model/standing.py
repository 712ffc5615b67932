"""The state of everything in a few numbers, what a while of refreshing spared, and what a source would bring."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from rowen.model.item import Document, Validators
from rowen.model.query import Passage

__all__ = ["ItemDetail", "ItemLine", "Preview", "Savings", "Situation", "SwitchedOff", "TroubleGroup"]


@dataclass(frozen=True, slots=True)
class SwitchedOff:
    """Who is told nothing any more since calls failed for days: a receiver by its name, or a source's endpoint."""

    kind: Literal["webhook", "notice", "endpoint"]
    name: str
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Situation:
    """How everything is, cheap enough to be asked for with every page.

    `failing` counts active sources whose last run failed or was partial. `stale` is the share of all items that are
    expected to be stale now, None if nothing was seen whole yet. `next_source` is the one that is due next.
    """

    sources: int
    items: int
    paused: int
    unread: int
    failing: int
    held: int
    held_sources: int
    quarantined: int
    running: int
    changed_today: int
    switched_off: tuple[SwitchedOff, ...] = ()
    stale: float | None = None
    next_source: str | None = None
    next_at: datetime | None = None

    @property
    def needs(self) -> int:
        """How many things wait for somebody."""
        return self.failing + self.held_sources + len(self.switched_off)


@dataclass(frozen=True, slots=True)
class Savings:
    """What runs since a moment found, rung by rung, what they spent, and what was not needed.

    `listing`, `validator`, `body` and `content` count the looks at items that ended there; `paid` those that brought
    something new. `requests_spared` and `bytes_spared` are estimates: what was not asked for or not sent, at what an
    item took in the run that read most of them.
    """

    since: datetime
    runs: int = 0
    listing: int = 0
    validator: int = 0
    body: int = 0
    content: int = 0
    paid: int = 0
    requests: int = 0
    bytes: int = 0
    embedded: int = 0
    tokens: int = 0
    usd: float = 0.0
    requests_spared: int = 0
    bytes_spared: int = 0
    embeddings_spared: int = 0
    calls_spared: int = 0
    tokens_spared: int = 0
    usd_spared: float = 0.0

    @property
    def rungs(self) -> tuple[tuple[str, int], ...]:
        """How many looks ended at each rung, the cheapest first."""
        return (
            ("listing", self.listing),
            ("validator", self.validator),
            ("body", self.body),
            ("content", self.content),
            ("paid", self.paid),
        )

    @property
    def ways(self) -> tuple[tuple[str, float, float], ...]:
        """What was spent in each of the ways to pay, and what was not needed; those that nobody uses are left out."""
        known = (
            ("requests", self.requests, self.requests_spared),
            ("bytes", self.bytes, self.bytes_spared),
            ("embeddings", self.embedded, self.embeddings_spared),
            ("tokens", self.tokens, self.tokens_spared),
            ("money", self.usd, self.usd_spared),
        )
        return tuple(one for one in known if one[1] or one[2])


@dataclass(frozen=True, slots=True)
class TroubleGroup:
    """Items of a source that could not be read for one and the same reason; `url` is one of them."""

    error: str
    hint: str | None
    items: int
    url: str


@dataclass(frozen=True, slots=True)
class ItemLine:
    """One item in a list of them; `place` is where the list goes on."""

    url: str
    title: str
    language: str | None
    revision: int
    updated_at: datetime
    place: str = ""


@dataclass(frozen=True, slots=True)
class ItemDetail:
    """What is kept beside an item's text: what its origin says it is known by, and the passages it was cut into.

    `validators` is None for an item that was never looked at again, such as a withdrawn one.
    """

    validators: Validators | None = None
    depth: int = 0
    links: int = 0
    passages: tuple[Passage, ...] = ()


@dataclass(frozen=True, slots=True)
class Preview:
    """What is found at an address: the kind that reads it, and its first items. Nothing of it was kept.

    `kept_as` is the name of the source that has it already. `trouble` says why nothing, or no more, could be read.
    """

    address: str
    kind: str
    url: str
    name: str
    items: tuple[Document, ...] = ()
    more: bool = False
    kept_as: str | None = None
    trouble: str | None = None
