"""Which secrets the options of a source send, where, and in which way.

This is the one rule by which a change of options is judged: whoever may not name secrets may make no change after which
a secret goes somewhere else, or goes in another way, than before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from rowen.connectors import registry
from rowen.net.credentials import leaves, references

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from rowen.connectors.base import Options

__all__ = ["Sending", "sendings", "steering"]


class Sending(NamedTuple):
    """One secret, as what it is sent, and all that decides where to: options by name and value, without defaults.

    The address of the source decides as well. It never changes while the source exists.
    """

    secret: str
    option: str
    value: str
    route: frozenset[tuple[str, str]]


def sendings(kind: str, options: Mapping[str, Any]) -> set[Sending]:
    """Return what a source of a kind sends with these options; nothing where they refer to no secret."""
    found = [(name, value) for name, value in leaves(options) if any(references({name: value}))]
    route = frozenset(steering(kind, options)) if found else frozenset()
    return {Sending(secret, name, value, route) for name, value in found for _, secret in references({name: value})}


def steering(kind: str, options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the options that may decide where a secret goes, or how, with their values.

    These are all but numbers, times, folders and those that are declared neutral. What refers to a secret is left out,
    and a value that is the default counts as not given.
    """
    # Receivers and endpoints are judged by the same rule, and are no kinds of sources.
    is_kind = kind in registry.kinds()
    neutral, defaults = _declared(registry.connector(kind).Options) if is_kind else (frozenset(), {})
    secret = {name for name, _ in references(options)}
    for option, value in options.items():
        if option in neutral or value is None or value == defaults.get(option):
            continue
        yield from ((name, str(leaf)) for name, leaf in leaves(value, option) if name not in secret)


@cache
def _declared(declared: type[Options]) -> tuple[frozenset[str], dict[str, Any]]:
    """Return the names of the neutral options among those declared, and the defaults of all."""
    fields = declared.model_fields
    neutral = {*declared.secret_neutral, *(name for name, field in fields.items() if _is_amount(field))}
    return frozenset(neutral), {name: field.get_default(call_default_factory=True) for name, field in fields.items()}


def _is_amount(field: FieldInfo) -> bool:
    """Whether an option is a number, a time or a folder. Folders are judged by themselves."""
    from pathlib import Path

    kinds = {*(get_args(field.annotation) or (field.annotation,))} - {type(None)}
    amounts = [isinstance(one, type) and issubclass(one, int | float | date | Path) for one in kinds]
    return all(amounts) and bool not in kinds
