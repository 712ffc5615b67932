"""Sources: adding, changing, pausing and removing them, by hand or from a file."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rowen.connectors import registry
from rowen.errors import NotFoundError, RefusedError, UsageError
from rowen.fetch.credentials import references
from rowen.fetch.target import parse
from rowen.harvest import agreements
from rowen.harvest.engine import Engine
from rowen.model.library import Overview
from rowen.model.page import Page
from rowen.model.source import AppliedSource, Source
from rowen.service.apply import apply
from rowen.service.discovery import Announce, discover, kept_as
from rowen.service.paging import decoded, page_of
from rowen.store import library, sources, terms

__all__ = ["Announce", "Sources"]

_LISTING = "sources"


class Sources:
    """What there is a copy of."""

    def __init__(self, engine: Engine) -> None:
        self._database = engine.database
        self._settings = engine.settings

    async def every(self, *, limit: int | None = None, after: str | None = None) -> Page[Source]:
        """All sources, by name; with a limit the first ones, and `after` is the `next` of the page before."""
        place = decoded(after, _LISTING)
        async with self._database.connection() as c:
            found = await sources.every(
                c, limit=None if limit is None else limit + 1, after=place[0] if place else None
            )
        return page_of(found, limit, _LISTING, lambda source: [source.name])

    async def get(self, name: str) -> Source:
        """One source."""
        async with self._database.connection() as c:
            return await sources.get(c, name)

    async def overview(self) -> list[Overview]:
        """How all sources are doing."""
        async with self._database.connection() as c:
            return await library.overview(c)

    async def add(
        self,
        address: str,
        *,
        name: str | None = None,
        kind: str | None = None,
        options: Mapping[str, Any] | None = None,
        found: Announce | None = None,
    ) -> Source:
        """Keep a copy of something from now on; the first sync reads it.

        An address that may be any site's is asked what it is, unless a kind is named; `found` is told.
        """
        registry.refuse_secrets(options or {})
        named = registry.recognise(address, kind)[1]
        held = await self.every()
        kind, url = await self._recognise(address, kind, () if name else held, found=found)
        if any(references(options or {})):
            _check_named(named, url)
        return await self._keep(kind, url, held, name=name, options=options)

    async def edit(self, name: str, *, rename: str | None = None, options: Mapping[str, Any] | None = None) -> Source:
        """Change a source's name or options; an option set to None goes back to its default."""
        source = await self.get(name)
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
        agreements.agree_again(self._settings, source, stored, given=options or ())
        return await self.get(rename or source.name)

    async def pause(self, name: str) -> None:
        """Leave a source out of `sync` until it is resumed."""
        async with self._database.connection() as c:
            await sources.set_state(c, (await sources.get(c, name)).id, "paused")

    async def resume(self, name: str) -> None:
        """Take a paused source in again."""
        async with self._database.connection() as c:
            await sources.set_state(c, (await sources.get(c, name)).id, "active")

    async def remove(self, name: str) -> int:
        """Forget a source with all its items; returns how many."""
        source = await self.get(name)
        async with self._database.transaction() as c:
            removed = await sources.remove(c, source)
        await terms.note(self._database, removed)
        return removed

    async def apply(
        self, path: Path, *, dry_run: bool = False, prune: bool = False, trust: bool = False
    ) -> list[AppliedSource]:
        """Make the sources be as a file declares them, all in one transaction; returns what became of each.

        Sources that the file does not name stay as they are; with `prune` they are removed, with their items. Without
        `trust` the file may not bring in references to secrets of this machine, nor folders to write to.
        """
        return await apply(self._database, self._settings, path, dry_run=dry_run, prune=prune, trust=trust)

    async def find_or_add(self, target: str, *, keep: bool = True, found: Announce | None = None) -> Source:
        """The source of this name or address; an address that is new becomes a source, for good if it is to be kept."""
        try:
            return await self.get(target)
        except NotFoundError:
            if not _looks_like_an_address(target):
                raise
        held = await self.every()
        kind, url = await self._recognise(target, None, held, found=found)
        for source in held:
            if (source.kind, source.url) == (kind, url):
                return source
        return await self._keep(kind, url, held) if keep else Source(0, _name_from(url), kind, url)

    def check(self, source: Source) -> None:
        """Whether a source's root and options still make sense; raises where they do not. Nothing is read."""
        registry.recognise(source.url, source.kind)
        registry.check_options(source.kind, dict(source.options))

    async def _keep(
        self,
        kind: str,
        url: str,
        held: Iterable[Source],
        *,
        name: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Source:
        checked = registry.check_options(kind, dict(options or {}))
        stored = checked.model_dump(mode="json", exclude_defaults=True)
        if name is None and (kept := next((one for one in held if (one.kind, one.url) == (kind, url)), None)):
            raise UsageError(
                f"{url} is kept already, as {kept.name!r}.",
                hint="Give the second one a --name, if it is meant to have other options.",
            )
        free = name or _free_name(url, {source.name for source in held})
        async with self._database.connection() as c:
            source = await sources.add(c, free, kind=kind, url=url, options=stored, schedule=None)
        agreements.agree(self._settings, kind, url, stored)
        return source

    async def _recognise(
        self, address: str, kind: str | None, held: Iterable[Source], *, found: Announce | None
    ) -> tuple[str, str]:
        """The kind and the source URL of an address. One that is held, under whichever kind, need not be asked."""
        formal = registry.recognise(address, kind)
        if kind is not None or formal[0] != "web" or not self._settings.probe:
            return formal
        if kept := kept_as(formal[1], held):
            return kept.kind, kept.url
        discovery = await discover(formal[1], self._settings.for_source(formal[1]))
        if discovery is None:
            return formal
        if found is not None:
            found(discovery)
        return discovery


def _check_named(named: str, found: str) -> None:
    """Refuse to send secrets to an origin that an address only led to: the user did not name it."""
    if named.startswith("http") and found.startswith("http") and parse(named).origin != parse(found).origin:
        raise RefusedError(
            f"{named} leads to {found}, on another host or port, and secrets go only where you say. Nothing was added.",
            hint="If that is the right place, give its address instead.",
        )


# What many catalogs call the place where they can be asked.
_USUAL = re.compile(
    r"(?:data|catalog|index|collections?)\.[a-z0-9]+|api|rest|sparql|csw|oai|oai-pmh|oai2d?|stac|feed|dcat-us|catalog"
    r"|v?\d+(?:\.\d+)*(?:\.json)?|.*=.*",
    re.IGNORECASE,
)


def _looks_like_an_address(target: str) -> bool:
    return any(mark in target for mark in "/\\:~.")


def _free_name(url: str, taken: set[str]) -> str:
    wanted = _name_from(url)
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}-{number}", number + 1
    return name


def _name_from(url: str) -> str:
    """A short name out of a URL: its last path segment that tells it from others, or its host."""
    parts = [part.removesuffix(".git") for part in re.split(r"[/?#]+", url.partition(":")[2]) if part]
    while len(parts) > 1 and _USUAL.fullmatch(parts[-1]):
        parts.pop()
    return re.sub(r"[^A-Za-z0-9_.@-]+", "-", parts[-1] if parts else "source").strip("-.").lower() or "source"
