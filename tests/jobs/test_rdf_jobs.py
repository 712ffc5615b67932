"""Workers keep SPARQL endpoints up to date: in order, each change once, and no harvest waits for one that fails."""

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any
from unittest.mock import AsyncMock

import pytest

from rowen import Complete, Fetched, Rowen, RowenError
from rowen.jobs import rdf
from rowen.jobs.rdf import StatementPush
from rowen.jobs.worker import TASKS
from rowen.store import changes
from rowen.store import rdf as store_rdf
from tests.conftest import ScratchDatabase
from tests.jobs.conftest import Opened, Yard
from tests.portals.scripted import Scripted, page, shows
from tests.portals.triple_store import TripleStore
from tests.seeds import numbers
from tests.store.interleaving import Moment, OtherProcess

GRAPH = "http://example.org/graphs/public"
SOURCE = "scripted:papers"


@pytest.fixture(autouse=True)
def _scripted(kinds: Callable[[Any], None]) -> None:
    kinds(Scripted)


@pytest.fixture
def endpoint() -> Iterator[TripleStore]:
    with closing(TripleStore()) as site:
        yield site


async def publish(r: Rowen, **titles: str) -> None:
    """Pages of these names state these titles, and all others are gone."""
    if not await r.sources.list():
        await r.sources.add(SOURCE, name="papers")
    stated = {
        name: [f'<http://data.example/id/{title}> <http://data.example/title> "{title}"']
        for name, title in titles.items()
    }
    pages = [page(name, record={"rdfa": {"type": "item", "statements": lines}}) for name, lines in stated.items()]
    shows(*(Fetched(one) for one in pages), Complete())
    await r.sync("papers", accept_deletions=True)


def current(database: ScratchDatabase) -> set[str]:
    return {
        line for (line,) in database.query("select jsonb_array_elements_text(record #> '{rdfa,statements}') from item")
    }


async def work(y: Yard) -> None:
    y.tasks.update(TASKS)
    await y.work(statements=1)


async def test_a_worker_sends_changes_to_an_endpoint_once_and_nothing_without_changes(
    yard: Opened, database: ScratchDatabase, endpoint: TripleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORE_KEY", "hidden")
    async with yard() as y:
        await publish(y.r, a="Cameras", b="Library")
        headers = {"Authorization": "Bearer env:STORE_KEY"}
        kept = await y.r.rdf.add_endpoint("papers", endpoint.endpoint, graph=GRAPH, headers=headers)
        await work(y)
        first = endpoint.statements(), len(endpoint.updates)
        await work(y)
        idle = len(endpoint.updates)
        await publish(y.r, a="Amended")
        [waiting] = await y.r.rdf.list_endpoints("papers")
        await work(y)
        [told] = await y.r.rdf.list_endpoints("papers")

    assert (kept.state, kept.number, first[1], idle, len(endpoint.updates)) == ("active", 0, 1, 1, 2)
    assert "Amended" not in "".join(first[0])
    assert endpoint.statements() == current(database)
    assert (waiting.waiting, told.waiting, told.failures, told.last_error) == (2, 0, 0, None)
    assert set(endpoint.keys) == {"Bearer hidden"}
    assert "hidden" not in str(database.query("select * from statement_target"))


async def test_a_failing_endpoint_waits_longer_each_time_and_then_gets_all_changes_in_order(
    yard: Opened, database: ScratchDatabase, endpoint: TripleStore
) -> None:
    async with yard() as y:
        await publish(y.r, a="Cameras")
        await y.r.rdf.add_endpoint("papers", endpoint.endpoint)
        await work(y)
        endpoint.failures = 2
        for title in ("Amended", "Withdrawn"):
            await publish(y.r, a=title)
            await work(y)
            database.execute("update statement_target set next_try_at = now()")
        [failing] = await y.r.rdf.list_endpoints("papers")
        await work(y)
        [told] = await y.r.rdf.list_endpoints("papers")

    assert (failing.state, failing.failures, failing.waiting) == ("active", 2, 2)
    assert "status 503" in (failing.last_error or "")
    assert failing.failing_since is not None
    assert (told.failures, told.waiting, told.last_error) == (0, 0, None)
    assert endpoint.statements() == current(database)
    later = "".join(endpoint.updates[1:])
    assert later.index("Amended") < later.index("Withdrawn"), "each change, in order"


async def test_an_endpoint_that_fails_for_days_is_disabled_until_a_user_resumes_it(
    yard: Opened, database: ScratchDatabase, endpoint: TripleStore
) -> None:
    endpoint.failures = 1
    async with yard() as y:
        await publish(y.r, a="Cameras")
        await y.r.rdf.add_endpoint("papers", endpoint.endpoint)
        database.execute("update statement_target set failures = 20, failing_since = now() - interval '6 days'")
        await work(y)
        [disabled] = await y.r.rdf.list_endpoints()
        await work(y)
        asked = len(endpoint.keys)
        await y.r.rdf.add_endpoint("papers", endpoint.endpoint)
        await work(y)
        [told] = await y.r.rdf.list_endpoints()

    assert (disabled.state, asked, told.state, told.failures) == ("disabled", 1, "active", 0)
    assert endpoint.statements() == current(database)


@pytest.mark.parametrize("graph", [None, GRAPH])
async def test_an_endpoint_that_was_set_back_is_rebuilt(
    yard: Opened, database: ScratchDatabase, endpoint: TripleStore, graph: str | None
) -> None:
    async with yard() as y:
        await publish(y.r, a="Shared", b="Shared", c="Library")
        await y.r.rdf.push("papers", endpoint.endpoint, graph=graph)
        backup = list(endpoint.store)
        await publish(y.r, a="Shared", b="Own")
        await y.r.rdf.push("papers", endpoint.endpoint, graph=graph)
        kept = set(endpoint.store)
        endpoint.store.clear()
        endpoint.store.extend(backup)
        idle = await y.r.rdf.push("papers", endpoint.endpoint, graph=graph)
        await y.r.rdf.push("papers", endpoint.endpoint, graph=graph, again=True)

    assert idle.parts == 0
    assert set(endpoint.store) == kept
    assert endpoint.statements() == current(database)


async def test_two_processes_never_send_to_an_endpoint_concurrently(yard: Opened, endpoint: TripleStore) -> None:
    async with yard() as y:
        await publish(y.r, a="Cameras")
        await y.r.rdf.add_endpoint("papers", endpoint.endpoint)
        source = await y.r.sources.get("papers")
        async with store_rdf.hold_target(y.engine.database, source.id, endpoint.endpoint, None):
            await work(y)
        [job] = await y.r.queue.list()

    assert (job.task, job.state, job.waits, endpoint.updates) == ("statements", "waiting", 1, [])


async def test_a_worker_that_leaves_early_skips_no_change(
    yard: Opened, database: ScratchDatabase, endpoint: TripleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with yard() as y:
        await publish(y.r, a="Cameras", b="Library")
        await y.r.rdf.add_endpoint("papers", endpoint.endpoint)
        [target] = await y.r.rdf.list_endpoints()
        with monkeypatch.context() as before:
            # A run that commits while the present state is read has changes of a later number.
            before.setattr(changes, "last_number", AsyncMock(return_value=1))
            await StatementPush(y.engine, target, is_stopped=lambda: True).send()
        [left] = await y.r.rdf.list_endpoints()
        await work(y)

    assert left.number == 0
    assert endpoint.statements() == current(database)


async def test_a_removed_endpoint_gets_no_more_changes(yard: Opened, endpoint: TripleStore) -> None:
    async with yard() as y:
        await publish(y.r, a="Cameras")
        await y.r.rdf.add_endpoint("papers", endpoint.endpoint)
        await y.r.rdf.remove_endpoint("papers", endpoint.endpoint)
        await work(y)

        assert (await y.r.rdf.list_endpoints(), endpoint.updates) == ([], [])


CHANGES = """
with line as (
    insert into change (number, source_id, source, kind, key, url, title)
    select (select max(number) from change) + n, id, name, 'amended', '', 'https://example.org/a', ''
      from source cross join generate_series(1, 4) as n returning number, source_id, source
)
insert into statement_change (number, source_id, source, page, added, removed, kept, file)
select number, source_id, source, 'https://example.org/a', array['<a:b> <a:c> "' || number || '"'],
       array['<a:b> <a:c> "' || number - 1 || '"'], 0, number from line
"""
LOSE_THE_LOCK = """
select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and granted
   and database = (select oid from pg_database where datname = current_database())
"""


async def test_a_second_process_that_sends_to_an_endpoint_at_any_moment_omits_and_leaves_nothing(
    yard: Opened, database: ScratchDatabase, endpoint: TripleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rdf, "_CHANGES_AT_ONCE", 1)
    async with yard() as y:
        await publish(y.r, a="Cameras")
        await y.r.rdf.push("papers", endpoint.endpoint)
        with OtherProcess(database, lock_timeout_ms=200) as process:

            def send() -> bool:
                if not database.query(LOSE_THE_LOCK):
                    return False
                log_changes(database)
                done = process.call(lambda other: other.rdf.push("papers", endpoint.endpoint))
                # The first process sends what it has in hand, and never hears that it was taken.
                endpoint.lost_answers = 1
                return done

            # A push whose connection could not be opened has fewer moments than others.
            steps, number, last_moment = numbers("moments of a push"), 1, 1
            while number <= last_moment:
                log_changes(database)
                moment = Moment(number, send)
                with suppress(RowenError):
                    await moment.during(y.r.rdf.push("papers", endpoint.endpoint))
                endpoint.lost_answers = 0
                await y.r.rdf.push("papers", endpoint.endpoint)
                [(last,)] = database.query("select max(number) from change")
                told = {one for one in endpoint.statements() if "a:b" in one}
                assert told == {f'<a:b> <a:c> "{last}"'}, f"moment {number}"
                number += 1 + next(steps) % 8
                last_moment = max(last_moment, moment.count)
    assert number > 10


def log_changes(database: ScratchDatabase) -> None:
    """A page states another thing, four times."""
    database.execute(CHANGES)
