"""The kinds of sources: built-in kinds and kinds of other packages, which use the same interface.

A connector is imported on first use of its kind. This module also recognises addresses, validates options, and
implements the rule for changes of options: a caller who may not name secrets may make no change after which a secret
is sent to another place, or in another way, than before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from rowen.errors import RowenError, UsageError
from rowen.model.url import Address, canonical
from rowen.net.credentials import exposed, exposed_in, leaves, references, troubles_with_headers

if TYPE_CHECKING:
    from rowen.connectors.base import Connector, Options
    from rowen.connectors.probe import Probe

GROUP = "rowen.connectors"

_LINK = re.compile(rb"<link\b[^<>]*>", re.IGNORECASE)
_CANONICAL = re.compile(rb"""\brel\s*=\s*["']?canonical\b""", re.IGNORECASE)
_HREF = re.compile(rb"""\bhref\s*=\s*["']?([^"'\s>]+)""", re.IGNORECASE)

# Many portals offer a general kind besides their own API, which is preferred. Of the general kinds, the first wins.
_GENERAL = ("oai", "csw", "sparql", "dcat", "datajson")

# Patterns are compiled during the request: 20,000 take 0.5 s, and 2,000 take 50 ms.
_MOST_VALUES = 2_000
# Far more than any source needs, and valid for the database and the clock: a pause of 1e18 s kept all processes
# from sharing the pace of hosts. JSON cannot represent all integers beyond 2**53.
_LARGEST_BY_UNIT = {"_s": 86_400, "_h": 87_600, "_days": 36_500}
_LARGEST = 2**53

_registered: dict[str, type[Connector]] = {}


def register(connector: type[Connector]) -> None:
    """Register a kind in this process; packages use the entry point `rowen.connectors` instead."""
    _registered[connector.kind] = connector


def kinds() -> tuple[str, ...]:
    """Return the names of all kinds, sorted."""
    return tuple(sorted({*_registered, *_installed()}))


def connector(kind: str) -> type[Connector]:
    """Return the connector class of a kind."""
    if kind not in _registered and kind in _installed():
        _registered[kind] = _installed()[kind].load()
    if kind in _registered:
        return _registered[kind]
    raise UsageError(f"There is no kind {kind!r}.", hint=f"The kinds are: {', '.join(kinds())}.")


@cache
def _installed() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def recognise(address: str, kind: str | None = None) -> tuple[str, str]:
    """Return the kind and the source URL for an address that a user typed."""
    _refuse_login(address)
    if kind:
        if url := accepted(address, connector(kind)):
            _refuse_login(url)
            return kind, url
        raise UsageError(f"{address!r} is nothing that kind {kind!r} can read.")
    place = Address.of(address)
    # If the scheme of the address is the name of a kind, this kind is asked first.
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
    """Raise `UsageError` if an address contains a secret.

    Call this for the typed and for the recognised address, since an address typed without a scheme gets one.
    """
    if secret := exposed_in(address):
        raise UsageError(
            f"The address contains {secret}, which would be stored in clear.",
            hint="Leave it out, and set a reference to it in an option of the source, such as headers or token.",
        )


def accepted(address: str, chosen: type[Connector]) -> str | None:
    """Return the source URL for an address whose kind the user named; None if the kind cannot read it."""
    url: str | None = getattr(chosen, "accept", chosen.recognise)(Address.of(address).text)
    return url


def covers(kind: str, url: str, options: dict[str, Any], addresses: Sequence[str]) -> bool:
    """Return whether one of the addresses may be an item of the source: by its kind, or below the source's own URL.

    A kind that can decide more precisely than by the path has a class method `covers(url, options, addresses)`.
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
    """Return the canonical form of a URL; an empty string for an invalid URL."""
    try:
        return canonical(url)
    except ValueError:
        return ""


async def discover(probe: Probe) -> tuple[str, str] | None:
    """Return the kind and the source URL for a probed address; None if no kind recognises its responses.

    First each kind checks the response of the address itself. Only then may the kinds send further requests.
    """
    probing = [kind for kind in kinds() if hasattr(connector(kind), "probe")]
    probing.sort(key=lambda kind: _GENERAL.index(kind) if kind in _GENERAL else -1)
    for may_ask in (False, True):
        probe.may_ask = may_ask
        for kind in probing:
            with suppress(RowenError):
                if url := await getattr(connector(kind), "probe")(probe):  # noqa: B009 (not every kind has it)
                    return kind, url
    return None


async def other_addresses(probe: Probe, kind: str, *, may_ask: bool) -> tuple[str, ...]:
    """Return other addresses of a portal: the address after redirects, and addresses named in its page or its API.

    A kind whose portals name their own address has a class method `own_address(probe)`. The canonical link of a
    website (kind `web`) does not count: each version of a documentation links to the latest version there.
    """
    addresses = [probe.landed]
    if probe.page is not None and kind != "web":
        links = [_HREF.search(tag) for tag in _LINK.findall(probe.page.body) if _CANONICAL.search(tag)]
        addresses += [href[1].decode("utf-8", "replace") for href in links if href]
    own_address = getattr(connector(kind), "own_address", None) if may_ask else None
    with suppress(RowenError):
        if own_address is not None and (own := await own_address(probe)):
            addresses.append(own)
    return tuple(dict.fromkeys(url for url in addresses if Address.of(url).is_web and url != probe.url))


def refuse_unfit(options: Mapping[str, Any]) -> None:
    """Raise `UsageError` if the options contain a credential in clear or an invalid header; never repeat its value."""
    if trouble := next(troubles_with_headers(options), None):
        raise UsageError(f"{trouble} Nothing was changed.")
    if name := next(exposed(options), None):
        raise UsageError(
            f"Option {name} holds a credential in clear, which would be stored. Nothing was changed.",
            hint="Give a reference instead: env:NAME or file:PATH, also after a scheme: Bearer env:NAME.",
        )


def refuse_unknown_options(options: Mapping[str, Any]) -> None:
    """Raise `UsageError` for an option that no kind has, and suggest an option with a similar name."""
    fields_by_kind = {kind: connector(kind).Options.model_fields for kind in kinds()} if options else {}
    names = {name for fields in fields_by_kind.values() for name in fields}
    for name in options:
        if name not in names:
            close = get_close_matches(name, sorted(names), n=1)
            owners = ", ".join(kind for kind, fields in fields_by_kind.items() if close and close[0] in fields)
            hint = f"Did you mean {close[0]!r} (of {owners})?" if close else "`rowen add --help` lists the kinds."
            raise UsageError(f"No kind of source has an option {name!r}. Nothing was added.", hint=hint)


def check_options(kind: str, options: dict[str, Any]) -> Options:
    """Validate the options of a kind; raise `UsageError` with the name of an invalid option."""
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
    for name in options:
        value = getattr(checked, name)
        if isinstance(value, int | float):
            largest = next((limit for unit, limit in _LARGEST_BY_UNIT.items() if name.endswith(unit)), _LARGEST)
            if not abs(value) <= largest:
                raise UsageError(f"Option {name!r} of kind {kind!r} can be {largest:,} at most.")
    return checked


class Sending(NamedTuple):
    """A secret, the option that contains it, and the names and values of the options that decide where it is sent."""

    secret: str
    option: str
    value: str
    route: frozenset[tuple[str, str]]


def sendings(kind: str, options: Mapping[str, Any]) -> set[Sending]:
    """Return the secrets that a source of this kind sends with these options."""
    referring = [(name, value) for name, value in leaves(options) if any(references({name: value}))]
    route = frozenset(steering(kind, options)) if referring else frozenset()
    return {Sending(secret, name, value, route) for name, value in referring for _, secret in references({name: value})}


def steering(kind: str, options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the options that may decide where or how a secret is sent, without references and default values.

    These are all options except numbers, times, folders and options that their kind declares neutral.
    """
    # The same rule applies to webhooks and endpoints, which are no kinds of sources.
    neutral, defaults = _declared(connector(kind).Options) if kind in kinds() else (frozenset(), {})
    secret = {name for name, _ in references(options)}
    for option, value in options.items():
        if option in neutral or value is None or value == defaults.get(option):
            continue
        yield from ((name, str(leaf)) for name, leaf in leaves(value, option) if name not in secret)


@cache
def _declared(declared: type[Options]) -> tuple[frozenset[str], dict[str, Any]]:
    """Return the names of the neutral options, and the default values of all options."""
    fields = declared.model_fields
    neutral = set(declared.secret_neutral)
    for name, field in fields.items():
        # Numbers and times; folders are guarded separately.
        types = {*(get_args(field.annotation) or (field.annotation,))} - {type(None)}
        amounts = [isinstance(type_, type) and issubclass(type_, int | float | date | Path) for type_ in types]
        if all(amounts) and bool not in types:
            neutral.add(name)
    return frozenset(neutral), {name: field.get_default(call_default_factory=True) for name, field in fields.items()}
