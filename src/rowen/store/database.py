"""Connect to PostgreSQL, embedded or by URL; pool the connections, and translate the driver's errors."""

import asyncio
import math
import select
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import psycopg
from psycopg import AsyncConnection, errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import PipelineStatus
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from rowen.concurrency import finish
from rowen.errors import (
    ConfigurationError,
    Hint,
    RowenError,
    StoreError,
    StoreFullError,
    StoreRejectedError,
    StoreUnavailableError,
    StoreUnfitError,
    action,
)
from rowen.net.politeness import backoff_s
from rowen.settings import Settings
from rowen.store.locks import Lock, release_at_end, try_session
from rowen.store.migrate import SCHEMA, check_vectors, migrate
from rowen.store.rows import only
from rowen.store.server.embedded import EmbeddedServer

Connection: TypeAlias = AsyncConnection[TupleRow]

# Three writers, the planner, and a connector that reads known items: with fewer, they could wait for each other.
RUN_CONNECTIONS = 5
# A lease lives as long as its session, so that the server frees it when the process dies.
LEASE_CONNECTIONS = 1
# One for requests of interfaces, and one in reserve.
INTERFACE_CONNECTIONS = 2
# Connections outside the pool for exclusive work, by its lock: at most as many as a worker has slots; others wait.
ALONE_CONNECTIONS = {Lock.EXTRACTION: 2, Lock.STATEMENT_TARGET: 2}
# All connections outside the pool: the claim of the embedder, the listener to the change log, the pulse of a worker,
# and the locks of exclusive work.
OWN_CONNECTIONS = 3 + sum(ALONE_CONNECTIONS.values())
# Left to other processes, such as a search during a sync; if they need more, they wait for each other.
SPARE_CONNECTIONS = 6


@dataclass(frozen=True, slots=True)
class Connections:
    """The numbers of database connections that the server allows, that were in use, and that this process takes."""

    allowed: int
    in_use: int
    taken: int

    @classmethod
    def budget(cls, allowed: int, in_use: int, *, runs: int) -> "Connections":
        """Return a budget for up to `runs` live runs, as far as the server has connections; at least for one run."""
        per_run, shared = RUN_CONNECTIONS + LEASE_CONNECTIONS, INTERFACE_CONNECTIONS + OWN_CONNECTIONS
        free = allowed - in_use - SPARE_CONNECTIONS
        return cls(allowed, in_use, max(shared + per_run, min(shared + runs * per_run, free)))

    @property
    def runs(self) -> int:
        """The maximum number of live runs."""
        return (self.pooled - INTERFACE_CONNECTIONS) // (RUN_CONNECTIONS + LEASE_CONNECTIONS)

    @property
    def pooled(self) -> int:
        """The number of this process's connections in the pool."""
        return self.taken - OWN_CONNECTIONS


# A busy machine may need this long between two statements; a healthy machine needs less.
SHORTEST_IDLE_S = 4.0
CROWDED_S = 0.2
"""The wait before the next attempt to connect to a full server: sessions of Rowen end in less time."""
TRUSTED_S = 10.0
"""How long after its last use a connection counts as alive while its socket is silent.

A probe takes as long as a small query. Proxies and firewalls drop connections that were idle for minutes silently.
"""

_REFUSALS = ("authentication failed", "does not exist", "no pg_hba.conf entry", "is not permitted to log in")
_TOO_MANY = "53300"
_TOO_MANY_WORDS = ("too many clients", "too many connections", "remaining connection slots")

# A limit of -1 means none. `reserved_connections` exists since PostgreSQL 16.
_CONNECTIONS = """
select least(current_setting('max_connections')::integer
             - current_setting('superuser_reserved_connections')::integer
             - coalesce(current_setting('reserved_connections', true)::integer, 0),
             (select nullif(datconnlimit, -1) from pg_database where datname = current_database()),
             (select nullif(rolconnlimit, -1) from pg_roles where rolname = current_user)),
       (select count(*) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid())
"""


class Patience:
    """Waits during a database outage, longer each time; calls `on_wait` with the error and the wait in seconds."""

    def __init__(self, on_wait: Callable[[StoreError, float], None], random: Random | None = None) -> None:
        self._on_wait = on_wait
        self._random = random or Random()  # noqa: S311 - jitter, not a secret
        self._failures = 0
        self._has_died = False

    def can_outlast(self, problem: StoreError) -> bool:
        """Return whether a retry may help; not if the server crashed in the vector test for the second time."""
        if isinstance(problem, StoreUnfitError) and isinstance(problem.__cause__, psycopg.OperationalError):
            has_died, self._has_died = self._has_died, True
            return not has_died
        return isinstance(problem, StoreUnavailableError)

    async def rest(self, problem: StoreError) -> None:
        """Wait before the next attempt to connect."""
        self._failures += 1
        wait_s = backoff_s(self._failures, self._random)
        self._on_wait(problem, wait_s)
        await asyncio.sleep(wait_s)


class Database:
    """One database, as opened by one process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.embedded: EmbeddedServer | None = None
        self.connections = Connections.budget(0, 0, runs=1)
        self.unmarked_sources: set[int] | None = None
        self._conninfo = ""
        self._pool: AsyncConnectionPool[Connection] | None = None
        self._places = asyncio.Semaphore(0)
        self._alone = {lock: asyncio.Semaphore(places) for lock, places in ALONE_CONNECTIONS.items()}
        self._used_at: WeakKeyDictionary[Connection, float] = WeakKeyDictionary()

    async def open(self, *, patience: "Patience | None" = None) -> None:
        """Start or find the server, bring the schema up to date, and open the pool.

        With `patience`, wait for the end of an outage. Any other error is raised, and so is the error of an embedded
        server that does not start.
        """
        try:
            while True:
                await self._start_server()
                try:
                    return await self._open_pool()
                except (StoreUnavailableError, StoreUnfitError) as problem:
                    if patience is None or not patience.can_outlast(problem):
                        raise
                    outage = problem
                await self.close()
                await patience.rest(outage)
        except BaseException:
            await self.close()
            raise

    async def _start_server(self) -> None:
        settings = self.settings
        if settings.database_url is not None:
            self._conninfo = settings.database_url.get_secret_value()
            scheme, separator, _ = self._conninfo.partition("://")
            if separator and scheme not in ("postgresql", "postgres"):
                raise ConfigurationError(
                    f"ROWEN_DATABASE_URL begins with {scheme[:20]}://, which is no PostgreSQL.",
                    hint="It has the form postgresql://user:password@host:5432/name. Without it, an embedded server is"
                    " used.",
                )
            return
        self.embedded = EmbeddedServer(
            settings.home, port=settings.embedded_port, user=settings.embedded_user, linger_s=settings.embedded_linger_s
        )
        # A thread cannot be cancelled: abandoned, it would start the server after this had returned.
        self._conninfo = await finish(asyncio.to_thread(self.embedded.join))

    async def _open_pool(self) -> None:
        with translate_database_errors(self.place):
            async with await self.connect() as connection:
                await migrate(connection)
                allowed, in_use = await only(connection, _CONNECTIONS)
                await check_vectors(connection)
        self.connections = Connections.budget(allowed, in_use, runs=self.settings.side_by_side)
        self._places = asyncio.Semaphore(self.connections.pooled)
        self._pool = AsyncConnectionPool(
            self._conninfo,
            min_size=1,
            max_size=self.connections.pooled,
            open=False,
            timeout=self.settings.database_patience_s,
            configure=self._configure,
            check=self._check,
            kwargs=self._options,
        )
        await self._pool.open()

    async def close(self) -> None:
        """Close the pool, and release the embedded server."""
        pool, self._pool = self._pool, None
        embedded, self.embedded = self.embedded, None
        try:
            if pool is not None:
                # The tasks of a half-closed pool ignore cancellation, and the process would never exit.
                await finish(pool.close())
        finally:
            if embedded is not None:
                await finish(asyncio.to_thread(embedded.leave))

    @property
    def place(self) -> str:
        """The name of the database for messages, without its password."""
        if self.embedded is not None or self.settings.database_url is None:
            return f"the embedded database in {self.settings.home}"
        try:
            parts = conninfo_to_dict(self._conninfo or self.settings.database_url.get_secret_value())
        except psycopg.ProgrammingError:
            return "the database of ROWEN_DATABASE_URL"
        return f"database {parts.get('dbname', '?')} on {parts.get('host', 'localhost')}"

    @property
    def _options(self) -> dict[str, Any]:
        return {"application_name": "rowen", "connect_timeout": math.ceil(self.settings.database_patience_s)}

    async def connect(self) -> Connection:
        """Open a connection outside the pool, for locks that live as long as it; wait if the server is full."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self.settings.database_patience_s
        with translate_database_errors(self.place):
            while True:
                try:
                    connection = await AsyncConnection.connect(self._conninfo, autocommit=True, **self._options)
                    break
                except psycopg.OperationalError as problem:
                    # Before a session begins, only the text of the error names its reason.
                    is_full = problem.sqlstate == _TOO_MANY or any(words in str(problem) for words in _TOO_MANY_WORDS)
                    if not is_full or loop.time() > until:
                        raise
                await asyncio.sleep(CROWDED_S)
            try:
                await self._configure(connection)
            except BaseException:
                await connection.close()
                raise
            return connection

    @asynccontextmanager
    async def alone(self, lock: Lock, key: int | str) -> AsyncIterator[bool]:
        """Hold a lock for the length of the block; yield False if another session holds it.

        The lock lives with a connection outside the pool, so that the server frees it also after a kill -9.
        """
        async with self._alone[lock], await self.connect() as connection:
            with translate_database_errors(self.place):
                is_mine = await try_session(connection, lock, key)
            try:
                yield is_mine
            finally:
                if is_mine:
                    await release_at_end(connection, lock, key)

    async def _configure(self, connection: Connection) -> None:
        """Configure a session; the server ends it if its process is frozen in a transaction for the time of a lease.

        Otherwise the locks of that transaction would keep another process from taking over the run.
        """
        idle_s = self._idle_limit_s
        await connection.set_autocommit(True)
        await connection.execute(f"set search_path to {SCHEMA}, public")
        await connection.execute(
            f"set timezone to 'UTC'; set idle_in_transaction_session_timeout to '{int(idle_s * 1000)}ms'".encode()
        )

    @property
    def _idle_limit_s(self) -> float:
        return max(self.settings.lease_s, SHORTEST_IDLE_S)

    async def wait_inside(self, connection: Connection, event: asyncio.Event) -> None:
        """Wait for `event` inside a transaction; query now and then so that the server does not end an idle session."""
        while not event.is_set():
            try:
                # A quarter of the limit, so that a busy machine may miss one wake-up.
                async with asyncio.timeout(self._idle_limit_s / 4):
                    await event.wait()
            except TimeoutError:
                await connection.execute("select")

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lend a pooled connection in autocommit mode, for reading."""
        connection = await self.borrow()
        try:
            with translate_database_errors(self.place), _cancellable():
                async with connection:
                    yield connection
        finally:
            await self.give_back(connection)

    async def borrow(self) -> Connection:
        """Take a pooled connection for long use, as by a lease; return it with `give_back`.

        Waiting for a connection of this process has no time limit; only waiting for the server has one.
        """
        if self._pool is None:
            raise StoreUnavailableError("The database is not open.")
        before = _cancellations()
        with translate_database_errors(self.place), _cancellable():
            await self._places.acquire()
            try:
                connection = await _get_connection(self._pool)
            except BaseException:
                self._places.release()
                raise
        try:
            _raise_cancellation(before)
        except asyncio.CancelledError:
            await self.give_back(connection)
            raise
        return connection

    async def give_back(self, connection: Connection) -> None:
        """Return a borrowed connection, even if cancelled; the caller must have released its locks or closed it."""
        self._places.release()
        self._used_at[connection] = asyncio.get_running_loop().time()
        # A connection lost on its way back would be missing from the pool forever.
        await finish(self._put_back(connection))

    async def _put_back(self, connection: Connection) -> None:
        """Return a connection to the pool; if its pipeline was cancelled, close it so that the pool replaces it.

        Otherwise its next borrower would write inside a transaction that nobody ends. The pool's `reset` callback is
        not used, since it would start a task for each returned connection.
        """
        if self._pool is None or connection.pgconn.pipeline_status != PipelineStatus.OFF:
            await connection.close()
        if self._pool is not None:
            await self._pool.putconn(connection)

    async def _check(self, connection: Connection) -> None:
        """Check that a pooled connection is alive, unless it was used recently and its server has sent nothing."""
        used_at = self._used_at.get(connection, -math.inf)
        if asyncio.get_running_loop().time() - used_at > TRUSTED_S or has_news(connection):
            await AsyncConnectionPool.check_connection(connection)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """Lend a pooled connection inside a transaction."""
        async with self.connection() as connection, connection.transaction():
            yield connection


async def _get_connection(pool: AsyncConnectionPool[Connection]) -> Connection:
    """Return a pooled connection; on a timeout, wait again unless connecting failed or the pool is empty."""
    while True:
        failures = pool.get_stats().get("connections_errors", 0)
        try:
            return await pool.getconn()
        except PoolTimeout:
            stats = pool.get_stats()
            if stats.get("connections_errors", 0) > failures or not stats.get("pool_size", 0):
                raise


@contextmanager
def _cancellable() -> Iterator[None]:
    """Raise a pending cancellation instead of the error of a broken connection."""
    before = _cancellations()
    try:
        yield
    except (psycopg.Error, PoolTimeout):
        _raise_cancellation(before)
        raise


def _cancellations() -> int:
    """Return the number of pending cancellations of this task.

    In Python 3.11 a task continues after its `TaskGroup` failed, and counts as cancelled for ever.
    """
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


def _raise_cancellation(before: int) -> None:
    """Raise a cancellation that the pool lost when a connection arrived at the same moment (python/cpython#86296)."""
    if _cancellations() > before:
        raise asyncio.CancelledError


def has_news(connection: Connection) -> bool:
    """Return whether the server sent an unrequested message, such as the end of a session, or hung up."""
    news = select.poll()
    news.register(connection.fileno(), select.POLLIN)
    return bool(news.poll(0))


def without_password(conninfo: str) -> tuple[str, dict[str, str]]:
    """Return a connection string without secrets, and the environment variable that holds the password.

    There is no variable for the passphrase of a key: the client asks for it.
    """
    parts = conninfo_to_dict(conninfo)
    parts.pop("sslpassword", None)
    password = parts.pop("password", None)
    return make_conninfo("", **parts), {"PGPASSWORD": str(password)} if password else {}


@contextmanager
def translate_database_errors(place: str) -> Iterator[None]:
    """Turn the driver's errors into errors of the store; `place` names the database in their messages."""
    try:
        yield
    except RowenError:
        raise
    except (errors.DiskFull, errors.OutOfMemory) as problem:
        raise StoreFullError(
            f"No space left for {place}: {_first_line(problem)}",
            hint="Free some space and run the same command again; nothing half-written was kept.",
        ) from problem
    except UnicodeEncodeError as problem:
        raise StoreRejectedError("A text has half of a surrogate pair, which cannot be stored.") from problem
    except (psycopg.DataError, psycopg.IntegrityError, errors.ProgramLimitExceeded) as problem:
        raise StoreRejectedError(f"The database refused a value: {_first_line(problem)}") from problem
    except (psycopg.OperationalError, PoolTimeout) as problem:
        # While a connection is opened, the driver gives no code, only the server's text.
        text = str(problem)
        if "FATAL:" in text and any(words in text for words in _REFUSALS):
            raise StoreUnfitError(
                f"The server of {place} refused this user: {_first_line(problem)}",
                hint="Check user, password and database name in ROWEN_DATABASE_URL.",
            ) from None
        # The embedded server has no address.
        has_address = any(words in text for words in (" port ", "resolve host", "translate host"))
        question = "Is it running, and are host and port in ROWEN_DATABASE_URL right? " if has_address else ""
        committed = "What was committed is kept; the next sync continues from there. "
        raise StoreUnavailableError(
            f"Lost or could not reach {place}: {_first_line(problem)}",
            hint=Hint(question + committed, action("doctor"), " checks the database."),
        ) from problem
    except psycopg.Error as problem:
        raise StoreError(f"{place}: {_first_line(problem)}") from problem


def _first_line(problem: Exception) -> str:
    return str(problem).strip().partition("\n")[0] or type(problem).__name__
