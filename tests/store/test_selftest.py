"""The self-test of vectors, against a server that really dies."""

import os
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import AsyncConnection

from rowen.errors import StoreUnavailableError, StoreUnfitError
from rowen.store.database import Connection
from rowen.store.migrate import check_vectors
from rowen.store.server.embedded import EmbeddedServer

from .other_processes import memory


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    with tempfile.TemporaryDirectory(prefix="rowen-test-", dir=memory()) as name:
        Path(name).chmod(0o755)
        server = EmbeddedServer(Path(name))
        with psycopg.connect(server.join(), autocommit=True) as connection:
            connection.execute("CREATE EXTENSION vector")
        yield server
        server.leave()


@asynccontextmanager
async def connected(server: EmbeddedServer) -> AsyncIterator[Connection]:
    """A connection to the server, joined again, which waits for a recovery that a test may have caused."""
    connection = await AsyncConnection.connect(server.join(), autocommit=True)
    try:
        yield connection
    finally:
        await connection.close()


async def test_a_server_that_can_compute_distances_passes(server: EmbeddedServer) -> None:
    async with connected(server) as c:
        await check_vectors(c)


async def test_a_backend_that_dies_of_an_illegal_instruction_is_reported_as_the_wrong_cpu(
    server: EmbeddedServer,
) -> None:
    async def die(connection: Connection, statement: str) -> None:
        os.kill(connection.info.backend_pid, signal.SIGILL)
        await connection.execute(statement.encode())

    async with connected(server) as c:
        with pytest.raises(StoreUnfitError, match=r"another processor than .+") as caught:
            await check_vectors(c, run=die)

    assert "ROWEN_DATABASE_URL" in (caught.value.hint or "")


async def test_a_connection_ended_on_purpose_is_no_sign_of_the_wrong_cpu(server: EmbeddedServer) -> None:
    async def end(connection: Connection, statement: str) -> None:
        await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    async with connected(server) as c:
        with pytest.raises(StoreUnavailableError):
            await check_vectors(c, run=end)


async def test_a_pgvector_that_lacks_a_type_is_unfit(server: EmbeddedServer) -> None:
    async def ask_for_more(connection: Connection, statement: str) -> None:
        await connection.execute("SELECT '[1]'::no_such_type")

    async with connected(server) as c:
        with pytest.raises(StoreUnfitError, match="no_such_type"):
            await check_vectors(c, run=ask_for_more)
