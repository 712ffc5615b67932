"""Which connectors there are: the built-in ones and those of other packages, through the same door."""

import re
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pydantic import ValidationError

from rowen.connectors.base import Connector, Options
from rowen.errors import UsageError

__all__ = ["check_options", "connector", "kinds", "recognise", "register"]

GROUP = "rowen.connectors"

_PASSWORD = re.compile(r"[a-z0-9.:+-]*://[^/?#@]*:[^/?#@]+@", re.IGNORECASE)

_registered: dict[str, type[Connector]] = {}


def register(connector: type[Connector]) -> None:
    """Add a kind in this process; packages declare theirs by the entry point `rowen.connectors` instead."""
    _registered[connector.kind] = connector


def kinds() -> tuple[str, ...]:
    """The names of all kinds, sorted."""
    return tuple(sorted({*_registered, *_installed()}))


def connector(kind: str) -> type[Connector]:
    """The connector of a kind."""
    if kind not in _registered and kind in _installed():
        _registered[kind] = _installed()[kind].load()
    if kind in _registered:
        return _registered[kind]
    raise UsageError(f"There is no kind {kind!r}.", hint=f"The kinds are: {', '.join(kinds())}.")


@cache
def _installed() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def recognise(address: str, kind: str | None = None) -> tuple[str, str]:
    """The kind and the source URL of what a user typed."""
    if _PASSWORD.match(address):
        raise UsageError(
            "The address contains a password, which would be stored in clear.",
            hint="Leave it out, and name where it is found in an option of the source, such as headers or token.",
        )
    if kind:
        chosen = connector(kind)
        if url := getattr(chosen, "accept", chosen.recognise)(address):
            return kind, url
        raise UsageError(f"{address!r} is nothing that kind {kind!r} can read.")
    for name in kinds():
        if url := connector(name).recognise(address):
            return name, url
    raise UsageError(
        f"No kind of source recognises {address!r}.",
        hint=f"Check the spelling, or name the kind with --kind ({', '.join(kinds())}).",
    )


def check_options(kind: str, options: dict[str, Any]) -> Options:
    """The options of a kind, validated; a wrong one is named together with those that exist."""
    model = connector(kind).Options
    try:
        return model.model_validate(options)
    except ValidationError as problem:
        first = problem.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            raise UsageError(
                f"Kind {kind!r} has no option {name!r}.", hint=f"Its options: {', '.join(sorted(model.model_fields))}."
            ) from None
        raise UsageError(f"Option {name!r} of kind {kind!r}: {first['msg']}.") from None
