"""Which connectors there are: the built-in ones and those of other packages, through the same door."""

from functools import cache
from importlib.metadata import entry_points
from typing import Any

from pydantic import ValidationError

from rowen.connectors.base import Connector, Options
from rowen.errors import UsageError

__all__ = ["check_options", "connector", "kinds", "recognise"]

GROUP = "rowen.connectors"


@cache
def kinds() -> tuple[str, ...]:
    """The names of all kinds, sorted."""
    return tuple(sorted({point.name for point in entry_points(group=GROUP)}))


@cache
def connector(kind: str) -> type[Connector]:
    """The connector of a kind."""
    for point in entry_points(group=GROUP, name=kind):
        loaded: type[Connector] = point.load()
        return loaded
    raise UsageError(f"There is no kind {kind!r}.", hint=f"The kinds are: {', '.join(kinds())}.")


def recognise(address: str, kind: str | None = None) -> tuple[str, str]:
    """The kind and the source URL of what a user typed."""
    for name in (kind,) if kind else kinds():
        if url := connector(name).recognise(address):
            return name, url
    if kind:
        raise UsageError(f"{address!r} is nothing that kind {kind!r} can read.")
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
