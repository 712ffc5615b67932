"""Declarations of sources in a file or a message: validated as a whole, then added, changed and removed."""

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from rowen.concurrency import together
from rowen.connectors import registry
from rowen.errors import Hint, NotFoundError, RefusedError, RowenError, UsageError, action
from rowen.harvest import agreements
from rowen.model.access import Reach
from rowen.model.schedules import Schedule
from rowen.model.sources import AppliedSource, Source, SourceState
from rowen.model.text import UNSTORABLE, is_storable
from rowen.model.wording import trouble_with_name
from rowen.net.credentials import exposed, exposed_in, shown, troubles_with_headers
from rowen.operations.discovery import KnownParts, Site, discover
from rowen.operations.schemas import DeclaredSchema, SchemaStep, declared_schemas, plan_schemas, write_schemas
from rowen.operations.source_editor import plan_source
from rowen.operations.validation import named_texts, newly_reached, refuse_local, with_texts, within
from rowen.settings import Settings
from rowen.settings.files import read_toml
from rowen.store import sources
from rowen.store.database import Connection, Database

__all__ = ["Declaration", "Declared", "Found", "apply", "look_at"]

Found: TypeAlias = tuple[str, str] | str
"""The kind and source URL that were found at an address, or why none was."""

# The second is the word of other harvesters.
_LISTS = ("source", "portals")
_WHEN = ("every", "cron", "tz", "during")
_OPTIONS = ("profile", "language", "aliases", "landing_page")
_KEYS = (
    *("name", "url", "kind", "type", *_OPTIONS, *_WHEN),
    *("enabled", "twice", "options", "schemas", "description"),
)
_ENTRY = re.compile(r"^[ \t]*\[\[[ \t]*(source|portals)[ \t]*\]\]", re.MULTILINE)
# 379 portals fill 47 kB. The parser takes up to 2.5 s for so much, in a thread.
_MOST_CHARS = 1_000_000
# A database with ten times as many sources works; the largest aggregators know 3,000 portals.
_MOST_ENTRIES = 10_000
_SPLIT = "Declare the sources in several files, without --prune."
# Who mends a file by hand needs no more; a hostile one would have an answer of fifty times its size.
_MOST_PROBLEMS = 50


@dataclass(frozen=True, slots=True)
class Declared:
    """One declared source. `enabled` None leaves its state as it is, `schemas` None its schemas.

    `twice` allows a second source of the same portal. Without a kind the address is probed, and only name and address
    are read.
    """

    name: str
    kind: str
    url: str
    options: Mapping[str, Any] = field(default_factory=dict)
    schedule: Schedule | None = None
    enabled: bool | None = None
    schemas: tuple[DeclaredSchema, ...] | None = None
    twice: bool = False


@dataclass(frozen=True, slots=True)
class Declaration:
    """Declared sources in the form of a file; `lines` are those of its entries, if it is a file."""

    whole: Mapping[str, Any]
    called: str = "The declaration"
    lines: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @classmethod
    def of_file(cls, path: Path) -> "Declaration":
        """Return the declaration in a file."""
        return cls.of_text(_text(path), called=str(path))

    @classmethod
    def of_text(cls, text: str, *, called: str = "The declaration") -> "Declaration":
        """Return the declaration in a text."""
        if len(text) > _MOST_CHARS:
            raise UsageError(f"{called} has more than {_MOST_CHARS:,} characters. Nothing was changed.", hint=_SPLIT)
        try:
            whole = read_toml(text)
        except ValueError as problem:
            raise UsageError(f"{called} is no TOML: {problem}. Nothing was changed.") from None
        lines: dict[str, list[int]] = {name: [] for name in _LISTS}
        line, read_to = 1, 0
        for at in _ENTRY.finditer(text):
            line, read_to = line + text.count("\n", read_to, at.start()), at.start()
            lines[at[1]].append(line)
        return cls(whole, called, lines)

    def read(self, reach: Reach, found: Mapping[str, Found] | None = None) -> list[Declared]:
        """Return the declared sources; raise all problems at once.

        `found` is called with the results of probes; without it, addresses without a kind are left for later.
        """
        declared: dict[str, Declared] = {}
        wrong: list[str] = []
        for number, (line, entry) in enumerate(self._entries(), 1):
            if len(wrong) > _MOST_PROBLEMS:
                break
            called = entry.get("name") if isinstance(entry, Mapping) else None
            place = f"line {line}, " if line else ""
            place += f"entry {number}" + (f" ({called})" if isinstance(called, str) else "")
            problems = _problems(entry, declared, reach, found)
            wrong += [f"{place}: {problem}" for problem in islice(problems, _MOST_PROBLEMS + 1 - len(wrong))]
        if wrong:
            is_cut = len(wrong) > _MOST_PROBLEMS
            told = "One thing is" if len(wrong) == 1 else f"{len(wrong)} things are"
            told = f"More than {_MOST_PROBLEMS} things are" if is_cut else told
            raise UsageError(
                f"{told} wrong in {self.called}. Nothing was changed.\n"
                + "\n".join(f"  {one}" for one in wrong[:_MOST_PROBLEMS]),
                hint=Hint(action("apply", self.called, dry_run=True), " checks the file without writing anything."),
            )
        return list(declared.values())

    def _entries(self) -> list[tuple[int, Any]]:
        """Return all entries with their lines; line 0 if an entry is not a table."""
        unknown = [name for name in self.whole if name not in _LISTS]
        if unknown:
            raise UsageError(
                f"{self.called} has {', '.join(map(repr, unknown))} at its top. Nothing was changed.",
                hint="Each source is a table that begins with [[source]].",
            )
        if not all(isinstance(one, list) for one in self.whole.values()):
            raise UsageError(f"{self.called}: sources are tables that begin with [[source]], with two brackets.")
        found: list[tuple[int, Any]] = []
        for name in _LISTS:
            lines, entries = self.lines.get(name, ()), self.whole.get(name, [])
            found += zip(lines if len(lines) == len(entries) else [0] * len(entries), entries, strict=True)
        if len(found) > _MOST_ENTRIES:
            raise UsageError(
                f"{self.called} declares more than {_MOST_ENTRIES:,} sources. Nothing was changed.", hint=_SPLIT
            )
        return sorted(found, key=lambda pair: pair[0])


def _text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            return file.read(_MOST_CHARS + 1)
    except FileNotFoundError:
        raise NotFoundError(f"There is no file {path}.", hint="Such as: rowen apply portals.toml") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8. Nothing was changed.") from None
    except OSError as problem:
        raise UsageError(f"{path} cannot be read: {problem.strerror}. Nothing was changed.") from None


def _problems(
    entry: Any, declared: dict[str, Declared], reach: Reach, known: Mapping[str, Found] | None
) -> Iterator[str]:
    """Yield the problems of an entry; without any, it is added to the declared sources."""
    if not isinstance(entry, Mapping):
        yield "is no table."
        return
    if not is_storable(entry):
        yield UNSTORABLE
        return
    if found := list(islice(chain(_unknown(entry), _mistyped(entry), _secrets(entry)), _MOST_PROBLEMS + 1)):
        yield from found
        return
    try:
        one = _declared(entry, reach, known)
    except UsageError as problem:
        yield f"{problem}{f' {problem.hint}' if problem.hint else ''}"
        return
    if one.name in declared:
        yield "an entry before it has the same name."
    declared[one.name] = one


def _unknown(entry: Mapping[str, Any]) -> Iterator[str]:
    for name in entry:
        if name not in _KEYS:
            yield f"there is no key {name!r}. The keys are: {', '.join(_KEYS)}."


def _mistyped(entry: Mapping[str, Any]) -> Iterator[str]:
    kinds: dict[str, type] = {**dict.fromkeys(_KEYS, str), "enabled": bool, "twice": bool, "options": dict}
    kinds |= dict.fromkeys(("schemas", "aliases"), list)
    words = {str: "a text", bool: "true or false", dict: "a table", list: "a list"}
    for name, value in entry.items():
        if name in kinds and not isinstance(value, kinds[name]):
            yield f"{name} must be {words[kinds[name]]}."
    for name in ("name", "url"):
        if not entry.get(name):
            yield f"{name} is missing."
    called = entry.get("name")
    if isinstance(called, str) and called and (trouble := trouble_with_name(called)):
        yield f"{called!r} cannot be a name: {trouble}."
    if "kind" in entry and "type" in entry:
        yield "kind and type mean the same: give one."


def _secrets(entry: Mapping[str, Any]) -> Iterator[str]:
    options = entry.get("options")
    for name in exposed(options) if isinstance(options, Mapping) else ():
        yield f"option {name} holds a credential in clear. Say where it is found: env:NAME or file:PATH."
    yield from troubles_with_headers(options) if isinstance(options, Mapping) else ()
    if isinstance(url := entry.get("url"), str) and (what := exposed_in(url)):
        yield f"the url holds {what}, in clear. Leave it out, and name its place in an option."


def _declared(entry: Mapping[str, Any], reach: Reach, known: Mapping[str, Found] | None) -> Declared:
    wanted = (entry.get("kind") or entry.get("type") or "").strip().lower()
    address = within(reach, entry["url"])
    if not wanted and known is None:
        return Declared(entry["name"], "", address)
    kind, url = registry.recognise(address, wanted) if wanted else _found(address, known or {})
    refuse_local(reach, url)
    options = dict(entry.get("options", {}))
    for name in _OPTIONS:
        if name in entry:
            _put(options, name, entry[name], kind)
    if reach is not Reach.ALL and (files := named_texts(kind, options)):
        raise RefusedError(
            f"{entry['name']}: {', '.join(files)} names a file of this machine. Nothing was changed.",
            hint="If you know the file and agree to it, add --trust; or give its text instead.",
        )
    checked = registry.check_options(kind, with_texts(kind, options))
    return Declared(
        name=entry["name"],
        kind=kind,
        url=url,
        options=checked.model_dump(mode="json", exclude_defaults=True),
        schedule=Schedule.declared(**{key: entry[key] for key in _WHEN if key in entry}),
        enabled=entry.get("enabled"),
        schemas=declared_schemas(entry["schemas"]) if "schemas" in entry else None,
        twice=entry.get("twice", False),
    )


def _found(address: str, known: Mapping[str, Found]) -> tuple[str, str]:
    what = known.get(address, "it was not looked at.")
    if isinstance(what, str):
        raise UsageError(
            f"what stands at {address} could not be found out: {what}",
            hint=f"Give its kind: {', '.join(registry.kinds())}.",
        )
    return what


def _put(options: dict[str, Any], name: str, value: Any, kind: str) -> None:
    if name not in registry.connector(kind).Options.model_fields:
        raise UsageError(f"Kind {kind!r} has no {name}.", hint=f"Leave {name} out, or choose another kind.")
    if options.setdefault(name, value) != value:
        raise UsageError(f"{name} is given twice, and differs between the entry and its options.")


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
    return [replace(applied, schedule=_schedule_text(one.schedule)) if one else applied for applied, one, *_ in plan]


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
        changes["schedule"] = (source.schedule, _schedule_text(one.schedule))
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
        schedule = _schedule_text(one.schedule)
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
    await sources.remove(c, [source for _, one, source, _ in plan if one is None and source is not None])


async def _edit(c: Connection, one: Declared, source: Source) -> None:
    after = registry.check_options(one.kind, dict(one.options))
    await sources.edit(
        c,
        source.id,
        name=one.name,
        options=one.options,
        schedule=_schedule_text(one.schedule),
        keep_cursor=_listing(source) == after.listing(),
    )


def _schedule_text(schedule: Schedule | None) -> str | None:
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
