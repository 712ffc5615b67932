"""Runs the git program: no shell, no prompts, no hooks, no configuration but ours, and never for ever."""

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from rowen.errors import SourceError, SourceGoneError
from rowen.fetch.sessions import USER_AGENT
from rowen.programs import NEUTRAL_FOLDER, environment, find, start

__all__ = ["Program"]

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
        self, about: str, *, protocol: str, configuration: Mapping[str, str] | None = None, limit_s: float = 60.0
    ) -> None:
        self._about = about
        self._protocol = protocol
        self._configuration = {**_CONFIGURATION, **(configuration or {})}
        self._limit_s = limit_s

    async def run(self, *arguments: str, folder: Path | None = None, told: bytes = b"", network: bool = False) -> bytes:
        """What git prints; raises `SourceError` when it fails or takes too long."""
        async with self.open(*arguments, folder=folder, network=network) as process:
            try:
                async with asyncio.timeout(self._limit_s):
                    output, errors = await process.communicate(told)
            except TimeoutError:
                raise SourceError(f"git took longer than {self._limit_s:g} s with {self._about}.") from None
        if process.returncode:
            raise self._error(errors.decode("utf-8", "replace"))
        return output

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
            await _end(process)

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
            return SourceGoneError(message, hint="Nothing was deleted. Check the address; a private one needs a token.")
        return SourceError(message)


async def _end(process: Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    if process.stdin is not None:
        process.stdin.close()
    # Not wait(), which never ends while a pipe is full of what nobody reads (python/cpython#119710).
    await process.communicate()
