"""A page before it is rendered: its facts, its addresses, and the permissions of the caller."""

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode, urljoin, urlsplit

from starlette.requests import Request

from rowen.errors import RefusedError
from rowen.model.access import Principal, Reach, Scope
from rowen.operations import Rowen
from rowen.operations.registry import scope_of

# A `javascript:` or `data:` address would run in this page; a `file:` address cannot be opened from it.
_SCHEMES = ("http", "https")


@dataclass(frozen=True, slots=True)
class PageAddresses:
    """Builds addresses of pages: `at("sources", name, q="hay")` is `/sources/NAME?q=hay`."""

    root: str = ""

    def __call__(self, *segments: object, **query: object) -> str:
        """Return the address of a page; empty values of the query are omitted, a list becomes a repeated parameter."""
        path = "/".join(quote(str(segment), safe="") for segment in segments)
        pairs = [
            (name, str(part))
            for name, value in query.items()
            for part in (value if isinstance(value, list | tuple) else [value])
            if part not in (None, "", False)
        ]
        return f"{self.root}/{path}" + (f"?{urlencode(pairs)}" if pairs else "")

    def feed(self, form: str, source: str | None = None, **filters: object) -> str:
        """Return the address of a feed of changes: `atom`, `json`, or `ldes` for an event stream."""
        segments = ("sources", source) if source else ()
        return self(*segments, "ldes") if form == "ldes" else self(*segments, "feeds", form, **filters)


def outside(url: str) -> str:
    """Return an address on another site if it may be a link, else an empty text."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return url if parts.scheme.lower() in _SCHEMES and parts.netloc else ""


def joined(base: str, link: str) -> str:
    """Return the absolute address of a link in a text; an empty text if browsers must not follow it."""
    try:
        return outside(urljoin(base, link.strip())) if outside(base) or outside(link) else ""
    except ValueError:
        return ""


def local(path: str | None) -> str:
    """Return a path on this server; the front page if the path leads elsewhere, such as `//host`."""
    is_ours = path is not None and path.startswith("/") and not path.startswith(("//", "/\\"))
    return path if path is not None and is_ours and path.isprintable() else "/"


@dataclass(frozen=True, slots=True)
class View:
    """One page: its template with context, its facts for JSON, and equivalent commands for a terminal."""

    template: str
    title: str
    context: Mapping[str, Any] = field(default_factory=dict)
    facts: Any = None
    commands: Sequence[str] = ()
    status: int = 200


@dataclass(frozen=True, slots=True)
class Goto:
    """A redirect to another page; the address is relative to the root of the pages."""

    address: str


Handler: TypeAlias = Callable[[Rowen, Request], Awaitable[View | Goto]]


def goto(*segments: object, **query: object) -> Goto:
    """Return a redirect such as `/sources/NAME?tab=runs`; segments are quoted, since names may contain anything."""
    return Goto(PageAddresses()(*segments, **query))


def command(*words: str) -> str:
    """Return an equivalent command for a terminal; words are quoted, since names may contain anything."""
    return shlex.join(["rowen", *words])


def scope(request: Request) -> Scope:
    """Return the caller's scope; it is at most `read` for an unknown caller."""
    principal: Principal | None = getattr(request.state, "principal", None)
    return principal.scope if principal else Scope.READ


def reach(request: Request) -> Reach:
    """Return the parts of this machine that the caller may name."""
    principal: Principal | None = getattr(request.state, "principal", None)
    return principal.reach if principal else Reach.OUTSIDE


def caller(request: Request) -> str:
    """Return the key under which the caller's requests are counted."""
    return getattr(request.state, "caller", "")


def check_origin(request: Request) -> None:
    """Raise `RefusedError` if a link on another site led here.

    Pages that send requests to other servers may be opened only from Rowen's own pages.
    """
    if getattr(request.state, "from_other_site", False):
        raise RefusedError(
            "A link of another site led here, so nothing was requested.", hint="Check the address, and send it again."
        )


def may(request: Request, *operations: str) -> bool:
    """Return whether the caller may use all of these operations."""
    return scope(request).allows(scope_of(operations))


def need(request: Request, *operations: str) -> None:
    """Raise `RefusedError` unless the caller may use all of these operations."""
    if not may(request, *operations):
        raise RefusedError(
            f"This takes the scope {scope_of(operations)}, and yours is {scope(request)}. Nothing was changed.",
            hint="Sign in with a token that allows more.",
        )


@dataclass(frozen=True, slots=True)
class Guarded:
    """A handler that requires permission for certain operations."""

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
    """Declare the operations that a handler calls and that need more than the scope `read`."""
    return lambda handler: Guarded(handler, operations)


def text(request: Request, name: str) -> str | None:
    """Return a value of the query without surrounding white space; None if it is empty."""
    return request.query_params.get(name, "").strip() or None


def number(value: str | None) -> int | None:
    """Return a value as a number; None if it is not a number or has too many digits."""
    is_number = value is not None and value.isascii() and value.isdigit() and len(value) <= 15
    return int(value) if value is not None and is_number else None
