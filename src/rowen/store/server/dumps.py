"""Dump the whole database into one file and restore it, with PostgreSQL's client programs."""

import asyncio
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rowen.errors import NotFoundError, RefusedError, StoreError, StoreUnavailableError, UsageError
from rowen.programs import environment, find, start
from rowen.store.database import Database, without_password
from rowen.store.migrate import SCHEMA, hold_restore, schema_aside
from rowen.store.server.programs import program_folders
from rowen.store.sources import exist_any

# The version that a hint names if the server's version is unknown: the version of the package.
_USUAL_MAJOR = 18


async def client_program(name: str, *, least_major: int = 0) -> str:
    """Return the path of the first program of this name whose version is at least `least_major`.

    A client program older than the server may not be able to read it.
    """
    paths = [str(folder / name) for folder in program_folders() if (folder / name).is_file()]
    for path in [*paths, *([on_path] if (on_path := find(name)) else [])]:
        code, out, _ = await run_client([path, "--version"], {})
        version = re.search(r"\) (\d+)", out)
        if not code and version and int(version[1]) >= least_major:
            return path
    raise StoreUnavailableError(
        f"There is no {name} that can read this server.",
        hint=f"Put the client programs of PostgreSQL {least_major or _USUAL_MAJOR} on the PATH.",
    )


async def run_client(command: list[str], secrets: dict[str, str]) -> tuple[int, str, str]:
    """Run a program to its end; return its exit code, stdout and stderr."""
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


# Characters of PostgreSQL's output in a message: it begins with the error, and may continue with a whole table.
_ERROR_CHARACTERS = 500


async def dump(database: Database, conninfo: str, path: Path) -> int:
    """Write a snapshot of the whole database into a new file; return its size in bytes.

    The file appears whole or not at all, never replaces another, and is readable by its owner alone.
    """
    async with database.connection() as c:
        major = c.info.server_version // 10_000
    program = await client_program("pg_dump", least_major=major)
    with _new_file(path) as part:
        await _run([program, "--format=custom", f"--schema={SCHEMA}", *_BARE, f"--file={part}"], conninfo)
    return os.stat(path).st_size  # noqa: PTH116 (a moment, once)


@contextmanager
def _new_file(path: Path) -> Iterator[str]:
    """Yield the path of a temporary file, which is renamed to `path` at the end, or removed after an error."""
    path = path.absolute()
    exists = RefusedError(f"{path} exists already, and was not changed.", hint="Choose another name.")
    if path.exists():
        raise exists
    try:
        handle, part = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    except OSError as problem:
        raise UsageError(f"{path} cannot be written: {problem.strerror}.") from None
    os.close(handle)
    try:
        yield part
        try:
            os.link(part, path)
        except FileExistsError:
            raise exists from None
    finally:
        Path(part).unlink(missing_ok=True)


# Roles differ from server to server; the user who restores owns the result.
_BARE = ("--no-owner", "--no-privileges")


async def restore(database: Database, conninfo: str, path: Path) -> None:
    """Restore a dump into a database without sources; change nothing if that fails."""
    source = _existing(path)
    async with database.connection() as c:
        if await exist_any(c):
            raise RefusedError(
                "The database has sources, and was not changed.",
                hint="Restore into an empty one: another --home, or another ROWEN_DATABASE_URL.",
            )
    program = await client_program("pg_restore")
    code, out, _ = await run_client([program, "--list", source], {})
    if code or f" TABLE {SCHEMA} source " not in out:
        raise UsageError(f"{path} is not a dump of Rowen. Nothing was changed.", hint="`rowen db dump FILE` makes one.")
    async with await database.connect() as c:
        await c.set_autocommit(True)
        await hold_restore(c)
        await c.execute(f"alter schema {SCHEMA} rename to {schema_aside(SCHEMA)}".encode())
        try:
            await _run([program, "--single-transaction", "--exit-on-error", *_BARE, source], conninfo)
        except BaseException:
            await c.execute(f"alter schema {schema_aside(SCHEMA)} rename to {SCHEMA}".encode())
            raise
        await c.execute(f"drop schema {schema_aside(SCHEMA)} cascade".encode())


def _existing(path: Path) -> str:
    if not path.is_file():
        raise NotFoundError(f"There is no file {path}.")
    return str(path.absolute())


async def _run(command: list[str], conninfo: str) -> None:
    # All users of the machine can read a command line, but not the environment.
    where, secrets = without_password(conninfo)
    code, _, error = await run_client([*command, f"--dbname={where}"], secrets)
    if code:
        raise StoreError(
            f"{Path(command[0]).name} failed: {error.strip()[:_ERROR_CHARACTERS]}", hint="Nothing was changed."
        )
