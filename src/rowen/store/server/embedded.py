"""Run the PostgreSQL server that comes with the package: one server per data folder, started on first use.

Every process that uses the server holds a share of one file lock. The kernel releases it however a process ends, so
the number of users is always right: a process that gets the lock exclusively is the last. It stops the server, or
starts a keeper process, which stops the server later unless another process has joined.
"""

import os
import secrets
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Literal

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from rowen.errors import Hint, StoreUnavailableError, action
from rowen.model.status import ServerStatus
from rowen.programs import environment, isolated_python, leave_behind
from rowen.store.server.processes import FileLock, Postmaster, exclusive, find_server, halt, settled
from rowen.store.server.programs import choose_binaries, run_as
from rowen.store.server.site import (
    ServerSite,
    check_home,
    check_link,
    explained,
    failure,
    initialise,
    make_site,
    prepare_start,
    record_home,
    site_folder,
)

_SUPERUSER = "postgres"
_GREETING_POLL_S = 0.02  # one connection attempt; a delay of 20 ms is not noticed
# A server that is ready answers at once; after this time, its socket is gone or belongs to another server.
_SILENCE_S = 10.0
# Longer than the starting process waits (300 s), so that it is the one to report why the start failed.
_LONGEST_RECOVERY_S = 330.0
_NOT_YET = ("recovery mode", "starting up", "shutting down", "not yet accepting")
# A server that recovers from a crash replays its log since the last checkpoint before it accepts connections: seconds,
# or minutes on a slow disk.
_START_S = 300
# A server is stopped after its recovery, or after this time.
_RECOVERY_S = 60.0


def by_socket(server: Postmaster) -> str:
    """Return a connection string for processes that may enter the socket's folder."""
    return make_conninfo(host=str(server.socket_folder), port=server.port, user=_SUPERUSER, dbname="postgres")


def welcoming(data: Path) -> Postmaster | None:
    """Wait until the server of a data folder accepts connections and return it; None if there is none."""
    started = time.monotonic()
    while (server := settled(data)) is not None:
        greeting = _greeting(server)
        if greeting == "welcome":
            return server
        waited_s = time.monotonic() - started
        if waited_s > (_LONGEST_RECOVERY_S if greeting == "later" else _SILENCE_S):
            raise StoreUnavailableError(
                f"The server in {data} (process {server.pid}) accepts no connections at {server.socket_folder}.",
                hint=Hint("Its log says more; ", action("db stop"), " stops it if nobody uses it."),
            )
        time.sleep(_GREETING_POLL_S)
    return None


def store_password(server: Postmaster, folder: Path) -> str:
    """Set the server's password to the one in the password file, which is created if missing.

    Only the verifier of the password is sent to the server.
    """
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
        raise StoreUnavailableError(f"The embedded PostgreSQL refused a password for TCP: {problem}") from problem
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
        # A refusal, such as for too many clients, comes from a live server.
        return "welcome" if "FATAL" in str(problem) else "silence"
    return "welcome"


class EmbeddedServer:
    """A share in the server of one data folder. All methods block, so they must not run in an event loop's thread."""

    def __init__(self, home: Path, *, port: int = 0, user: str | None = None, linger_s: float = 0.0) -> None:
        self._home = home.absolute()
        self._linger_s = linger_s
        self._port = port
        self._user = user
        self._member: FileLock | None = None
        # A join whose caller was cancelled continues in its thread; leaving waits for it.
        self._turn = threading.Lock()

    def __enter__(self) -> str:
        return self.join()

    def __exit__(self, *problem: object) -> None:
        self.leave()

    def join(self) -> str:
        """Start the server if it does not run, take a share in it, and return the connection string."""
        with self._turn, explained(self._home):
            site = make_site(self._home, self._user)
            with exclusive(site.folder / "start.lock"), ExitStack() as undo:
                member = self._member or FileLock(site.folder / "members.lock")
                if member.descriptor is None:
                    undo.callback(member.close)
                member.share()
                # Checked again under the lock, since another home may have been recorded meanwhile.
                check_home(self._home)
                record_home(self._home, site.folder)
                server = welcoming(site.data) or self._start(site)
                conninfo = by_socket(server)
                if self._port and server.address and server.port == self._port:
                    password = _stored_password(site.folder) or store_password(server, site.folder)
                    conninfo = make_conninfo(conninfo, host=server.address, password=password)
                undo.pop_all()
                self._member = member
        return conninfo

    def leave(self) -> None:
        """Give up the share; the last process stops the server, or starts a keeper that stops it later."""
        with self._turn, ExitStack() as undo:
            member, self._member = self._member, None
            if member is None or member.descriptor is None:
                return
            undo.callback(member.close)
            folder = site_folder(self._home)
            with explained(self._home), exclusive(folder / "start.lock"):
                server = find_server(folder / "data")
                if member.claim() and server is not None and server.visible and not self._lingers(folder):
                    _stop(server, folder)
                # This must be done under the start lock: otherwise two processes that leave together would each see the
                # other.
                member.close()

    def stop(self) -> bool:
        """Stop the server unless other processes use it; return whether a server was stopped."""
        folder = site_folder(self._home)
        with self._turn, explained(self._home):
            if not folder.is_dir():
                return False
            check_link(self._home)
            check_home(self._home)
            with exclusive(folder / "start.lock"):
                return self._stop_alone(folder)

    def stop_idle(self, keeper: int) -> None:
        """Stop the server unless a process uses it, and release the lock of its keeper."""
        folder = site_folder(self._home)
        if not folder.is_dir():
            return
        with explained(self._home), exclusive(folder / "start.lock"):
            try:
                self._stop_alone(folder)
            finally:
                # This must be done under the start lock: a leaving process that finds the keeper's lock taken relies on
                # the keeper.
                os.close(keeper)

    def _stop_alone(self, folder: Path) -> bool:
        member = self._member or FileLock(folder / "members.lock")
        if not member.claim():
            return False
        try:
            server = find_server(folder / "data")
            if server is not None:
                _stop(server, folder)
        finally:
            member.close()
            self._member = None
        return server is not None

    def _lingers(self, folder: Path) -> bool:
        """Return whether a keeper will stop the server later; start the keeper if there is none."""
        # A process started by init is a container or a service, and its children are ended with it.
        if self._linger_s <= 0 or 1 in (os.getpid(), os.getppid()):
            return False
        path = folder / "keeper.lock"
        lock = FileLock(path)
        try:
            if lock.claim() and lock.descriptor is not None:
                os.utime(lock.descriptor)
                arguments = f"{str(self._home)!r}, {lock.descriptor}, {self._linger_s!r}"
                code = f"from rowen.store.server.embedded import run_keeper; run_keeper({arguments})"
                leave_behind(isolated_python(code), environment=environment(), inherited=[lock.descriptor])
            else:
                os.utime(path, follow_symlinks=False)
        except OSError:
            # No process can be started.
            return False
        finally:
            lock.close()
        return True

    def status(self) -> ServerStatus:
        """Return the state of the server, without starting or creating anything."""
        with explained(self._home):
            site = ServerSite(site_folder(self._home), None)
            server = find_server(site.data)
            log = site.logs[-1] if site.logs else None
            if server is None:
                return ServerStatus(False, site.data, version=site.cluster_version, log_path=log)
            return ServerStatus(
                running=True,
                data_folder=site.data,
                pid=server.pid,
                socket_folder=server.socket_folder,
                port=server.port,
                address=server.address or None,
                version=site.cluster_version,
                log_path=log,
            )

    def _start(self, site: ServerSite) -> Postmaster:
        version = site.cluster_version
        binaries = choose_binaries(site.folder, account=site.account, cluster_version=version)
        if version is None:
            initialise(site, binaries)
        prepare_start(site, port=self._port)
        sizes = {log: log.stat().st_size for log in site.logs}
        command: list[str | Path] = [binaries.tool("pg_ctl"), "start", "-w", "-s", "-t", str(_START_S)]
        code, text = run_as(site.account, command, data=site.data, patience_s=_START_S + 60.0)
        server = find_server(site.data)
        if code != 0 or server is None:
            logged = b"".join(log.read_bytes()[sizes.get(log, 0) :] for log in site.logs)
            text += logged.decode(errors="replace")
            if self._port and "could not bind" in text:
                raise StoreUnavailableError(
                    f"The embedded PostgreSQL did not start: port {self._port} of 127.0.0.1 is taken.",
                    hint="Choose another port in ROWEN_EMBEDDED_PORT, or 0 for none.",
                )
            raise failure(site, "did not start", text)
        if self._port:
            store_password(server, site.folder)
        return server


def _stop(server: Postmaster, folder: Path) -> None:
    # PostgreSQL 18 hangs if it is stopped during the recovery after a crash of a backend.
    deadline = time.monotonic() + _RECOVERY_S
    while server.visible and time.monotonic() < deadline and _greeting(server) == "later":
        time.sleep(_GREETING_POLL_S)
    halt(server, folder / "data")
    if server.socket_folder != folder / "socket":
        with suppress(OSError):
            server.socket_folder.rmdir()


def run_keeper(home: str, descriptor: int, linger_s: float) -> None:
    """Wait until no process has left for `linger_s`, then stop the server unless a process still uses it.

    Each process that leaves updates the modification time of the lock file. All modules are imported before the wait,
    since the program may be removed or replaced meanwhile; the process takes 35 MB instead of 11.
    """
    server = EmbeddedServer(Path(home))
    left_at = None
    while left_at != (left_at := os.fstat(descriptor).st_mtime):
        # The clock may be set meanwhile, so the wait is limited to between zero and `linger_s`.
        time.sleep(min(max(left_at + linger_s - time.time(), 0.0), linger_s))
    server.stop_idle(descriptor)
