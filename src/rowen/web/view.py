"""What a page says, before it is drawn: the same facts become HTML for people and JSON for programs."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request

from rowen.errors import RefusedError
from rowen.model.access import Principal, Reach, Scope
from rowen.web.addresses import PageAddresses

__all__ = ["Goto", "ToldProblem", "View", "command", "goto", "may", "need", "number", "reach", "text"]


@dataclass(frozen=True, slots=True)
class View:
    """One page: its template with what that needs, its facts, and the commands that do the same in a terminal."""

    template: str
    title: str
    context: Mapping[str, Any] = field(default_factory=dict)
    facts: Any = None
    commands: Sequence[str] = ()
    status: int = 200


@dataclass(frozen=True, slots=True)
class ToldProblem:
    """What went wrong, as another door has told it."""

    detail: str
    code: str
    status: int
    hint: str | None = None

    def __str__(self) -> str:
        return self.detail


@dataclass(frozen=True, slots=True)
class Goto:
    """Another page to go on to, after something was done; the address begins at the root of the pages."""

    address: str


def goto(*segments: object, **query: object) -> Goto:
    """Go on to `/sources/NAME?tab=runs`; quoted, since names may hold anything."""
    return Goto(PageAddresses()(*segments, **query))


def command(*words: str) -> str:
    """The same in the terminal; quoted, since names and addresses may hold anything."""
    return shlex.join(["rowen", *words])


def may(request: Request, wanted: Scope) -> bool:
    """Whether who asks may do this much; who is unknown may read at most."""
    principal: Principal | None = getattr(request.state, "principal", None)
    return (principal.scope if principal else Scope.READ).allows(wanted)


def reach(request: Request) -> Reach:
    """What of this machine who asks may name."""
    principal: Principal | None = getattr(request.state, "principal", None)
    return principal.reach if principal else Reach.OUTSIDE


def need(request: Request, wanted: Scope) -> None:
    """Raise `RefusedError` unless who asks may do this much."""
    if not may(request, wanted):
        raise RefusedError(
            f"This needs the right to {wanted}, and you may read only. Nothing was changed.",
            hint="Sign in with a token that allows more.",
        )


def text(request: Request, name: str) -> str | None:
    """What stands in the address under this name, without white space around it; None for nothing."""
    return request.query_params.get(name, "").strip() or None


def number(value: str | None) -> int | None:
    """A count or a number of something; None for what is none, or has more digits than any."""
    is_number = value is not None and value.isascii() and value.isdigit() and len(value) <= 15
    return int(value) if value is not None and is_number else None
