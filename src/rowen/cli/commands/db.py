"""db: the database itself."""

import asyncio
import os
import signal
import subprocess
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

import click

from rowen.cli.command import Group, command
from rowen.cli.door import Door
from rowen.errors import NotFoundError, RefusedError
from rowen.programs import find

if TYPE_CHECKING:
    from rowen.service import Rowen
    from rowen.service.care import DatabaseFacts

__all__ = ["COMMANDS"]


@click.command("db", cls=Group)
def db() -> None:
    """Look at the database itself."""


@command("status")
def status(door: Door) -> None:
    """Say which database is used; an embedded one is not started for this."""
    if door.settings.database_url is not None:
        _show(door, door.ask(lambda rowen: rowen.database()))
        return
    from rowen.service.care import server_status

    server = server_status(door.settings)
    lines = {
        "server": "embedded",
        "running": f"yes, process {server.pid}" if server.running else "no; it starts when it is needed",
        "data": str(server.data_folder),
        "version": f"PostgreSQL {server.version}" if server.version else "none yet; made at the first command",
        "log": str(server.log_path or "none yet"),
    }
    door.out.card({"embedded": True, **asdict(server)}, lines)


@command("url")
def url(door: Door) -> None:
    """Print where a PostgreSQL client connects, password included."""
    where = door.ask(lambda rowen: rowen.conninfo())
    door.out.answer({"url": where}, where)
    if door.settings.database_url is None:
        door.out.say("The embedded server runs as long as a rowen command does; `rowen db psql` opens it for you.")


@command("psql")
@click.argument("arguments", nargs=-1, metavar="[-- PSQL-ARGUMENTS]...")
def psql(door: Door, arguments: tuple[str, ...]) -> int:
    """Open psql on the database; the tables are in the schema `rowen`."""
    program = find("psql")
    if program is None:
        raise NotFoundError("There is no psql on the PATH.", hint="Install a PostgreSQL client, or use `rowen db url`.")

    async def asked(rowen: "Rowen") -> int:
        # Ctrl-C belongs to psql, which breaks off a query by it.
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        where, secrets = await rowen.client_call()
        # A command line is there for all users of the machine to read; the environment is not.
        call = partial(subprocess.run, [program, where, *arguments], env={**os.environ, **secrets}, check=False)
        return (await asyncio.to_thread(call)).returncode

    return door.ask(asked)


@command("migrate")
def migrate(door: Door) -> None:
    """Bring the schema up to date, as every command does when it opens the database."""
    _show(door, door.ask(lambda rowen: rowen.database()))


@command("tidy")
def tidy(door: Door) -> None:
    """Forget vectors of texts that have been gone for a while (ROWEN_EMBEDDINGS_KEPT_DAYS)."""
    tidied = door.ask(lambda rowen: rowen.tidy())
    door.out.answer(
        tidied._asdict(), f"{tidied.dropped:,} vectors dropped, {tidied.kept:,} kept for when they come back"
    )


@command("stop")
def stop(door: Door) -> None:
    """Stop an embedded server that a killed process left behind."""
    from rowen.service.care import server_status, stop_server

    if door.settings.database_url is not None:
        raise RefusedError("ROWEN_DATABASE_URL names a server of yours.", hint="Stop it where it was started.")
    running = server_status(door.settings).running
    stopped = stop_server(door.settings)
    if running and not stopped:
        raise RefusedError(
            "The embedded server is in use and was left running.", hint="It stops with the last rowen process."
        )
    door.out.answer({"stopped": stopped}, "stopped" if stopped else "no server was running")


def _show(door: Door, database: "DatabaseFacts") -> None:
    lines = {
        "database": database.place,
        "version": f"PostgreSQL {database.server_version}",
        "schema": str(database.schema),
        "changes": f"{database.last_change}",
    }
    door.out.card(asdict(database), lines)


for _command in (status, url, psql, migrate, tidy, stop):
    db.add_command(_command)

COMMANDS = {"db": db}
