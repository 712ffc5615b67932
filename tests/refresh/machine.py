"""*Refresh equals rebuild*: after any runs, crashes and faults, one clean run leaves what a first harvest would leave.

The machine knows nothing of any kind of source. A `World` is a small source that can be changed at random and
healed; each kind joins with a world of its own. What happens to a world is a `Script`: a list of steps that is drawn
from one number, and can be written down and replayed.
"""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Protocol

import psycopg

import rowen
from rowen.errors import NotFoundError, RowenError, UsageError
from tests.conftest import ScratchDatabase, Server
from tests.logical import contents, index_of, replayed
from tests.refresh import killed
from tests.refresh.statements import at_statement, failing_at

SEEDS = 2**32
MOST_STEPS = 16  # as many as a few seconds allow; twice as many halve the number of worlds that are looked at
FIRST_CHANGES = (
    6  # of a world, before the first run: half of the changes are writes, so that there is something to lose
)
PATIENCE_S = 0.5  # with a server that was killed and does not come back before the run has failed
RUN_LIMIT_S = 120  # of a run over a dozen records: it takes less than a second alone, and much longer on a busy machine


class World(Protocol):
    """A source that can be changed at random."""

    address: str
    kind: str

    def change(self, chance: Random) -> None:
        """Change something: create, edit, touch, rename, delete, break."""

    def ail(self, chance: Random) -> None:
        """Let a single record fail from now on, new or edited or as it was; the rest can be read as ever."""

    def recover(self) -> None:
        """Let what ails be read again as if nothing had been: no date tells of it."""

    def heal(self) -> None:
        """Make everything readable again."""

    def close(self) -> None:
        """Take it down."""


@dataclass(frozen=True)
class Step:
    """The name of a method of the machine, and its arguments."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Script:
    """Everything that happens in one example: `world` is the seed of its first changes, if there are any."""

    world: int | None
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return json.dumps([self.world, *([step.name, step.arguments] for step in self.steps)])

    @classmethod
    def parse(cls, line: str) -> "Script":
        """A script that was written down."""
        world, *steps = json.loads(line)
        return cls(world, tuple(Step(name, arguments) for name, arguments in steps))


Draw = Callable[[Random], dict[str, Any]]


class Machine:
    """One example: a world, its database, and what happens to both."""

    draws: ClassVar[Mapping[str, Draw]] = {
        "the_world_changes": lambda c: {"seed": c.randrange(SEEDS), "times": c.randint(1, 4)},
        "a_run": lambda c: {"full": c.random() < 0.3, "accept": c.random() < 0.5},
        "a_run_while_the_world_changes": lambda c: {"statement": c.randint(1, 60), "seed": c.randrange(SEEDS)},
        "a_run_is_killed": lambda c: {"statement": c.randint(1, 70), "after": c.random() < 0.5},
        "a_statement_fails": lambda c: {"statement": c.randint(1, 60)},
        "the_database_is_killed": lambda c: {"statement": c.randint(1, 60)},
        "a_record_fails_for_a_while": lambda c: {"seed": c.randrange(SEEDS), "runs": c.randint(1, 4)},
        "a_narrow_look": lambda c: {"seed": c.randrange(SEEDS), "items": c.randint(1, 5), "full": c.random() < 0.2},
        "a_page_fails_for_a_while": lambda c: {"seed": c.randrange(SEEDS), "runs": c.randint(1, 4)},
        "the_filter_fails_for_a_while": lambda c: {"seed": c.randrange(SEEDS), "runs": c.randint(1, 4)},
    }
    most_steps: ClassVar[int] = MOST_STEPS

    def __init__(self, world: World, server: Server, new_database: Callable[[], ScratchDatabase]) -> None:
        self.world = world
        self.server = server
        self.new_database = new_database
        self.database = new_database()
        self.counts: Counter[str] = Counter()

    @classmethod
    def draw(cls, seed: int, *, without: frozenset[str] = frozenset()) -> Script:
        """The script of a seed. Each has a mixture of its own, in which some steps are frequent and others missing."""
        chance = Random(seed)
        names = [name for name in cls.draws if name not in without]
        weights = [chance.choice([0, 1, 1, 3]) for _ in names]
        weights[0] = max(weights[0], 1)
        drawn = chance.choices(names, weights, k=chance.randint(2, cls.most_steps))
        return Script(chance.randrange(SEEDS), tuple(Step(name, cls.draws[name](chance)) for name in drawn))

    def play(self, script: Script) -> None:
        """Live through a script; at its end a refreshed index must be what a rebuilt one is."""
        if script.world is not None:
            self.the_world_changes(seed=script.world, times=FIRST_CHANGES)
        for step in script.steps:
            self.counts["steps"] += 1
            self.counts[step.name] += 1
            getattr(self, step.name)(**step.arguments)
        self.refresh_equals_rebuild()

    def the_world_changes(self, *, seed: int, times: int) -> None:
        chance = Random(seed)
        for _ in range(times):
            self.world.change(chance)

    def a_run(self, *, full: bool, accept: bool) -> None:
        self._sync(full=full, accept_deletions=accept)

    def a_run_while_the_world_changes(self, *, statement: int, seed: int) -> None:
        """The source is edited behind the back of a run, which sends some statement at that moment."""
        with at_statement(statement, before=lambda: self.world.change(Random(seed))):
            self._sync()

    def a_run_is_killed(self, *, statement: int, after: bool) -> None:
        """kill -9 of the process, just before or after it has sent some statement."""
        self.counts["kills"] += killed.run(self.database.conninfo, self.world.address, statement=statement, after=after)

    def a_statement_fails(self, *, statement: int) -> None:
        """The connection breaks at some statement."""
        with failing_at(statement):
            self._sync()

    def the_database_is_killed(self, *, statement: int) -> None:
        """kill -9 of the server while a run talks to it."""
        if self.server.embedded is not None:
            with at_statement(statement, before=self.server.kill):
                self._sync()
            self.server.revive()

    def a_record_fails_for_a_while(self, *, seed: int, runs: int) -> None:
        """A single record cannot be read in some runs, and then can."""
        self.world.ail(Random(seed))
        for _ in range(runs):
            run = self._sync()
            self.counts["failed records"] += run.stats.failed if run else 0
        self.world.recover()

    def the_filter_fails_for_a_while(self, *, seed: int, runs: int) -> None:
        """What was modified cannot be asked for in some runs, or the answer is a lie; then as before."""
        world: Any = self.world
        if not getattr(world, "filter_marks", ()):
            return
        chance = Random(seed)
        for _ in range(runs):
            world.break_filter(chance)
            world.change(chance)
            self._sync(full=chance.random() < 0.2)
        world.mend_filter()

    def a_page_fails_for_a_while(self, *, seed: int, runs: int) -> None:
        """Every answer that would hold some records fails in some runs; a world that cannot do so stays as it is."""
        if (stick := getattr(self.world, "stick", None)) is None:
            return
        stick(Random(seed))
        for _ in range(runs):
            run = self._sync()
            if run is not None and run.stats.missing:
                self.counts["runs with missing records"] += 1
        self.world.recover()

    def a_narrow_look(self, *, seed: int, items: int, full: bool) -> None:
        """Some items are looked at again, and one that nobody knows; kinds that cannot do so refuse."""
        chance = Random(seed)
        held = sorted(url for (url,) in self.database.query("select url from item"))
        urls = chance.sample(held, min(items, len(held)))
        with contextlib.suppress(UsageError, NotFoundError):
            run = asyncio.run(
                sync_into(self.database, self.world.address, full=full, only=[*urls, "https://nowhere.example/"])
            )
            self.counts["narrow looks"] += 1
            assert not run.complete
            assert run.stats.created == 0

    def refresh_equals_rebuild(self) -> None:
        """One clean run, and a first harvest of the same world into an empty database."""
        self.world.heal()
        self._sync(accept_deletions=True, clean=True)
        rebuilt = self.new_database()
        self.synced(rebuilt)
        assert not (found := self.differences(rebuilt)), (found, unread(self.database), unread(rebuilt))
        assert replayed(self.database) == contents(self.database), "the change log tells of another index"
        before = self.database.query("select count(*) from change")
        again = self._sync(clean=True)
        assert again is not None
        assert again.stats.rows_written == 0, again.stats
        assert self.database.query("select count(*) from change") == before

    def differences(self, rebuilt: ScratchDatabase) -> list[str]:
        """What should not differ between the refreshed index and a rebuilt one, and does."""
        return differences(self.database, rebuilt)

    def synced(self, database: ScratchDatabase, **how: bool) -> rowen.Run:
        """Sync the world into a database."""
        return asyncio.run(sync_into(database, self.world.address, **how))

    def _sync(self, *, clean: bool = False, **how: bool) -> rowen.Run | None:
        self.counts["runs"] += 1
        try:
            run = self.synced(self.database, **how)
        except (RowenError, psycopg.Error):
            self.counts["faults"] += 1
            if clean:
                raise
            return None
        self.counts["faults"] += run.status in ("partial", "failed")
        if clean:
            # What is to blame comes first: a summary shows the beginning, and a rare failure may not come again.
            assert (run.status, run.stats.failed) == ("completed", 0), (unread(self.database), run)
        return run


async def sync_into(database: ScratchDatabase, address: str, **how: Any) -> rowen.Run:
    """One sync of an address into a database, within a time."""
    async with asyncio.timeout(RUN_LIMIT_S), database.open(database_patience_s=PATIENCE_S) as r:
        return await r.sync(address, **how)


def unread(database: ScratchDatabase) -> list[str]:
    """What could not be read, and why: a line for each record."""
    return [f"{url}: {error}" for url, error in database.query("select url, error from quarantine order by url")]


def differences(refreshed: ScratchDatabase, rebuilt: ScratchDatabase) -> list[str]:
    """What is only in one of two indexes, or other in both: a line for each item."""
    before, after = ({row[1]: row for row in index_of(database)} for database in (refreshed, rebuilt))
    lines = [f"only refreshed: {url}" for url in sorted(before.keys() - after.keys())]
    lines += [f"only rebuilt: {url}" for url in sorted(after.keys() - before.keys())]
    for url in sorted(before.keys() & after.keys()):
        lines += [
            f"differs: {url}: refreshed {str(one)[:200]!r}, rebuilt {str(other)[:200]!r}"
            for one, other in zip(before[url], after[url], strict=True)
            if one != other
        ]
    return lines
