"""The contract between a connector and the flow.

A connector turns what we know into what it saw. It never meets the store: `Known` answers what we hold, and the
flow decides what becomes of each observation.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeVar, runtime_checkable

from rowen.model.hashes import Hash
from rowen.model.item import Cursor, Document, Observation, Raw
from rowen.model.run import Mode
from rowen.settings import Settings, load

if TYPE_CHECKING:
    from rowen.connectors.options import Options
    from rowen.model.announcement import Announcement
    from rowen.net.client import Client

__all__ = [
    "Confirms",
    "Connector",
    "FailedBefore",
    "Held",
    "Known",
    "KnowsFeed",
    "LooksAgain",
    "Meter",
    "Options",
    "Parse",
    "Tools",
]

T = TypeVar("T")


class Held(NamedTuple):
    """What we hold of one item that a connector may need to ask "is it still this?".

    One that `is_leaving` was not shown any more, and its deletion is pending.
    """

    url: str
    etag: str | None
    last_modified: str | None
    body_hash: Hash | None
    links: tuple[str, ...]
    depth: int
    content_hash: Hash | None = None
    is_leaving: bool = False


class FailedBefore(NamedTuple):
    """An item that could not be read, and was not since: how often that was tried, first and last."""

    url: str
    tries: int
    first_at: datetime
    last_at: datetime


class Known(Protocol):
    """What we hold of a source, for its connector.

    `failed` is what is in quarantine, the one that was tried longest ago first: a connector that would only ask for
    what changed asks for these as well. `losable` is how many items the guard of deletions would let go in this run:
    all, where somebody accepts it.
    """

    mode: Mode
    cursor: Cursor
    count: int
    failed: Sequence[FailedBefore]
    losable: int

    async def look_up(self, urls: Sequence[str]) -> Mapping[str, Held]:
        """What we hold under these URLs; those that we do not hold are left out."""
        ...

    def everything(self) -> AsyncIterator[Sequence[Held]]:
        """All that we hold, in batches."""
        ...

    async def recall(self, room: str, names: Sequence[str]) -> Mapping[str, Any]:
        """The notes of these names that checkpoints have left in a room; none for who starts without a cursor."""
        ...

    def recall_all(self, room: str) -> AsyncIterator[Mapping[str, Any]]:
        """All notes of a room, in batches."""
        ...


@runtime_checkable
class KnowsFeed(Known, Protocol):
    """What we hold of a source, and of the feed of the same address, which is kept as a source of its own."""

    def announced(self, after: int) -> AsyncIterator[Sequence[Announcement]]:
        """What the feed announced after a line of the change log; raises `SourceError` where no feed is kept."""
        ...


@dataclass(slots=True)
class Meter:
    """What a connector spends, counted where it is spent; `known` is how many items it knows of, met or not yet."""

    requests: int = 0
    not_modified: int = 0
    bytes: int = 0
    known: int = 0


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Parse(Protocol):
    """Calls a function of a module with what came from outside, where it can do no harm.

    What the function raises on purpose (a `RowenError`, a `ValueError`) is raised here too; `ItemError` where it takes
    too long, crashes or needs too much memory.
    """

    async def __call__(self, function: Callable[..., T], /, *arguments: Any) -> T:
        """The function's result."""
        ...


async def call_here(function: Callable[..., T], /, *arguments: Any) -> T:
    """Call it in this process: for tests, and for connectors that are used without the flow."""
    return function(*arguments)


@dataclass(slots=True)
class Tools:
    """What the flow lends to a connector.

    `read` parses a body into a document, in a worker process unless it is tiny; only a connector that needs a
    body's links to go on calls it, all others yield the `Raw` and leave the reading to the flow. `parse` does the same
    with any function of a module: `await tools.parse(function, body)`. What comes from outside and is not plain JSON or
    a stream of XML events is parsed by one of the two, so that no input can stop the process. `client` opens the
    HTTP client, which counts into the meter; what speaks past it finds the guard's settings in `settings`.
    """

    read: Callable[[Raw], Awaitable[Document]]
    meter: Meter
    client: Callable[[], AbstractAsyncContextManager[Client]]
    parse: Parse = call_here
    now: Callable[[], datetime] = _utc_now
    settings: Settings = field(default_factory=load)


def __getattr__(name: str) -> Any:
    """`Options`, when somebody asks for it: pydantic is not imported for kinds that do without."""
    if name != "Options":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rowen.connectors.options import Options

    return Options


class Connector(Protocol):
    """Reads one kind of source."""

    kind: ClassVar[str]
    Options: ClassVar[type[Options]]

    def __init__(self, url: str, options: Any, tools: Tools) -> None: ...

    @classmethod
    def recognise(cls, address: str) -> str | None:
        """The source URL for what a user typed, if this kind can read it; else None.

        A kind whose addresses look like others' may also have a class method `accept`, which is asked instead
        where the user has named the kind, and `async probe(probe)`, which is asked where nobody has: it may fetch,
        and answers like this one.
        """
        ...

    def pull(self, known: Known) -> AsyncGenerator[Observation]:
        """Look at the source: yield what is seen, checkpoints on the way, `Complete` when all was seen.

        The flow keeps the first version of an item that a run sees. A connector whose order is that of time, since it
        replays history, has an attribute `chronological` that is true: then each later observation of an item
        supersedes the earlier ones, and every version stands in its history.
        """
        ...


@runtime_checkable
class Confirms(Protocol):
    """A connector that can tell by a question whether there is such a source; a kind need not have it."""

    async def confirm(self) -> None:
        """Ask, before it is added, whether it is there; raises `SourceGoneError` where it is known that it is not."""
        ...


@runtime_checkable
class LooksAgain(Protocol):
    """A connector that can look at single items, without looking at all the rest; a kind need not have it."""

    def look(self, known: Known, urls: Sequence[str]) -> AsyncGenerator[Observation]:
        """Look at these items again, each by as few questions as it takes: yield what is seen of each, once.

        All of them are held, and the URLs are those that they are stored under. What was not asked for is not to be
        told of, there is no checkpoint, and nothing is complete. An item about which only a look at the whole source
        can decide is `Skipped`: it stays as it is.
        """
        ...
