"""Notifications to clients that a resource changed, derived from the change log.

One reader of the log serves all clients of a process. It runs only while a resource is watched.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourcesListChanged, ResourceUpdated, ServerEvent

from rowen import concurrency
from rowen.errors import NotFoundError, RowenError
from rowen.interfaces.mcp.addresses import ResourceAddress
from rowen.model.hashes import Hash
from rowen.model.url import key

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from rowen.model.changes import Change
    from rowen.operations import Rowen

log = logging.getLogger(__name__)

# A client watches the items that its user has open, which are dozens. Each address takes 300 bytes while the stream
# lasts.
_MOST_WATCHED = 1_000


class ChangeWatch:
    """The resources that clients watch, and the reader of the change log."""

    def __init__(self, opened: Callable[[], Awaitable[Rowen]]) -> None:
        self._opened = opened
        self._bus = InMemorySubscriptionBus()
        self._listen = ListenHandler(self._bus)
        # The addresses by the value of a change, so that one change costs four lookups for any number of watched
        # addresses.
        self._watched: defaultdict[str | Hash, set[str]] = defaultdict(set)
        self._watchers: Counter[str] = Counter()
        self._subscribed: dict[str, Callable[[], None]] = {}
        self._reader: asyncio.Task[None] | None = None
        self._left: set[asyncio.Task[None]] = set()
        self._reading = asyncio.Event()
        self._reached: int | None = None

    async def listen(
        self, ctx: ServerRequestContext[Any, Any], params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve one stream of notifications until its client disconnects."""
        uris = params.notifications.resource_subscriptions or ()
        if len(uris) > _MOST_WATCHED:
            raise MCPError(types.INVALID_PARAMS, f"One stream tells of {_MOST_WATCHED:,} resources at most.")
        with self._watching(uris):
            await self._ready()
            return await self._listen(ctx, params)

    async def subscribe(self, ctx: ServerRequestContext[Any, Any], uri: str) -> None:
        """Watch a resource for the only client of a process; the client's protocol version is before 2026-07-28."""
        ResourceAddress.parse(uri)
        if uri in self._subscribed:
            return
        watching = self._watching([uri])
        watching.__enter__()
        tasks: set[asyncio.Task[None]] = set()

        def notify(event: ServerEvent) -> None:
            if isinstance(event, ResourceUpdated) and event.uri == uri:
                task = asyncio.ensure_future(_notify(ctx, uri))
                tasks.add(task)
                task.add_done_callback(tasks.discard)

        unsubscribe = self._bus.subscribe(notify)

        def end() -> None:
            unsubscribe()
            watching.__exit__(None, None, None)

        self._subscribed[uri] = end
        await self._ready()

    def unsubscribe(self, uri: str) -> None:
        """Stop watching a resource."""
        if end := self._subscribed.pop(uri, None):
            end()

    async def sources_changed(self) -> None:
        """Notify clients that the list of sources changed."""
        await self._bus.publish(ResourcesListChanged())

    def end_streams(self) -> None:
        """End all streams of notifications."""
        self._listen.close()

    async def close(self) -> None:
        """End all streams, and stop the reader."""
        self.end_streams()
        for end in self._subscribed.values():
            end()
        self._subscribed.clear()
        await self._stop()

    @contextmanager
    def _watching(self, uris: Iterable[str]) -> Iterator[None]:
        """Watch resources inside the context; an invalid address is treated as a resource that never changes."""
        mine = []
        for uri in uris:
            with suppress(NotFoundError):
                mark = ResourceAddress.parse(uri).watched
                if mark is not None:
                    self._watched[mark].add(uri)
                    self._watchers[uri] += 1
                    mine.append((uri, mark))
        try:
            yield
        finally:
            for uri, mark in mine:
                self._watchers[uri] -= 1
                if not self._watchers[uri]:
                    del self._watchers[uri]
                    self._watched[mark].discard(uri)
                    if not self._watched[mark]:
                        del self._watched[mark]
            if not self._watched:
                self._reached = None
                if self._reader is not None:
                    self._reader.cancel()
                    self._left.add(self._reader)
                    self._reader.add_done_callback(self._left.discard)
                    self._reader = None

    async def _ready(self) -> None:
        """Wait until the reader of the log runs, so that all later changes are published."""
        if not self._watched:
            return
        if self._reader is None or self._reader.done():
            self._reading = asyncio.Event()
            self._reader = asyncio.ensure_future(self._read(self._reading))
        waiting = asyncio.ensure_future(self._reading.wait())
        try:
            await asyncio.wait({waiting, self._reader}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()

    async def _read(self, reading: asyncio.Event) -> None:
        """Publish new changes, starting after the last change that an earlier reader published before it failed."""
        try:
            rowen = await self._opened()
            if self._reached is None:
                self._reached = await rowen.changes.last_number()
            reading.set()
            async with aclosing(rowen.changes.follow(since=self._reached)) as lines:
                async for change in lines:
                    await self._publish(change)
                    self._reached = change.number
        except RowenError as problem:
            # Clients get no more notifications; when a client subscribes again, all clients get the changes that they
            # missed.
            log.error("The change log could not be followed: %s", problem)

    async def _publish(self, change: Change) -> None:
        marks: set[str | Hash] = {"", change.source, key(change.url)}
        marks |= {key(change.moved_from)} if change.moved_from else set()
        for uri in [uri for mark in marks for uri in self._watched.get(mark, ())]:
            await self._bus.publish(ResourceUpdated(uri))

    async def _stop(self) -> None:
        reader, self._reader = self._reader, None
        await concurrency.end([*self._left, *([reader] if reader else [])])


async def _notify(ctx: ServerRequestContext[Any, Any], uri: str) -> None:
    """Notify a session, unless it is closed."""
    # An error on a closed connection must not affect other clients.
    with suppress(Exception):
        await ctx.session.send_resource_updated(uri)
