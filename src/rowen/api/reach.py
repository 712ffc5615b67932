"""What reaches into the machine that serves: its folders and its secrets. Only who runs it may name those."""

from collections.abc import Iterator, Mapping
from typing import Any

from rowen.errors import RefusedError
from rowen.model.access import Principal, Scope

__all__ = ["refuse_reach"]

# What lies elsewhere: all other addresses may be folders and files of this machine.
_ELSEWHERE = ("http://", "https://", "git+https://", "git+http://", "pypi:", "npm:", "pkg:")


def refuse_reach(principal: Principal, *, address: str | None = None, options: Mapping[str, Any] | None = None) -> None:
    """Refuse an address or options that lead into this machine, unless an administrator names them."""
    if principal.scope.allows(Scope.ADMIN):
        return
    if address is not None and not address.strip().lower().startswith(_ELSEWHERE):
        raise RefusedError(
            f"{address!r} may be a folder or a file of the server. Only an administrator may name one. "
            "Nothing was done.",
            hint="Ask with a token of the scope admin.",
        )
    for value in _strings(options or {}):
        if value.strip().lower().startswith(("env:", "file:")):
            raise RefusedError(
                "A secret or file of the server is named. Only an administrator may do so. Nothing was done.",
                hint="Ask with a token of the scope admin.",
            )


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case Mapping():
            for one in value.values():
                yield from _strings(one)
        case list() | tuple():
            for one in value:
                yield from _strings(one)
