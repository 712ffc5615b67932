"""Narrowing down which items are meant: the filters of a search, and of a list of items."""

from collections.abc import Collection, Sequence
from typing import Any

from rowen.errors import NotFoundError, UsageError
from rowen.model.datasets import check_record_kinds
from rowen.model.search import Condition, Filters, Narrowing, language_code
from rowen.model.sources import Source
from rowen.model.versions import VersionSpec
from rowen.store import sources as source_store
from rowen.store.database import Connection
from rowen.store.search import search as filter_store

__all__ = ["filters_of", "plain_filters"]


def plain_filters(narrowing: Narrowing) -> dict[str, Any]:
    """Filters as values that tell one list from another."""
    return {name: str(value) for name, value in narrowing.items() if value}


async def filters_of(c: Connection, names: Sequence[str] | None, version: str | None, narrowing: Narrowing) -> Filters:
    """The filters as the store knows them.

    A source, kind or language that nothing has is an error, since no other words would find more; tags are many, and an
    unknown one merely has no items.
    """
    rest: dict[str, Any] = dict(narrowing)
    kinds = rest.pop("kinds", None)
    rest["where"] = Condition.parse_all(rest.pop("where", ()))
    check_record_kinds(narrowing.get("record_kinds") or ())
    if narrowing.get("languages"):
        _check_languages(narrowing["languages"], await filter_store.languages(c))
    if not names and not kinds and version is None:
        return Filters(**rest)
    held = await source_store.uncounted_sources(c)
    for name in set(names or ()) - {source.name for source in held}:
        await source_store.get(c, name)
    _check_kinds(kinds or (), {source.kind for source in held})
    chosen = [s for s in held if (not names or s.name in names) and (not kinds or s.kind in kinds)]
    if version is not None:
        meant = _of_version(chosen, version)
        chosen = [source for source in chosen if source.name in meant]
    return Filters(source_ids=[source.id for source in chosen], **rest)


def _check_kinds(kinds: Sequence[str], held: Collection[str]) -> None:
    for kind in kinds:
        if held and kind not in held:
            raise NotFoundError(f"No source is of the kind {kind!r}.", hint=f"There are: {', '.join(sorted(held))}.")


def _check_languages(asked: Sequence[str], held: Collection[str]) -> None:
    for code in asked:
        if not any(f"{one}-".startswith(f"{language_code(code)}-") for one in map(language_code, held)):
            there = f"There are: {', '.join(sorted(held))}." if held else "No item names its language."
            raise NotFoundError(f"No item is in the language {code!r}.", hint=there)


def _of_version(held: list[Source], version: str) -> list[str]:
    """The sources that a version means."""
    try:
        spec = VersionSpec.parse(version)
    except ValueError as problem:
        raise UsageError(
            f"{version!r} names no version: {problem}.", hint="Such as 2, 2.x, ^2.1 or '>=1.0,<2'."
        ) from None
    families: dict[str, dict[str, str]] = {}
    for source in held:
        if source.version:
            families.setdefault(source.family, {})[source.name] = source.version
    best = [(family, spec.best(family.values())) for family in families.values()]
    chosen = [name for family, wanted in best for name in family if family[name] == wanted]
    if not chosen:
        have = ", ".join(f"{name} {held}" for family in families.values() for name, held in family.items())
        raise NotFoundError(
            f"No source has a version that {version!r} means.", hint=f"There are: {have or 'no versions at all'}."
        )
    return chosen
