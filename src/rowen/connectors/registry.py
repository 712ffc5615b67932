"""Which connectors there are: the built-in ones and those of other packages, through the same interface.

Kinds are known by their names; a connector is imported when one is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from rowen.errors import RowenError, UsageError
from rowen.model.address import Address
from rowen.model.url import canonical
from rowen.net.credentials import exposed, exposed_in, troubles_with_headers

if TYPE_CHECKING:
    from rowen.connectors.base import Connector, Options
    from rowen.connectors.probe import Probe

__all__ = [
    "accepted",
    "check_options",
    "connector",
    "covers",
    "discover",
    "kinds",
    "other_addresses",
    "recognise",
    "refuse_unfit",
    "refuse_unknown_options",
    "register",
]

GROUP = "rowen.connectors"

_LINK = re.compile(rb"<link\b[^<>]*>", re.IGNORECASE)
_CANONICAL = re.compile(rb"""\brel\s*=\s*["']?canonical\b""", re.IGNORECASE)
_HREF = re.compile(rb"""\bhref\s*=\s*["']?([^"'\s>]+)""", re.IGNORECASE)

# Portals have a way of their own, and many show the same as DCAT or data.json too: the first is the one to take.
_GENERAL = ("oai", "csw", "sparql", "dcat", "datajson")

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
    _refuse_login(address)
    if kind:
        if url := accepted(address, connector(kind)):
            _refuse_login(url)
            return kind, url
        raise UsageError(f"{address!r} is nothing that kind {kind!r} can read.")
    place = Address.of(address)
    # The kind that the address begins with is asked before all others.
    for name in (place.scheme, *kinds()) if place.scheme in kinds() else kinds():
        if url := connector(name).recognise(place.text):
            _refuse_login(url)
            return name, url
    path = "" if place.is_file else " A path with a colon in it begins with ./ or /."
    raise UsageError(
        f"No kind of source recognises {address!r}.",
        hint=f"Check the spelling, or name the kind with --kind ({', '.join(kinds())}).{path}",
    )


def _refuse_login(address: str) -> None:
    """Refuse an address with a secret. Both forms are looked at: what was typed without a scheme gets one."""
    if what := exposed_in(address):
        raise UsageError(
            f"The address contains {what}, which would be stored in clear.",
            hint="Leave it out, and name where it is found in an option of the source, such as headers or token.",
        )


def accepted(address: str, chosen: type[Connector]) -> str | None:
    """The source URL of what a user typed and says to be of a kind."""
    found: str | None = getattr(chosen, "accept", chosen.recognise)(Address.of(address).text)
    return found


def covers(kind: str, url: str, options: dict[str, Any], addresses: Sequence[str]) -> bool:
    """Whether one of some addresses may be an item of a source: its kind says so, or it lies below the source's own.

    A kind that knows better than by the path has a class method `covers(url, options, addresses)`.
    """
    if not addresses:
        return False
    chosen = connector(kind)
    if hasattr(chosen, "covers"):
        return bool(chosen.covers(url, check_options(kind, options), addresses))
    root = _canonical(url.removeprefix("git+")).rstrip("/")
    below = (f"{root}/", f"{root}?", f"{root}#")
    return bool(root) and any(
        address.rstrip("/") == root or address.startswith(below) for address in map(_canonical, addresses)
    )


def _canonical(url: str) -> str:
    """The canonical form of a URL; empty for what is none."""
    try:
        return canonical(url)
    except ValueError:
        return ""


async def discover(probe: Probe) -> tuple[str, str] | None:
    """The kind and the source URL of what is found at an address; None if no kind finds itself there.

    All kinds are asked what they see in what the address itself answered, before any of them may ask for more.
    """
    asked = [kind for kind in kinds() if hasattr(connector(kind), "probe")]
    asked.sort(key=lambda kind: _GENERAL.index(kind) if kind in _GENERAL else -1)
    for may_ask in (False, True):
        probe.may_ask = may_ask
        for kind in asked:
            with suppress(RowenError):
                if url := await getattr(connector(kind), "probe")(probe):  # noqa: B009 (not every kind has it)
                    return kind, url
    return None


async def other_addresses(probe: Probe, kind: str, *, may_ask: bool) -> tuple[str, ...]:
    """Where an address led, and how what is found there calls itself: in its page, or by its own API.

    A kind whose portals tell their address has a class method `own_address(probe)`. What a page of a mere site is
    called does not count: each version of a documentation names the latest one there.
    """
    page = probe.page
    found = [probe.landed]
    found += _canonical_links(page.body) if page is not None and kind != "web" else []
    own = getattr(connector(kind), "own_address", None) if may_ask else None
    with suppress(RowenError):
        if own is not None and (told := await own(probe)):
            found.append(told)
    return tuple(dict.fromkeys(one for one in found if Address.of(one).is_web and one != probe.url))


def _canonical_links(page: bytes) -> list[str]:
    """How the page of a portal says that it is called."""
    tags = _LINK.findall(page)
    found = [_HREF.search(tag) for tag in tags if _CANONICAL.search(tag)]
    return [href[1].decode("utf-8", "replace") for href in found if href]


def refuse_unfit(options: Mapping[str, Any]) -> None:
    """Refuse options that are about to be stored with a credential in clear, or with a header that cannot be sent.

    The error does not repeat a credential.
    """
    if trouble := next(troubles_with_headers(options), None):
        raise UsageError(f"{trouble} Nothing was changed.")
    if name := next(exposed(options), None):
        raise UsageError(
            f"Option {name} holds a credential in clear, which would be stored. Nothing was changed.",
            hint="Say where it is found: env:NAME or file:PATH, also after a scheme: Bearer env:NAME.",
        )


def refuse_unknown_options(options: Mapping[str, Any]) -> None:
    """Refuse an option that no kind has; one that is close is named."""
    from difflib import get_close_matches

    having = {kind: connector(kind).Options.model_fields for kind in kinds()} if options else {}
    every = {name for fields in having.values() for name in fields}
    for name in options:
        if name not in every:
            close = get_close_matches(name, sorted(every), n=1)
            owners = ", ".join(kind for kind, fields in having.items() if close and close[0] in fields)
            hint = f"Did you mean {close[0]!r} (of {owners})?" if close else "`rowen add --help` lists the kinds."
            raise UsageError(f"No kind of source has an option {name!r}. Nothing was added.", hint=hint)


def check_options(kind: str, options: dict[str, Any]) -> Options:
    """The options of a kind, validated; a wrong one is named together with those that exist."""
    model = connector(kind).Options
    for name, value in options.items():
        if isinstance(value, list | tuple | dict) and len(value) > _MOST_VALUES:
            raise UsageError(f"Option {name!r} of kind {kind!r} can have {_MOST_VALUES:,} values at most.")
    try:
        checked = model.model_validate(options)
    except ValueError as problem:
        from pydantic import ValidationError

        if not isinstance(problem, ValidationError):
            raise
        first = problem.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            raise UsageError(
                f"Kind {kind!r} has no option {name!r}.", hint=f"Its options: {', '.join(sorted(model.model_fields))}."
            ) from None
        raise UsageError(f"Option {name!r} of kind {kind!r}: {first['msg']}.") from None
    _refuse_beyond_bounds(kind, {name: getattr(checked, name) for name in options})
    return checked


# Lists of patterns are compiled where others wait: 20,000 take 0.5 s, and this many 50 ms.
_MOST_VALUES = 2_000
# Far more than any source needs, and little enough for the database and the clock: a pause of 1e18 s kept all processes
# from sharing the pace of hosts. JSON holds no whole number beyond 2**53.
_LARGEST_BY_UNIT = {"_s": 86_400, "_h": 87_600, "_days": 36_500}
_LARGEST = 2**53


def _refuse_beyond_bounds(kind: str, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if isinstance(value, int | float):
            largest = next((most for unit, most in _LARGEST_BY_UNIT.items() if name.endswith(unit)), _LARGEST)
            if not abs(value) <= largest:
                raise UsageError(f"Option {name!r} of kind {kind!r} can be {largest:,} at most.")
