"""Apply a file of declarations: add, change and remove sources until they are as declared, and report the changes."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from rowen.concurrency import together
from rowen.connectors import registry
from rowen.errors import Hint, RefusedError, RowenError, UsageError, action
from rowen.harvest import agreements
from rowen.model.access import Reach
from rowen.model.schedules import Schedule
from rowen.model.sources import AppliedSource, Source, SourceState
from rowen.net.credentials import shown
from rowen.operations.declarations import Declaration, Declared, Found
from rowen.operations.discovery import discover
from rowen.operations.reach import newly_reached
from rowen.operations.same_portal import KnownParts, Site
from rowen.operations.schedules import plan_source
from rowen.operations.source_schemas import SchemaStep, plan_schemas, write_schemas
from rowen.settings import Settings
from rowen.store import sources
from rowen.store.database import Connection, Database

__all__ = ["apply", "look_at"]


async def apply(
    database: Database, settings: Settings, declaration: Declaration, *, dry_run: bool, prune: bool, reach: Reach
) -> list[AppliedSource]:
    """Make the sources match their declarations in one transaction; return the change of each."""
    # Ten thousand sources take seconds to check, so that is done beside the event loop.
    declared = await asyncio.to_thread(declaration.read, reach)
    if unclear := [one for one in declared if not one.kind]:
        async with database.connection() as c:
            held = await sources.every(c)
        declared = await asyncio.to_thread(declaration.read, reach, await look_at(unclear, held, settings))
    if prune and not declared:
        raise RefusedError(
            f"{declaration.called} declares no source at all, and would remove every one. Nothing was changed.",
            hint=Hint(action("remove", "NAME"), " removes a source for certain."),
        )
    async with database.transaction() as c:
        await sources.take_turns(c)
        held = await sources.every(c, counted=True)
        plan = await asyncio.to_thread(_plan, declared, held, prune=prune)
        plan = await _with_schemas(c, declaration.called, plan)
        await asyncio.to_thread(_check, declaration.called, plan, held, reach)
        if not dry_run:
            await _write(c, plan)
    for one in declared if reach is Reach.ALL and not dry_run else ():
        agreements.agree(settings, one.kind, one.url, one.options)
    return [replace(applied, schedule=_text(one.schedule)) if one else applied for applied, one, *_ in plan]


class Step(NamedTuple):
    """The change of one source: declared, stored, and its schemas if they change."""

    applied: AppliedSource
    one: Declared | None
    source: Source | None
    schemas: SchemaStep | None = None


def _plan(declared: Sequence[Declared], held: Sequence[Source], *, prune: bool) -> list[Step]:
    return list(_steps(declared, held, prune=prune))


def _check(called: str, plan: Sequence[Step], held: Sequence[Source], reach: Reach) -> None:
    if reach is not Reach.ALL:
        _refuse_reached(called, plan)
    _refuse_doubles(called, plan, held)


def _steps(declared: Sequence[Declared], held: Sequence[Source], *, prune: bool) -> Iterator[Step]:
    by_name = {source.name: source for source in held}
    names = {one.name for one in declared}
    left = {source.id: source for source in held if source.name not in names}
    renamed = _Renamed(left.values())
    wrong: list[str] = []
    for one in declared:
        source = by_name.get(one.name) or renamed.take(one)
        if source is None:
            paused = {"state": (None, "paused")} if one.enabled is False else {}
            yield Step(AppliedSource(one.name, "added", one.kind, one.url, paused), one, None)
        elif (source.kind, source.url) != (one.kind, one.url):
            wrong.append(f"  {one.name} is kept as {source.kind} {source.url}, and declared as {one.kind} {one.url}.")
        else:
            left.pop(source.id, None)
            yield Step(_compare(one, source), one, source)
    if wrong:
        raise UsageError(
            "A source cannot become another one. Nothing was changed.\n" + "\n".join(wrong),
            hint="Give it another name in the file, or remove the old one first.",
        )
    if prune:
        for source in left.values():
            removed = AppliedSource(source.name, "removed", source.kind, source.url, items=source.items)
            yield Step(removed, None, source)


async def _with_schemas(c: Connection, called: str, plan: Sequence[Step]) -> list[Step]:
    """Return the plan with the schemas of the sources; raise all problems at once."""
    made, wrong = [], []
    for step in plan:
        found = None
        if step.one is not None and step.one.schemas is not None:
            try:
                found = await plan_schemas(c, step.one.schemas, step.source.id if step.source else None)
            except UsageError as problem:
                wrong.append(f"  {step.one.name}: {problem}{f' {problem.hint}' if problem.hint else ''}")
        made.append(step if found is None else step._replace(applied=_carrying(step, found), schemas=found))
    if wrong:
        raise UsageError(f"{called} declares schemas that cannot be carried. Nothing was changed.\n" + "\n".join(wrong))
    return made


def _carrying(step: Step, found: SchemaStep) -> AppliedSource:
    """Return the reported change of the schemas of a source."""
    applied, source = step.applied, step.source
    changes = {**applied.changes, "schemas": (found.before, found.after)}
    if source is None:
        return replace(applied, changes=changes)
    if applied.action in ("paused", "resumed"):
        changes["state"] = (source.state, "paused" if applied.action == "paused" else "active")
    return replace(applied, action="changed", changes=changes)


def _refuse_doubles(called: str, plan: Sequence[Step], held: Sequence[Source]) -> None:
    """Refuse new sources that read a portal which is stored or declared already under another address."""
    going = {source.name for _, one, source, _ in plan if one is None and source is not None}
    kept = KnownParts(source for source in held if source.name not in going)
    wrong = []
    for applied, one, _, _ in plan:
        if one is None or applied.action != "added":
            continue
        other = kept.find(Site(one.kind, one.url, one.options))
        if other is not None and not one.twice:
            wrong.append(f"  {one.name} ({one.url}) is the same portal as {other.name} ({other.url}).")
        kept.add(Source(0, one.name, one.kind, one.url, options=one.options))
    if wrong:
        raise UsageError(
            f"{called} declares portals twice, which would be harvested twice. Nothing was changed.\n"
            + "\n".join(wrong),
            hint="Leave one of them out, give its address to the other as `aliases`, or say `twice = true`.",
        )


def _refuse_reached(called: str, plan: Sequence[Step]) -> None:
    """Refuse options that reach secrets or folders of this machine which were not agreed to before."""
    wrong = [
        f"  {one.name}: {reached}, for {one.url}"
        for _, one, source, _ in plan
        if one is not None
        for reached in newly_reached(one.kind, one.options, source.options if source else {})
    ]
    if wrong:
        raise RefusedError(
            f"{called} refers to secrets, files or folders of this machine, or changes where a secret goes. "
            "Nothing was changed.\n" + "\n".join(wrong),
            hint="If you know the file and agree to each of these, add --trust.",
        )


class _Renamed:
    """Sources that no entry names, by their addresses."""

    def __init__(self, left: Iterable[Source]) -> None:
        self._left: dict[tuple[str, str], list[Source]] = {}
        for source in left:
            self._left.setdefault((source.kind, source.url), []).append(source)

    def take(self, one: Declared) -> Source | None:
        """Return the only unnamed source at an address, which was renamed."""
        found = self._left.get((one.kind, one.url), [])
        return found.pop() if len(found) == 1 else None


def _compare(one: Declared, source: Source) -> AppliedSource:
    changes: dict[str, tuple[Any, Any]] = {}
    if one.name != source.name:
        changes["name"] = (source.name, one.name)
    for name in sorted({*one.options, *source.options}):
        before, after = source.options.get(name), one.options.get(name)
        if before != after:
            changes[name] = (shown(before, name), shown(after, name))
    if one.schedule != (Schedule.parse(source.schedule) if source.schedule else None):
        changes["schedule"] = (source.schedule, _text(one.schedule))
    state = _state(one, source)
    if changes:
        moved = {"state": (source.state, state)} if state != source.state else {}
        return AppliedSource(one.name, "changed", one.kind, one.url, {**changes, **moved}, source.items)
    if state == source.state:
        return AppliedSource(one.name, "unchanged", one.kind, one.url, items=source.items)
    return AppliedSource(one.name, "paused" if state == "paused" else "resumed", one.kind, one.url, items=source.items)


def _state(one: Declared, source: Source) -> SourceState:
    if one.enabled is None:
        return source.state
    return "active" if one.enabled else "paused"


async def _write(c: Connection, plan: Sequence[Step]) -> None:
    for applied, one, source, carrying in plan:
        if one is None or applied.action == "unchanged":
            continue
        schedule = _text(one.schedule)
        before = source.schedule if source else None
        if source is None:
            source = await sources.add(c, one.name, kind=one.kind, url=one.url, options=one.options, schedule=schedule)
        elif applied.changes.keys() - {"schemas", "state"}:
            await _edit(c, one, source)
        if carrying is not None:
            await write_schemas(c, source.id, carrying)
        if schedule != before:
            await plan_source(c, source, schedule)
        if (state := _state(one, source)) != source.state:
            await sources.set_state(c, source.id, state)
    await sources.remove_all(c, [source for _, one, source, _ in plan if one is None and source is not None])


async def _edit(c: Connection, one: Declared, source: Source) -> None:
    after = registry.check_options(one.kind, dict(one.options))
    await sources.edit(
        c,
        source.id,
        name=one.name,
        options=one.options,
        schedule=_text(one.schedule),
        keep_cursor=_listing(source) == after.listing(),
    )


def _text(schedule: Schedule | None) -> str | None:
    return str(schedule) if schedule else None


def _listing(source: Source) -> dict[str, Any] | None:
    """Return the options that the cursor depends on; None if the stored options belong to another version."""
    try:
        return registry.check_options(source.kind, dict(source.options)).listing()
    except UsageError:
        return None


# A portal takes up to twenty seconds to be found out; at eight a time, three hundred slow ones take ten minutes.
_AT_ONCE = 8


async def look_at(declared: Sequence[Declared], held: Sequence[Source], settings: Settings) -> dict[str, Found]:
    """Probe each address; return what is there, or why that is unknown."""
    places = asyncio.Semaphore(_AT_ONCE)
    by_name = {source.name: source for source in held}

    async def one(entry: Declared) -> tuple[str, Found]:
        async with places:
            return entry.url, await _find(entry.url, by_name.get(entry.name), settings)

    return dict(await together(*(one(entry) for entry in declared)))


async def _find(address: str, kept: Source | None, settings: Settings) -> Found:
    if kept is not None and registry.accepted(address, registry.connector(kept.kind)) == kept.url:
        return kept.kind, kept.url
    try:
        formal = registry.recognise(address)
        if formal[0] != "web":
            return formal
        if not settings.probe:
            return "addresses are not asked here (ROWEN_PROBE)."
        found = await discover(formal[1], settings.for_source(formal[1]))
    except RowenError as problem:
        return str(problem)
    if found is None or found.kind == "web":
        return 'no catalog was found there; kind = "web" crawls it as a site.'
    return found.kind, found.url
