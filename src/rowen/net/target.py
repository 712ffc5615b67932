"""Parse URLs as targets of requests, and keep requests away from addresses that are not public.

The guard checks each socket when it is created, after name resolution. It sees the address of every connection on
every hop, so it does not matter if a name resolves to another address a moment later.
"""

import base64
import re
import socket
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote, unquote_to_bytes

import ada_url

from rowen.errors import AddressRefusedError, BadUrlError
from rowen.model.url import trimmed
from rowen.settings import Settings

_USERINFO = re.compile(r"(?<=//)[^/?#]*@")
_SECRET = re.compile(
    r"(?:^|[^a-z])(?:(?:api|access|subscription)?[_-]?(?:key|token)|secret|pass(?:word|wd)?|pwd|auth(?:orization)?|"
    r"sig(?:nature)?|credentials?|session(?:id)?|sid|jwt|code)(?:$|[^a-z])",
    re.IGNORECASE,
)
# URLs that the parser leaves unchanged. Most URLs are like this, and parsing each would cost more than everything else
# here.
_PLAIN = re.compile(r"/[\w!$%&()*+,./:;=?@~-]*", re.ASCII)
_ASCII = "".join(map(chr, range(0x21, 0x7F)))


class Target(NamedTuple):
    """A URL that can be requested: in WHATWG form, without fragment and user information.

    `host` contains the port unless it is the scheme's default; `login` is the user information as a value for the
    header Authorization.
    """

    url: str
    host: str
    origin: str
    login: str | None = None


def parse(url: str) -> Target:
    """Parse a URL; raise `BadUrlError` if it cannot be requested over HTTP."""
    end = url.find("/", 8)
    if _PLAIN.fullmatch(url, end) and "/." not in url and "%2" not in url and (host := _normal_host(url[:end])):
        return Target(url, host, url[:end])
    try:
        href = str(ada_url.normalize_url(url)).partition("#")[0]
    except ValueError:
        raise BadUrlError(f"{redact(url)!r} is not a URL.") from None
    scheme, _, rest = href.partition("://")
    if scheme not in ("http", "https"):
        raise BadUrlError(f"{redact(url)!r} cannot be fetched: only http and https are supported.")
    authority, slash, path = rest.partition("/")
    user, at, host = authority.rpartition("@")
    origin = f"{scheme}://{host}"
    login = None
    if at:
        name, _, password = user.partition(":")
        login = "Basic " + base64.b64encode(unquote_to_bytes(name) + b":" + unquote_to_bytes(password)).decode()
    return Target(f"{origin}{slash}{path}", host, origin, login)


# By origin, not by URL: more origins than a crawl meets.
@lru_cache(maxsize=4096)
def _normal_host(origin: str) -> str | None:
    """Return the host of an origin; None if the origin is not in its normal form."""
    try:
        parsed = ada_url.URL(f"{origin}/")
    except ValueError:
        return None
    is_normal = parsed.href == f"{origin}/" and parsed.protocol in ("http:", "https:") and parsed.origin == origin
    return str(parsed.host) if is_normal else None


def join(base: Target, location: str) -> Target:
    """Return the target of a Location header; drop any login in it."""
    location = trimmed(location)
    if not location.isascii():
        location = quote(location.encode("utf-8", "surrogateescape"), safe=_ASCII)
    try:
        target = parse(str(ada_url.join_url(base.url, location)))
    except ValueError:
        raise BadUrlError(f"{redact(location)!r} is not a URL.") from None
    return Target(target.url, target.host, target.origin)


def redact(url: str) -> str:
    """Return a URL for messages, without user information, fragment, and values of parameters that look secret."""
    head, question, query = _USERINFO.sub("", url.partition("#")[0]).partition("?")
    return head + question + "&".join(map(_redact_parameter, query.split("&")))


def _redact_parameter(parameter: str) -> str:
    name, equals, _ = parameter.partition("=")
    return f"{name}=…" if equals and _SECRET.search(name) else parameter


Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

REFUSED = 0x526F77
"""The errno of a refusal. It survives aiohttp, which joins the errors of several addresses into one."""

_REFUSAL = re.compile(r"(?<![0-9a-f.:])[0-9a-f.:]++(?:%\w++)? \([\w -]++\)", re.IGNORECASE)

# The special-purpose registries of IANA, as far as they are not globally reachable.
_SPECIAL_V4 = tuple(
    (IPv4Network(network), name)
    for network, name in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "carrier-grade NAT"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "reserved"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "benchmarking"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)
_SPECIAL_V6 = tuple(
    (IPv6Network(network), name)
    for network, name in (
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("2001::/32", "Teredo"),
        ("2001::/23", "reserved"),
        ("2001:db8::/32", "documentation"),
        ("3fff::/20", "documentation"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    )
)
# Names of this machine in hosts files; names below localhost are local as well (RFC 6761).
_LOCAL_NAMES = frozenset(
    {
        *("localhost", "localhost.localdomain", "localhost4", "localhost6", "localhost6.localdomain6"),
        *("ip6-localhost", "ip6-loopback"),
    }
)
_GLOBAL_V6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")


def refusal(address: Address, allowed: Sequence[Network] = ()) -> str | None:
    """Return why an address may not be reached; None if it may be reached."""
    inner: IPv4Address | None = None
    if isinstance(address, IPv6Address):
        # An IPv6 address may be another spelling of an IPv4 address, or a gateway to it.
        is_nat64 = address in _NAT64
        inner = IPv4Address(int(address) & 0xFFFF_FFFF) if is_nat64 else address.ipv4_mapped or address.sixtofour
    if any(spelling in network for network in allowed for spelling in (address, inner) if spelling is not None):
        return None
    return _special(inner or address)


def _special(address: Address) -> str | None:
    if isinstance(address, IPv4Address):
        return next((name for network, name in _SPECIAL_V4 if address in network), None)
    name = next((name for network, name in _SPECIAL_V6 if address in network), None)
    return name or (None if address in _GLOBAL_V6 else "reserved")


class AddressGuard:
    """Creates sockets, but only to addresses that may be reached."""

    def __init__(self, allowed: Sequence[Network] = ()) -> None:
        self._allowed = tuple(allowed)

    def open_socket(self, addr_info: tuple[Any, ...]) -> socket.socket:
        """Return a socket, or raise `OSError` if its address is refused; aiohttp's connector calls this."""
        family, kind, protocol, _, sockaddr = addr_info
        if why := refusal(ip_address(sockaddr[0]), self._allowed):
            raise OSError(REFUSED, f"{sockaddr[0]} ({why})")
        return socket.socket(family, kind, protocol)

    def check_name(self, host: str) -> None:
        """Raise if a host name alone shows that it is refused; with a proxy, nothing else can be checked."""
        name = plain_name(host)
        if name is None:
            raise address_refused(host, "nothing that can be checked")
        address = _named_address(name)
        if address is not None and (why := refusal(address, self._allowed)):
            raise address_refused(host, f"{address} ({why})")


def is_own(host: str, settings: Settings) -> bool:
    """Return whether a host belongs to the user's own network: it is not public, and allowed by its name or address."""
    name = plain_name(host) or ""
    address = _named_address(name)
    if address is None:
        return name in settings.allow_addresses_for
    return _special(address) is not None and refusal(address, settings.allow_addresses) is None


def _named_address(name: str) -> Address | None:
    """Return the IP address that a name contains or stands for, without resolving it; None for other names."""
    local = name in _LOCAL_NAMES or name.endswith(".localhost")
    try:
        return ip_address("127.0.0.1" if local else name)
    except ValueError:
        return None


def plain_name(host: str) -> str | None:
    """Return the normal form of a host without its port; None if it is not a host.

    For example, it is `localhost` for `LOCALHOST.`, and `127.0.0.1` for `0x7f.1` and `127。0。0。1`.
    """
    if host.count(":") > 1 and not host.startswith("["):
        host = f"[{host}]"
    try:
        name = str(ada_url.URL(f"http://{host}/").hostname)
    except ValueError:
        return None
    return name.strip("[]").rstrip(".")


def address_refused(host: str, refusals: str) -> AddressRefusedError:
    """Return the error for a host with a refused address; its hint names the setting that allows it."""
    addresses = " and ".join(_REFUSAL.findall(refusals)) or refusals
    first = addresses.split(" ", 1)[0]
    network = "127.0.0.0/8" if first.startswith("127.") else first
    name, colon, port = host.rpartition(":")
    name = name if colon and port.isdigit() and not name.endswith(":") else host
    return AddressRefusedError(
        f"{host} leads to {addresses}, which is not a public address; no connection was made.",
        hint=f"If you trust it: export ROWEN_ALLOW_ADDRESSES_FOR={name}={network} opens it to "
        "sources of this host alone, ROWEN_ALLOW_ADDRESSES to all sources.",
    )
