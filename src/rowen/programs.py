"""Start other programs: by an absolute path, in a neutral folder, with a small environment and without a shell.

The user's current folder may be harvested, so nothing in it may be executed: Python would import from it, npm and git
would read configuration from it, and a relative PATH would find programs in it.
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

NEUTRAL_FOLDER = "/"
"""The working folder of programs; only root can write to it."""

# The system ends a killed process in milliseconds, except one that waits for a broken disk; that one is abandoned.
_END_LIMIT_S = 10.0

# Variables for the language, the time zone and temporary files; none of them contains a key.
_USUAL = ("LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ")


def environment(*names: str, prefixes: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the environment of a program: the usual variables, and the variables with these names or prefixes."""
    chosen = {name: value for name in (*_USUAL, *names) if (value := os.environ.get(name))}
    if prefixes:
        chosen |= {name: value for name, value in os.environ.items() if name.startswith(prefixes)}
    return {"PATH": _absolute_path(), **chosen}


def find(name: str | Path) -> str | None:
    """Return the absolute path of a program, None if it is not found; relative entries of PATH are ignored."""
    path = shutil.which(name, path=_absolute_path())
    return os.path.abspath(path) if path else None  # noqa: PTH100 (a symbolic link stays one)


async def start(
    command: Sequence[str], *, environment: Mapping[str, str], folder: str | Path = NEUTRAL_FOLDER, **pipes: Any
) -> asyncio.subprocess.Process:
    """Start a program in a separate session, so that Ctrl-C reaches only Rowen.

    If the caller is cancelled, the start is completed and the program is killed: asyncio would wait for the program,
    sometimes forever.
    """
    starting = asyncio.create_task(
        asyncio.create_subprocess_exec(*command, env=dict(environment), cwd=folder, start_new_session=True, **pipes)
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:

        async def end_started() -> None:
            await end(await starting)

        with suppress(OSError):
            await finish(end_started())
        raise


async def end(process: asyncio.subprocess.Process) -> None:
    """Kill a program that `start` started, kill its descendants, and close its pipes."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    if process.stdin is not None and not process.stdin.transport.is_closing():
        process.stdin.transport.abort()

    async def wait_for_end() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_LIMIT_S):
                # Not wait(), which never ends while a pipe is full of unread data (python/cpython#119710).
                await process.communicate()

    await finish(wait_for_end())


def run(
    command: Sequence[str | Path],
    *,
    environment: Mapping[str, str],
    folder: str | Path = NEUTRAL_FOLDER,
    **options: Any,
) -> "subprocess.CompletedProcess[Any]":
    """Run a program to its end, and return its result."""
    return subprocess.run(command, env=dict(environment), cwd=folder, check=False, **options)  # noqa: S603 (no shell)


_detached: "list[subprocess.Popen[bytes]]" = []


def leave_behind(command: Sequence[str], *, environment: Mapping[str, str], inherited: Sequence[int]) -> None:
    """Start a program that outlives this process, with the `inherited` files and without a terminal."""
    # Reap processes that have ended, since zombies would accumulate otherwise.
    _detached[:] = [process for process in _detached if process.poll() is None]
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    process = subprocess.Popen(  # noqa: S603 (no shell)
        command, env=dict(environment), cwd=NEUTRAL_FOLDER, start_new_session=True, pass_fds=inherited, **pipes
    )
    _detached.append(process)


@atexit.register
def _forget() -> None:
    """Prevent Python's warning at exit about programs that still run."""
    for process in _detached:
        process.returncode = process.poll() or 0


def isolated_python(code: str) -> list[str]:
    """Return a command that runs `code` in a Python that imports from the trusted path only.

    `-I` excludes the current folder, PYTHON* and the user's site-packages; the path is then set explicitly.
    """
    return [sys.executable, "-I", "-c", f"import sys; sys.path[:] = {trusted_path()!r}\n{code}"]


def trusted_path() -> list[str]:
    """Return the absolute entries of `sys.path`; the current folder is left out unless it contains this package."""
    package = str(Path(__file__).parents[1])
    here = os.path.realpath(os.curdir)
    entries = [entry for entry in sys.path if os.path.isabs(entry)]  # noqa: PTH117 (a string)
    return [entry for entry in entries if entry == package or os.path.realpath(entry) != here]


def _absolute_path() -> str:
    entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(entry for entry in entries if os.path.isabs(entry))  # noqa: PTH117 (a string)
