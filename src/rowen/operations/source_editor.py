"""Adding, changing and previewing sources."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from rowen.connectors import registry
from rowen.errors import Hint, NotFoundError, RefusedError, RowenError, UsageError, action
from rowen.harvest import agreements
from rowen.jobs import freshness
from rowen.jobs.schedules import next_time
from rowen.model.access import Reach
from rowen.model.schedules import Schedule
from rowen.model.sources import AppliedSource, Source
from rowen.model.url import Address
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
from rowen.store import schedules, sources
from rowen.store.database import Connection

if TYPE_CHECKING:
    from rowen.model.runs import Run
    from rowen.model.sources import Following, FoundVersion, Preview
    from rowen.operations.parameters import When

__all__ = ["NONE", "SourceEditor", "plan_source", "wanted"]

NONE = "none"
"""What `every` says where a source is to have no schedule."""


def wanted(held: str | None, when: When) -> str | None:
    """Return the new schedule of a source; parameters that are not given keep their values."""
    given = {name: value for name, value in when.items() if value is not None}
    if not given:
        return held
    if str(given.get("every", "")).strip().lower() == NONE:
        if len(given) > 1:
            raise UsageError(f"every = {NONE!r} takes the schedule away: nothing else can be said beside it.")
        return None
    if held is not None and not given.keys() & {"every", "cron"}:
        before = Schedule.parse(held)
        kept = {"every": before.interval, "cron": before.cron, "during": ", ".join(map(str, before.during))}
        zone = {"tz": before.tz} if before.tz != "UTC" else {}
        given = {**{name: value for name, value in kept.items() if value}, **zone, **given}
    schedule = Schedule.declared(**given)  # type: ignore[arg-type]
    return str(schedule) if schedule else None


async def plan_source(c: Connection, source: Source, schedule: str | None) -> None:
    """Set the due time of a source under a new schedule: now, if it was never read completely."""
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
    """Operations on sources that need connectors."""

    async def following(self, held: Sequence[Source]) -> list[Following]:
        """Return how feeds and event streams are followed, for several sources at once."""
        from rowen.store import library as store_library
        from rowen.store import status

        telling = [(source, told) for source in held if (told := _teller(source.kind)) is not None]
        ids = [source.id for source, _ in telling]
        async with self._database.connection() as c:
            new_at, noted = await store_library.last_new_at(c, ids), await sources.count_notes(c, ids)
            last = await status.last_runs(c, [source.name for source, _ in telling], limit=1)
        return [
            _followed(source, told(source.cursor, noted.get(source.id, {})), last[source.name], new_at.get(source.id))
            for source, told in telling
        ]

    async def find_version(self, library: str, version: str | None = None) -> FoundVersion:
        """Return the source that holds the highest version of a library that matches."""
        from rowen.model.sources import FoundVersion
        from rowen.model.versions import VersionSpec

        wanted = library.strip().lower()
        held = [
            source
            for source in await self._client.sources.list(counted=False)
            if wanted in (source.name.lower(), source.library.lower())
        ]
        if not held:
            raise NotFoundError(
                f"No source is called {library!r}.", hint=Hint(action("sources"), " lists those that there are.")
            )
        by_version = {one.release: one.name for one in held if one.release}
        try:
            best = VersionSpec.parse(version or "").best(by_version)
        except ValueError as problem:
            raise UsageError(
                f"{version!r} names no version: {problem}.", hint="Such as 2, 2.x, ^2.1 or '>=1.0,<2'."
            ) from None
        bare = tuple(one.name for one in held if not one.release)
        source = by_version[best] if best else None
        return FoundVersion(library, source, best, tuple(by_version), bare)

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
        """Add a source; the first sync reads it, or a worker if it has a schedule.

        Unless a kind is given, an address that may be any site is probed for its kind, and the registry of a package
        for the package. `found` is called with the result. `reach` limits what of this machine the address may name.
        """
        if name is not None:
            check_name(name, "a source")
        chosen = dict(options or {})
        registry.refuse_unfit(chosen)
        schedule = wanted(None, when)
        address = within(reach, address)
        recognised, named = registry.recognise(address, kind)
        refuse_local(reach, named)
        refuse_options(reach, recognised, named, chosen)
        chosen = await asyncio.to_thread(with_texts, recognised, chosen)
        check_options(address, kind, chosen, probes=self._settings.probe)
        held = await self._client.sources.list(counted=False)
        ask = kind is None and self._settings.probe
        kind, url, also = await self._recognise(address, kind, () if name else held, found=found)
        # What an address turned out to be may have options that write to folders, or that are read from files.
        refuse_options(reach, kind, url, chosen)
        chosen = await asyncio.to_thread(with_texts, kind, chosen)
        if any(references(chosen)):
            _check_named(named, url)
        self._look_for_same(Site(kind, url, chosen, also), held, name=name, found=found)
        if ask:
            new = Source(0, name or _name_from(url), kind, url, options=chosen)
            unsure = await confirm(self._engine, new, address=address)
            if unsure is not None and found is not None:
                found(unsure)
        usual = getattr(registry.connector(kind), "usual_schedule", None)
        if usual is not None and not any(when.values()):
            schedule = wanted(None, {"every": usual})
        return await self._keep(kind, url, held, name=name, options=chosen, schedule=schedule)

    async def edit(
        self,
        name: str,
        *,
        rename: str | None = None,
        options: Mapping[str, Any] | None = None,
        reach: Reach = Reach.ALL,
        **when: Unpack[When],
    ) -> Source:
        """Change a source's name, options or schedule; an option set to None returns to its default.

        `every="none"` removes the schedule; a time zone or hours alone change the schedule that there is. `reach`
        limits what of this machine the options may newly name.
        """
        source = await self._client.sources.get(name)
        if rename is not None and rename != source.name:
            check_name(rename, "a source")
        schedule = wanted(source.schedule, when)
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

    async def apply(
        self, path: Path, *, dry_run: bool = False, prune: bool = False, trust: bool = False
    ) -> list[AppliedSource]:
        """Make the sources match a file, in one transaction, and return what changed for each.

        Sources that the file does not name stay; with `prune` they are removed, with their items. Without `trust` the
        file may not name secrets of this machine or folders to write to.
        """
        from rowen.operations.declarations import Declaration, apply

        reach = Reach.ALL if trust else Reach.FILES
        declared = await asyncio.to_thread(Declaration.of_file, path)
        return await apply(self._database, self._settings, declared, dry_run=dry_run, prune=prune, reach=reach)

    async def declare(
        self,
        declaration: str | Mapping[str, Any],
        *,
        dry_run: bool = False,
        prune: bool = False,
        reach: Reach = Reach.OUTSIDE,
    ) -> list[AppliedSource]:
        """Make the sources match a declaration, in one transaction, and return what changed for each."""
        from rowen.operations.declarations import Declaration, apply

        if isinstance(declaration, str):
            declared = await asyncio.to_thread(Declaration.of_text, declaration)
        else:
            declared = Declaration(declaration)
        return await apply(self._database, self._settings, declared, dry_run=dry_run, prune=prune, reach=reach)

    async def find_or_add(
        self, target: str, *, keep: bool = True, found: Announce | None = None
    ) -> tuple[Source, bool]:
        """Return the source of a name or address, and whether it was added now.

        A source that is not to be kept is not stored.
        """
        try:
            return await self._client.sources.get(target), False
        except NotFoundError:
            if not looks_like_an_address(target):
                raise
        held = await self._client.sources.list(counted=False)
        kind, url, also = await self._recognise(target, None, held, found=found)
        if kept := same_as(Site(kind, url, {}, also), held):
            return kept, False
        return (await self._keep(kind, url, held), True) if keep else (Source(0, _name_from(url), kind, url), False)

    async def recognised(self, address: str, kind: str | None = None) -> tuple[str, str, str, str | None]:
        """Return kind, URL and a free name for an address, and the source that already has it."""
        held = await self._client.sources.list(counted=False)
        kind, url, also = await self._recognise(address, kind, held, found=None)
        kept = same_as(Site(kind, url, {}, also), held)
        return kind, url, _free_name(url, {source.name for source in held}), kept.name if kept else None

    async def check(self, source: Source) -> None:
        """Raise if a source cannot be read at the moment; nothing is stored."""
        registry.recognise(source.url, source.kind)
        registry.check_options(source.kind, dict(source.options))
        await self._engine.probe(source)

    async def _keep(
        self,
        kind: str,
        url: str,
        held: Iterable[Source],
        *,
        name: str | None = None,
        options: Mapping[str, Any] | None = None,
        schedule: str | None = None,
    ) -> Source:
        checked = registry.check_options(kind, dict(options or {}))
        stored = checked.model_dump(mode="json", exclude_defaults=True)
        free = name or _free_name(url, {source.name for source in held})
        async with self._database.transaction() as c:
            source = await sources.add(c, free, kind=kind, url=url, options=stored, schedule=schedule)
            if schedule is not None:
                await plan_source(c, source, schedule)
        agreements.agree(self._settings, kind, url, stored)
        return await self._client.sources.get(free)

    async def _recognise(
        self, address: str, kind: str | None, held: Iterable[Source], *, found: Announce | None
    ) -> Recognised:
        """Return kind and URL of an address. A stored one, under any kind, is not probed."""
        formal = Recognised(*registry.recognise(address, kind))
        if kind is not None or formal[0] != "web" or not self._settings.probe:
            return formal
        if kept := kept_as(formal[1], held):
            return Recognised(kept.kind, kept.url)
        kinds = {one.kind for one in held}
        discovered = await discover(formal.url, self._settings.for_source(formal.url), held_kinds=kinds)
        if discovered is None or discovered.kind == "web":
            return formal._replace(also=discovered.also if discovered else ())
        if found is not None:
            found(Discovery(discovered.kind, discovered.url))
        return discovered

    @staticmethod
    def _look_for_same(site: Site, held: Iterable[Source], *, name: str | None, found: Announce | None) -> None:
        """Refuse a portal that already is a source, unless a name was given."""
        kept = same_as(site, held, whatever_is_read=name is None)
        if kept is not None and name is None:
            is_other = f", whose address is {kept.url}" if kept.url != site.url else ""
            raise UsageError(
                f"{site.url} is kept already, as {kept.name!r}{is_other}. Nothing was added.",
                hint="Give the second one a --name, if it is meant to have other options.",
            )
        if kept is not None and found is not None:
            found(SameAs(site.url, kept.name))

    async def preview(
        self,
        address: str,
        *,
        kind: str | None = None,
        options: Mapping[str, Any] | None = None,
        limit: int = 5,
        reach: Reach = Reach.ALL,
    ) -> Preview:
        """Return the kind and the first items of an address; nothing is stored.

        Raises if no kind can read the address. If it cannot be read at the moment, `trouble` says why. `reach` limits
        what of this machine the address may name.
        """
        from rowen.model.sources import Preview

        chosen = dict(options or {})
        registry.refuse_unfit(chosen)
        address = within(reach, address)
        formal, named = registry.recognise(address, kind)
        refuse_local(reach, named)
        refuse_options(reach, formal, named, chosen)
        kind, url, name, kept_as = await self.recognised(address, kind)
        refuse_options(reach, kind, url, chosen)
        chosen = await asyncio.to_thread(with_texts, kind, chosen)
        told = Preview(address, kind, url, name, kept_as=kept_as)
        source = Source(0, name, kind, url, options=chosen)
        try:
            items, more = await self._engine.sample(source, limit)
        except RowenError as problem:
            hint = f" {problem.hint}" if problem.hint else ""
            return Preview(address, kind, url, name, kept_as=kept_as, trouble=f"{problem}{hint}")
        return Preview(address, kind, told.url, name, tuple(items), more, kept_as)


def _check_named(named: str, found: str) -> None:
    """Refuse to send secrets to an origin that the user did not name."""
    both_are_web = Address.of(named).is_web and Address.of(found).is_web
    if both_are_web and parse(named).origin != parse(found).origin:
        raise RefusedError(
            f"{named} leads to {found}, on another host or port, and secrets go only where you say. Nothing was added.",
            hint="If that is the right place, give its address instead.",
        )


# A number behind it tells it from others of the same name.
_LONGEST_FOUND = LONGEST_NAME - 10

# What many catalogs call the place where they can be asked.
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
    """Return a short name from a URL: its most specific path segment, or its host."""
    parts = [part.removesuffix(".git") for part in re.split(r"[/?#]+", url.partition(":")[2]) if part]
    while len(parts) > 1 and _USUAL.fullmatch(parts[-1]):
        parts.pop()
    plain = re.sub(r"[^A-Za-z0-9_.@-]+", "-", parts[-1] if parts else "source")[:_LONGEST_FOUND]
    return plain.strip("-.").lower() or "source"


def _teller(kind: str) -> Callable[[Any, Mapping[str, int]], dict[str, Any]] | None:
    """Return the function that tells how a source of this kind is followed; None for a kind that is not installed."""
    return getattr(registry.connector(kind), "describe_cursor", None) if kind in registry.kinds() else None


def _followed(source: Source, facts: dict[str, Any], runs: Sequence[Run], new_at: datetime | None) -> Following:
    from rowen.model.sources import Following

    last = runs[0] if runs else None
    facts = {"members": source.items, **facts}
    return Following(
        source.name,
        source.kind,
        _state(source, last, is_whole=facts.pop("is_whole", True)),
        source.last_run_at,
        new_at,
        next_poll_at=source.due_at if source.state == "active" else None,
        last_error=last.error if last else None,
        **facts,
    )


def _state(source: Source, last: Run | None, *, is_whole: bool) -> str:
    if source.state == "paused":
        return "paused"
    if last is not None and last.status == "running":
        return "running"
    if last is not None and last.status in ("failed", "partial"):
        return "failing"
    return "following" if is_whole and last is not None else "replicating"


# A screenful. Twice as many would double what is asked of somebody who only tries an address.
FIRST_ITEMS = 5
