"""Commands on the database: db status, url, psql, dump, restore, migrate, tidy, stop."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rowen.errors import RefusedError
from rowen.interfaces.cli.command import CommandGroup, command
from rowen.interfaces.cli.invocation import Invocation
from rowen.model.wording import count, size
from rowen.operations.database import server_status, stop_server

if TYPE_CHECKING:
    from rowen.model.status import DatabaseStatus
    from rowen.operations import Rowen


@click.command("db", cls=CommandGroup)
def db() -> None:
    """Inspect and maintain the database."""


@command("status")
def status(call: Invocation) -> None:
    """Show the database in use; an embedded one is not started."""
    if call.settings.database_url is not None:
        _print(call, call.ask(lambda rowen: rowen.database.status()))
        return
    server = server_status(call.settings)
    lines = {
        "server": "embedded",
        "running": f"yes, process {server.pid}" if server.running else "no; it starts when it is needed",
        "data": str(server.data_folder),
        "version": f"PostgreSQL {server.version}" if server.version else "none yet; created by the first command",
        "log": str(server.log_path or "none yet"),
    }
    call.out.card(server, lines, embedded=True)


@command("url")
def url(call: Invocation) -> None:
    """Print the connection URL for PostgreSQL clients, with the password."""
    conninfo = call.ask(lambda rowen: rowen.database.conninfo())
    call.out.answer({"url": conninfo}, conninfo)
    if call.settings.database_url is None:
        call.out.say("The embedded server runs only while a rowen command does. `rowen db psql` opens it.")


@command("psql")
@click.argument("arguments", nargs=-1, metavar="[-- PSQL-ARGUMENTS]...")
def psql(call: Invocation, arguments: tuple[str, ...]) -> int:
    """Open psql on the database; the tables are in the schema `rowen`."""

    async def answer(rowen: Rowen) -> int:
        # psql handles Ctrl-C itself: it cancels the query.
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        program, conninfo, secrets = await rowen.database.client_command("psql")
        # Other users of the machine can read a command line, but not the environment.
        start = partial(subprocess.run, [program, conninfo, *arguments], env={**os.environ, **secrets}, check=False)
        return (await asyncio.to_thread(start)).returncode

    return call.ask(answer)


@command("migrate")
def migrate(call: Invocation) -> None:
    """Upgrade the database schema, as every command does when it opens the database."""
    _print(call, call.ask(lambda rowen: rowen.database.status()))


@command("tidy")
def tidy(call: Invocation) -> None:
    """Delete vectors of texts deleted long ago, and runs, model answers and search news past their retention.

    ROWEN_EMBEDDINGS_KEPT_DAYS, ROWEN_RUNS_KEPT_DAYS, ROWEN_ANSWERS_KEPT_DAYS and ROWEN_SAVED_NEWS_KEPT_DAYS set the
    retention. A worker deletes old runs, answers and news by itself.
    """
    tidied = call.ask(lambda rowen: rowen.database.tidy())
    line = f"{tidied.dropped:,} vectors deleted, {tidied.kept:,} kept in case their texts return"
    if tidied.runs or tidied.answers or tidied.news:
        line += f"; {count(tidied.runs, 'run')}, {count(tidied.answers, 'answer')}, {tidied.news:,} news deleted"
    call.out.answer(tidied, line)


@command("dump")
@click.argument("file", type=click.Path(path_type=Path))
def dump(call: Invocation, file: Path) -> None:
    """Write a consistent copy of the whole database into a new file: sources, items, history, vectors.

    Runs may go on meanwhile. Credentials are never stored, so the file has none. `rowen db restore FILE` reads it.
    """
    size_bytes = call.ask(lambda rowen: rowen.database.dump(file))
    call.out.answer({"file": str(file), "bytes": size_bytes}, f"{file}\t{size(size_bytes)}")


@command("restore")
@click.argument("file", type=click.Path(path_type=Path))
def restore(call: Invocation, file: Path) -> None:
    """Restore a dump of `rowen db dump` into a database without sources: all of it or nothing.

    A dump may define functions, so it must be as trusted as a program. Restore only your own.
    """
    call.ask(lambda rowen: rowen.database.restore(file))
    # Opening the database again applies the migrations of newer versions.
    sources = len(call.ask(lambda rowen: rowen.sources.list()))
    call.out.answer({"file": str(file), "sources": sources}, f"{file}\t{count(sources, 'source')}")


@command("stop")
def stop(call: Invocation) -> None:
    """Stop the embedded server at once, if it lingers or was left behind by a killed process."""
    if call.settings.database_url is not None:
        raise RefusedError("ROWEN_DATABASE_URL names a server of your own.", hint="Stop it where it was started.")
    running = server_status(call.settings).running
    stopped = stop_server(call.settings)
    if running and not stopped:
        raise RefusedError(
            "The embedded server is in use and was not stopped.", hint="It stops with the last rowen process."
        )
    call.out.answer({"stopped": stopped}, "stopped" if stopped else "no server was running")


def _print(call: Invocation, database: DatabaseStatus) -> None:
    lines = {
        "database": database.place,
        "version": f"PostgreSQL {database.server_version}",
        "schema": str(database.schema),
        "changes": f"{database.last_change}",
    }
    call.out.card(database, lines)


for _command in (status, url, psql, dump, restore, migrate, tidy, stop):
    db.add_command(_command)

COMMANDS = {"db": db}
