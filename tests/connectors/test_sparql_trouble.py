"""SPARQL endpoints that fail for a moment, fail over one dataset, or keep silent about one that they list."""

import json
from collections.abc import Iterator
from itertools import pairwise

import pytest
from aiohttp import web

from tests.conftest import ScratchDatabase
from tests.portals.catalogs import keep
from tests.portals.sparql import SparqlEndpoint, kind_of

NOTHING = {"head": {"vars": ["d", "s", "p", "o", "end"]}, "results": {"bindings": []}}


class Moody(SparqlEndpoint):
    """Says nothing of one dataset, and fails when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.silent_about: str | None = None
        self.vanishes = False
        self.fails: dict[str, int] = {}
        self.late: set[str] = set()

    def _answer_to(self, question: str) -> web.Response:
        kind = kind_of(question)
        if self.fails.get(kind, 0) > 0:
            self.fails[kind] -= 1
            return web.Response(status=500, text="Virtuoso 42000 Error SR171")
        key = self.silent_about
        if key and kind == "descriptions" and f"<{self.iri(key)}>" in question:
            if self.vanishes:
                self.records.pop(key, None)
            return web.json_response(NOTHING)
        response = super()._answer_to(question)
        if kind in self.late:
            response.headers["X-SQL-State"] = "S1TAT"
        return response


@pytest.fixture
def portal() -> Iterator[Moody]:
    portal = Moody()
    yield portal
    portal.close()


def names(database: ScratchDatabase) -> set[str]:
    return {url.rpartition("/")[2] for (url,) in database.query("select url from item")}


async def test_a_dataset_that_is_listed_but_not_described_keeps_its_last_good_copy(
    database: ScratchDatabase, portal: Moody
) -> None:
    portal.fill(20)
    async with database.open() as r:
        await keep(r, portal)
        portal.silent_about = "d00005"
        runs = [await r.sync("portal", full=True) for _ in range(2)]
        portal.silent_about = None
        healed = await r.sync("portal", full=True)

    assert [(run.status, run.stats.deleted, run.stats.failed) for run in runs] == [("completed", 0, 1)] * 2
    assert names(database) == set(portal.records)
    assert (healed.stats.failed, healed.stats.rows_written) == (0, 0)
    assert database.query("select count(*) from quarantine") == [(0,)]


async def test_a_dataset_that_vanishes_before_it_is_described_is_deleted(
    database: ScratchDatabase, portal: Moody
) -> None:
    portal.fill(20)
    async with database.open() as r:
        await keep(r, portal)
        portal.silent_about, portal.vanishes = "d00005", True
        run = await r.sync("portal", full=True)

    assert (run.status, run.stats.deleted, run.stats.failed) == ("completed", 1, 0)
    assert names(database) == set(portal.records)


async def test_an_endpoint_that_cannot_say_whether_a_dataset_is_there_deletes_nothing(
    database: ScratchDatabase, portal: Moody
) -> None:
    portal.fill(20)
    async with database.open() as r:
        await keep(r, portal)
        portal.silent_about, portal.late = "d00005", {"identifiers"}
        run = await r.sync("portal", full=True)

    assert (run.stats.deleted, run.stats.failed) == (0, 1)
    assert names(database) == set(portal.records)


@pytest.mark.parametrize("kind", ["count", "identifiers", "descriptions"])
@pytest.mark.parametrize("page_size", [1, 4, 256])
async def test_one_passing_failure_costs_no_dataset(
    database: ScratchDatabase, portal: Moody, kind: str, page_size: int
) -> None:
    portal.fill(9)
    portal.fails = {kind: 1}
    async with database.open(fetch_tries=2) as r:
        run = await keep(r, portal, page_size=page_size)

    assert (run.status, run.complete, run.stats.created, run.stats.failed) == ("completed", True, 9, 0)


async def test_a_list_of_identifiers_that_ran_out_of_time_proves_nothing_without_a_count(
    database: ScratchDatabase, portal: Moody
) -> None:
    portal.fill(20)
    portal.no_count = True
    async with database.open() as r:
        await keep(r, portal)
        portal.late, portal.rows_max = {"identifiers"}, 13
        portal.filters = False
        run = await r.sync("portal", full=True, accept_deletions=True)

    assert (run.status, run.stats.deleted, len(names(database))) == ("partial", 0, 20)
    assert "in its time" in (run.error or "")


async def test_a_batch_that_fails_at_times_is_requested_in_parts_and_grows_again(
    database: ScratchDatabase, portal: Moody
) -> None:
    portal.fill(400)
    portal.broken_above = 12
    count = 0

    def heal(kind: str) -> None:
        nonlocal count
        count += kind == "descriptions"
        portal.broken_above = None if count > 8 else 12

    portal.after_question = heal
    async with database.open() as r:
        run = await keep(r, portal, page_size=64)

    assert (run.status, run.stats.created) == ("completed", 400)
    assert run.stats.requests < 60


class Garbled(SparqlEndpoint):
    """Adds unreadable rows to each answer, and nests one dataset too deeply."""

    def _results(self, question: str, kind: str) -> web.Response:
        answer = json.loads(super()._results(question, kind).text or "")
        rows = answer["results"]["bindings"]
        odd = {"type": "triple", "value": {}}
        rows[:0] = [None, "row", {"d": odd, "s": odd, "p": odd, "o": odd, "iri": odd}] if kind != "count" else []
        if f"<{self.iri('d00005')}>" in question:
            chain = [{"type": "uri", "value": self.iri("d00005")}]
            chain += [{"type": "bnode", "value": f"n{number}"} for number in range(100)]
            part = {"type": "uri", "value": "http://x.example/part"}
            rows[3:3] = [{"s": node, "p": part, "o": inner} for node, inner in pairwise(chain)]
        return web.json_response(answer)


async def test_an_unreadable_row_or_record_costs_only_itself(database: ScratchDatabase) -> None:
    portal = Garbled()
    portal.fill(20)
    try:
        async with database.open() as r:
            run = await keep(r, portal)
    finally:
        portal.close()

    assert (run.status, run.stats.created, run.stats.failed) == ("completed", 19, 1)
    assert names(database) == portal.records.keys() - {"d00005"}
    assert database.query("select url like '%d00005' from quarantine") == [(True,)]
