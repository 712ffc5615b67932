"""Runs the git program: no shell, no prompts, no hooks, no configuration but ours, and never for ever."""

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from rowen.errors import SourceError, SourceGoneError
from rowen.net.sessions import USER_AGENT
from rowen.programs import NEUTRAL_FOLDER, end, environment, find, start

__all__ = ["MOST_MIRROR_BYTES", "Program", "folder_bytes"]

MOST_MIRROR_BYTES = 4_000_000_000
"""What one repository may take on disk, without history and unread files: chosen to fit on a small disk."""

MOST_PRINTED_BYTES = 512 << 20
"""What git may print at once: at 128 bytes a line, the list of four million files."""

WATCH_S = 0.25
"""How often the size of what is fetched is looked at: a line of 1 GB/s overshoots by as many MB."""

_PIECE_BYTES = 1 << 16
# What git prints of errors is quoted in ours; a remote may send any amount of it.
_KEPT_ERRORS_BYTES = 1 << 16

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
    # A redirect would lead to an address that nobody has checked.
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


class Program:
    """The git program, set up for one remote."""

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

    async def run(self, *arguments: str, folder: Path | None = None, told: bytes = b"", network: bool = False) -> bytes:
        """What git prints; raises `SourceError` when it fails, takes too long, prints too much or fills the disk."""
        async with self.open(*arguments, folder=folder, network=network) as process:
            watch = asyncio.create_task(self._watch(folder, process)) if network and folder else None
            try:
                async with asyncio.timeout(self._limit_s):
                    output, errors = await self._communicate(process, told)
            except TimeoutError:
                raise SourceError(
                    f"git took longer than {self._limit_s:g} s with {self._about}.",
                    hint="The option limit_s sets the limit.",
                ) from None
            finally:
                if watch is not None:
                    watch.cancel()
                    await asyncio.gather(watch, return_exceptions=True)
        if watch is not None and not watch.cancelled() and (problem := watch.exception()):
            raise problem
        if network and folder is not None:
            await self._check_size(folder)
        if process.returncode:
            raise self._error(errors.decode("utf-8", "replace"))
        return output

    async def _communicate(self, process: Process, told: bytes) -> tuple[bytes, bytes]:
        """What a process prints; of its errors the end, since a server may send words without end."""
        assert process.stdin and process.stdout and process.stderr  # noqa: S101, PT018 (all are pipes)
        jobs = (self._printed(process.stdout), _end_of(process.stderr), _tell(process.stdin, told))
        tasks = [asyncio.ensure_future(job) for job in jobs]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await process.wait()
        return tasks[0].result() or b"", tasks[1].result() or b""

    async def _printed(self, pipe: asyncio.StreamReader) -> bytes:
        printed = bytearray()
        while piece := await pipe.read(_PIECE_BYTES):
            printed += piece
            if len(printed) > MOST_PRINTED_BYTES:
                raise SourceError(
                    f"git prints more than {MOST_PRINTED_BYTES >> 20} MiB about {self._about}: too many files.",
                    hint="A tree may name the same folder time and again.",
                )
        return bytes(printed)

    async def _watch(self, folder: Path, process: Process) -> None:
        """End git when what it fetches has become too large; it knows no limit of its own for that."""
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
                f"{self._about} takes more than {self._most_bytes:,} bytes on disk, and was left.",
                hint="The option max_mirror_bytes sets the limit.",
            )

    @asynccontextmanager
    async def open(self, *arguments: str, folder: Path | None = None, network: bool = False) -> AsyncIterator[Process]:
        """A running git; it is ended, with all that it started, when nobody listens any more."""
        place = [] if folder is None else [f"--git-dir={folder}"]
        git = find("git")
        if git is None:
            raise SourceError(
                "The program git, which reads repositories, is not installed.",
                hint="Install git; Rowen finds it in PATH.",
            )
        process = await start(
            (git, *place, *arguments),
            environment=self._environment(network),
            folder=folder or NEUTRAL_FOLDER,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
        )
        try:
            yield process
        finally:
            await end(process)

    def _environment(self, network: bool) -> dict[str, str]:
        """Settings go by the environment: a command line is there for all to read, and would show secrets."""
        told = {**_ENVIRONMENT, "GIT_ALLOW_PROTOCOL": self._protocol if network else ""}
        told["GIT_CONFIG_COUNT"] = str(len(self._configuration))
        for number, (key, value) in enumerate(self._configuration.items()):
            told[f"GIT_CONFIG_KEY_{number}"] = key
            told[f"GIT_CONFIG_VALUE_{number}"] = value
        return environment(*_KEPT) | told

    def _error(self, said: str) -> SourceError:
        lines = [line for line in said.splitlines() if line.startswith(("fatal:", "error:"))]
        why = (lines[0] if lines else said.strip() or "it did not say why").partition(": ")[2] or said.strip()
        message = f"git could not read {self._about}: {why[:300].rstrip('.')}."
        if any(mark in said.lower() for mark in _GONE):
            return SourceGoneError(message, hint="Check the address; a private one needs a token.")
        return SourceError(message)


def folder_bytes(folder: Path) -> int:
    """How much the files below a folder take; those that vanish meanwhile count for nothing."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(f"{place}/{name}").st_size
    return total


async def _end_of(pipe: asyncio.StreamReader) -> bytes:
    kept = b""
    while piece := await pipe.read(_PIECE_BYTES):
        kept = (kept + piece)[-_KEPT_ERRORS_BYTES:]
    return kept


async def _tell(pipe: asyncio.StreamWriter, told: bytes) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):
        pipe.write(told)
        await pipe.drain()
    pipe.close()
