"""All processes of a database together request a host as often as a single one would."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from rowen.net.shared_pace import HostAnswer, HostNews, HostReport, SharedThrottle
from rowen.store.database import Database
from rowen.store.hosts import HostSlotTable, forget_idle
from tests.cancelling import cancelled_at_each_wait
from tests.conftest import ScratchDatabase

HOST = "host.example"


def process(
    database: ScratchDatabase, requests: int, *, gap_s: float, places: int, answer_s: float, lease_s: float = 5.0
) -> subprocess.Popen[str]:
    arguments = map(str, (database.conninfo, requests, gap_s, places, answer_s, lease_s))
    began = subprocess.Popen(
        [sys.executable, "-m", "tests.store.paced_process", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert began.stdout is not None
    assert began.stdout.readline() == "ready\n"
    return began


def begin(running: subprocess.Popen[str]) -> None:
    assert running.stdin is not None
    running.stdin.write("\n")
    running.stdin.flush()


def finished(running: subprocess.Popen[str]) -> list[tuple[float, float]]:
    output, _ = running.communicate(timeout=60)
    lines = [line.split() for line in output.splitlines() if line != "began"]
    return [(float(began), float(ended)) for began, ended in lines]


class Counted(HostSlotTable):
    """Counts its statements."""

    statements = 0

    async def take(self, host: str, **wanted: object) -> HostAnswer:
        self.statements += 1
        return await super().take(host, **wanted)  # type: ignore[arg-type]

    async def sent(self, host: str) -> None:
        self.statements += 1
        await super().sent(host)

    async def tell(self, reports: Sequence[HostReport]) -> list[HostNews]:
        self.statements += 1
        return await super().tell(reports)


@asynccontextmanager
async def paces(
    database: ScratchDatabase, count: int, **pace: float
) -> AsyncIterator[list[tuple[SharedThrottle, Counted]]]:
    """The paces of so many processes, in one."""
    pool = Database(database.settings())
    await pool.open()
    slots = [Counted(pool, lease_s=pace.get("lease_s", 5.0)) for _ in range(count)]
    own = {name: value for name, value in pace.items() if name != "lease_s"}
    made = [(SharedThrottle(slot, **own), slot) for slot in slots]
    yield made
    for throttle, _ in made:
        await throttle.close()
    await pool.close()


async def requests(pace: SharedThrottle, count: int, *, answer_s: float = 0.0) -> list[float]:
    """Return when each request began."""

    async def begun() -> float:
        permit = await pace.enter(HOST)
        began = time.monotonic()
        permit.sent()
        await asyncio.sleep(answer_s)
        permit.release()
        return began

    return sorted(await asyncio.gather(*(begun() for _ in range(count))))


def test_processes_keep_the_gap_and_the_places_of_a_host_together(database: ScratchDatabase) -> None:
    live = [process(database, 8, gap_s=0.1, places=2, answer_s=0.15) for _ in range(3)]
    for each in live:
        begin(each)
    lines = sorted(line for each in live for line in finished(each))

    starts = [began for began, _ in lines]
    assert len(lines) == 24
    # What each of them says began a moment before it was told that it left, from when the gap counts.
    assert min(later - earlier for earlier, later in pairwise(starts)) > 0.1 - 0.01
    assert max(sum(began <= at < ended for began, ended in lines) for at in starts) <= 2
    assert database.query("select count(*) from host_slot") == [(0,)]


def test_a_killed_process_frees_its_places_when_its_lease_ends(database: ScratchDatabase) -> None:
    killed = process(database, 1, gap_s=0, places=1, answer_s=60, lease_s=1.5)
    waiting = process(database, 1, gap_s=0, places=1, answer_s=0, lease_s=1.5)
    begin(killed)
    assert killed.stdout is not None
    assert killed.stdout.readline() == "began\n"
    begin(waiting)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    died = time.time()

    [(began, _)] = finished(waiting)

    assert 0.2 < began - died < 10


async def test_a_process_alone_at_a_host_takes_one_slot_for_all_requests(database: ScratchDatabase) -> None:
    async with paces(database, 1, delay_s=0.0, concurrency=3) as [(pace, slots)]:
        began = time.monotonic()
        await requests(pace, 500)

        # Once to come, and once a second.
        assert slots.statements <= 1 + (time.monotonic() - began) // 0.9


async def test_processes_that_share_a_host_run_about_one_statement_per_request(
    database: ScratchDatabase,
) -> None:
    async with paces(database, 2, delay_s=0.05, concurrency=3) as [(first, asked), (second, also)]:
        await requests(first, 1)
        begun = await asyncio.gather(requests(first, 20), requests(second, 20))
        starts = sorted(began for each in begun for began in each)

        assert starts[-1] - starts[0] > 39 * 0.05 - 0.05
        assert asked.statements + also.statements < 3 * 40


async def ask(slots: HostSlotTable) -> HostAnswer:
    return await slots.take(HOST, active=0, more=False, most=3, gap_s=0.1)


async def two_that_share(database: ScratchDatabase, slots: Sequence[HostSlotTable]) -> None:
    """Let the holders of slots notice each other."""
    for slot in slots:
        await ask(slot)
    database.execute("update host_slot set alone = false, waits_since = null, back_by = null")


async def test_a_request_that_leaves_late_moves_the_next_one(database: ScratchDatabase) -> None:
    later = "update host_pace set last_start = last_start - interval '0.3 seconds'"
    async with paces(database, 2) as [(_, first), (_, second)]:
        await two_that_share(database, [first, second])
        answer = await ask(first)
        database.execute(later)
        while_it_waits = await ask(second)
        await first.sent(HOST)
        behind_it = await ask(second)
        database.execute(later)
        in_turn = await ask(second)

    assert answer.verdict == "start"
    assert (while_it_waits.verdict, behind_it.verdict) == ("wait", "wait")
    assert 0.05 < behind_it.wait_s <= 0.1
    assert (in_turn.verdict, in_turn.wait_s) == ("start", 0.0)


async def test_an_unused_start_is_waited_for_a_second(database: ScratchDatabase) -> None:
    async with paces(database, 2) as [(_, first), (_, second)]:
        await two_that_share(database, [first, second])
        await ask(first)
        database.execute("update host_pace set last_start = last_start - interval '1.2 seconds'")

        assert (await ask(second)).verdict == "start"


class Giving:
    """Slots that grant each start at once."""

    lease_s = 5.0
    given = 0

    async def take(self, host: str, **wanted: object) -> HostAnswer:
        self.given += 1
        return HostAnswer("start", 0.02, 0.0, 1)

    async def sent(self, host: str) -> None:
        """Do nothing."""

    async def tell(self, reports: Sequence[HostReport]) -> list[HostNews]:
        return []


async def test_a_start_missed_during_sleep_is_returned() -> None:
    late, slots = 0.0, Giving()

    async def oversleep(wait_s: float) -> None:
        nonlocal late
        late += wait_s if late else 60.0

    pace = SharedThrottle(slots, delay_s=0.1, clock=lambda: time.monotonic() + late, sleep=oversleep)
    (await asyncio.wait_for(pace.enter(HOST), 10)).release()
    await pace.close()

    assert slots.given == 2


async def test_the_last_process_at_a_host_keeps_the_gap_to_the_starts_of_others(database: ScratchDatabase) -> None:
    async with paces(database, 2, delay_s=60.0, concurrency=3) as [(pace, first), (_, second)]:
        await two_that_share(database, [first, second])
        await ask(second)
        await second.tell([HostReport(HOST, 0, 0.0, leaves=True)])
        lane = pace._lane(HOST)
        pace._post(HOST)
        await pace._report(HOST)

        assert lane.free_at - time.monotonic() > 50


async def test_a_second_process_waits_until_the_first_has_noticed_it(database: ScratchDatabase) -> None:
    async with paces(database, 2, delay_s=0.0, concurrency=1) as [(first, _), (second, _)]:
        permit = await first.enter(HOST)
        second = asyncio.create_task(second.enter(HOST))
        done, _ = await asyncio.wait({second}, timeout=1.5)
        permit.release()

        assert not done
        (await asyncio.wait_for(second, 10)).release()


async def test_all_processes_wait_for_a_host_that_demands_a_delay(database: ScratchDatabase) -> None:
    async with paces(database, 2, delay_s=0.0, concurrency=1) as [(first, _), (second, _)]:
        await requests(first, 1)
        await first.hold(HOST, 1.5)
        leased_at = time.monotonic()
        [began] = await requests(second, 1)

        assert began - leased_at > 1.4


async def test_a_process_that_slept_through_its_lease_asks_before_it_continues(database: ScratchDatabase) -> None:
    late = 0.0
    async with paces(database, 2, delay_s=0.0, concurrency=1) as [(first, slots), (second, _)]:
        first._clock = lambda: time.monotonic() + late
        await requests(first, 1)
        database.execute("update host_slot set lease_until = now() - interval '1 second'")
        permit = await second.enter(HOST)
        before, late = slots.statements, 60.0
        woken = asyncio.create_task(requests(first, 1))
        done, _ = await asyncio.wait({woken}, timeout=0.5)
        permit.release()

        assert not done
        await asyncio.wait_for(woken, 10)
        assert slots.statements > before


async def test_hosts_without_requests_are_deleted(database: ScratchDatabase) -> None:
    async with paces(database, 1, delay_s=0.0, concurrency=1) as [(pace, slots)]:
        await requests(pace, 1)
        database.execute("update host_pace set last_start = now() - interval '2 hours'")
        database.execute("insert into host_pace (host) values ('other.example')")
        async with slots._database.connection() as c:
            await forget_idle(c)

        assert database.query("select host from host_pace") == [(HOST,)]
    assert database.query("select count(*) from host_slot") == [(0,)]


@pytest.mark.parametrize("others", [0, 2])
async def test_one_of_several_takes_its_share_while_the_database_is_away(
    database: ScratchDatabase, others: int
) -> None:
    async with paces(database, 1 + others, delay_s=0.05, concurrency=3) as made:
        pace, slots = made[0]
        await asyncio.gather(*(requests(first, 8) for first, _ in made))
        await asyncio.wait_for(_meeting(pace, others), 10)
        database.execute("alter function host_take rename to host_gone")
        database.execute("alter function host_tell rename to host_silent")
        await pace._report()
        before = slots.statements
        starts = await requests(pace, 5)
        asked = slots.statements - before
        database.execute("alter function host_gone rename to host_take")
        database.execute("alter function host_silent rename to host_tell")

    gap_s = 0.05 * (1 + others)
    assert 4 * gap_s - 0.02 < starts[-1] - starts[0] < 5
    assert asked == 0


async def _meeting(pace: SharedThrottle, others: int) -> None:
    while pace._posts[HOST].others != others:
        await asyncio.sleep(0.01)


async def test_a_request_cancelled_before_its_start_returns_its_slot(database: ScratchDatabase) -> None:
    async with paces(database, 2, delay_s=0, concurrency=1) as made:
        (first, _), (other, _) = made
        waits = 0

        async def ask() -> None:
            permit = await first.enter(HOST)
            try:
                permit.sent()
                await asyncio.sleep(0)
            finally:
                permit.release()

        async for number in cancelled_at_each_wait(ask):
            waits = number
            async with asyncio.timeout(30):
                await requests(first, 1)
                await requests(other, 1)
        assert waits > 3
