"""What a page says, before it is drawn: the same facts become HTML for people and JSON for programs."""

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from starlette.requests import Request

from rowen.errors import RefusedError
from rowen.interfaces.web.addresses import PageAddresses
from rowen.model.access import Principal, Reach, Scope
from rowen.operations import Rowen
from rowen.operations.registry import scope_of

__all__ = [
    "Goto",
    "Guarded",
    "Handler",
    "ToldProblem",
    "View",
    "command",
    "goto",
    "may",
    "need",
    "number",
    "reach",
    "scope",
    "takes",
    "text",
]


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
    """What went wrong, as another interface has told it."""

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


def scope(request: Request) -> Scope:
    """Return the caller's scope; an unknown caller may read at most."""
    principal: Principal | None = getattr(request.state, "principal", None)
    return principal.scope if principal else Scope.READ


def may(request: Request, *operations: str) -> bool:
    """Whether the caller may do all of these operations."""
    return scope(request).allows(scope_of(operations))


def reach(request: Request) -> Reach:
    """What of this machine who asks may name."""
    principal: Principal | None = getattr(request.state, "principal", None)
    return principal.reach if principal else Reach.OUTSIDE


def caller(request: Request) -> str:
    """Return who is counted as one caller."""
    return getattr(request.state, "caller", "")


def check_origin(request: Request) -> None:
    """Raise `RefusedError` if a link of another site led here: what costs something takes a click on a page of ours."""
    if getattr(request.state, "from_other_site", False):
        raise RefusedError(
            "A page of another site led here, so nothing was asked for.", hint="Look at the address, and send it again."
        )


def need(request: Request, *operations: str) -> None:
    """Raise `RefusedError` unless the caller may do all of these operations."""
    if not may(request, *operations):
        raise RefusedError(
            f"This takes the scope {scope_of(operations)}, and yours is {scope(request)}. Nothing was changed.",
            hint="Sign in with a token that allows more.",
        )


Handler: TypeAlias = Callable[[Rowen, Request], Awaitable[View | Goto]]


@dataclass(frozen=True, slots=True)
class Guarded:
    """A handler that answers those only who may do certain operations."""

    handler: Handler
    operations: tuple[str, ...]

    @property
    def scope(self) -> Scope:
        """The scope that a caller needs."""
        return scope_of(self.operations)

    async def __call__(self, rowen: Rowen, request: Request) -> View | Goto:
        """Answer a request, or raise `RefusedError`."""
        need(request, *self.operations)
        return await self.handler(rowen, request)


def takes(*operations: str) -> Callable[[Handler], Guarded]:
    """Declare the operations that a handler calls, if they take more than the scope read."""
    return lambda handler: Guarded(handler, operations)


def text(request: Request, name: str) -> str | None:
    """What stands in the address under this name, without white space around it; None for nothing."""
    return request.query_params.get(name, "").strip() or None


def number(value: str | None) -> int | None:
    """A count or a number of something; None for what is none, or has more digits than any."""
    is_number = value is not None and value.isascii() and value.isdigit() and len(value) <= 15
    return int(value) if value is not None and is_number else None
