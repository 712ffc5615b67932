"""Declarations of sources in a file or a message: validated together, then applied by adding, changing and removing."""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
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
from rowen.operations.operation import ResourceGroup
from rowen.operations.schemas import DeclaredSchema, SchemaStep, declared_schemas, plan_schemas, write_schemas
from rowen.operations.source_editor import plan_source
from rowen.operations.validation import named_texts, newly_reached, refuse_local, with_texts, within
from rowen.settings import Settings
from rowen.settings.files import read_toml
from rowen.store import sources
from rowen.store.database import Connection

Found: TypeAlias = tuple[str, str] | str
"""The kind and source URL that a probe found at an address, or the reason why it found none."""

# Other harvesters use the name `portals`.
_LISTS = ("source", "portals")
_WHEN = ("every", "cron", "tz", "during")
_OPTIONS = ("profile", "language", "aliases", "landing_page")
_KEYS = (
    *("name", "url", "kind", "type", *_OPTIONS, *_WHEN),
    *("enabled", "twice", "options", "schemas", "description"),
)
_TYPES: Mapping[str, type] = {
    **dict.fromkeys(_KEYS, str),
    **dict.fromkeys(("enabled", "twice"), bool),
    **dict.fromkeys(("schemas", "aliases"), list),
    "options": dict,
}
_WORDS = {str: "a text", bool: "true or false", dict: "a table", list: "a list"}
_ENTRY = re.compile(r"^[ \t]*\[\[[ \t]*(source|portals)[ \t]*\]\]", re.MULTILINE)
# 379 portals take 47 kB. The parser takes up to 2.5 s for this size, in a thread.
_MOST_CHARS = 1_000_000
# A database works with ten times as many sources; the largest aggregators list 3,000 portals.
_MOST_ENTRIES = 10_000
_SPLIT = "Declare the sources in several files, without --prune."
# A longer list would not help a user; for a hostile file it would be fifty times as long as the file.
_MOST_PROBLEMS = 50
# Probing a portal takes up to twenty seconds; with eight at a time, three hundred slow portals take ten minutes.
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Declared:
    """One declared source. If `enabled` is None, its state is not changed; if `schemas` is None, its schemas are not.

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

    @property
    def schedule_text(self) -> str | None:
        """The schedule in its stored form; None if there is none."""
        return str(self.schedule) if self.schedule else None

    def state(self, source: Source) -> SourceState:
        """Return the declared state of a source; its current state if none is declared."""
        if self.enabled is None:
            return source.state
        return "active" if self.enabled else "paused"


@dataclass(frozen=True, slots=True)
class Declaration:
    """Declared sources in the form of a file; `lines` are the line numbers of its entries, if they come from a file."""

    whole: Mapping[str, Any]
    called: str = "The declaration"
    lines: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @classmethod
    def of_file(cls, path: Path) -> "Declaration":
        """Return the declaration in a file."""
        try:
            with path.open(encoding="utf-8") as file:
                return cls.of_text(file.read(_MOST_CHARS + 1), called=str(path))
        except FileNotFoundError:
            raise NotFoundError(f"There is no file {path}.", hint="Such as: rowen apply portals.toml") from None
        except UnicodeDecodeError:
            raise UsageError(f"{path} is not UTF-8. Nothing was changed.") from None
        except OSError as problem:
            raise UsageError(f"{path} cannot be read: {problem.strerror}. Nothing was changed.") from None

    @classmethod
    def of_text(cls, text: str, *, called: str = "The declaration") -> "Declaration":
        """Return the declaration in a text; `called` is its name in errors."""
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
        """Return the declared sources; raise one error with all problems.

        `found` has the results of probes. Without it, sources without a kind are returned without one.
        """
        declared: dict[str, Declared] = {}
        wrong: list[str] = []
        for number, (line, entry) in enumerate(self._entries(), 1):
            if len(wrong) > _MOST_PROBLEMS:
                break
            name = entry.get("name") if isinstance(entry, Mapping) else None
            place = f"line {line}, " if line else ""
            place += f"entry {number}" + (f" ({name})" if isinstance(name, str) else "")
            problems = _problems(entry, declared, reach, found)
            wrong += [f"{place}: {problem}" for problem in islice(problems, _MOST_PROBLEMS + 1 - len(wrong))]
        if wrong:
            amount = "One thing is" if len(wrong) == 1 else f"{len(wrong)} things are"
            if len(wrong) > _MOST_PROBLEMS:
                amount = f"More than {_MOST_PROBLEMS} things are"
            raise UsageError(
                f"{amount} wrong in {self.called}. Nothing was changed.\n"
                + "\n".join(f"  {problem}" for problem in wrong[:_MOST_PROBLEMS]),
                hint=Hint(action("apply", self.called, dry_run=True), " checks the file without writing anything."),
            )
        return list(declared.values())

    def _entries(self) -> list[tuple[int, Any]]:
        """Return all entries with their line numbers; the number is 0 if an entry is not a table."""
        unknown = [name for name in self.whole if name not in _LISTS]
        if unknown:
            raise UsageError(
                f"{self.called} has {', '.join(map(repr, unknown))} at its top. Nothing was changed.",
                hint="Each source is a table that begins with [[source]].",
            )
        if not all(isinstance(entries, list) for entries in self.whole.values()):
            raise UsageError(f"{self.called}: sources are tables that begin with [[source]], with two brackets.")
        numbered: list[tuple[int, Any]] = []
        for name in _LISTS:
            lines, entries = self.lines.get(name, ()), self.whole.get(name, [])
            numbered += zip(lines if len(lines) == len(entries) else [0] * len(entries), entries, strict=True)
        if len(numbered) > _MOST_ENTRIES:
            raise UsageError(
                f"{self.called} declares more than {_MOST_ENTRIES:,} sources. Nothing was changed.", hint=_SPLIT
            )
        return sorted(numbered, key=lambda pair: pair[0])


def _problems(
    entry: Any, declared: dict[str, Declared], reach: Reach, found: Mapping[str, Found] | None
) -> Iterator[str]:
    """Yield the problems of an entry; if there are none, add it to the declared sources."""
    if not isinstance(entry, Mapping):
        yield "is no table."
        return
    if not is_storable(entry):
        yield UNSTORABLE
        return
    if wrong := list(islice(chain(_mistyped(entry), _secrets(entry)), _MOST_PROBLEMS + 1)):
        yield from wrong
        return
    try:
        source = _declared(entry, reach, found)
    except UsageError as problem:
        yield f"{problem}{f' {problem.hint}' if problem.hint else ''}"
        return
    if source.name in declared:
        yield "an entry before it has the same name."
    declared[source.name] = source


def _mistyped(entry: Mapping[str, Any]) -> Iterator[str]:
    for name in entry:
        if name not in _KEYS:
            yield f"there is no key {name!r}. The keys are: {', '.join(_KEYS)}."
    for name, value in entry.items():
        if name in _TYPES and not isinstance(value, _TYPES[name]):
            yield f"{name} must be {_WORDS[_TYPES[name]]}."
    for name in ("name", "url"):
        if not entry.get(name):
            yield f"{name} is missing."
    label = entry.get("name")
    if isinstance(label, str) and label and (trouble := trouble_with_name(label)):
        yield f"{label!r} cannot be a name: {trouble}."
    if "kind" in entry and "type" in entry:
        yield "kind and type mean the same: give one."


def _secrets(entry: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(options := entry.get("options"), Mapping):
        for name in exposed(options):
            yield f"option {name} holds a credential in clear. Say where it is found: env:NAME or file:PATH."
        yield from troubles_with_headers(options)
    if isinstance(url := entry.get("url"), str) and (secret := exposed_in(url)):
        yield f"the url holds {secret}, in clear. Leave it out, and name its place in an option."


def _declared(entry: Mapping[str, Any], reach: Reach, found: Mapping[str, Found] | None) -> Declared:
    wanted = (entry.get("kind") or entry.get("type") or "").strip().lower()
    address = within(reach, entry["url"])
    if wanted:
        kind, url = registry.recognise(address, wanted)
    elif found is None:
        return Declared(entry["name"], "", address)
    else:
        probed = found.get(address, "it was not looked at.")
        if isinstance(probed, str):
            raise UsageError(
                f"what stands at {address} could not be found out: {probed}",
                hint=f"Give its kind: {', '.join(registry.kinds())}.",
            )
        kind, url = probed
    refuse_local(reach, url)
    options = dict(entry.get("options", {}))
    for name in _OPTIONS:
        if name not in entry:
            continue
        if name not in registry.connector(kind).Options.model_fields:
            raise UsageError(f"Kind {kind!r} has no {name}.", hint=f"Leave {name} out, or choose another kind.")
        if options.setdefault(name, entry[name]) != entry[name]:
            raise UsageError(f"{name} is given twice, and differs between the entry and its options.")
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


class Step(NamedTuple):
    """The change of one source: the declared and the stored source, and its schemas if they change."""

    applied: AppliedSource
    declared: Declared | None
    source: Source | None
    schemas: SchemaStep | None = None


class SourceDeclarations(ResourceGroup):
    """Operations on declarations of many sources."""

    async def apply(
        self, declaration: Path | str | Mapping[str, Any], *, dry_run: bool, prune: bool, reach: Reach
    ) -> list[AppliedSource]:
        """Make the sources match the declarations in a file or text, or given as values.

        The operations are `sources.apply` and `sources.declare`.
        """
        match declaration:
            case Path():
                whole = await asyncio.to_thread(Declaration.of_file, declaration)
            case str():
                whole = await asyncio.to_thread(Declaration.of_text, declaration)
            case _:
                whole = Declaration(declaration)
        # Checking ten thousand sources takes seconds, so a thread does it.
        declared = await asyncio.to_thread(whole.read, reach)
        if unclear := [source for source in declared if not source.kind]:
            async with self._database.connection() as c:
                stored = await sources.every(c)
            found = await _probe_all(unclear, stored, self._settings)
            declared = await asyncio.to_thread(whole.read, reach, found)
        if prune and not declared:
            raise RefusedError(
                f"{whole.called} declares no source at all, and would remove every one. Nothing was changed.",
                hint=Hint(action("remove", "NAME"), " removes a source for certain."),
            )
        async with self._database.transaction() as c:
            await sources.take_turns(c)
            stored = await sources.every(c, counted=True)
            plan = await asyncio.to_thread(lambda: list(_steps(declared, stored, prune=prune)))
            plan = await _with_schemas(c, whole.called, plan)
            await asyncio.to_thread(_check, whole.called, plan, stored, reach)
            if not dry_run:
                await _write(c, plan)
        for source in declared if reach is Reach.ALL and not dry_run else ():
            agreements.agree(self._settings, source.kind, source.url, source.options)
        return [
            replace(step.applied, schedule=step.declared.schedule_text) if step.declared else step.applied
            for step in plan
        ]


async def _probe_all(declared: Sequence[Declared], stored: Sequence[Source], settings: Settings) -> dict[str, Found]:
    """Probe each address; return what was found there, or the reason why that is unknown."""
    places = asyncio.Semaphore(_AT_ONCE)
    by_name = {source.name: source for source in stored}

    async def probe(address: str, source: Source | None) -> Found:
        if source is not None and registry.accepted(address, registry.connector(source.kind)) == source.url:
            return source.kind, source.url
        try:
            formal = registry.recognise(address)
            if formal[0] != "web":
                return formal
            if not settings.probe:
                return "addresses are not asked here (ROWEN_PROBE)."
            discovered = await discover(formal[1], settings.for_source(formal[1]))
        except RowenError as problem:
            return str(problem)
        if discovered is None or discovered.kind == "web":
            return 'no catalog was found there; kind = "web" crawls it as a site.'
        return discovered.kind, discovered.url

    async def probe_in_turn(entry: Declared) -> tuple[str, Found]:
        async with places:
            return entry.url, await probe(entry.url, by_name.get(entry.name))

    return dict(await together(*map(probe_in_turn, declared)))


def _steps(declared: Sequence[Declared], stored: Sequence[Source], *, prune: bool) -> Iterator[Step]:
    by_name = {source.name: source for source in stored}
    names = {entry.name for entry in declared}
    left = {source.id: source for source in stored if source.name not in names}
    unnamed: dict[tuple[str, str], list[Source]] = {}
    for source in left.values():
        unnamed.setdefault((source.kind, source.url), []).append(source)
    wrong: list[str] = []
    for entry in declared:
        known = by_name.get(entry.name)
        if known is None and len(same := unnamed.get((entry.kind, entry.url), [])) == 1:
            # If a single source with this address is not named by any entry, it was renamed.
            known = same.pop()
        if known is None:
            paused = {"state": (None, "paused")} if entry.enabled is False else {}
            yield Step(AppliedSource(entry.name, "added", entry.kind, entry.url, paused), entry, None)
        elif (known.kind, known.url) != (entry.kind, entry.url):
            wrong.append(
                f"  {entry.name} is kept as {known.kind} {known.url}, and declared as {entry.kind} {entry.url}."
            )
        else:
            left.pop(known.id, None)
            yield Step(_compare(entry, known), entry, known)
    if wrong:
        raise UsageError(
            "A source cannot become another one. Nothing was changed.\n" + "\n".join(wrong),
            hint="Give it another name in the file, or remove the old one first.",
        )
    if prune:
        for source in left.values():
            removed = AppliedSource(source.name, "removed", source.kind, source.url, items=source.items)
            yield Step(removed, None, source)


def _compare(entry: Declared, source: Source) -> AppliedSource:
    changes: dict[str, tuple[Any, Any]] = {}
    if entry.name != source.name:
        changes["name"] = (source.name, entry.name)
    for name in sorted({*entry.options, *source.options}):
        before, after = source.options.get(name), entry.options.get(name)
        if before != after:
            changes[name] = (shown(before, name), shown(after, name))
    if entry.schedule != (Schedule.parse(source.schedule) if source.schedule else None):
        changes["schedule"] = (source.schedule, entry.schedule_text)
    state = entry.state(source)
    applied = AppliedSource(entry.name, "unchanged", entry.kind, entry.url, items=source.items)
    if changes:
        moved = {"state": (source.state, state)} if state != source.state else {}
        return replace(applied, action="changed", changes={**changes, **moved})
    if state == source.state:
        return applied
    return replace(applied, action="paused" if state == "paused" else "resumed")


async def _with_schemas(c: Connection, called: str, plan: Sequence[Step]) -> list[Step]:
    """Return the plan completed by the schemas of the sources; raise one error with all problems."""
    steps, wrong = [], []
    for step in plan:
        source, applied, schemas = step.source, step.applied, None
        if step.declared is not None and step.declared.schemas is not None:
            try:
                schemas = await plan_schemas(c, step.declared.schemas, source.id if source else None)
            except UsageError as problem:
                wrong.append(f"  {step.declared.name}: {problem}{f' {problem.hint}' if problem.hint else ''}")
        if schemas is not None:
            changes = {**applied.changes, "schemas": (schemas.before, schemas.after)}
            if source is None:
                applied = replace(applied, changes=changes)
            else:
                if applied.action in ("paused", "resumed"):
                    changes["state"] = (source.state, "paused" if applied.action == "paused" else "active")
                applied = replace(applied, action="changed", changes=changes)
        steps.append(step._replace(applied=applied, schemas=schemas))
    if wrong:
        raise UsageError(f"{called} declares schemas that cannot be carried. Nothing was changed.\n" + "\n".join(wrong))
    return steps


def _check(called: str, plan: Sequence[Step], stored: Sequence[Source], reach: Reach) -> None:
    """Raise an error for secrets or folders that were not allowed before, and for portals that are declared twice."""
    wrong = [
        f"  {entry.name}: {reached}, for {entry.url}"
        for _, entry, source, _ in plan
        if entry is not None and reach is not Reach.ALL
        for reached in newly_reached(entry.kind, entry.options, source.options if source else {})
    ]
    if wrong:
        raise RefusedError(
            f"{called} refers to secrets, files or folders of this machine, or changes where a secret goes. "
            "Nothing was changed.\n" + "\n".join(wrong),
            hint="If you know the file and agree to each of these, add --trust.",
        )
    removed = {source.name for _, entry, source, _ in plan if entry is None and source is not None}
    known = KnownParts(source for source in stored if source.name not in removed)
    for applied, entry, _, _ in plan:
        if entry is None or applied.action != "added":
            continue
        other = known.find(Site(entry.kind, entry.url, entry.options))
        if other is not None and not entry.twice:
            wrong.append(f"  {entry.name} ({entry.url}) is the same portal as {other.name} ({other.url}).")
        known.add(Source(0, entry.name, entry.kind, entry.url, options=entry.options))
    if wrong:
        raise UsageError(
            f"{called} declares portals twice, which would be harvested twice. Nothing was changed.\n"
            + "\n".join(wrong),
            hint="Leave one of them out, give its address to the other as `aliases`, or say `twice = true`.",
        )


async def _write(c: Connection, plan: Sequence[Step]) -> None:
    for applied, entry, source, schemas in plan:
        if entry is None or applied.action == "unchanged":
            continue
        stored: dict[str, Any] = {"options": entry.options, "schedule": entry.schedule_text}
        before = source.schedule if source else None
        if source is None:
            source = await sources.add(c, entry.name, kind=entry.kind, url=entry.url, **stored)
        elif applied.changes.keys() - {"schemas", "state"}:
            try:
                listing = registry.check_options(source.kind, dict(source.options)).listing()
            except UsageError:
                # The stored options belong to another version of Rowen.
                listing = None
            keeps = listing == registry.check_options(entry.kind, dict(entry.options)).listing()
            await sources.edit(c, source.id, name=entry.name, **stored, keep_cursor=keeps)
        if schemas is not None:
            await write_schemas(c, source.id, schemas)
        if entry.schedule_text != before:
            await plan_source(c, source, entry.schedule_text)
        if (state := entry.state(source)) != source.state:
            await sources.set_state(c, source.id, state)
    await sources.remove(c, [source for _, entry, source, _ in plan if entry is None and source is not None])
