"""Talking to an embedded server: how to reach it, whether it takes connections, and its password for TCP."""

import os
import secrets
import time
from pathlib import Path
from typing import Literal

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from rowen.errors import Hint, StoreUnavailableError, action
from rowen.store.server_files import Postmaster, settled

__all__ = ["await_recovery", "by_socket", "by_tcp", "store_password", "welcoming"]

_SUPERUSER = "postgres"
_POLL_S = 0.02  # a look costs a connection attempt; nobody feels 20 ms
# A server that has said that it is ready answers at once; after so long its socket is gone or another's.
_SILENCE_S = 10.0
# Longer than whoever starts it waits (300 s), so that he is the one to say why it failed.
_RECOVERY_S = 330.0
_NOT_YET = ("recovery mode", "starting up", "shutting down", "not yet accepting")


def by_socket(server: Postmaster) -> str:
    """Where those connect who can enter the folder of the socket."""
    return make_conninfo(host=str(server.socket_folder), port=server.port, user=_SUPERUSER, dbname="postgres")


def by_tcp(server: Postmaster, folder: Path) -> str:
    """Where those connect who know the password."""
    password = _stored_password(folder) or store_password(server, folder)
    return make_conninfo(by_socket(server), host=server.address, password=password)


def welcoming(data: Path) -> Postmaster | None:
    """The server of a data folder, once it takes connections; None if there is none."""
    begun = time.monotonic()
    while (server := settled(data)) is not None:
        greeting = _greeting(server)
        if greeting == "welcome":
            return server
        waited_s = time.monotonic() - begun
        if waited_s > (_RECOVERY_S if greeting == "later" else _SILENCE_S):
            raise StoreUnavailableError(
                f"The server in {data} (process {server.pid}) takes no connections at {server.socket_folder}.",
                hint=Hint("Its log tells more; ", action("db stop"), " stops it if nobody uses it."),
            )
        time.sleep(_POLL_S)
    return None


def await_recovery(server: Postmaster, *, patience_s: float) -> None:
    """Let a server end its recovery: PostgreSQL 18 hangs if it is asked to stop after a backend crashed."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline and _greeting(server) == "later":
        time.sleep(_POLL_S)


def store_password(server: Postmaster, folder: Path) -> str:
    """Give the server the password of the file, which is made if need be; the plain text is not sent."""
    password = _stored_password(folder)
    if not password:
        password = secrets.token_urlsafe(32)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with os.fdopen(os.open(folder / "password", flags, 0o600), "w") as file:
            file.write(password)
    try:
        with psycopg.connect(by_socket(server), autocommit=True) as connection:
            verifier = connection.pgconn.encrypt_password(password.encode(), _SUPERUSER.encode(), b"scram-sha-256")
            change = sql.SQL("ALTER ROLE {} PASSWORD {}")
            connection.execute(change.format(sql.Identifier(_SUPERUSER), sql.Literal(verifier.decode())))
    except psycopg.Error as problem:
        raise StoreUnavailableError(f"The embedded PostgreSQL took no password for TCP: {problem}") from problem
    return password


def _stored_password(folder: Path) -> str | None:
    try:
        return (folder / "password").read_text()
    except FileNotFoundError:
        return None


def _greeting(server: Postmaster) -> Literal["welcome", "later", "silence"]:
    try:
        psycopg.connect(by_socket(server), connect_timeout=5).close()
    except psycopg.OperationalError as problem:
        if any(words in str(problem) for words in _NOT_YET):
            return "later"
        # A refusal, such as for too many clients, comes from a server that is there.
        return "welcome" if "FATAL" in str(problem) else "silence"
    return "welcome"
