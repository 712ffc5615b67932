"""A worker waits for the database: before it begins, when it dies in the middle of any statement, and later."""

import asyncio
import itertools
import signal
import struct
import subprocess
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Self

import pytest
from psycopg import OperationalError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from rowen import Rowen
from rowen.errors import NewerDatabaseError, StoreUnavailableError, StoreUnfitError
from rowen.jobs.tasks import ActiveJob, Task
from rowen.jobs.worker import Worker
from rowen.net import politeness
from rowen.store.database import Patience
from rowen.store.migrate import latest
from tests.cli.conftest import Cli
from tests.conftest import ScratchDatabase, Server
from tests.jobs.conftest import PATIENCE_S, Yard

REFUSED = 2
"""New connections that are refused after the server was lost."""


def fatal(code: str, words: str) -> bytes:
    """What a server says that lets nobody in."""
    fields = b"SFATAL\0VFATAL\0C" + code.encode() + b"\0M" + words.encode() + b"\0\0"
    return b"E" + struct.pack("!i", len(fields) + 4) + fields


STARTING = fatal("57P03", "the database system is starting up")
WRONG_PASSWORD = fatal("28P01", 'password authentication failed for user "rowen"')


class Outlet:
    """A way to the server that breaks off at one statement, counted from 1, and then refuses some connections.

    `reached`: the server gets that statement, and its answer is lost. `words` is what those who are refused hear.
    """

    def __init__(self, conninfo: str, *, at: int = 0, reached: bool = False, words: bytes = b"") -> None:
        self._to = conninfo_to_dict(conninfo)
        self._at, self._reached, self._words = at, reached, words
        self.statements = self.refusals = 0
        self.refuses = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        own = {"host": "127.0.0.1", "port": self._server.sockets[0].getsockname()[1]}
        self.conninfo = make_conninfo(**{**self._to, **own, "sslmode": "disable", "gssencmode": "disable"})
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self._break()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def has_broken(self) -> bool:
        return 0 < self._at <= self.statements

    def _break(self) -> None:
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                if self.refuses:
                    self.refuses -= 1
                    self.refusals += 1
                    await reader.read(8)
                    writer.write(self._words)
                    await writer.drain()
                    return
                await self._pass_on(reader, writer)
        finally:
            writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = f"{self._to['host']}/.s.PGSQL.{self._to['port']}"
        up, down = await asyncio.open_unix_connection(path)
        answering = asyncio.create_task(self._answer(up, writer))
        try:
            length = await reader.readexactly(4)
            down.write(length + await reader.readexactly(struct.unpack("!i", length)[0] - 4))
            while True:
                head = await reader.readexactly(5)
                body = await reader.readexactly(struct.unpack("!i", head[1:])[0] - 4)
                self.statements += (is_statement := head[:1] in b"QP")
                breaks = is_statement and self.statements == self._at
                if not breaks or self._reached:
                    down.write(head + body)
                if breaks:
                    await down.drain()
                    self.refuses = REFUSED
                    self._break()
                    return
        finally:
            answering.cancel()
            down.close()

    async def _answer(self, up: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while part := await up.read(65_536):
                writer.write(part)
                await writer.drain()
        writer.close()


class Start:
    """A worker that is begun behind an outlet, and does one job."""

    def __init__(self, database: ScratchDatabase, outlet: Outlet) -> None:
        self.waits: list[str] = []
        self.begun: list[int] = []
        self.statements_until_claim = 0
        self._scratch, self._outlet = database, outlet

    async def work(self) -> Yard:
        """Open the database, and work until the job is done."""
        settings = ScratchDatabase(self._outlet.conninfo, self._scratch.home).settings(lease_s=60, job_retry_s=0)
        rowen = Rowen(settings)
        async with asyncio.timeout(PATIENCE_S):
            await rowen.start(patience=Patience(lambda problem, _: self.waits.append(str(problem)), Random(1)))
            try:
                worker = Worker(rowen._engine, tasks={"do": Task(self._do)}, random=Random(1))
                working = asyncio.create_task(worker.run())
                yard = Yard(rowen)
                while not self._is_done():
                    assert not working.done(), working.exception()
                    await asyncio.sleep(0.01)
                worker.stop()
                await working
                return yard
            finally:
                await rowen.close()

    async def _do(self, active: ActiveJob) -> None:
        self.begun.append(active.job.id)
        self.statements_until_claim = self.statements_until_claim or self._outlet.statements

    def _is_done(self) -> bool:
        return self._scratch.query("select status::text from procrastinate_jobs") == [("succeeded",)]


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outages are short."""
    monkeypatch.setattr(politeness, "_BACKOFF_BASE_S", 0.01)


PUT = (
    "truncate procrastinate_jobs cascade; insert into procrastinate_jobs (queue_name, task_name) values ('sync', 'do')"
)


@pytest.mark.parametrize("reached", [False, True], ids=["lost on its way", "lost with its answer"])
async def test_the_worker_waits_for_a_database_that_dies_at_any_statement_before_the_first_job(
    database: ScratchDatabase, quickly: None, reached: bool
) -> None:
    waited = 0
    for at in itertools.count(1):
        database.execute(PUT)
        async with Outlet(database.conninfo, at=at, reached=reached) as outlet:
            start = Start(database, outlet)
            await start.work()
        assert outlet.has_broken
        waited += bool(start.waits)
        [(attempts,)] = database.query("select attempts from procrastinate_jobs")
        assert attempts == 1
        if 0 < start.statements_until_claim < at:
            break

    assert waited > 8  # statements of the opening; the others are the worker's
    assert at > 16


@pytest.mark.parametrize("reached", [False, True], ids=["lost on its way", "lost with its answer"])
async def test_a_new_database_that_dies_in_the_middle_of_its_migrations_is_migrated_when_it_is_back(
    server: Server, tmp_path: Path, quickly: None, reached: bool
) -> None:
    for at in (1, 4, 8, 20, 60):
        name = server.create()
        database = ScratchDatabase(server.conninfo(name), tmp_path / "home")
        async with Outlet(database.conninfo, at=at, reached=reached) as outlet:
            waits: list[str] = []
            rowen = Rowen(ScratchDatabase(outlet.conninfo, database.home).settings())
            async with asyncio.timeout(PATIENCE_S):
                await rowen.start(patience=Patience(lambda problem, _, to=waits: to.append(str(problem))))  # type: ignore[misc]
            await rowen.close()
        assert outlet.has_broken
        assert database.query("select max(number) from migration") == [(latest(),)]
        assert len(waits) == 1 + REFUSED
        server.drop(name)


@pytest.mark.parametrize("words", [b"", STARTING], ids=["hangs up", "is starting"])
async def test_the_worker_waits_for_a_database_that_is_down_at_its_start(
    database: ScratchDatabase, quickly: None, words: bytes
) -> None:
    database.execute(PUT)
    async with Outlet(database.conninfo, words=words) as outlet:
        outlet.refuses = 5
        start = Start(database, outlet)
        await start.work()

    assert len(start.waits) == 5
    assert all(("starting up" in told) == bool(words) for told in start.waits)


async def test_the_worker_does_not_wait_after_a_wrong_password_or_for_a_newer_database(
    database: ScratchDatabase, quickly: None
) -> None:
    async with Outlet(database.conninfo, words=WRONG_PASSWORD) as outlet:
        outlet.refuses = 1
        start = Start(database, outlet)
        with pytest.raises(StoreUnfitError, match="password authentication failed"):
            await start.work()
    database.execute(f"insert into migration (number, name, checksum) values ({latest() + 1}, 'later', '')")
    async with Outlet(database.conninfo) as outlet:
        later = Start(database, outlet)
        with pytest.raises(NewerDatabaseError):
            await later.work()

    assert start.waits == later.waits == []


async def test_without_patience_a_database_that_is_away_is_an_error(database: ScratchDatabase) -> None:
    async with Outlet(database.conninfo) as outlet:
        outlet.refuses = 1
        with pytest.raises(StoreUnavailableError):
            await Rowen(ScratchDatabase(outlet.conninfo, database.home).settings()).start()


def test_the_worker_does_not_wait_for_a_remote_server_that_dies_twice() -> None:
    patience = Patience(lambda *_: None)
    died = StoreUnfitError("The server died while it computed a distance.")
    died.__cause__ = OperationalError("server closed the connection unexpectedly")

    assert [patience.can_outlast(died) for _ in range(2)] == [True, False]
    assert not patience.can_outlast(StoreUnfitError("The server has no pgvector."))


async def statements_to_open(database: ScratchDatabase) -> int:
    async with Outlet(database.conninfo) as outlet:
        rowen = Rowen(ScratchDatabase(outlet.conninfo, database.home).settings())
        await rowen.start()
        await rowen.close()
    return outlet.statements


async def until_it_works(database: ScratchDatabase, process: "subprocess.Popen[str]") -> None:
    """Wait until a worker is there, and tell it to stop."""
    async with asyncio.timeout(PATIENCE_S):
        while not database.query("select from worker where locked_at is not null"):
            assert process.poll() is None, process.communicate()
            await asyncio.sleep(0.02)
    process.send_signal(signal.SIGTERM)


@pytest.mark.parametrize("command", [("worker",), ("serve", "--port", "0")], ids=lambda command: command[0])
@pytest.mark.parametrize("after", [None, 1, 2], ids=["before", "after the opening", "a statement later"])
async def test_a_working_command_reports_that_it_waits_for_the_database_and_continues(
    database: ScratchDatabase, tmp_path: Path, command: tuple[str, ...], after: int | None
) -> None:
    at = 0 if after is None else await statements_to_open(database) + after
    async with Outlet(database.conninfo, at=at, words=STARTING) as outlet:
        outlet.refuses = 0 if at else REFUSED
        settings = {"ROWEN_DATABASE_URL": outlet.conninfo, "ROWEN_HOME": str(tmp_path / "home")}
        process = Cli(tmp_path, settings).start(*command)
        try:
            await until_it_works(database, process)
            _, err = await asyncio.to_thread(process.communicate, timeout=PATIENCE_S)
        finally:
            process.kill()

    assert process.returncode == 0
    assert outlet.refusals == REFUSED
    if not at:
        assert err.count("the database system is starting up. Trying again in") == REFUSED


async def test_a_worker_with_a_wrong_password_ends_with_the_reason(database: ScratchDatabase, tmp_path: Path) -> None:
    async with Outlet(database.conninfo, words=WRONG_PASSWORD) as outlet:
        outlet.refuses = 99
        settings = {"ROWEN_DATABASE_URL": outlet.conninfo, "ROWEN_HOME": str(tmp_path / "home")}
        cli = Cli(tmp_path, settings)
        done = [await asyncio.to_thread(cli, *command) for command in (("worker",), ("serve", "--port", "0"))]

    assert [one.code for one in done] == [1, 1]
    assert all("refused this user" in one.err and "ROWEN_DATABASE_URL" in one.err for one in done)


async def test_a_worker_that_ends_when_idle_does_not_wait(database: ScratchDatabase, tmp_path: Path) -> None:
    async with Outlet(database.conninfo) as outlet:
        outlet.refuses = 99
        settings = {"ROWEN_DATABASE_URL": outlet.conninfo, "ROWEN_HOME": str(tmp_path / "home")}
        done = await asyncio.to_thread(Cli(tmp_path, settings), "worker", "--until-idle")

    assert done.code == 1
    assert "Trying again" not in done.err
