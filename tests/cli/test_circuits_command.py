"""circuits: what is open in which process, and a reset that reaches all of them."""

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from rowen.model.status import CircuitStatus
from tests.cli.conftest import Cli
from tests.conftest import ScratchDatabase
from tests.jobs.processes import Nursery, until
from tests.portals.embedder import Provider
from tests.portals.language_model import Model
from tests.portals.site import Page, Site, html

# Open for longer than any test: only a reset closes these.
LASTING: dict[str, Any] = {"cb_failure_threshold": 2, "cb_recovery_timeout_secs": 250, "lease_s": 4}


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    site.pages["/"] = Page(html("Meadows", "Hay is mown in June."))
    yield site
    site.close()


def synced(database: ScratchDatabase, site: Site) -> None:
    async def sync() -> None:
        async with database.open() as r:
            await r.sources.add(f"{site.url}/", name="meadows", options={"sitemap": False, "llms": False})
            await r.sync("meadows")

    asyncio.run(sync())


def open_in(database: ScratchDatabase) -> list[tuple[str, str, str]]:
    found = database.query("select kind, name, place from circuit order by kind, name, place")
    return [(kind, name, place) for kind, name, place in found]


def test_the_circuits_of_two_workers_are_listed_and_one_reset_reaches_both(
    cli: Cli, database: ScratchDatabase, provider: Provider, site: Site
) -> None:
    synced(database, site)
    provider.down = True
    there = {f"ROWEN_{name.upper()}": value for name, value in provider.settings.items()}
    [closed] = cli("circuits", "--json", **there).facts
    assert (closed["kind"], closed["state"], closed["process"]) == ("embedder", "closed", None)

    host = provider.url.removeprefix("http://")
    with Nursery(database.conninfo, **provider.settings, **LASTING) as nursery:
        first = nursery.start()
        # One worker embeds at a time: the second one meets the outage once the first one has given up.
        until(lambda: database.query("select true from embedding_model where trouble is not null"))
        second = nursery.start()
        until(lambda: len(open_in(database)) == 2)
        asked = len(provider.asked_for)

        facts = cli("circuits", "--json", **there).facts
        told = cli("circuits", **there)
        assert [(one["kind"], one["name"], one["state"]) for one in facts] == [("embedder", host, "open")] * 2
        assert {one["process"] for one in facts} == {f"{socket.gethostname()}:{pid}" for pid in (first, second)}
        assert all(one["failures"] >= 2 and one["opened_at"] < one["probe_at"] for one in facts)
        assert host in told.out
        assert len(provider.asked_for) == asked

        provider.down = False
        done = cli("circuits", "reset", host, "--json")
        assert len(done.facts[0]["reset"]) == 2
        until(lambda: open_in(database) == [])
        until(lambda: database.query("select count(*) from embedding") != [(0,)])
        nursery.stop(first)

    unknown = cli("circuits", "reset", "nobody.example.org")
    assert (unknown.code, cli("circuits", "reset").code) == (4, 2)
    assert "nobody.example.org" in unknown.err


def test_jobs_that_wait_for_an_open_circuit_begin_after_its_reset(
    cli: Cli, database: ScratchDatabase, site: Site
) -> None:
    synced(database, site)
    site.down = True
    host = site.url.removeprefix("http://")
    with Nursery(database.conninfo, **LASTING) as nursery:
        nursery.start()
        queue_sync(database)
        until(lambda: [(kind, name) for kind, name, _ in open_in(database)] == [("host", host)])
        until(lambda: waiting(database) == 1)

        site.down = False
        assert cli("circuits", "reset", "--all").code == 0
        until(lambda: database.query("select status from run order by id desc limit 1") == [("completed",)])
        assert open_in(database) == []


def queue_sync(database: ScratchDatabase) -> None:
    async def enqueue() -> None:
        async with database.open() as r:
            await r.queue.enqueue("meadows")

    asyncio.run(enqueue())


def waiting(database: ScratchDatabase) -> int:
    [(number,)] = database.query(
        "select count(*) from procrastinate_jobs job join job_note on job_id = job.id"
        " where job.status = 'todo' and scheduled_at > now() and error_code = 'circuit_open'"
    )
    return int(number)


def test_the_circuits_of_a_process_that_was_killed_are_forgotten_with_its_lease(
    database: ScratchDatabase, provider: Provider, site: Site
) -> None:
    synced(database, site)
    provider.down = True

    async def circuits() -> list[CircuitStatus]:
        async with database.open() as r:
            return await r.circuits.list()

    with Nursery(database.conninfo, **provider.settings, **LASTING) as nursery:
        pid = nursery.start()
        until(lambda: len(open_in(database)) == 1)
        nursery.kill(pid)
        assert len(open_in(database)) == 1
        until(lambda: asyncio.run(circuits()) == [])


def test_the_circuits_of_a_process_that_ends_go_with_it(
    database: ScratchDatabase, provider: Provider, site: Site
) -> None:
    synced(database, site)
    provider.down = True
    with Nursery(database.conninfo, **provider.settings, **LASTING) as nursery:
        pid = nursery.start()
        until(lambda: len(open_in(database)) == 1)
        nursery.stop(pid)

    assert open_in(database) == []


async def test_a_language_model_is_named_by_its_address_and_nothing_is_written_while_all_is_well(
    database: ScratchDatabase, site: Site, statements: list[str]
) -> None:
    model = Model()
    try:
        async with database.open(**model.settings) as r:
            [found] = await r.circuits.list()
            await r.sync(f"{site.url}/")
            await r.sync(f"{site.url}/")
    finally:
        model.close()

    assert (found.kind, found.name, found.state) == ("model", model.url.removeprefix("http://"), "closed")
    assert not [
        statement for statement in statements if "circuit" in statement and not statement.lstrip().startswith("select")
    ]
