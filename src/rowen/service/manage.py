"""What every door may do."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from rowen.connectors import registry
from rowen.connectors.base import Meter, Tools
from rowen.content import chunks as chunker
from rowen.content import read as reader
from rowen.errors import NotFoundError, RefusedError, UsageError
from rowen.harvest.prepare import Workers
from rowen.harvest.run import Harvest, Order
from rowen.harvest.sieve import Recipe
from rowen.model.hashes import canonical_json
from rowen.model.run import Run, Tally
from rowen.model.source import Source
from rowen.service.read import Reading
from rowen.settings import Settings
from rowen.store import sources

if TYPE_CHECKING:
    from rowen.fetch.breaker import Breakers
    from rowen.fetch.client import Client
    from rowen.fetch.politeness import Throttle

__all__ = ["Managing", "Observer"]

Observer = Callable[[Source, Tally], None]

SIDE_BY_SIDE = 4


class Managing(Reading):
    """The deeds."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._workers = Workers(settings.workers)
        self._live: set[Harvest] = set()
        self._stopping = False
        self._throttle: Throttle | None = None
        self._breakers: Breakers | None = None

    async def add(
        self,
        address: str,
        *,
        name: str | None = None,
        kind: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Source:
        """Keep a copy of something from now on; the first sync reads it."""
        kind, url = registry.recognise(address, kind)
        checked = registry.check_options(kind, dict(options or {}))
        async with self._database.connection() as c:
            if name is None and (kept := await sources.find(c, url, kind)):
                raise UsageError(
                    f"{url} is kept already, as {kept.name!r}.",
                    hint="Give the second one a --name, if it is meant to have other options.",
                )
            return await sources.add(
                c,
                name or await self._free_name(url),
                kind=kind,
                url=url,
                options=checked.model_dump(mode="json", exclude_defaults=True),
                schedule=None,
            )

    async def edit(self, name: str, *, rename: str | None = None, options: Mapping[str, Any] | None = None) -> Source:
        """Change a source's name or options; an option set to None goes back to its default."""
        source = await self.source(name)
        wanted = {**source.options, **(options or {})}
        wanted = {option: value for option, value in wanted.items() if value is not None}
        checked = registry.check_options(source.kind, wanted)
        before = registry.check_options(source.kind, dict(source.options))
        async with self._database.connection() as c:
            await sources.edit(
                c,
                source.id,
                name=rename or source.name,
                options=checked.model_dump(mode="json", exclude_defaults=True),
                schedule=source.schedule,
                keep_cursor=checked.listing() == before.listing(),
            )
        return await self.source(rename or source.name)

    async def pause(self, name: str) -> None:
        """Leave a source out of `sync` until it is resumed."""
        source = await self.source(name)
        async with self._database.connection() as c:
            await sources.set_state(c, source.id, "paused")

    async def resume(self, name: str) -> None:
        """Take a paused source in again."""
        source = await self.source(name)
        async with self._database.connection() as c:
            await sources.set_state(c, source.id, "active")

    async def remove(self, name: str) -> int:
        """Forget a source with all its items; returns how many."""
        source = await self.source(name)
        async with self._database.transaction() as c:
            return await sources.remove(c, source)

    async def sync(
        self,
        target: str,
        *,
        full: bool = False,
        accept_deletions: bool = False,
        dry_run: bool = False,
        observe: Observer | None = None,
    ) -> Run:
        """Bring one source up to date. `target` is its name, or an address, which is added if it is new."""
        source = await self.find_or_add(target, keep=not dry_run)
        if source.state == "paused":
            raise RefusedError(
                f"Source {source.name!r} is paused.", hint=f"`rowen resume {source.name}` takes it in again."
            )
        first = source.last_complete_at is None and source.cursor is None
        order = Order("full" if full or first else "incremental", full, accept_deletions, dry_run)
        return await self._harvest(source, order, observe)

    async def sync_all(
        self, names: Sequence[str] = (), *, observe: Observer | None = None, **how: bool
    ) -> list[Run | Exception]:
        """Bring several sources up to date side by side, all active ones by default.

        One that fails does not hold the others: its error stands in its place.
        """
        targets = list(names) or [source.name for source in await self.sources() if source.state == "active"]
        places = asyncio.Semaphore(SIDE_BY_SIDE)

        async def one(target: str) -> Run:
            async with places:
                return await self.sync(target, observe=observe, **how)

        results = await asyncio.gather(*(one(target) for target in targets), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, Exception):
                raise result
        return [result for result in results if isinstance(result, Run | Exception)]

    def stop(self) -> None:
        """End all live runs of this process soon, as cancelled."""
        self._stopping = True
        for harvest in self._live:
            harvest.stop()

    async def find_or_add(self, target: str, *, keep: bool = True) -> Source:
        """The source of this name or address; an address that is new becomes a source, for good if it is to be kept."""
        try:
            return await self.source(target)
        except NotFoundError:
            if not _looks_like_an_address(target):
                raise
        kind, url = registry.recognise(target)
        async with self._database.connection() as c:
            found = await sources.find(c, url, kind)
        if found is not None:
            return found
        return await self.add(target, kind=kind) if keep else Source(0, _name_from(url), kind, url)

    async def _harvest(self, source: Source, order: Order, observe: Observer | None) -> Run:
        options = registry.check_options(source.kind, dict(source.options))
        meter = Meter()
        tools = Tools(read=self._workers.read, meter=meter, client=lambda: self._client(meter), settings=self.settings)
        harvest = Harvest(
            self._database,
            source,
            registry.connector(source.kind)(source.url, options, tools),
            order=order,
            settings=self.settings,
            recipe=_recipe(source, options.reading()),
            workers=self._workers,
            meter=meter,
            observe=observe,
        )
        self._live.add(harvest)
        if self._stopping:
            harvest.stop()
        try:
            return await harvest.run()
        finally:
            self._live.discard(harvest)

    def _client(self, meter: Meter) -> Client:
        """A client for one run; all of them keep one pace and one set of circuits."""
        from rowen.fetch.client import Client

        client = Client(self.settings, meter=meter, throttle=self._throttle, breakers=self._breakers)
        self._throttle, self._breakers = client.throttle, client.breakers
        return client

    async def _free_name(self, url: str) -> str:
        taken = {source.name for source in await self.sources()}
        wanted = _name_from(url)
        name, number = wanted, 2
        while name in taken:
            name, number = f"{wanted}-{number}", number + 1
        return name


def _recipe(source: Source, reading: dict[str, Any]) -> Recipe:
    told = canonical_json([source.kind, reader.VERSION, reading])
    return Recipe(sha256(told).digest()[:16], chunker.VERSION)


def _looks_like_an_address(target: str) -> bool:
    return any(mark in target for mark in "/\\:~.")


def _name_from(url: str) -> str:
    """A short name out of a URL: its last path segment, or its host."""
    parts = [part for part in re.split(r"[/?#]+", url.partition(":")[2]) if part]
    return re.sub(r"[^A-Za-z0-9_.@-]+", "-", parts[-1] if parts else "source").strip("-.").lower() or "source"
