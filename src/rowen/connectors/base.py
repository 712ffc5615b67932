"""The interface between a connector and a run, and the code that all connectors share.

A connector turns the stored state of a source into observations. It has no access to the store: `Known` provides the
stored state, and the run decides how to apply each observation.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeVar, runtime_checkable

import msgspec

from rowen.model.hashes import Hash, body_hash
from rowen.model.items import Cursor, Document, Observation, Raw
from rowen.model.runs import Mode
from rowen.model.text import UNREADABLE
from rowen.settings import Settings, load

if TYPE_CHECKING:
    from rowen.connectors.options import Options
    from rowen.model.push import Announcement
    from rowen.net.client import Client

__all__ = [
    "ChecksItems",
    "Confirms",
    "Connector",
    "FailedBefore",
    "Known",
    "KnowsFeed",
    "Meter",
    "Options",
    "Parse",
    "StoredState",
    "Tools",
    "is_unread",
    "parse_stored",
    "unread_url",
]

T = TypeVar("T")

_UNREAD = "#/unread/"
_DIGEST_CHARS = 32  # half of a SHA-256: 128 bits, enough that no two records share them

log = logging.getLogger(__name__)


class StoredState(NamedTuple):
    """The stored state of an item, for checking whether it changed; `is_leaving` if its deletion is pending."""

    url: str
    etag: str | None
    last_modified: str | None
    body_hash: Hash | None
    links: tuple[str, ...]
    depth: int
    content_hash: Hash | None = None
    is_leaving: bool = False


class FailedBefore(NamedTuple):
    """An item in quarantine: the number of attempts, and the times of the first and last attempt."""

    url: str
    tries: int
    first_at: datetime
    last_at: datetime


class Known(Protocol):
    """The stored state of a source, for its connector.

    `failed` lists the items in quarantine, least recently tried first. A connector that requests only changes requests
    these items as well. `losable` is the number of items that the deletion guard allows this run to delete; it is the
    number of all items if the user accepts deletions.
    """

    mode: Mode
    cursor: Cursor
    count: int
    failed: Sequence[FailedBefore]
    losable: int

    async def look_up(self, urls: Sequence[str]) -> Mapping[str, StoredState]:
        """Return the stored items with these URLs; unknown URLs are missing in the result."""
        ...

    def everything(self) -> AsyncIterator[Sequence[StoredState]]:
        """Yield all stored items, in batches."""
        ...

    async def recall(self, room: str, names: Sequence[str]) -> Mapping[str, Any]:
        """Return the notes with these names that checkpoints stored in `room`; empty in a run without a cursor."""
        ...

    def recall_all(self, room: str) -> AsyncIterator[Mapping[str, Any]]:
        """Yield all notes of `room`, in batches."""
        ...


@runtime_checkable
class KnowsFeed(Known, Protocol):
    """The stored state of a source, and access to the announcements of the feed with the same address."""

    def announced(self, after: int) -> AsyncIterator[Sequence[Announcement]]:
        """Yield the feed's announcements after a change-log number; raise `SourceError` if there is no such feed."""
        ...


@dataclass(slots=True)
class Meter:
    """The cost of a run, counted where it arises; `known` is the number of items expected so far."""

    requests: int = 0
    not_modified: int = 0
    bytes: int = 0
    known: int = 0


class Parse(Protocol):
    """Calls a module-level function with untrusted input in a worker process.

    A `RowenError` or `ValueError` that the function raises is raised here too. `ItemError` is raised if the function
    takes too long, crashes or needs too much memory.
    """

    async def __call__(self, function: Callable[..., T], /, *arguments: Any) -> T:
        """Return the function's result."""
        ...


async def call_here(function: Callable[..., T], /, *arguments: Any) -> T:
    """Call the function in this process: for tests, and for connectors that are used without a run."""
    return function(*arguments)


@dataclass(slots=True)
class Tools:
    """The tools that a run provides to a connector.

    `read` parses a body into a document, in a worker process unless the body is tiny. Only a connector that needs the
    links of a body calls `read`; all other connectors yield the `Raw`, and the run parses it. `parse` calls any
    module-level function in a worker process: `await tools.parse(function, body)`. Untrusted input other than plain
    JSON and XML event streams is parsed by `read` or `parse`, so that no input can stop the process. `client` opens
    the HTTP client, which counts its requests in `meter`. Connections made without `client` take the address guard's
    settings from `settings`.
    """

    read: Callable[[Raw], Awaitable[Document]]
    meter: Meter
    client: Callable[[], AbstractAsyncContextManager[Client]]
    parse: Parse = call_here
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    settings: Settings = field(default_factory=load)


def __getattr__(name: str) -> Any:
    """Import `Options` on first use, so that connectors without options do not import pydantic."""
    if name != "Options":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rowen.connectors.options import Options

    return Options


class Connector(Protocol):
    """A connector for one kind of source."""

    kind: ClassVar[str]
    Options: ClassVar[type[Options]]

    def __init__(self, url: str, options: Any, tools: Tools) -> None: ...

    @classmethod
    def recognise(cls, address: str) -> str | None:
        """Return the source URL for an address that a user typed, or None if this kind cannot read it.

        A kind whose addresses look like addresses of other kinds may have two more class methods. `accept` is called
        instead of `recognise` if the user named the kind. `async probe(probe)` is called if the user did not name a
        kind; it may send requests. Both return the same as `recognise`.
        """
        ...

    def pull(self, known: Known) -> AsyncGenerator[Observation]:
        """Read the source: yield observations, checkpoints in between, and `Complete` when everything was seen.

        A run keeps the first observation of each item. A connector that replays history sets the attribute
        `chronological` to True. Then each later observation of an item replaces the earlier observation, and every
        version is recorded in the item's history.
        """
        ...


@runtime_checkable
class Confirms(Protocol):
    """A connector that can check cheaply whether a source exists (optional)."""

    async def confirm(self) -> None:
        """Check that the source exists before it is added; raise `SourceGoneError` if it does not."""
        ...


@runtime_checkable
class ChecksItems(Protocol):
    """A connector that can check single items without reading the whole source (optional)."""

    def look(self, known: Known, urls: Sequence[str]) -> AsyncGenerator[Observation]:
        """Check these items again with as few requests as possible, and yield one observation for each.

        All items are stored under exactly these URLs. Yield no observation of another item, no checkpoint and no
        `Complete`. Yield `Skipped` for an item that can only be checked by reading the whole source; the item then
        stays unchanged.
        """
        ...


def parse_stored(cursor: Any, kind: type[T]) -> T | None:
    """Return a stored cursor, part of a cursor or note as `kind`; None if it has another form.

    A cursor may have been written by another version or edited by hand. No value is converted or guessed: a connector
    that gets None reads the whole source, which is always correct.
    """
    if cursor is None:
        return None
    try:
        names = {field.name for field in fields(kind)} if is_dataclass(kind) and isinstance(cursor, Mapping) else None
        if names is not None and (unknown := cursor.keys() - names):
            raise ValueError(f"it has unknown fields: {', '.join(sorted(unknown)[:3])}")
        return msgspec.convert(cursor, kind)
    except (msgspec.ValidationError, *UNREADABLE) as problem:
        log.warning("dropped a cursor that cannot be read; the source is read from its beginning: %s", problem)
        return None


def unread_url(source: str, *what: bytes | str | int) -> str:
    """Return the quarantine URL of a record without an identifier, built from its content (bytes) or its position.

    The URL is a fragment of the source's URL, so that it cannot be confused with the URL of an item.
    """
    parts = (body_hash(part).hex()[:_DIGEST_CHARS] if isinstance(part, bytes) else str(part) for part in what)
    return f"{source.partition('#')[0]}{_UNREAD}{'/'.join(parts)}"


def is_unread(url: str) -> bool:
    """Return whether a URL was built by `unread_url`; such a URL cannot be requested."""
    return _UNREAD in url
