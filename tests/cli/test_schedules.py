"""Schedules at the command line: given, changed, taken away, shown, and kept by a worker."""

import signal
import time
from datetime import UTC, datetime

from tests.cli.conftest import PATIENCE_S, Cli
from tests.conftest import ScratchDatabase


def test_a_source_gets_a_schedule_when_it_is_added_and_it_is_shown_in_words(
    docs: Cli, database: ScratchDatabase
) -> None:
    added = docs("add", "./docs", "--name", "nightly", "--cron", "0 3 * * *", "--tz", "Europe/Brussels")
    docs("edit", "docs", "--every", "6h", "--during", "22:00-06:00")
    listed = {fact["name"]: fact for fact in docs("sources", "--json").facts}
    shown = docs("show", "docs").out

    assert "Schedule: at 03:00 every day, Europe/Brussels. `rowen worker` keeps it" in added.err
    assert listed["nightly"]["schedule"] == "cron 0 3 * * * in Europe/Brussels"
    assert datetime.fromisoformat(listed["nightly"]["due_at"]) <= datetime.now(UTC)
    assert "schedule\tevery 6 hours, only during 22:00-06:00, UTC (every 6h during 22:00-06:00)" in shown
    [line] = [line for line in docs("sources").out.splitlines() if line.startswith("docs\t")]
    assert "\tevery 6 hours, only during 22:00-06:00, UTC\t" in line
    assert datetime.fromisoformat(line.split("\t")[5]) > datetime.now(UTC)


def test_a_schedule_is_changed_in_part_and_taken_away(docs: Cli) -> None:
    docs("edit", "docs", "--cron", "0 3 * * *")
    docs("edit", "docs", "--tz", "Europe/Brussels")
    changed = docs("show", "docs", "--json").facts[0]
    gone = docs("edit", "docs", "--every", "none")
    after = docs("show", "docs", "--json").facts[0]

    assert changed["schedule"] == "cron 0 3 * * * in Europe/Brussels"
    assert "It has no schedule now." in gone.err
    assert (after["schedule"], after["due_at"]) == (None, None)


def test_schedules_that_make_no_sense_are_refused_and_nothing_is_added(docs: Cli) -> None:
    wrong = [
        docs("add", "./docs", "--name", "x", *flags.split("|"))
        for flags in (
            "--every|sometimes",
            "--every|6h|--cron|0 3 * * *",
            "--tz|Europe/Brussels",
            "--every|6h|--during|x",
        )
    ]

    assert [done.code for done in wrong] == [2] * 4
    assert "every = 'sometimes' is not a length of time." in wrong[0].err
    assert [fact["name"] for fact in docs("sources", "--json").facts] == ["docs"]


def test_sync_without_a_name_reads_due_sources_first_and_says_so(docs: Cli, database: ScratchDatabase) -> None:
    docs.write({"zoo/newt.md": "# Newt\n", "ant/hill.md": "# Hill\n"})
    docs("add", "./zoo", "--every", "1h")
    docs("add", "./ant")

    done = docs("sync", "--json", ROWEN_SIDE_BY_SIDE="1")

    assert [fact["source"] for fact in done.facts] == ["zoo", "ant", "docs"]
    assert "1 source of 3 is due and read first." in done.err


def test_a_worker_until_idle_runs_due_jobs_and_exits(docs: Cli, database: ScratchDatabase) -> None:
    docs("edit", "docs", "--every", "1h")
    database.execute("update source_due set due_at = now()")

    first = docs("worker", "--until-idle", "--places", "sync=2", "--json")
    second = docs("worker", "--until-idle", "--json")
    [job] = docs("jobs", "--json").facts

    assert [(fact["source"], fact["state"], fact["unchanged"]) for fact in first.facts] == [("docs", "done", 3)]
    assert second.facts == []
    assert (job["state"], job["tries"], job["run"]) == ("done", 1, 2)
    assert "docs\tdone" in docs("jobs").out
    assert docs("jobs", "show", str(job["id"])).code == 0
    assert docs("worker", "--places", "many").code == 2
    assert docs("worker", "--check").code == 1


def test_a_worker_reads_a_source_as_soon_as_it_gets_a_schedule_and_stops_when_told(
    docs: Cli, database: ScratchDatabase
) -> None:
    docs.write({"zoo/newt.md": "# Newt\n"})
    with docs.start("worker", "--json") as process:
        until = time.monotonic() + PATIENCE_S
        while not database.query("select from worker"):
            assert time.monotonic() < until
        docs("add", "./zoo", "--every", "1h")
        while not database.query("select from item where title = 'Newt'"):
            assert time.monotonic() < until
        workers = docs("status", "--json").facts[2]["health"]["workers"]
        lives = docs("worker", "--check", "--json")
        database.execute("update procrastinate_workers set last_heartbeat = now() - interval '1 h'")
        frozen = docs("worker", "--check")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 0
    assert len(workers) == 1
    assert (lives.code, [fact["pid"] for fact in lives.facts]) == (0, [process.pid])
    assert frozen.code == 1
    assert database.query("select count(*) from procrastinate_workers") == [(0,)]


def test_status_reports_failures_due_sources_and_missing_workers(docs: Cli, database: ScratchDatabase) -> None:
    docs("edit", "docs", "--every", "1h")
    database.execute(
        "update source_due set due_at = now() - interval '2 h', failures = 4, failing_since = now() - interval '1 d'"
    )

    told = docs("status")
    health = docs("status", "--json").facts[1]["health"]

    assert "queue\t0 workers\t0 waiting\t0 running\t0 later\t1 due" in told.out
    assert "docs: due for 2 h 0 min, and no worker runs; `rowen worker` reads it." in told.err
    assert "4 times in a row" in told.err
    assert (health["due"], health["oldest_due"]["source"], health["failing"][0]["failures"]) == (1, "docs", 4)


def test_the_queue_is_paused_and_a_job_cancelled_and_retried(docs: Cli, database: ScratchDatabase) -> None:
    docs("jobs", "pause")
    docs("edit", "docs", "--every", "1h")
    database.execute("update source_due set due_at = now()")
    idle = docs("worker", "--until-idle", "--json")
    docs("jobs", "resume")
    database.execute(
        "insert into procrastinate_jobs (queue_name, task_name, lock, queueing_lock, args)"
        " values ('sync', 'sync', 'source:1', 'sync:1', '{\"source_id\": 1}')"
    )
    cancelled = docs("jobs", "cancel", "1", "--json").facts[0]
    retried = docs("jobs", "retry", "1", "--json").facts[0]

    assert idle.facts == []
    assert (cancelled["state"], retried["state"]) == ("cancelled", "waiting")
    assert docs("jobs", "retry", "1").code == 5
    assert docs("jobs", "show", "99").code == 4
