"""Add, change and preview sources."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from rowen.connectors import registry
from rowen.errors import Hint, NotFoundError, RefusedError, RowenError, UsageError, action
from rowen.harvest import agreements
from rowen.jobs import freshness
from rowen.jobs.schedules import next_time
from rowen.model.access import Reach
from rowen.model.runs import Run
from rowen.model.schedules import Schedule
from rowen.model.sources import Following, FoundVersion, Preview, Source
from rowen.model.url import Address
from rowen.model.versions import VersionSpec
from rowen.model.wording import LONGEST_NAME, check_name
from rowen.net.credentials import references
from rowen.net.target import parse
from rowen.operations.discovery import (
    Announce,
    Discovery,
    Recognised,
    SameAs,
    Site,
    confirm,
    discover,
    kept_as,
    same_as,
)
from rowen.operations.operation import ResourceGroup
from rowen.operations.validation import (
    check_options,
    looks_like_an_address,
    refuse_local,
    refuse_named,
    refuse_options,
    with_texts,
    within,
)
from rowen.store import library as store_library
from rowen.store import schedules, sources, status
from rowen.store.database import Connection

if TYPE_CHECKING:
    from rowen.operations.parameters import When

NONE = "none"
"""The value of `every` that removes the schedule of a source."""


def new_schedule(before: str | None, when: When) -> str | None:
    """Return the new schedule of a source; parameters that are None keep their values."""
    parts = {name: value for name, value in when.items() if value is not None}
    if not parts:
        return before
    if str(parts.get("every", "")).strip().lower() == NONE:
        if len(parts) > 1:
            raise UsageError(f"every = {NONE!r} takes the schedule away: nothing else can be said beside it.")
        return None
    if before is not None and not parts.keys() & {"every", "cron"}:
        old = Schedule.parse(before)
        kept = {"every": old.interval, "cron": old.cron, "during": ", ".join(map(str, old.during))}
        kept |= {"tz": old.tz} if old.tz != "UTC" else {}
        parts = {**{name: value for name, value in kept.items() if value}, **parts}
    schedule = Schedule.declared(**parts)  # type: ignore[arg-type]
    return str(schedule) if schedule else None


async def plan_source(c: Connection, source: Source, schedule: str | None) -> None:
    """Set the next check of a source under a new schedule: now, if the source was never read completely."""
    now = await schedules.database_time(c)
    if schedule is None:
        at = next_time(None, now, salt=source.id, worth_s=await freshness.polling_s(c, source.id))
        await schedules.set_due(c, source.id, at)
        return
    at = next_time(schedule, now, salt=source.id)
    if source.last_complete_at is None:
        hours = Schedule.parse(schedule).hours
        at = hours.opens(now) if hours else now
    await schedules.set_due(c, source.id, at)


class SourceEditor(ResourceGroup):
    """The operations on sources that need connectors."""

    async def following(self, among: Sequence[Source]) -> list[Following]:
        """Return how feeds and event streams are followed, for several sources at once."""
        installed = [registry.connector(source.kind) if source.kind in registry.kinds() else None for source in among]
        followed = [
            (source, describe)
            for source, connector in zip(among, installed, strict=True)
            if (describe := getattr(connector, "describe_cursor", None)) is not None
        ]
        ids = [source.id for source, _ in followed]
        async with self._database.connection() as c:
            new_at, noted = await store_library.last_new_at(c, ids), await sources.count_notes(c, ids)
            runs = await status.last_runs(c, [source.name for source, _ in followed], limit=1)
        listed = []
        for source, describe in followed:
            facts = {"members": source.items, **describe(source.cursor, noted.get(source.id, {}))}
            last = next(iter(runs[source.name]), None)
            listed.append(
                Following(
                    source.name,
                    source.kind,
                    _state(source, last, is_whole=facts.pop("is_whole", True)),
                    source.last_run_at,
                    new_at.get(source.id),
                    next_poll_at=source.due_at if source.state == "active" else None,
                    last_error=last.error if last else None,
                    **facts,
                )
            )
        return listed

    async def find_version(self, library: str, version: str | None = None) -> FoundVersion:
        """Return the source that holds the highest version of a library that matches."""
        name = library.strip().lower()
        matching = [
            source
            for source in await self._client.sources.list(counted=False)
            if name in (source.name.lower(), source.library.lower())
        ]
        if not matching:
            raise NotFoundError(
                f"No source is called {library!r}.", hint=Hint(action("sources"), " lists those that there are.")
            )
        by_version = {source.release: source.name for source in matching if source.release}
        try:
            best = VersionSpec.parse(version or "").best(by_version)
        except ValueError as problem:
            raise UsageError(
                f"{version!r} names no version: {problem}.", hint="Such as 2, 2.x, ^2.1 or '>=1.0,<2'."
            ) from None
        bare = tuple(source.name for source in matching if not source.release)
        return FoundVersion(library, by_version[best] if best else None, best, tuple(by_version), bare)

    async def add(
        self,
        address: str,
        *,
        name: str | None = None,
        kind: str | None = None,
        options: Mapping[str, Any] | None = None,
        found: Announce | None = None,
        reach: Reach = Reach.ALL,
        **when: Unpack[When],
    ) -> Source:
        """Add a source: see `sources.add`."""
        if name is not None:
            check_name(name, "a source")
        chosen = dict(options or {})
        registry.refuse_unfit(chosen)
        schedule = new_schedule(None, when)
        address = within(reach, address)
        recognised, named = registry.recognise(address, kind)
        refuse_local(reach, named)
        refuse_options(reach, recognised, named, chosen)
        chosen = await asyncio.to_thread(with_texts, recognised, chosen)
        check_options(address, kind, chosen, probes=self._settings.probe)
        kept = await self._client.sources.list(counted=False)
        probes = kind is None and self._settings.probe
        kind, url, also = await self._recognise(address, kind, () if name else kept, found=found)
        # The detected kind may have options that name folders for writing, or files for reading.
        refuse_options(reach, kind, url, chosen)
        chosen = await asyncio.to_thread(with_texts, kind, chosen)
        both_are_web = Address.of(named).is_web and Address.of(url).is_web
        if any(references(chosen)) and both_are_web and parse(named).origin != parse(url).origin:
            raise RefusedError(
                f"{named} leads to {url}, on another host or port, and secrets go only where you say. "
                "Nothing was added.",
                hint="If that is the right place, give its address instead.",
            )
        same = same_as(Site(kind, url, chosen, also), kept, whatever_is_read=name is None)
        if same is not None and name is None:
            is_other = f", whose address is {same.url}" if same.url != url else ""
            raise UsageError(
                f"{url} is kept already, as {same.name!r}{is_other}. Nothing was added.",
                hint="Give the second one a --name, if it is meant to have other options.",
            )
        if same is not None and found is not None:
            found(SameAs(url, same.name))
        if probes:
            new = Source(0, name or _name_from(url), kind, url, options=chosen)
            unsure = await confirm(self._engine, new, address=address)
            if unsure is not None and found is not None:
                found(unsure)
        usual = getattr(registry.connector(kind), "usual_schedule", None)
        if usual is not None and not any(when.values()):
            schedule = new_schedule(None, {"every": usual})
        return await self._keep(kind, url, kept, name=name, options=chosen, schedule=schedule)

    async def edit(
        self,
        name: str,
        *,
        rename: str | None = None,
        options: Mapping[str, Any] | None = None,
        reach: Reach = Reach.ALL,
        **when: Unpack[When],
    ) -> Source:
        """Change a source: see `sources.edit`."""
        source = await self._client.sources.get(name)
        if rename is not None and rename != source.name:
            check_name(rename, "a source")
        schedule = new_schedule(source.schedule, when)
        registry.refuse_unfit(options or {})
        chosen = {**source.options, **(options or {})}
        chosen = {option: value for option, value in chosen.items() if value is not None}
        refuse_named(reach, source.kind, chosen, before=source.options)
        chosen = await asyncio.to_thread(with_texts, source.kind, chosen)
        checked = registry.check_options(source.kind, chosen)
        before = registry.check_options(source.kind, dict(source.options))
        stored = checked.model_dump(mode="json", exclude_defaults=True)
        refuse_options(reach, source.kind, source.url, stored, before=source.options)
        async with self._database.transaction() as c:
            await sources.edit(
                c,
                source.id,
                name=rename or source.name,
                options=stored,
                schedule=schedule,
                keep_cursor=checked.listing() == before.listing(),
            )
            if schedule != source.schedule:
                await plan_source(c, source, schedule)
        agreements.agree_again(self._settings, source, stored, entered=options or () if reach is Reach.ALL else ())
        return await self._client.sources.get(rename or source.name)

    async def find_or_add(
        self, target: str, *, keep: bool = True, found: Announce | None = None
    ) -> tuple[Source, bool]:
        """Return the source with a name or address, and whether it was added by this call.

        Unless `keep` is set, a new source is not stored.
        """
        try:
            return await self._client.sources.get(target), False
        except NotFoundError:
            if not looks_like_an_address(target):
                raise
        kept = await self._client.sources.list(counted=False)
        kind, url, also = await self._recognise(target, None, kept, found=found)
        if same := same_as(Site(kind, url, {}, also), kept):
            return same, False
        return (await self._keep(kind, url, kept), True) if keep else (Source(0, _name_from(url), kind, url), False)

    async def check(self, source: Source) -> None:
        """Raise an error if a source cannot be read now; nothing is stored."""
        registry.recognise(source.url, source.kind)
        registry.check_options(source.kind, dict(source.options))
        await self._engine.probe(source)

    async def _keep(
        self,
        kind: str,
        url: str,
        kept: Iterable[Source],
        *,
        name: str | None = None,
        options: Mapping[str, Any] | None = None,
        schedule: str | None = None,
    ) -> Source:
        checked = registry.check_options(kind, dict(options or {}))
        stored = checked.model_dump(mode="json", exclude_defaults=True)
        free = name or _free_name(url, {source.name for source in kept})
        async with self._database.transaction() as c:
            source = await sources.add(c, free, kind=kind, url=url, options=stored, schedule=schedule)
            if schedule is not None:
                await plan_source(c, source, schedule)
        agreements.agree(self._settings, kind, url, stored)
        return await self._client.sources.get(free)

    async def _recognise(
        self, address: str, kind: str | None, kept: Iterable[Source], *, found: Announce | None
    ) -> Recognised:
        """Return the kind and URL of an address; an address that already is a source is not probed."""
        formal = Recognised(*registry.recognise(address, kind))
        if kind is not None or formal.kind != "web" or not self._settings.probe:
            return formal
        if same := kept_as(formal.url, kept):
            return Recognised(same.kind, same.url)
        kinds = {source.kind for source in kept}
        discovered = await discover(formal.url, self._settings.for_source(formal.url), held_kinds=kinds)
        if discovered is None or discovered.kind == "web":
            return formal._replace(also=discovered.also if discovered else ())
        if found is not None:
            found(Discovery(discovered.kind, discovered.url))
        return discovered

    async def preview(
        self,
        address: str,
        *,
        kind: str | None = None,
        options: Mapping[str, Any] | None = None,
        limit: int = 5,
        reach: Reach = Reach.ALL,
    ) -> Preview:
        """Return the kind and the first items of an address: see `sources.preview`."""
        chosen = dict(options or {})
        registry.refuse_unfit(chosen)
        address = within(reach, address)
        formal, named = registry.recognise(address, kind)
        refuse_local(reach, named)
        refuse_options(reach, formal, named, chosen)
        kept = await self._client.sources.list(counted=False)
        kind, url, also = await self._recognise(address, kind, kept, found=None)
        same = same_as(Site(kind, url, {}, also), kept)
        refuse_options(reach, kind, url, chosen)
        chosen = await asyncio.to_thread(with_texts, kind, chosen)
        name = _free_name(url, {source.name for source in kept})
        preview = Preview(address, kind, url, name, kept_as=same.name if same else None)
        try:
            items, more = await self._engine.sample(Source(0, name, kind, url, options=chosen), limit)
        except RowenError as problem:
            hint = f" {problem.hint}" if problem.hint else ""
            return replace(preview, trouble=f"{problem}{hint}")
        return replace(preview, items=tuple(items), more=more)


# A number at the end distinguishes it from other sources of the same name.
_LONGEST_FOUND = LONGEST_NAME - 10

# Usual last segments of API addresses, which do not identify the source.
_USUAL = re.compile(
    r"(?:data|catalog|index|collections?)\.[a-z0-9]+|api|rest|sparql|csw|oai|oai-pmh|oai2d?|stac|feed|dcat-us|catalog"
    r"|v?\d+(?:\.\d+)*(?:\.json)?|.*=.*",
    re.IGNORECASE,
)


def _free_name(url: str, taken: set[str]) -> str:
    wanted = _name_from(url)
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}-{number}", number + 1
    return name


def _name_from(url: str) -> str:
    """Return a short name for a URL: its most specific path segment, or its host."""
    parts = [part.removesuffix(".git") for part in re.split(r"[/?#]+", url.partition(":")[2]) if part]
    while len(parts) > 1 and _USUAL.fullmatch(parts[-1]):
        parts.pop()
    plain = re.sub(r"[^A-Za-z0-9_.@-]+", "-", parts[-1] if parts else "source")[:_LONGEST_FOUND]
    return plain.strip("-.").lower() or "source"


def _state(source: Source, last: Run | None, *, is_whole: bool) -> str:
    if source.state == "paused":
        return "paused"
    if last is not None and last.status == "running":
        return "running"
    if last is not None and last.status in ("failed", "partial"):
        return "failing"
    return "following" if is_whole and last is not None else "replicating"
