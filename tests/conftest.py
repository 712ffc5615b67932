"""A real PostgreSQL for every test: a template is migrated once and cloned for each test that asks for a database."""

import asyncio
import inspect
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb

import rowen
from rowen.connectors import registry
from rowen.settings import Settings
from rowen.store.database import Database
from rowen.store.items.items import whole
from rowen.store.server.embedded import EmbeddedServer
from tests.portals.embedder import Provider
from tests.seeds import pytest_runtest_call, pytest_sessionstart, pytest_terminal_summary

__all__ = ["pytest_runtest_call", "pytest_sessionstart", "pytest_terminal_summary"]

# Each commit looks at new examples (see `seeds`), and prints how to repeat one that fails. How long one takes says more
# about what else the machine does than about the code.
hypothesis_settings.register_profile(
    "rowen",
    derandomize=False,
    database=None,
    print_blob=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
hypothesis_settings.load_profile("rowen")

# Against hanging, not a measure of speed: the longest test takes 20 s alone, and four times as long on a busy machine.
TEST_TIME_LIMIT_S = int(os.environ.get("ROWEN_TEST_LIMIT_S", "300"))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Async tests run in a loop of their own, and never for ever."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    async def bounded() -> None:
        async with asyncio.timeout(TEST_TIME_LIMIT_S):
            await pyfuncitem.obj(**arguments)

    asyncio.run(bounded())
    return True


# Most tests are about something else, and embedding takes its time; the files of whoever runs them are none of theirs.
# And no server stays up for who comes next.
QUIET = {"ROWEN_EMBEDDER": "none", "ROWEN_CONFIG": os.devnull, "ROWEN_EMBEDDED_LINGER_S": "0"}


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("ROWEN_", "CB_")) and "TEST" not in name]:
        monkeypatch.delenv(name)
    for name, value in QUIET.items():
        monkeypatch.setenv(name, value)
    # Each process would compile what it imports.
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)


@pytest.fixture
def kinds(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Register a connector for one test."""
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    return registry.register


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All statements that are sent to the database from now on; clear it where counting begins.

    Without those that set a connection up: the pool opens one when it likes.
    """
    sent: list[str] = []
    unwatched = psycopg.AsyncCursor.execute

    async def execute(self: Any, query: Any, *given: Any, **how: Any) -> Any:
        told = query.decode() if isinstance(query, bytes) else str(query)
        if not told.startswith("set "):
            sent.append(told)
        return await unwatched(self, query, *given, **how)

    monkeypatch.setattr(psycopg.AsyncCursor, "execute", execute)
    return sent


class Server:
    """The PostgreSQL under test: one by URL, or an embedded one of the session's own."""

    def __init__(self, home: Path) -> None:
        self.embedded = None if "ROWEN_TEST_DATABASE_URL" in os.environ else EmbeddedServer(home)
        self.url = os.environ.get("ROWEN_TEST_DATABASE_URL") or (self.embedded.join() if self.embedded else "")
        self.count = 0
        if self.embedded is not None:
            # Processes are killed here, but never the machine: what the system was given is on disk soon enough.
            self.admin("alter system set fsync = off")
            self.admin("select pg_reload_conf()")

    def kill(self) -> None:
        """kill -9 of the embedded server."""
        assert self.embedded is not None
        pid = self.embedded.status().pid
        if pid is not None:
            os.kill(pid, signal.SIGKILL)

    def revive(self) -> None:
        """Start the embedded server again, if it does not run."""
        assert self.embedded is not None
        self.embedded.leave()
        self.url = self.embedded.join()

    def admin(self, statement: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement.encode())

    def create(self, template: str | None = None) -> str:
        self.count += 1
        name = f"rowen_test_{os.getpid()}_{self.count}"
        self.admin(f"create database {name}" + (f" template {template} strategy file_copy" if template else ""))
        return name

    def drop(self, name: str) -> None:
        self.admin(f"drop database if exists {name} with (force)")

    def conninfo(self, name: str) -> str:
        return make_conninfo(self.url, dbname=name)


# Thousands of databases are made and dropped, and none has to outlive the machine: in memory that takes a tenth of the
# time. Databases of all processes together stay below 2 GB.
_MEMORY, _ROOM_BYTES = Path("/dev/shm"), 4 << 30


def _place() -> str | None:
    """Where the server's files are: in memory, if there is room."""
    usable = _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK)
    return str(_MEMORY) if usable and shutil.disk_usage(_MEMORY).free > _ROOM_BYTES else None


@contextmanager
def started() -> Iterator[Server]:
    """A server in a folder of its own, until the end."""
    with tempfile.TemporaryDirectory(prefix="rowen-test-", dir=_place()) as folder:
        Path(folder).chmod(0o755)
        server = Server(Path(folder) / "home")
        try:
            yield server
        finally:
            if server.embedded is not None:
                server.embedded.leave()


def migrated(server: Server) -> str:
    """The name of a database to clone: all migrations were applied to it."""
    name = server.create()

    async def migrate() -> None:
        database = Database(Settings(database_url=server.conninfo(name)))
        await database.open()
        await database.close()

    asyncio.run(migrate())
    return name


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with started() as server:
        yield server


@pytest.fixture(scope="session")
def template(server: Server) -> Iterator[str]:
    name = migrated(server)
    yield name
    server.drop(name)


class ScratchDatabase:
    """One database of a test's own; `open()` gives the Python API on it."""

    def __init__(self, conninfo: str, home: Path) -> None:
        self.conninfo = conninfo
        self.home = home

    def settings(self, **more: Any) -> Settings:
        quick = {"workers": 0, "database_patience_s": 2, "host_delay_s": 0, "fetch_tries": 1, "probe": False}
        loopback = {"allow_addresses": "127.0.0.0/8", "cb_failure_threshold": 1000}
        return Settings(database_url=self.conninfo, home=self.home, **{**quick, **loopback, **more})

    def open(self, **more: Any) -> AbstractAsyncContextManager[rowen.Rowen]:
        return rowen.open(self.settings(**more))

    def query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """What the database says, for looking behind the scenes; records in one piece, as they came."""
        with psycopg.connect(self.conninfo, options="-c search_path=rowen,public") as connection:
            is_about_records = re.search(r"\brecord\b", statement) is not None
            with connection.transaction(force_rollback=is_about_records):
                if is_about_records:
                    _unpack_records(connection)
                return connection.execute(statement.encode(), values or None).fetchall()

    def execute(self, statement: str) -> None:
        """Change something behind the scenes."""
        with psycopg.connect(self.conninfo, autocommit=True, options="-c search_path=rowen,public") as connection:
            connection.execute(statement.encode())


def _unpack_records(connection: psycopg.Connection[Any]) -> None:
    """Put records together for as long as a look takes."""
    for table, key in (("item", "id"), ("superseded_record", "number"), ("withdrawn", "item_id")):
        those = f"select {key}, record, source_record from {table} where source_record is not null"
        for number, record, packed in connection.execute(those.encode()).fetchall():
            connection.execute(
                f"update {table} set record = %s, source_record = null where {key} = %s".encode(),
                [Jsonb(whole(record, packed)), number],
            )


@pytest.fixture
def new_database(server: Server, template: str, tmp_path: Path) -> Iterator[Callable[[], ScratchDatabase]]:
    names: list[str] = []

    def make() -> ScratchDatabase:
        names.append(server.create(template))
        return ScratchDatabase(server.conninfo(names[-1]), tmp_path / "home")

    yield make
    for name in names:
        server.drop(name)


@pytest.fixture
def database(new_database: Callable[[], ScratchDatabase]) -> ScratchDatabase:
    return new_database()


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A provider of embeddings on loopback."""
    provider = Provider()
    yield provider
    provider.close()
