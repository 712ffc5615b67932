"""Sources: adding and changing them, by hand or from a file."""

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Unpack

from rowen.connectors import registry
from rowen.errors import Hint, NotFoundError, RefusedError, UsageError, action
from rowen.fetch.credentials import references
from rowen.fetch.target import parse
from rowen.harvest import agreements
from rowen.model.library import Following, FoundVersion
from rowen.model.run import Run
from rowen.model.source import AppliedSource, Source
from rowen.model.version import VersionSpec
from rowen.service.apply import apply, reaches
from rowen.service.beforehand import check_options, looks_like_an_address
from rowen.service.discovery import Announce, confirm, discover, kept_as
from rowen.service.schedules import When, plan_source, wanted
from rowen.service.source_list import SourceList
from rowen.store import library, notes, runs, sources
from rowen.store.database import Connection

__all__ = ["Announce", "Sources"]


class Sources(SourceList):
    """What there is a copy of, and what may be."""

    async def following(self, name: str) -> Following | None:
        """How a feed or an event stream is followed; None for a source that is neither."""
        async with self._database.connection() as c:
            return await _following(c, await sources.get(c, name))

    async def followed(self) -> list[Following]:
        """How all feeds and event streams are followed, by name."""
        async with self._database.connection() as c:
            found = [await _following(c, source) for source in await sources.every(c)]
        return [one for one in found if one is not None]

    async def find_version(self, library: str, version: str | None = None) -> FoundVersion:
        """Which source holds the version of a library that `2.x`, `^2.1` or nothing at all means: the highest."""
        wanted = library.strip().lower()
        held = [one for one in await self.every() if wanted in (one.name.lower(), one.library.lower())]
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
        trust: bool = True,
        **when: Unpack[When],
    ) -> Source:
        """Keep a copy of something from now on; the first sync reads it, or a worker if it has a schedule.

        Unless a kind is named, an address that may be any site's is asked what it is, and the registry of a package
        whether there is one; `found` is told what came of it. Without `trust` it may be nothing of this machine, nor
        may its options refer to this machine's secrets and folders.
        """
        registry.refuse_secrets(options or {})
        schedule = wanted(None, when)
        if not trust:
            _refuse_local(address)
        check_options(address, kind, options or {}, probes=self._settings.probe)
        recognised, named = registry.recognise(address, kind)
        if not trust:
            _refuse_reach(recognised, named, options or {})
        held = await self.every()
        ask = kind is None and self._settings.probe
        kind, url = await self._recognise(address, kind, () if name else held, found=found)
        if any(references(options or {})):
            _check_named(named, url)
        if name is None:
            _refuse_kept(kind, url, held)
        if ask:
            new = Source(0, name or _name_from(url), kind, url, options=dict(options or {}))
            unsure = await confirm(self._engine, new, address=address)
            if unsure is not None and found is not None:
                found(unsure)
        usual = getattr(registry.connector(kind), "usual_schedule", None)
        if usual is not None and not any(when.values()):
            schedule = wanted(None, {"every": usual})
        return await self._keep(kind, url, held, name=name, options=options, schedule=schedule)

    async def edit(
        self,
        name: str,
        *,
        rename: str | None = None,
        options: Mapping[str, Any] | None = None,
        trust: bool = True,
        **when: Unpack[When],
    ) -> Source:
        """Change a source's name, options or schedule; an option set to None goes back to its default.

        `every="none"` takes the schedule away; a time zone or hours alone change the schedule that there is. Without
        `trust`, options may refer to no secrets and folders of this machine but those that they refer to already.
        """
        source = await self.get(name)
        schedule = wanted(source.schedule, when)
        registry.refuse_secrets(options or {})
        if not trust:
            _refuse_options(reaches(source.kind, options or {}) - reaches(source.kind, source.options))
        chosen = {**source.options, **(options or {})}
        chosen = {option: value for option, value in chosen.items() if value is not None}
        checked = registry.check_options(source.kind, chosen)
        before = registry.check_options(source.kind, dict(source.options))
        stored = checked.model_dump(mode="json", exclude_defaults=True)
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
        agreements.agree_again(self._settings, source, stored, given=options or ())
        return await self.get(rename or source.name)

    async def apply(
        self, path: Path, *, dry_run: bool = False, prune: bool = False, trust: bool = False
    ) -> list[AppliedSource]:
        """Make the sources be as a file declares them, all in one transaction; returns what became of each.

        Sources that the file does not name stay as they are; with `prune` they are removed, with their items. Without
        `trust` the file may not bring in references to secrets of this machine, nor folders to write to.
        """
        return await apply(self._database, self._settings, path, dry_run=dry_run, prune=prune, trust=trust)

    async def find_or_add(
        self, target: str, *, keep: bool = True, found: Announce | None = None
    ) -> tuple[Source, bool]:
        """The source of this name or address, and whether it was added now: an address that is new becomes a source.

        One that is not to be kept is none for good.
        """
        try:
            return await self.get(target), False
        except NotFoundError:
            if not looks_like_an_address(target):
                raise
        held = await self.every()
        kind, url = await self._recognise(target, None, held, found=found)
        for source in held:
            if (source.kind, source.url) == (kind, url):
                return source, False
        return (await self._keep(kind, url, held), True) if keep else (Source(0, _name_from(url), kind, url), False)

    async def recognised(
        self, address: str, kind: str | None = None, *, trust: bool = True
    ) -> tuple[str, str, str, str | None]:
        """What would become of an address: kind, source URL, a free name, and the source that has it already."""
        if not trust:
            _refuse_local(address)
            _refuse_reach(*registry.recognise(address, kind), {})
        held = await self.every()
        kind, url = await self._recognise(address, kind, held, found=None)
        kept = next((one.name for one in held if (one.kind, one.url) == (kind, url)), None)
        return kind, url, _free_name(url, {source.name for source in held}), kept

    async def check(self, source: Source) -> None:
        """Whether a source can be read at this moment; raises where it cannot. Nothing is stored."""
        registry.recognise(source.url, source.kind)
        registry.check_options(source.kind, dict(source.options))
        await self._engine.look(source)

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
        return await self.get(free)

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


def _refuse_kept(kind: str, url: str, held: Iterable[Source]) -> None:
    if kept := next((one for one in held if (one.kind, one.url) == (kind, url)), None):
        raise UsageError(
            f"{url} is kept already, as {kept.name!r}.",
            hint="Give the second one a --name, if it is meant to have other options.",
        )


# What is asked over the network, without the keys of whoever runs this.
_OUTSIDE = ("http://", "https://", "git+http://", "git+https://", "pkg:")
# Refused before anybody looks whether there is such a file: that too is nobody's business.
_LOCAL = ("/", ".", "~", "\\", "file:", "git+file:")


def _not_outside(address: str) -> RefusedError:
    return RefusedError(f"{address} is no address on the web, and may not be added from here. Nothing was added.")


def _refuse_local(address: str) -> None:
    if address.strip().lower().startswith(_LOCAL):
        raise _not_outside(address)


def _refuse_reach(kind: str, url: str, options: Mapping[str, Any]) -> None:
    """Refuse what would read this machine's files, or send its secrets."""
    if not url.startswith(_OUTSIDE):
        raise _not_outside(url)
    _refuse_options(reaches(kind, options))


def _refuse_options(reach: Collection[str]) -> None:
    if reach:
        raise RefusedError(
            f"The options refer to secrets or folders of this machine ({', '.join(sorted(reach))}). "
            "Nothing was changed.",
            hint="Such options are given by an administrator, or at the command line of the machine.",
        )


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


async def _following(c: Connection, source: Source) -> Following | None:
    # A kind of a package that is no longer installed tells nothing.
    told = getattr(registry.connector(source.kind), "told", None) if source.kind in registry.kinds() else None
    if told is None:
        return None
    new_at = await library.last_new_at(c, source.id)
    last = next(iter(await runs.recent(c, source=source.name, limit=1)), None)
    facts = {"members": source.items, **told(source.cursor, await notes.counts(c, source.id))}
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
