"""What the layers of the server look at in a request: plain ASGI, so that streams are not held up."""

import ipaddress
from collections.abc import Iterator
from contextvars import ContextVar
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import Scope

from rowen.settings.values import Networks

__all__ = [
    "REQUEST_ID",
    "SAFE",
    "client_of",
    "cookie_name",
    "cookies_of",
    "headers_of",
    "host_of",
    "is_address",
    "is_loopback",
    "is_within",
    "origin_host",
    "path_of",
    "place_of",
    "place_of_address",
]

REQUEST_ID: ContextVar[str] = ContextVar("request", default="")
"""The request that is being answered, for the log."""

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_CUSTOMER_BITS = 64  # the least that a provider gives to one customer, and so one of many addresses of a guesser
_LOOPBACK_NAMES = frozenset({"localhost", "localhost."})


def headers_of(scope: Scope) -> Headers:
    """The headers of a request."""
    return Headers(scope=scope)


def path_of(scope: Scope) -> str:
    """The path of a request below the base path."""
    path, base = str(scope["path"]), str(scope.get("root_path", ""))
    return path.removeprefix(base) if base and path.startswith(f"{base}/") else path


def client_of(scope: Scope) -> str:
    """The address that a request came from; empty where that is not known."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def place_of(scope: Scope) -> str:
    """Who the address of a request stands for."""
    return place_of_address(client_of(scope))


def place_of_address(client: str) -> str:
    """Who an address stands for: of IPv6, all that one customer has."""
    address = _address(client)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None:
        return str(ipaddress.IPv6Network((address, _CUSTOMER_BITS), strict=False))
    return client


def is_within(client: str, networks: Networks) -> bool:
    """Whether an address lies in one of these networks."""
    address = _address(client)
    if isinstance(address, ipaddress.IPv6Address):
        address = address.ipv4_mapped or address
    return address is not None and any(address in network for network in networks)


def host_of(scope: Scope) -> str:
    """The name that a request calls us by, without its port."""
    return _host(headers_of(scope).get("host", ""))


def origin_host(origin: str) -> tuple[str, int | None]:
    """The host and port of an origin; an empty one for what is none."""
    try:
        parts = urlsplit(origin)
        usual = {"http": 80, "https": 443}.get(parts.scheme)
        return parts.hostname or "", parts.port or usual
    except ValueError:
        return "", None


def is_loopback(host: str) -> bool:
    """Whether a name or an address is this machine's own, and nobody else's."""
    address = _address(host)
    return host.lower() in _LOOPBACK_NAMES if address is None else address.is_loopback


def is_address(host: str) -> bool:
    """Whether a host is given as an address; no page of a stranger can be made to call us by one of ours."""
    return _address(host) is not None


def cookie_name(scope: Scope, name: str) -> str:
    """The name of a cookie of ours: over TLS with `__Host-`, which browsers take from no other host."""
    return f"__Host-{name}" if scope.get("scheme") == "https" else name


def _host(value: str) -> str:
    if value.startswith("["):
        return value[1:].partition("]")[0].lower()
    return value.partition(":")[0].lower()


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def cookies_of(scope: Scope) -> Iterator[tuple[str, str]]:
    """The cookies of a request, as they stand."""
    for part in headers_of(scope).get("cookie", "").split(";"):
        name, equals, value = part.strip().partition("=")
        if equals:
            yield name, value
