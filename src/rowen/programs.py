"""Starting other programs: found by an absolute path, in a neutral folder, with a small environment and no shell.

The user's current folder may be the harvested one. Nothing in it may decide what runs: Python would import from it, npm
and git would take their configuration from it, and a relative PATH would find programs in it.
"""

import asyncio
import atexit
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rowen.concurrency import finish

__all__ = [
    "NEUTRAL_FOLDER",
    "end",
    "environment",
    "find",
    "isolated_python",
    "leave_behind",
    "run",
    "start",
    "trusted_path",
]

NEUTRAL_FOLDER = "/"
"""The working folder of programs: only root can write there."""

# The system ends a killed process in milliseconds; one that it cannot end, such as one that waits for a broken disk, is
# left to it.
_FAREWELL_S = 10.0

# Variables that programs need to find others, for their language, and for temporary files; never a key.
_KEPT = ("LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ")


def environment(*kept: str, prefixes: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the environment of a program: the usual variables, and those named."""
    ours = {name: value for name in (*_KEPT, *kept) if (value := os.environ.get(name))}
    if prefixes:
        ours |= {name: value for name, value in os.environ.items() if name.startswith(prefixes)}
    return {"PATH": _absolute_path(), **ours}


def find(name: str | Path) -> str | None:
    """Return a program's absolute path; one that only a relative part of PATH leads to is not found."""
    path = shutil.which(name, path=_absolute_path())
    return os.path.abspath(path) if path else None  # noqa: PTH100 (a symbolic link stays one)


async def start(
    command: Sequence[str], *, environment: Mapping[str, str], folder: str | Path = NEUTRAL_FOLDER, **pipes: Any
) -> asyncio.subprocess.Process:
    """Start a program in a session of its own, so that Rowen handles Ctrl-C.

    A cancelled start is finished, which takes milliseconds, and the program is ended: asyncio would wait for it,
    sometimes forever.
    """
    starting = asyncio.create_task(
        asyncio.create_subprocess_exec(*command, env=dict(environment), cwd=folder, start_new_session=True, **pipes)
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with suppress(OSError):
            await finish(_end_started(starting))
        raise


async def _end_started(starting: asyncio.Future[asyncio.subprocess.Process]) -> None:
    await end(await starting)


async def end(process: asyncio.subprocess.Process) -> None:
    """Kill a program that `start` started, with all that it started, and close its pipes."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    if process.stdin is not None and not process.stdin.transport.is_closing():
        process.stdin.transport.abort()
    await finish(_wait_for_end(process))


async def _wait_for_end(process: asyncio.subprocess.Process) -> None:
    """Wait until a process has ended and its pipes are closed, which a descendant may hold open."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_FAREWELL_S):
            # Not wait(), which never ends while a pipe is full of unread data (python/cpython#119710).
            await process.communicate()


def run(
    command: Sequence[str | Path],
    *,
    environment: Mapping[str, str],
    folder: str | Path = NEUTRAL_FOLDER,
    **how: Any,
) -> "subprocess.CompletedProcess[Any]":
    """Run a program to its end."""
    return subprocess.run(command, env=dict(environment), cwd=folder, check=False, **how)  # noqa: S603 (no shell)


_left: "list[subprocess.Popen[bytes]]" = []


def leave_behind(command: Sequence[str], *, environment: Mapping[str, str], inherited: Sequence[int]) -> None:
    """Start a program that outlives this process, with some inherited files and no terminal."""
    # Those that ended meanwhile are reaped; a process that lives long would otherwise collect them.
    _left[:] = [process for process in _left if process.poll() is None]
    null = subprocess.DEVNULL
    process = subprocess.Popen(  # noqa: S603 (no shell)
        command,
        env=dict(environment),
        cwd=NEUTRAL_FOLDER,
        start_new_session=True,
        pass_fds=inherited,
        stdin=null,
        stdout=null,
        stderr=null,
    )
    _left.append(process)


@atexit.register
def _forget() -> None:
    """Prevent Python's warning about running processes at exit."""
    for process in _left:
        process.returncode = process.poll() or 0


def isolated_python(code: str) -> list[str]:
    """Return the command of a Python that runs code with Rowen's packages and imports nothing from any other place.

    `-I` leaves out the current folder, PYTHON* and the user's site. The import path is then set explicitly, so that
    packages found through one of these are still found.
    """
    return [sys.executable, "-I", "-c", f"import sys; sys.path[:] = {trusted_path()!r}\n{code}"]


def trusted_path() -> list[str]:
    """Return the trusted import path: the absolute entries of `sys.path` without the current folder.

    The current folder stays if this package was imported from it: it is trusted already.
    """
    ours = str(Path(__file__).parents[1])
    here = os.path.realpath(os.curdir)
    return [
        entry
        for entry in sys.path
        if os.path.isabs(entry) and (entry == ours or os.path.realpath(entry) != here)  # noqa: PTH117 (a string)
    ]


def _absolute_path() -> str:
    entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(entry for entry in entries if os.path.isabs(entry))  # noqa: PTH117 (a string)
