"""After an outage of the embedder or the model, a worker goes on by itself within one recovery time-out."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import ScratchDatabase, Server
from tests.harvest.shop import LAMP, market
from tests.jobs.processes import Nursery, until
from tests.portals.embedder import Provider
from tests.portals.embedder import status as embedder_status
from tests.portals.language_model import status as model_status
from tests.portals.site import Page, Site, html

LAMPS = 3
QUICK: dict[str, Any] = {"cb_recovery_timeout_secs": 1, "cb_failure_threshold": 2, "lease_s": 4}


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    site.pages["/"] = Page(html("Meadows", "Hay is mown in June.", "Hens close the hatch at dusk."))
    yield site
    site.close()


def missing(database: ScratchDatabase) -> int:
    """How many texts have no vector."""
    [(number,)] = database.query("select count(*) from chunk where text_hash not in (select text_hash from embedding)")
    return int(number)


def ending(database: ScratchDatabase) -> tuple[Any, ...]:
    """The state of the one extraction job, how often it waited, and its tries."""
    [found] = database.query(
        "select status::text, coalesce(waits, 0), attempts from procrastinate_jobs job"
        " left join job_note on job_id = job.id where task_name = 'extract'"
    )
    return found


@pytest.mark.parametrize("busy", [False, True])
async def test_a_worker_embeds_what_is_pending_after_an_outage_of_the_embedder(
    database: ScratchDatabase, provider: Provider, site: Site, busy: bool
) -> None:
    async with database.open() as r:
        await r.sync(f"{site.url}/")
    if busy:
        provider.always = embedder_status(429)
    else:
        provider.down = True

    with Nursery(database.conninfo, **provider.settings, **QUICK) as nursery:
        nursery.start()
        # It fails, its circuit opens, and two probes later it is still down.
        until(lambda: len(provider.asked_for) >= 4)
        assert missing(database) > 0

        provider.down, provider.always = False, None
        until(lambda: missing(database) == 0, patience_s=20)


@pytest.mark.parametrize("busy", [False, True])
async def test_a_worker_extracts_what_is_pending_after_an_outage_of_the_model(
    database: ScratchDatabase, busy: bool
) -> None:
    with market(LAMPS) as (shop, model):
        async with database.open() as r:
            await r.schemas.add("lamp@1.0.0", LAMP)
            await r.sources.add(f"{shop.url}/", name="shop", options={"sitemap": False, "llms": False})
            await r.sync("shop")
            await r.extraction.attach("shop", "lamp@1")
            await r.queue.enqueue_extraction("shop")
        if busy:
            model.always = model_status(429)
        else:
            model.down = True

        with Nursery(database.conninfo, **model.settings, **QUICK) as nursery:
            nursery.start()
            until(lambda: model.calls >= 4)

            model.down, model.always = False, None
            until(lambda: ending(database)[0] == "succeeded", patience_s=20)

        assert database.query("select count(*) from extraction") == [(LAMPS,)]
        # It waited for each probe, and none of that counts as a try.
        _, waits, attempts = ending(database)
        assert (waits >= 2, attempts) == (True, 1)


class Crash:
    """Kill the database with kill -9 in the middle of a call, and start it again."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.over = threading.Event()

    def __call__(self, *answer: Any) -> Any:
        self._server.kill()
        self._server.revive()
        self.over.set()
        return answer[-1]


async def test_a_worker_embeds_what_is_pending_after_the_database_died_under_it(
    database: ScratchDatabase, provider: Provider, site: Site, server: Server
) -> None:
    if server.embedded is None:
        pytest.skip("only the session's own server may be killed")
    async with database.open() as r:
        await r.sync(f"{site.url}/")

    crash = Crash(server)
    provider.moods.append(crash)
    with Nursery(database.conninfo, **provider.settings, **QUICK) as nursery:
        nursery.start()
        until(crash.over.is_set)
        until(lambda: missing(database) == 0, patience_s=40)


async def test_a_worker_extracts_what_is_pending_after_the_database_died_under_it(
    database: ScratchDatabase, server: Server
) -> None:
    if server.embedded is None:
        pytest.skip("only the session's own server may be killed")
    with market(LAMPS) as (shop, model):
        async with database.open() as r:
            await r.schemas.add("lamp@1.0.0", LAMP)
            await r.sources.add(f"{shop.url}/", name="shop", options={"sitemap": False, "llms": False})
            await r.sync("shop")
            await r.extraction.attach("shop", "lamp@1")
            await r.queue.enqueue_extraction("shop")

        crash = Crash(server)
        model.moods.extend([lambda asked, said: said, crash])
        with Nursery(database.conninfo, **model.settings, **QUICK, llm_concurrency=1) as nursery:
            nursery.start()
            until(crash.over.is_set)
            until(lambda: ending(database)[0] == "succeeded", patience_s=40)

    assert database.query("select count(*) from extraction") == [(LAMPS,)]
    # Only the answer that came while the database was dead is asked for again.
    assert model.calls <= LAMPS + 1
