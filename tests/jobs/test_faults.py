"""What happens to workers on real machines: they are killed, frozen and cut off, and nothing is lost or done twice."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from tests.conftest import ScratchDatabase, Server
from tests.jobs.processes import Nursery, frozen, until
from tests.logical import contents, replayed

LEASE_S = 1.5  # short, so that a dead worker is missed soon; on a busy machine a heartbeat may be late by a second
JOBS = 200
SLOW_ITEMS = """
create table pace (seconds float); insert into pace values (1);
create function wait_for_it() returns trigger language plpgsql as
    $$ begin perform pg_sleep(seconds) from pace; return null; end $$;
create trigger slow after insert on item for each statement execute function wait_for_it();
"""


def fields(folder: Path, number: int) -> list[Path]:
    """Small folders, each a source."""
    made = [folder / f"field{one:03}" for one in range(number)]
    for place in made:
        place.mkdir(parents=True)
        (place / "note.md").write_text(f"# {place.name}\n\nHere grows {place.name}.\n")
    return made


def plant(database: ScratchDatabase, places: list[Path], *, every: str = "every 1d") -> None:
    """Sources that are due at once."""
    for place in places:
        values = f"'{place.name}', 'files', '{place.as_uri()}', '{every}'"
        database.execute(f"insert into source (name, kind, url, schedule) values ({values})")
    database.execute("insert into source_due (source_id, due_at) select id, now() from source")


def states(database: ScratchDatabase) -> dict[str, int]:
    return dict(database.query("select status::text, count(*)::int from procrastinate_jobs group by 1"))


def over(database: ScratchDatabase, number: int) -> bool:
    return states(database).get("succeeded", 0) >= number


def test_workers_that_are_killed_at_random_do_each_of_two_hundred_jobs_once(
    database: ScratchDatabase, tmp_path: Path
) -> None:
    plant(database, fields(tmp_path, JOBS))
    chance = Random(7)
    with Nursery(database.conninfo, lease_s=LEASE_S) as nursery:
        for _ in range(2):
            nursery.start()
        for done in range(10, JOBS, 25):
            until(lambda done=done: over(database, done))
            nursery.kill(chance.choice(nursery.live))
            nursery.start()
        until(lambda: over(database, JOBS))

    assert states(database) == {"succeeded": JOBS}
    assert len(contents(database)) == JOBS
    assert database.query("select kind, count(*) from change group by kind") == [("created", JOBS)]
    assert replayed(database) == contents(database)
    assert database.query("select count(distinct args) from procrastinate_jobs") == [(JOBS,)]


def test_a_worker_that_was_frozen_for_longer_than_its_lease_writes_nothing_when_it_wakes(
    database: ScratchDatabase, tmp_path: Path
) -> None:
    [place] = fields(tmp_path, 1)
    for number in range(1_500):
        (place / f"{number}.md").write_text(f"# Row {number}\n\nIn row {number} grows oats.\n")
    plant(database, [place])
    # Each group takes so long that the first run cannot have ended when its worker is frozen, however busy the machine.
    database.execute(SLOW_ITEMS)
    with Nursery(database.conninfo, lease_s=LEASE_S) as nursery:
        sleeper = nursery.start()
        until(lambda: database.query("select from item limit 1"))
        with frozen(sleeper):
            database.execute("update pace set seconds = 0")
            frozen_run = database.query("select max(id) from run")
            nursery.start()
            until(lambda: database.query("select from run where status = 'failed'"))
            held = database.query("select count(*) from change where run_id = %s", frozen_run[0][0])
            until(lambda: over(database, 1))
        until(lambda: len(database.query("select from worker")) == 2)

    assert database.query("select count(*) from change where run_id = %s", frozen_run[0][0]) == held
    assert len(contents(database)) == 1_501
    assert database.query("select kind, count(*) from change group by kind") == [("created", 1_501)]
    assert database.query("select status from run order by id") == [("failed",), ("completed",)]


def test_the_job_of_a_killed_worker_is_taken_over_in_seconds_although_its_lease_is_a_minute(
    database: ScratchDatabase, tmp_path: Path
) -> None:
    plant(database, fields(tmp_path, 1))
    database.execute(SLOW_ITEMS)
    database.execute("update pace set seconds = 3")
    with Nursery(database.conninfo, lease_s=60) as nursery:
        first = nursery.start()
        until(lambda: database.query("select from run"))
        nursery.start()
        until(lambda: len(database.query("select from worker where locked_at is not null")) == 2)
        nursery.kill(first)
        [(killed_at,)] = database.query("select clock_timestamp()")
        until(lambda: over(database, 1))

    runs = database.query("select status, extract(epoch from started_at - %s)::float from run order by id", killed_at)
    assert [status for status, _ in runs] == ["failed", "completed"]
    # What it takes to look, to wait for its return and to begin: 8 s, on a busy machine more, and a third of the lease.
    assert 0 < runs[1][1] < 20
    assert database.query("select attempts from procrastinate_jobs") == [(2,)]


def test_the_job_of_a_worker_that_hangs_is_taken_over_only_after_its_lease(
    database: ScratchDatabase, tmp_path: Path
) -> None:
    lease_s = 9.0  # longer than a session may be gone: it is the lease that ends
    plant(database, fields(tmp_path, 1))
    database.execute(SLOW_ITEMS)
    database.execute("update pace set seconds = 3")
    with Nursery(database.conninfo, lease_s=lease_s) as nursery:
        sleeper = nursery.start()
        until(lambda: database.query("select from run"))
        nursery.start()
        until(lambda: len(database.query("select from worker where locked_at is not null")) == 2)
        with frozen(sleeper):
            [(heard_at,)] = database.query(
                "select last_heartbeat from procrastinate_workers join procrastinate_jobs"
                " on worker_id = procrastinate_workers.id where status = 'doing'"
            )
            until(lambda: over(database, 1))

    assert database.query(
        "select status, started_at >= %s + make_interval(secs => %s) from run order by id", heard_at, lease_s
    ) == [("failed", False), ("completed", True)]


def test_workers_go_on_when_the_database_was_restarted_in_the_middle(
    server: Server, database: ScratchDatabase, tmp_path: Path
) -> None:
    if server.embedded is None:
        pytest.skip("only the session's own server may be killed")
    plant(database, fields(tmp_path, 60))
    with Nursery(database.conninfo, lease_s=60) as nursery:
        first, _ = nursery.start(), nursery.start()
        until(lambda: over(database, 10))
        server.kill()
        server.revive()
        until(lambda: over(database, 60))

        assert nursery.stop(first) == 0

    # Each worker had a session again before another one took its jobs.
    assert database.query("select count(*) from job_note where error_code = 'worker_lost'") == [(0,)]

    assert len(contents(database)) == 60
    assert database.query("select kind, count(*) from change group by kind") == [("created", 60)]
    assert replayed(database) == contents(database)


def test_sigterm_gives_the_job_back_and_another_worker_goes_on_from_the_checkpoint(
    database: ScratchDatabase, tmp_path: Path
) -> None:
    [place] = fields(tmp_path, 1)
    for number in range(4_000):
        (place / f"{number}.md").write_text(f"# Row {number}\n\nIn row {number} grows oats.\n")
    plant(database, [place])
    with Nursery(database.conninfo, lease_s=LEASE_S) as nursery:
        first = nursery.start()
        until(lambda: database.query("select from item limit 1"))
        code = nursery.stop(first)
        given_back = states(database)
        stored = len(contents(database))
        nursery.start()
        until(lambda: over(database, 1))

    assert (code, given_back) == (0, {"todo": 1})
    assert 0 < stored < 4_001
    runs = database.query(
        "select status, (tally ->> 'created')::int, (tally ->> 'unchanged')::int from run order by id"
    )
    assert runs == [("cancelled", stored, 0), ("completed", 4_001 - stored, stored)]
    assert database.query("select attempts from procrastinate_jobs") == [(1,)]


async def test_two_processes_that_schedule_at_once_make_each_job_once(
    database: ScratchDatabase, tmp_path: Path
) -> None:
    plant(database, fields(tmp_path, 30), every="every 1d")
    with Nursery(database.conninfo, lease_s=LEASE_S) as nursery:
        for _ in range(3):
            nursery.start()
        await asyncio.to_thread(until, lambda: over(database, 30))
        database.execute("update source_due set due_at = due_at - interval '3 days'; notify rowen_due")
        await asyncio.to_thread(until, lambda: over(database, 60))

    assert states(database) == {"succeeded": 60}
    assert database.query("select count(*), max(n) from (select count(*) n from run group by source_id) x") == [(30, 2)]
    assert database.query("select count(*) from source_due where due_at < now()") == [(0,)]
