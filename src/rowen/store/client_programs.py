"""The client programs of PostgreSQL: those of the package, else those on the PATH."""

import asyncio
import re
import subprocess

from rowen.errors import StoreUnavailableError
from rowen.programs import environment, find, start
from rowen.store.server_binaries import program_folders

__all__ = ["client_program", "run_client"]

# What is asked for where the server does not say: the version of the package.
_USUAL_MAJOR = 18


async def client_program(name: str, *, least_major: int = 0) -> str:
    """The first program of that name which is not older than the server: an older one may refuse to read it."""
    paths = [str(folder / name) for folder in program_folders() if (folder / name).is_file()]
    for path in [*paths, *([found] if (found := find(name)) else [])]:
        code, out, _ = await run_client([path, "--version"], {})
        version = re.search(r"\) (\d+)", out)
        if not code and version and int(version[1]) >= least_major:
            return path
    raise StoreUnavailableError(
        f"There is no {name} that can read this server.",
        hint=f"Put the client programs of PostgreSQL {least_major or _USUAL_MAJOR} on the PATH.",
    )


async def run_client(command: list[str], secrets: dict[str, str]) -> tuple[int, str, str]:
    """Run a program to its end: its exit code, and what it wrote on stdout and stderr."""
    env = {**environment("HOME", prefixes=("PG",)), **secrets}
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    process = await start(command, environment=env, stdin=nothing, stdout=pipe, stderr=pipe)
    try:
        out, err = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    return process.returncode or 0, out.decode(errors="replace"), err.decode(errors="replace")
