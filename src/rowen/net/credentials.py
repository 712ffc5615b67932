"""Resolve credentials by reference: the store contains the place of a secret and its allowed origin, no secret.

A secret is sent only to the origin of an address that the user entered: the source's own, or one in its options or in
the settings. Addresses in redirects, links, next pages and package metadata were written by others.
"""

import base64
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from rowen.errors import ConfigurationError
from rowen.model.url import Address
from rowen.net.target import parse

_REFERENCE = re.compile(r"(?P<scheme>(?i:Apikey|Basic|Bearer|Token) )?(?P<kind>env|file):(?P<place>\S.*)")
_UNSENDABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
# RFC 9110, section 5.6.2; servers take names of some dozen letters.
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}")
# These headers delimit a request and control its connection, so only the client may set them.
_FRAMING = frozenset(
    {"connection", "content-length", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
)
_SECRET = re.compile(
    r"authorization|cookie|password|passwd|secret|token|api[-_]?key|apikey|access[-_]?key", re.IGNORECASE
)
# Words that mark a header as a credential if they are a whole word of its name: X-Key, but not X-Keyboard.
_SECRET_WORD = re.compile(
    r"(?:^|[^a-z])(?:key|auth|session(?:id)?|sid|jwt|credentials?|signature|login|pass|pwd)(?:$|[^a-z])", re.IGNORECASE
)
_SCHEME = re.compile(r"(?:Apikey|Basic|Bearer|Digest|Negotiate|Token) ", re.IGNORECASE)
_HEADERS = re.compile(r"(?:^|[._])headers\.", re.IGNORECASE)
# Browsers and the URL parser accept any number of slashes after http:, in either direction.
_USERINFO = re.compile(
    r"(?:[a-z0-9.]+\+)?(?:(?P<web>https?):[/\\]*|(?P<other>[a-z0-9.-]+)://)(?P<user>[^/\\?#]*)@", re.IGNORECASE
)
# Tokens have some hundred bytes, cookies up to 4 kB; a file of more was not written to be sent in a header.
_MOST_BYTES = 16_384
_SHOWN = 50  # characters of a wrong name in an error message


@dataclass(frozen=True, slots=True)
class Credentials:
    """Headers for one origin and no other; a value may be `env:NAME`, `file:/path`, or `Bearer env:NAME`."""

    origin: str
    values: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, named: str, values: Mapping[str, str]) -> "Credentials | None":
        """Return credentials for the origin of an address that the user entered, never of an address read elsewhere."""
        return cls(parse(named).origin, dict(values)) if values else None

    def headers(self, origin: str) -> dict[str, str]:
        """Return the headers to send to an origin, with resolved references; empty for any other origin."""
        if origin != self.origin:
            return {}
        for trouble in troubles_with_headers({"headers": self.values}):
            raise ConfigurationError(f"{trouble} Nothing was sent.", hint="Change the option that has it.")
        return {name: resolve(value) for name, value in self.values.items()}


def resolve(value: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the value behind a reference; return any other text unchanged."""
    match = _REFERENCE.fullmatch(value)
    if match is None:
        return _sendable(value, "A header given literally")
    scheme, kind, place = match["scheme"] or "", match["kind"], match["place"]
    secret = environment.get(place) if kind == "env" else _content(Path(place))
    if not secret:
        where = "environment variable" if kind == "env" else "file"
        raise ConfigurationError(
            f"The {where} {place}, which holds a credential, is missing or empty.",
            hint="Set it for the process that runs Rowen; the source only stores the reference.",
        )
    if scheme.lower() == "basic " and ":" in secret:
        secret = base64.b64encode(secret.encode()).decode()
    return scheme + _sendable(secret, f"The credential in {place}")


def exposed(options: Mapping[str, Any]) -> Iterator[str]:
    """Return the names of all options that contain a credential in clear text."""
    return (name for name, value in leaves(options) if is_exposed(name, value))


def is_exposed(name: str, value: Any) -> bool:
    """Return whether an option's value looks like a credential in clear text; references do not.

    The option's name decides: `token`, `headers.Authorization`, `headers.X-Key`. A header of any name counts if its
    value begins like a credential: `Bearer …`.
    """
    if not isinstance(value, str) or not value or _REFERENCE.fullmatch(value):
        return False
    if name.lower().endswith(("_header", "_url")):
        return False
    header = _HEADERS.search(name)
    if header is None:
        return bool(_SECRET.search(name))
    called = name[header.end() :]
    return bool(_SECRET.search(called) or _SECRET_WORD.search(called) or _SCHEME.match(value))


def shown(value: Any, name: str = "") -> Any:
    """Return options for printing; hide credentials in clear text, which older versions accepted."""
    if isinstance(value, Mapping):
        return {key: shown(inner, f"{name}.{key}" if name else str(key)) for key, inner in value.items()}
    return "(hidden)" if is_exposed(name, value) else value


def exposed_in(address: str) -> str | None:
    """Return the kind of secret that an address contains in clear text, a login or a parameter; None without one."""
    address = re.sub(r"[\x00-\x20]", "", address)
    user = _USERINFO.match(address)
    # The user name in an ssh address is no secret, and a necessary part of the address.
    if user and not ((user["other"] or "").lower() == "ssh" and ":" not in user["user"]):
        return "a login"
    try:
        query = urlsplit(address).query if Address.of(address).scheme else ""
    except ValueError:
        return None
    return next((f"a credential, as {name}" for name, value in parse_qsl(query) if is_exposed(name, value)), None)


def references(options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the options that refer to secrets of this machine, with their references."""
    for name, value in leaves(options):
        if isinstance(value, str) and (match := _REFERENCE.fullmatch(value)):
            yield name, f"{match['kind']}:{match['place']}"


def destinations(options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the options that decide where a secret is sent: addresses, and the header Host."""
    for name, value in leaves(options):
        if isinstance(value, str) and "://" in value:
            yield name, value
    for option, values in options.items():
        if isinstance(values, Mapping):
            yield from ((f"{option}.{name}", str(value)) for name, value in values.items() if name.lower() == "host")


def troubles_with_headers(options: Mapping[str, Any]) -> Iterator[str]:
    """Yield the errors in the headers of options, according to RFC 9110."""
    for option, headers in options.items():
        if option.endswith("headers") and isinstance(headers, Mapping):
            for name, value in headers.items():
                if not _HEADER_NAME.fullmatch(name) or name.lower() in _FRAMING:
                    yield f"{name[:_SHOWN]!r} cannot be the name of a header in {option}."
                elif isinstance(value, str) and (_UNSENDABLE.search(value) or len(value) > _MOST_BYTES):
                    yield f"The value of the header {name} in {option} has a line break or a control, or is too long."


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all single values in options, each with its dotted name, such as `headers.Accept`."""
    match value:
        case Mapping():
            for key, inner in value.items():
                yield from leaves(inner, f"{name}.{key}" if name else str(key))
        case list() | tuple():
            for inner in value:
                yield from leaves(inner, name)
        case _:
            yield name, value


def _content(path: Path) -> str:
    """Return the text of a regular file of limited size, otherwise ""; a pipe or a device would block forever."""
    try:
        descriptor = os.open(path.expanduser(), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode) or facts.st_size > _MOST_BYTES:
                return ""
            return file.read(_MOST_BYTES).decode("utf-8").strip()
    except (OSError, RuntimeError, ValueError):
        return ""


def _sendable(secret: str, what: str) -> str:
    if _UNSENDABLE.search(secret):
        raise ConfigurationError(f"{what} contains a line break or another control character.")
    return secret
