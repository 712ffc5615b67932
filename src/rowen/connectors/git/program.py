"""Runs the git program, and restricts the remotes that it may reach.

git runs without a shell, prompts, hooks and foreign configuration, and every call has a time limit. git makes its own
connections, outside the HTTP client's address guard. The host is therefore resolved and checked before git starts;
over HTTP, git is configured to use exactly the checked addresses and to follow no redirect. Over ssh that is not
possible: a name that resolves to another address a moment later is not noticed.
"""

import asyncio
import base64
import os
import signal
import socket
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from rowen.concurrency import end as end_tasks
from rowen.errors import BadUrlError, ConnectError, SourceError, SourceGoneError, UsageError
from rowen.model.url import Address, file_url
from rowen.net.credentials import resolve
from rowen.net.sessions import USER_AGENT
from rowen.net.target import AddressGuard, address_refused, plain_name, refusal
from rowen.programs import NEUTRAL_FOLDER, end, environment, find, start
from rowen.settings import Settings

# Maximum size of a mirror, which has neither history nor unread files; chosen to fit on a small disk.
MOST_MIRROR_BYTES = 4_000_000_000
# Maximum output of git: at 128 bytes a line, the list of four million files.
MOST_PRINTED_BYTES = 512 << 20
# Interval for checking the size of fetched objects; at 1 GB/s, the limit is exceeded by 250 MB.
WATCH_S = 0.25
_PIECE_BYTES = 1 << 16
# Error messages quote the errors of git; a remote may send any amount of them.
_KEPT_ERRORS_BYTES = 1 << 16

_PORTS = {"https": 443, "http": 80, "ssh": 22}
_KEPT = ("HOME", "LOGNAME", "SSH_AUTH_SOCK", "SSL_CERT_DIR", "SSL_CERT_FILE", "USER")
_ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_PROTOCOL_FROM_USER": "0",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_CONFIGURATION = {
    "core.askPass": "",
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "credential.helper": "",
    "fetch.recurseSubmodules": "false",
    "fetch.unpackLimit": "1",
    "gc.autoDetach": "false",
    # A redirect would lead to an address that was not checked.
    "http.followRedirects": "false",
    "http.lowSpeedLimit": "500",
    "http.lowSpeedTime": "60",
    "http.userAgent": USER_AGENT,
    "maintenance.autoDetach": "false",
}
_GONE = (
    *("not found", "does not exist", "does not appear to be a git repository", "no such remote ref", "not our ref"),
    *("could not read username", "authentication failed", "permission denied", "access denied"),
)


class Remote(NamedTuple):
    """A remote repository; `url` is the form that git accepts."""

    url: str
    scheme: str
    host: str | None
    port: int | None

    @classmethod
    def parse(cls, url: str) -> "Remote":
        """Return the remote for a source's URL, with or without the prefix `git+`."""
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
        # git gets the checked addresses under this name, so it must be spelled as git will look it up.
        name = plain_name(host)
        if not name:
            raise BadUrlError(f"{url!r} is no address of a repository.")
        login = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
        place = login + _bracketed(name) + (f":{port}" if port else "")
        return cls(parts._replace(netloc=place).geturl(), parts.scheme, name, port or _PORTS[parts.scheme])


def recognise(address: str) -> str | None:
    """Return the source URL of a `git+…` address, an `https` URL that ends in `.git`, or a bare repository's path."""
    place = Address.of(address)
    if place.scheme.startswith("git+"):
        return _checked(place.text)
    if place.is_web:
        if not place.text.endswith(".git"):
            return None
        url = _checked(f"git+{place.text}")
        return None if Remote.parse(url).host in ("github.com", "www.github.com") else url
    if not address or not place.is_file:
        return None
    try:
        path = os.path.abspath(place.path)  # noqa: PTH100 (never raises)
    except ValueError:
        return None
    is_repository = os.path.isfile(f"{path}/HEAD") and os.path.isdir(f"{path}/objects")  # noqa: PTH112, PTH113
    return "git+" + file_url(os.fsencode(path)) if is_repository else None


def _checked(address: str) -> str:
    remote = Remote.parse(address)
    parts = urlsplit(address)
    if parts.password is not None or (parts.username and remote.scheme != "ssh"):
        raise UsageError(
            "A repository's address must not carry a password or a token.",
            hint="Set a reference to it instead: --option token=env:NAME.",
        )
    if remote.scheme == "file":
        return "git+" + file_url(os.fsencode(remote.url.removeprefix("file://")))
    return address.partition("#")[0].rstrip("/")


async def configuration(remote: Remote, token: str | None, settings: Settings) -> dict[str, str]:
    """Return the git configuration for a remote; raise `AddressRefusedError` if it must not be reached."""
    values: dict[str, str] = {}
    if (host := remote.host) and settings.proxy is not None and remote.scheme != "ssh":
        AddressGuard(settings.allow_addresses).check_name(host)
        values["http.proxy"] = settings.proxy.get_secret_value()
    elif host:
        try:
            resolved = await asyncio.get_running_loop().getaddrinfo(host, remote.port or 0, type=socket.SOCK_STREAM)
        except OSError:
            raise ConnectError(f"The name {host} could not be resolved.") from None
        addresses = list(dict.fromkeys(str(sockaddr[0]).partition("%")[0] for *_, sockaddr in resolved))
        refusals = [(address, refusal(ip_address(address), settings.allow_addresses)) for address in addresses]
        if refused := [f"{address} ({why})" for address, why in refusals if why]:
            raise address_refused(host, " and ".join(refused))
        values["http.curloptResolve"] = f"{host}:{remote.port}:{','.join(map(_bracketed, addresses))}"
    if token and remote.scheme in ("http", "https"):
        # Send it only to the remote's own origin. A secret is `user:password`, or a token for any user name.
        origin = f"{remote.scheme}://{urlsplit(remote.url).netloc}/"
        secret = resolve(token)
        login = secret if ":" in secret else f"x-access-token:{secret}"
        values[f"http.{origin}.extraHeader"] = f"Authorization: Basic {base64.b64encode(login.encode()).decode()}"
    return values


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


class Program:
    """The git program, configured for one remote."""

    def __init__(
        self,
        about: str,
        *,
        protocol: str,
        configuration: Mapping[str, str] | None = None,
        limit_s: float = 60.0,
        most_bytes: int = MOST_MIRROR_BYTES,
    ) -> None:
        self._about = about
        self._protocol = protocol
        self._configuration = {**_CONFIGURATION, **(configuration or {})}
        self._limit_s = limit_s
        self._most_bytes = most_bytes

    async def run(
        self, *arguments: str, folder: Path | None = None, stdin: bytes = b"", network: bool = False
    ) -> bytes:
        """Return git's output; raise `SourceError` if git fails, takes too long, prints too much or fills the disk."""
        async with self.open(*arguments, folder=folder, network=network) as process:
            watch = asyncio.create_task(self._watch(folder, process)) if network and folder else None
            try:
                async with asyncio.timeout(self._limit_s):
                    output, errors = await self._communicate(process, stdin)
            except TimeoutError:
                raise SourceError(
                    f"git took longer than {self._limit_s:g} s with {self._about}.",
                    hint="The option limit_s sets the limit.",
                ) from None
            finally:
                await end_tasks([watch] if watch is not None else [])
        if watch is not None and not watch.cancelled() and (problem := watch.exception()):
            raise problem
        if network and folder is not None:
            await self._check_size(folder)
        if process.returncode:
            message = errors.decode("utf-8", "replace")
            lines = [line for line in message.splitlines() if line.startswith(("fatal:", "error:"))]
            why = (lines[0] if lines else message.strip() or "no reason given").partition(": ")[2] or message.strip()
            error = f"git could not read {self._about}: {why[:300].rstrip('.')}."
            if any(mark in message.lower() for mark in _GONE):
                raise SourceGoneError(error, hint="Check the address; a private one needs a token.")
            raise SourceError(error)
        return output

    async def _communicate(self, process: Process, stdin: bytes) -> tuple[bytes, bytes]:
        """Return the output and the last part of the error output, whose length the server may control."""
        assert process.stdin and process.stdout and process.stderr  # noqa: S101, PT018 (all are pipes)
        output, errors = bytearray(), bytearray()

        async def write(pipe: asyncio.StreamWriter) -> None:
            with suppress(BrokenPipeError, ConnectionResetError):
                pipe.write(stdin)
                await pipe.drain()
            pipe.close()

        async def read_output(pipe: asyncio.StreamReader) -> None:
            while piece := await pipe.read(_PIECE_BYTES):
                output.extend(piece)
                if len(output) > MOST_PRINTED_BYTES:
                    raise SourceError(
                        f"git prints more than {MOST_PRINTED_BYTES >> 20} MiB about {self._about}: too many files.",
                        hint="A tree may contain the same folder many times.",
                    )

        async def read_errors(pipe: asyncio.StreamReader) -> None:
            while piece := await pipe.read(_PIECE_BYTES):
                errors.extend(piece)
                del errors[:-_KEPT_ERRORS_BYTES]

        jobs = (read_output(process.stdout), read_errors(process.stderr), write(process.stdin))
        tasks = [asyncio.ensure_future(job) for job in jobs]
        try:
            await asyncio.gather(*tasks)
        finally:
            await end_tasks(tasks)
        await process.wait()
        return bytes(output), bytes(errors)

    async def _watch(self, folder: Path, process: Process) -> None:
        """Kill git when the fetched objects become too large, since git has no limit for that."""
        while process.returncode is None:
            try:
                await self._check_size(folder)
            except SourceError:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                raise
            await asyncio.sleep(WATCH_S)

    async def _check_size(self, folder: Path) -> None:
        if await asyncio.to_thread(folder_bytes, folder) > self._most_bytes:
            raise SourceError(
                f"{self._about} takes more than {self._most_bytes:,} bytes on disk, and was not read further.",
                hint="The option max_mirror_bytes sets the limit.",
            )

    @asynccontextmanager
    async def open(self, *arguments: str, folder: Path | None = None, network: bool = False) -> AsyncIterator[Process]:
        """Start git; on exit, end it together with all processes that it started."""
        git = find("git")
        if git is None:
            raise SourceError(
                "The program git, which reads repositories, is not installed.",
                hint="Install git; Rowen finds it in PATH.",
            )
        # Settings are passed in the environment, since all users can read a command line, and would see secrets.
        variables = {**_ENVIRONMENT, "GIT_ALLOW_PROTOCOL": self._protocol if network else ""}
        variables["GIT_CONFIG_COUNT"] = str(len(self._configuration))
        for number, (key, value) in enumerate(self._configuration.items()):
            variables[f"GIT_CONFIG_KEY_{number}"] = key
            variables[f"GIT_CONFIG_VALUE_{number}"] = value
        process = await start(
            (git, *([] if folder is None else [f"--git-dir={folder}"]), *arguments),
            environment=environment(*_KEPT) | variables,
            folder=folder or NEUTRAL_FOLDER,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
        )
        try:
            yield process
        finally:
            await end(process)


def folder_bytes(folder: Path) -> int:
    """Return the size of all files below a folder; files that vanish during the count are ignored."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(f"{place}/{name}").st_size
    return total
