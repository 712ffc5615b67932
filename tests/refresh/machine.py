"""*Refresh equals rebuild*: after any runs, crashes and faults, one clean run leaves what a first harvest would leave.

The machine knows nothing of any kind of source. A `World` is a small source that can be changed at random and
healed; each connector joins with a world of its own.
"""

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from random import Random
from typing import Any, ClassVar, Protocol

import psycopg
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import rowen
from rowen.errors import RowenError
from tests.conftest import House, Server
from tests.logical import contents, index_of, replayed

# The build looks at the same examples each time; `make soak` looks for new ones.
PROFILE = settings(
    derandomize="ROWEN_TEST_EXAMPLES" not in os.environ,
    database=None,
    # An example takes seconds: to make one smaller takes longer than to read it as it is.
    phases=(Phase.generate,),
    max_examples=int(os.environ.get("ROWEN_TEST_EXAMPLES", "12")),
    stateful_step_count=int(os.environ.get("ROWEN_TEST_STEPS", "14")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)


class World(Protocol):
    """A source that can be changed at random."""

    address: str
    kind: str

    def change(self, chance: Random) -> None:
        """Change something: create, edit, touch, rename, delete, break."""

    def heal(self) -> None:
        """Make everything readable again."""

    def close(self) -> None:
        """Take it down."""


class RefreshEqualsRebuild(RuleBasedStateMachine):
    """Random worlds, random runs, random harm."""

    server: ClassVar[Server]
    new_house: ClassVar[Callable[[], House]]
    new_world: ClassVar[Callable[[], World]]

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.world = self.new_world()
        self.house = self.new_house()
        chance = Random(seed)
        for _ in range(6):
            self.world.change(chance)

    @rule(seed=st.integers(0, 2**32), times=st.integers(1, 4))
    def the_world_changes(self, seed: int, times: int) -> None:
        chance = Random(seed)
        for _ in range(times):
            self.world.change(chance)

    @rule(full=st.booleans(), accept=st.booleans())
    def a_run(self, full: bool, accept: bool) -> None:
        self._sync(full=full, accept_deletions=accept)

    @rule(statement=st.integers(1, 70), after=st.booleans())
    def a_run_is_killed(self, statement: int, after: bool) -> None:
        """kill -9 of the process, just before or after it has sent some statement."""
        where = [self.house.conninfo, self.world.address, str(statement), str(int(after))]
        killed = subprocess.run(
            [sys.executable, "-m", "tests.refresh.killed", *where], timeout=60, capture_output=True, text=True
        )
        assert killed.returncode in (0, -9), killed.stderr

    @rule(statement=st.integers(1, 60))
    def a_statement_fails(self, statement: int) -> None:
        with failing_at(statement):
            self._sync()

    @precondition(lambda self: self.server.embedded is not None)
    @rule(statement=st.integers(1, 60))
    def the_database_is_killed(self, statement: int) -> None:
        """kill -9 of the server while a run talks to it."""
        with killing_server_at(statement, self.server):
            self._sync()
        self.server.revive()

    def teardown(self) -> None:
        if not hasattr(self, "house"):
            return
        try:
            self._refresh_equals_rebuild()
        finally:
            self.world.close()

    def _refresh_equals_rebuild(self) -> None:
        self.world.heal()
        self._sync(accept_deletions=True, clean=True)
        rebuilt = self.new_house()
        asyncio.run(_sync(rebuilt, self.world.address))
        assert index_of(self.house) == index_of(rebuilt)
        assert replayed(self.house) == contents(self.house)
        before = self.house.query("select count(*) from change")
        again = self._sync(clean=True)
        assert again is not None
        assert again.tally.rows_written == 0, again.tally
        assert self.house.query("select count(*) from change") == before

    def _sync(self, *, clean: bool = False, **how: bool) -> rowen.Run | None:
        try:
            run = asyncio.run(_sync(self.house, self.world.address, **how))
        except (RowenError, psycopg.Error):
            if clean:
                raise
            return None
        if clean:
            assert (run.status, run.tally.failed) == ("completed", 0), run
        return run


async def _sync(house: House, address: str, **how: Any) -> rowen.Run:
    async with asyncio.timeout(60), house.open() as r:
        return await r.sync(address, **how)


OF_THE_POOL = ("set search_path to", "set timezone to")


@contextlib.contextmanager
def failing_at(statement: int) -> Any:
    """The connection breaks at the n-th statement."""

    def fail() -> None:
        raise psycopg.OperationalError("the network went away")

    with at_statement(statement, before=fail):
        yield


@contextlib.contextmanager
def killing_server_at(statement: int, server: Server) -> Any:
    with at_statement(statement, before=server.kill):
        yield


@contextlib.contextmanager
def at_statement(
    statement: int | str, *, before: Callable[[], None] | None = None, after: Callable[[], None] | None = None
) -> Any:
    """Do something when the n-th statement from now on, or the first that contains some words, is sent.

    What the pool sends to make a connection, and to see whether it is alive, does not count: it puts up with a failure.
    """
    original = psycopg.AsyncCursor.execute
    sent = 0
    done = False

    async def counting(self: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal sent, done
        counts = query != "" and not str(query).startswith(OF_THE_POOL)
        sent += counts
        now = not done and counts and (sent == statement if isinstance(statement, int) else statement in str(query))
        done = done or now
        if now and before:
            before()
        result = await original(self, query, *args, **kwargs)
        if now and after:
            after()
        return result

    psycopg.AsyncCursor.execute = counting  # type: ignore[method-assign]
    try:
        yield
    finally:
        psycopg.AsyncCursor.execute = original  # type: ignore[method-assign]
