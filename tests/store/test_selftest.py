"""The self-test of vectors, against a server that really dies."""

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from rowen.errors import StoreUnavailableError, StoreUnfitError
from rowen.store.embedded import EmbeddedServer
from rowen.store.selftest import Connection, check_vectors

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


@pytest.fixture
def conninfo(server: EmbeddedServer) -> str:
    """Joined anew, which waits for the recovery that a test may have caused."""
    return server.join()


def test_a_server_that_can_compute_distances_passes(conninfo: str) -> None:
    check_vectors(conninfo)


def test_a_backend_that_dies_of_an_illegal_instruction_is_told_as_the_wrong_cpu(conninfo: str) -> None:
    def die(connection: Connection, statement: str) -> None:
        os.kill(connection.info.backend_pid, signal.SIGILL)
        connection.execute(statement.encode())

    with pytest.raises(StoreUnfitError, match=r"another processor than .+") as caught:
        check_vectors(conninfo, run=die)

    assert "ROWEN_DATABASE_URL" in (caught.value.hint or "")


def test_a_connection_that_was_ended_on_purpose_says_nothing_about_the_cpu(conninfo: str) -> None:
    def end(connection: Connection, statement: str) -> None:
        connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    with pytest.raises(StoreUnavailableError):
        check_vectors(conninfo, run=end)


def test_a_pgvector_that_lacks_a_type_is_unfit(conninfo: str) -> None:
    def ask_for_more(connection: Connection, statement: str) -> None:
        connection.execute("SELECT '[1]'::no_such_type")

    with pytest.raises(StoreUnfitError, match="no_such_type"):
        check_vectors(conninfo, run=ask_for_more)


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(StoreUnavailableError):
        check_vectors("host=/nonexistent dbname=postgres")
