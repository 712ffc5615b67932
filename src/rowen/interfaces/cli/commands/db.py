"""db: the database itself."""

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

if TYPE_CHECKING:
    from rowen.model.status import DatabaseStatus
    from rowen.operations import Rowen

__all__ = ["COMMANDS"]


@click.command("db", cls=CommandGroup)
def db() -> None:
    """Look at the database itself."""


@command("status")
def status(call: Invocation) -> None:
    """Say which database is used; an embedded one is not started for this."""
    if call.settings.database_url is not None:
        _show(call, call.ask(lambda rowen: rowen.database.status()))
        return
    from rowen.operations.database import server_status
    from rowen.operations.facts import fact

    server = server_status(call.settings)
    lines = {
        "server": "embedded",
        "running": f"yes, process {server.pid}" if server.running else "no; it starts when it is needed",
        "data": str(server.data_folder),
        "version": f"PostgreSQL {server.version}" if server.version else "none yet; made at the first command",
        "log": str(server.log_path or "none yet"),
    }
    call.out.card({"embedded": True, **fact(server)}, lines)


@command("url")
def url(call: Invocation) -> None:
    """Print where a PostgreSQL client connects, password included."""
    where = call.ask(lambda rowen: rowen.database.conninfo())
    call.out.answer({"url": where}, where)
    if call.settings.database_url is None:
        call.out.say("The embedded server runs as long as a rowen command does; `rowen db psql` opens it for you.")


@command("psql")
@click.argument("arguments", nargs=-1, metavar="[-- PSQL-ARGUMENTS]...")
def psql(call: Invocation, arguments: tuple[str, ...]) -> int:
    """Open psql on the database; the tables are in the schema `rowen`."""

    async def asked(rowen: "Rowen") -> int:
        # Ctrl-C belongs to psql, which breaks off a query by it.
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        program, where, secrets = await rowen.database.client_command("psql")
        # A command line is there for all users of the machine to read; the environment is not.
        call = partial(subprocess.run, [program, where, *arguments], env={**os.environ, **secrets}, check=False)
        return (await asyncio.to_thread(call)).returncode

    return call.ask(asked)


@command("migrate")
def migrate(call: Invocation) -> None:
    """Bring the schema up to date, as every command does when it opens the database."""
    _show(call, call.ask(lambda rowen: rowen.database.status()))


@command("tidy")
def tidy(call: Invocation) -> None:
    """Delete vectors of texts that are long gone, and runs, model answers and search news past their retention.

    ROWEN_EMBEDDINGS_KEPT_DAYS, ROWEN_RUNS_KEPT_DAYS, ROWEN_ANSWERS_KEPT_DAYS and ROWEN_SAVED_NEWS_KEPT_DAYS say for how
    long. A worker forgets old runs, answers and news by itself.
    """
    from rowen.operations.facts import fact

    tidied = call.ask(lambda rowen: rowen.database.tidy())
    told = f"{tidied.dropped:,} vectors dropped, {tidied.kept:,} kept for when they come back"
    old = [count(tidied.runs, "run"), count(tidied.answers, "answer"), f"{tidied.news:,} news"]
    if tidied.runs or tidied.answers or tidied.news:
        told += f"; {', '.join(old)} forgotten"
    call.out.answer(fact(tidied), told)


@command("dump")
@click.argument("file", type=click.Path(path_type=Path))
def dump(call: Invocation, file: Path) -> None:
    """Write the whole database into a new file, as it is at this moment; sources, items, history, vectors.

    Whatever runs may go on. Credentials are not in it, since they are never stored. `rowen db restore FILE` reads it.
    """
    size_bytes = call.ask(lambda rowen: rowen.database.dump(file))
    call.out.answer({"file": str(file), "bytes": size_bytes}, f"{file}\t{size(size_bytes)}")


@command("restore")
@click.argument("file", type=click.Path(path_type=Path))
def restore(call: Invocation, file: Path) -> None:
    """Put what `rowen db dump` wrote into a database that has no sources: all of it, or nothing is changed.

    A dump is as trusted as a program: it may define functions. Restore only those of your own.
    """
    call.ask(lambda rowen: rowen.database.restore(file))
    # Opened anew, it gets what newer versions of the program added.
    found = len(call.ask(lambda rowen: rowen.sources.list()))
    call.out.answer({"file": str(file), "sources": found}, f"{file}\t{count(found, 'source')}")


@command("stop")
def stop(call: Invocation) -> None:
    """Stop the embedded server at once, where it stays up for a while or was left behind by a killed process."""
    from rowen.operations.database import server_status, stop_server

    if call.settings.database_url is not None:
        raise RefusedError("ROWEN_DATABASE_URL names a server of yours.", hint="Stop it where it was started.")
    running = server_status(call.settings).running
    stopped = stop_server(call.settings)
    if running and not stopped:
        raise RefusedError(
            "The embedded server is in use and was left running.", hint="It stops with the last rowen process."
        )
    call.out.answer({"stopped": stopped}, "stopped" if stopped else "no server was running")


def _show(call: Invocation, database: "DatabaseStatus") -> None:
    from rowen.operations.facts import fact

    lines = {
        "database": database.place,
        "version": f"PostgreSQL {database.server_version}",
        "schema": str(database.schema),
        "changes": f"{database.last_change}",
    }
    call.out.card(fact(database), lines)


for _command in (status, url, psql, dump, restore, migrate, tidy, stop):
    db.add_command(_command)

COMMANDS = {"db": db}
