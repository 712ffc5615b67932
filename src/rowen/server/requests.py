"""Read requests in the layers of the server, as plain ASGI, so that streams are not buffered."""

import ipaddress
from collections.abc import Iterator
from contextvars import ContextVar
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import Scope

from rowen.settings.values import Networks

REQUEST_ID: ContextVar[str] = ContextVar("request", default="")
"""The id of the current request, for the log."""

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_CUSTOMER_BITS = 64  # a provider gives each customer at least a /64 network
_LOOPBACK_NAMES = frozenset({"localhost", "localhost."})


def headers_of(scope: Scope) -> Headers:
    """Return the headers of a request."""
    return Headers(scope=scope)


def path_of(scope: Scope) -> str:
    """Return the path of a request relative to the base path."""
    path, base = str(scope["path"]), str(scope.get("root_path", ""))
    return path.removeprefix(base) if base and path.startswith(f"{base}/") else path


def client_of(scope: Scope) -> str:
    """Return the client address of a request; empty if unknown."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def place_of(scope: Scope) -> str:
    """Return the client to which the address of a request belongs."""
    return place_of_address(client_of(scope))


def place_of_address(client: str) -> str:
    """Return the client to which an address belongs: the address, or the /64 network of an IPv6 address."""
    address = _address(client)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None:
        return str(ipaddress.IPv6Network((address, _CUSTOMER_BITS), strict=False))
    return client


def is_within(client: str, networks: Networks) -> bool:
    """Return whether an address is in one of these networks."""
    address = _address(client)
    if isinstance(address, ipaddress.IPv6Address):
        address = address.ipv4_mapped or address
    return address is not None and any(address in network for network in networks)


def host_of(scope: Scope) -> str:
    """Return the host name of a request, without its port."""
    value = headers_of(scope).get("host", "")
    name = value[1:].partition("]")[0] if value.startswith("[") else value.partition(":")[0]
    return name.lower()


def origin_host(origin: str) -> tuple[str, int | None]:
    """Return the host and port of an origin; an empty host if it is invalid."""
    try:
        parts = urlsplit(origin)
        usual = {"http": 80, "https": 443}.get(parts.scheme)
        return parts.hostname or "", parts.port or usual
    except ValueError:
        return "", None


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is local to this machine."""
    address = _address(host)
    return host.lower() in _LOOPBACK_NAMES if address is None else address.is_loopback


def is_address(host: str) -> bool:
    """Return whether a host is an IP address, which DNS rebinding cannot use."""
    return _address(host) is not None


def cookie_name(scope: Scope, name: str) -> str:
    """Return the name of a cookie; over TLS it has the prefix `__Host-`, so that other hosts cannot set it."""
    return f"__Host-{name}" if scope.get("scheme") == "https" else name


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def cookies_of(scope: Scope) -> Iterator[tuple[str, str]]:
    """Yield the names and values of a request's cookies, undecoded."""
    for part in headers_of(scope).get("cookie", "").split(";"):
        name, equals, value = part.strip().partition("=")
        if equals:
            yield name, value
