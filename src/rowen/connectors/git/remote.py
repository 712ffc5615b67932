"""Where a repository is: its address, and whether it may be reached.

git makes its own connections, outside the client's guard. The host is therefore resolved and checked beforehand; over
HTTP git is then told to use exactly the addresses that were checked, and to follow no redirect. Over ssh that
cannot be told: there a name that resolves to something else a moment later is not found out.
"""

import asyncio
import base64
import os
import socket
from collections.abc import Mapping
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from rowen.errors import BadUrlError, ConnectError, UsageError
from rowen.model.address import Address
from rowen.model.url import file_url
from rowen.net.credentials import resolve
from rowen.net.guard import AddressGuard, address_refused, plain_name, refusal
from rowen.settings import Settings

__all__ = ["Remote", "configuration", "recognise"]

_PORTS = {"https": 443, "http": 80, "ssh": 22}


class Remote(NamedTuple):
    """A repository as git finds it: `url` is the form that git understands."""

    url: str
    scheme: str
    host: str | None
    port: int | None

    @classmethod
    def parse(cls, url: str) -> "Remote":
        """The remote of a source's URL, `git+https://…` or plain."""
        plain = Address.of(url).text.removeprefix("git+")
        try:
            parts = urlsplit(plain)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise BadUrlError(f"{url!r} is no address of a repository.") from None
        if parts.scheme == "file":
            return cls("file://" + unquote(parts.path, errors="surrogateescape"), "file", None, None)
        if parts.scheme not in _PORTS or not host or host.startswith("-"):
            raise BadUrlError(f"{url!r} is no address of a repository.")
        if parts.scheme == "ssh":
            return cls(plain, parts.scheme, host, port or _PORTS[parts.scheme])
        # git is told which addresses belong to a name, so the name must stand here as git will look it up.
        name = plain_name(host)
        if not name:
            raise BadUrlError(f"{url!r} is no address of a repository.")
        login = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
        place = login + _bracketed(name) + (f":{port}" if port else "")
        return cls(parts._replace(netloc=place).geturl(), parts.scheme, name, port or _PORTS[parts.scheme])


def recognise(address: str) -> str | None:
    """The source URL of what a user typed: `git+…`, an `https` URL that ends in `.git`, or a bare repository's path."""
    place = Address.of(address)
    if place.scheme.startswith("git+"):
        return _checked(place.text)
    if place.is_web:
        if not place.text.endswith(".git"):
            return None
        checked = _checked(f"git+{place.text}")
        return None if Remote.parse(checked).host in ("github.com", "www.github.com") else checked
    return _local(place) if address and place.is_file else None


def _checked(address: str) -> str:
    remote = Remote.parse(address)
    parts = urlsplit(address)
    if parts.password is not None or (parts.username and remote.scheme != "ssh"):
        raise UsageError(
            "A repository's address must not carry a password or a token.",
            hint="Name where it is found instead: --option token=env:NAME.",
        )
    if remote.scheme == "file":
        return "git+" + file_url(os.fsencode(remote.url.removeprefix("file://")))
    return address.partition("#")[0].rstrip("/")


def _local(place: Address) -> str | None:
    try:
        path = os.path.abspath(place.path)  # noqa: PTH100 (never raises)
    except ValueError:
        return None
    is_repository = os.path.isfile(f"{path}/HEAD") and os.path.isdir(f"{path}/objects")  # noqa: PTH112, PTH113
    return "git+" + file_url(os.fsencode(path)) if is_repository else None


async def configuration(remote: Remote, token: str | None, settings: Settings) -> dict[str, str]:
    """What git has to be told to reach a remote; raises `AddressRefusedError` where it must not be reached."""
    told = await _reachable(remote, settings) if remote.host else {}
    if token and remote.scheme in ("http", "https"):
        # For the remote's own origin: whatever else git might ask, it does so without.
        origin = f"{remote.scheme}://{urlsplit(remote.url).netloc}/"
        told = {**told, f"http.{origin}.extraHeader": f"Authorization: {_login(token)}"}
    return dict(told)


async def _reachable(remote: Remote, settings: Settings) -> Mapping[str, str]:
    host = remote.host or ""
    if settings.proxy is not None and remote.scheme != "ssh":
        AddressGuard(settings.allow_addresses).check_name(host)
        return {"http.proxy": settings.proxy.get_secret_value()}
    addresses = await _resolved(host, remote.port or 0)
    refusals = [f"{one} ({why})" for one in addresses if (why := refusal(ip_address(one), settings.allow_addresses))]
    if refusals:
        raise address_refused(host, " and ".join(refusals))
    return {"http.curloptResolve": f"{host}:{remote.port}:{','.join(map(_bracketed, addresses))}"}


async def _resolved(host: str, port: int) -> list[str]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        raise ConnectError(f"The name {host} could not be resolved.") from None
    return list(dict.fromkeys(str(sockaddr[0]).partition("%")[0] for *_, sockaddr in found))


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _login(token: str) -> str:
    """A secret is `user:password`, or a token alone, with which any user will do."""
    secret = resolve(token)
    login = secret if ":" in secret else f"x-access-token:{secret}"
    return "Basic " + base64.b64encode(login.encode()).decode()
