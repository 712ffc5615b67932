"""Declarations of sources in a file or a message, validated as a whole before anything is written."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeAlias

from rowen.connectors import registry
from rowen.errors import Hint, NotFoundError, RefusedError, UsageError, action
from rowen.model.access import Reach
from rowen.model.schedules import Schedule
from rowen.model.text import UNSTORABLE, is_storable
from rowen.model.wording import trouble_with_name
from rowen.net.credentials import exposed, exposed_in, troubles_with_headers
from rowen.operations.reach import named_texts, refuse_local, with_texts, within
from rowen.operations.source_schemas import DeclaredSchema, declared_schemas
from rowen.settings.files import read_toml

__all__ = ["Declaration", "Declared", "Found"]

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
