"""What every door may do."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from rowen.connectors import registry
from rowen.connectors.base import Meter, Tools
from rowen.content import chunks as chunker
from rowen.content import read as reader
from rowen.errors import NotFoundError, RefusedError, UsageError
from rowen.fetch.credentials import references
from rowen.fetch.target import parse
from rowen.harvest.prepare import Workers
from rowen.harvest.run import Harvest, Order
from rowen.harvest.sieve import Recipe
from rowen.model.hashes import canonical_json
from rowen.model.run import Run, Tally
from rowen.model.source import Source
from rowen.model.twins import host_of
from rowen.service import agreements
from rowen.service.discovery import Teller, discover, kept_as
from rowen.service.search import Searching
from rowen.service.turns import Turns
from rowen.settings import Settings
from rowen.store import sources, terms

if TYPE_CHECKING:
    from rowen.fetch.breaker import Breakers
    from rowen.fetch.client import Client
    from rowen.fetch.politeness import Throttle

__all__ = ["Managing", "Observer"]

Observer = Callable[[Source, Tally], None]


class Managing(Searching):
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
        found: Teller | None = None,
    ) -> Source:
        """Keep a copy of something from now on; the first sync reads it.

        An address that may be any site's is asked what it is, unless a kind is named; `found` is told.
        """
        registry.refuse_secrets(options or {})
        named = registry.recognise(address, kind)[1]
        kind, url = await self._recognise(address, kind, found=found, again=name is not None)
        if any(references(options or {})):
            _check_named(named, url)
        return await self._keep(kind, url, name=name, options=options)

    async def _keep(
        self, kind: str, url: str, *, name: str | None = None, options: Mapping[str, Any] | None = None
    ) -> Source:
        checked = registry.check_options(kind, dict(options or {}))
        stored = checked.model_dump(mode="json", exclude_defaults=True)
        async with self._database.connection() as c:
            if name is None and (kept := await sources.find(c, url, kind)):
                raise UsageError(
                    f"{url} is kept already, as {kept.name!r}.",
                    hint="Give the second one a --name, if it is meant to have other options.",
                )
            free = name or await self._free_name(url)
            source = await sources.add(c, free, kind=kind, url=url, options=stored, schedule=None)
        agreements.agree(self.settings, kind, url, stored)
        return source

    async def edit(self, name: str, *, rename: str | None = None, options: Mapping[str, Any] | None = None) -> Source:
        """Change a source's name or options; an option set to None goes back to its default."""
        source = await self.source(name)
        registry.refuse_secrets(options or {})
        wanted = {**source.options, **(options or {})}
        wanted = {option: value for option, value in wanted.items() if value is not None}
        checked = registry.check_options(source.kind, wanted)
        before = registry.check_options(source.kind, dict(source.options))
        stored = checked.model_dump(mode="json", exclude_defaults=True)
        async with self._database.connection() as c:
            await sources.edit(
                c,
                source.id,
                name=rename or source.name,
                options=stored,
                schedule=source.schedule,
                keep_cursor=checked.listing() == before.listing(),
            )
        agreements.agree_again(self.settings, source, stored, given=options or ())
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
            removed = await sources.remove(c, source)
        await terms.note(self._database, removed)
        return removed

    async def sync(
        self,
        target: str,
        *,
        full: bool = False,
        accept_deletions: bool = False,
        dry_run: bool = False,
        observe: Observer | None = None,
        found: Teller | None = None,
    ) -> Run:
        """Bring one source up to date. `target` is its name, or an address, which is added if it is new."""
        source = await self.find_or_add(target, keep=not dry_run, found=found)
        if source.state == "paused":
            raise RefusedError(
                f"Source {source.name!r} is paused.", hint=f"`rowen resume {source.name}` takes it in again."
            )
        first = source.last_complete_at is None and source.cursor is None
        order = Order("full" if full or first else "incremental", full, accept_deletions, dry_run)
        if dry_run:
            return await self._harvest(source, order, observe)
        async with self._embedding.session():
            run = await self._harvest(source, order, observe)
            await self._embedding.settle(partial(self._tell_embedded, source, run.tally, observe))
        await terms.note(self._database, run.tally.chunks_written + run.tally.deleted)
        return await self._embedding.told(run, source.id)

    async def sync_all(
        self,
        names: Sequence[str] = (),
        *,
        observe: Observer | None = None,
        finished: Callable[[str, Run | Exception], None] | None = None,
        found: Teller | None = None,
        **how: bool,
    ) -> list[Run | Exception]:
        """Bring several sources up to date side by side, all active ones by default.

        One that fails does not hold the others: its error stands in its place. `finished` is told of each as soon as it
        is done. After `stop`, those that have not begun are left out.
        """
        held = await self.sources()
        targets = list(names) or [source.name for source in held if source.state == "active"]
        turns = Turns(targets, {source.name: host_of(source.url) or source.name for source in held})
        results: dict[int, Run | Exception] = {}

        async def work() -> None:
            while (place := turns.take()) is not None:
                sync = self.sync(targets[place], observe=observe, found=found, **how)
                [result] = await asyncio.gather(sync, return_exceptions=True)
                turns.give_back(place)
                if not isinstance(result, Run | Exception):
                    raise result
                results[place] = result
                if finished is not None:
                    finished(targets[place], result)
                if self._stopping:
                    return

        async with self._embedding.session():
            workers = [asyncio.create_task(work()) for _ in range(min(self.settings.side_by_side, len(targets)))]
            try:
                await asyncio.gather(*workers)
            finally:
                for worker in workers:
                    worker.cancel()
                await asyncio.gather(*workers, return_exceptions=True)
        return [await self._embedded_since(results[place]) for place in sorted(results)]

    async def _embedded_since(self, result: Run | Exception) -> Run | Exception:
        """A run with what was embedded for it after it had ended, while others went on."""
        if isinstance(result, Exception) or not result.tally.embeddings_pending:
            return result
        return await self._embedding.told(result, (await self.source(result.source)).id)

    def stop(self) -> None:
        """End all live runs of this process soon, as cancelled."""
        self._stopping = True
        self._embedding.stop()
        for harvest in self._live:
            harvest.stop()

    async def find_or_add(self, target: str, *, keep: bool = True, found: Teller | None = None) -> Source:
        """The source of this name or address; an address that is new becomes a source, for good if it is to be kept."""
        try:
            return await self.source(target)
        except NotFoundError:
            if not _looks_like_an_address(target):
                raise
        kind, url = await self._recognise(target, None, found=found)
        async with self._database.connection() as c:
            held = await sources.find(c, url, kind)
        if held is not None:
            return held
        return await self._keep(kind, url) if keep else Source(0, _name_from(url), kind, url)

    async def _recognise(
        self, address: str, kind: str | None, *, found: Teller | None, again: bool = False
    ) -> tuple[str, str]:
        """The kind and the source URL of an address. One that is kept, under whichever kind, need not be asked."""
        formal = registry.recognise(address, kind)
        if kind is not None or formal[0] != "web" or not self.settings.probe:
            return formal
        if not again and (kept := kept_as(formal[1], await self.sources())):
            return kept.kind, kept.url
        discovery = await discover(formal[1], self.settings.for_source(formal[1]))
        if discovery is None:
            return formal
        if found is not None:
            found(discovery)
        return discovery

    async def _harvest(self, source: Source, order: Order, observe: Observer | None) -> Run:
        agreements.refuse_strange(self.settings, source)
        options = registry.check_options(source.kind, dict(source.options))
        meter, bound = Meter(), self.settings.for_source(source.url)
        tools = Tools(
            read=self._workers.read,
            meter=meter,
            client=lambda: self._client(meter, bound),
            parse=self._workers.call,
            settings=bound,
        )
        harvest = Harvest(
            self._database,
            source,
            registry.connector(source.kind)(source.url, options, tools),
            order=order,
            settings=self.settings,
            recipe=_recipe(source, options.reading()),
            workers=self._workers,
            meter=meter,
            observe=self._waking(observe),
        )
        self._live.add(harvest)
        if self._stopping:
            harvest.stop()
        try:
            async with self._embedding.behind():
                return await harvest.run()
        finally:
            self._live.discard(harvest)

    def _tell_embedded(self, source: Source, tally: Tally, observe: Observer | None) -> None:
        if observe is not None:
            observe(source, replace(tally, embedded=self._embedding.embedded_for(source.id)))

    def _waking(self, observe: Observer | None) -> Observer:
        """Tell the embedder, too, that something was stored."""

        def stored(source: Source, tally: Tally) -> None:
            self._embedding.wake()
            if observe is not None:
                observe(source, tally)

        return stored

    def _client(self, meter: Meter, settings: Settings) -> Client:
        """A client for one run; all of them keep one pace and one set of circuits."""
        from rowen.fetch.client import Client

        client = Client(settings, meter=meter, throttle=self._throttle, breakers=self._breakers)
        self._throttle, self._breakers = client.throttle, client.breakers
        return client

    async def _free_name(self, url: str) -> str:
        taken = {source.name for source in await self.sources()}
        wanted = _name_from(url)
        name, number = wanted, 2
        while name in taken:
            name, number = f"{wanted}-{number}", number + 1
        return name


def _check_named(named: str, found: str) -> None:
    """Refuse to send secrets to an origin that an address only led to: the user did not name it."""
    if named.startswith("http") and found.startswith("http") and parse(named).origin != parse(found).origin:
        raise RefusedError(
            f"{named} leads to {found}, on another host or port, and secrets go only where you say. Nothing was added.",
            hint="If that is the right place, give its address instead.",
        )


def _recipe(source: Source, reading: dict[str, Any]) -> Recipe:
    told = canonical_json([source.kind, reader.VERSION, reading])
    return Recipe(sha256(told).digest()[:16], chunker.VERSION)


# What many catalogs call the place where they can be asked.
_USUAL = re.compile(
    r"(?:data|catalog|index|collections?)\.[a-z0-9]+|api|rest|sparql|csw|oai|oai-pmh|oai2d?|stac|feed|dcat-us|catalog"
    r"|v?\d+(?:\.\d+)*(?:\.json)?|.*=.*",
    re.IGNORECASE,
)


def _looks_like_an_address(target: str) -> bool:
    return any(mark in target for mark in "/\\:~.")


def _name_from(url: str) -> str:
    """A short name out of a URL: its last path segment that tells it from others, or its host."""
    parts = [part.removesuffix(".git") for part in re.split(r"[/?#]+", url.partition(":")[2]) if part]
    while len(parts) > 1 and _USUAL.fullmatch(parts[-1]):
        parts.pop()
    return re.sub(r"[^A-Za-z0-9_.@-]+", "-", parts[-1] if parts else "source").strip("-.").lower() or "source"
