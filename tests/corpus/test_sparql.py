"""Recorded answers of SPARQL endpoints are read."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rowen.connectors.sparql import Sparql
from rowen.connectors.sparql.endpoint import read_rows
from tests.conftest import ScratchDatabase
from tests.corpus import CORPUS, needs
from tests.portals.sparql import SparqlEndpoint

pytestmark = needs(CORPUS)

ROWS = {
    "lindas_cube_dimensions.json": 7,
    "lindas_list_creators.json": 13,
    "lindas_search_cubes.json": 5,
    "lindas_tariffs_municipality.json": 5,
}


@pytest.fixture(autouse=True)
def _kind(kinds: Any) -> None:
    kinds(Sparql)


@pytest.fixture
def portal() -> Iterator[SparqlEndpoint]:
    portal = SparqlEndpoint()
    yield portal
    portal.close()


@pytest.mark.parametrize("path", sorted((CORPUS / "sparql").glob("*.json")), ids=lambda path: path.name)
def test_every_row_of_a_recorded_answer_is_read(path: Path) -> None:
    answer = json.loads(path.read_bytes())
    rows = read_rows(answer, path.name, *answer["head"]["vars"])

    bound = sum(len(row) for row in answer["results"]["bindings"])
    assert (len(rows), sum(map(len, rows))) == (ROWS[path.name], bound)


@pytest.mark.parametrize("path", sorted((CORPUS / "sparql").glob("*.json")), ids=lambda path: path.name)
async def test_an_answer_to_another_question_is_refused(
    database: ScratchDatabase, portal: SparqlEndpoint, path: Path
) -> None:
    portal.body = path.read_bytes()
    async with database.open() as r:
        run = await r.sync(portal.address)

    assert (run.status, run.stats.created, run.stats.deleted) == ("failed", 0, 0)
    assert "answered another query" in (run.error or "")


async def test_recorded_cubes_come_through_as_datasets(database: ScratchDatabase, portal: SparqlEndpoint) -> None:
    answer = json.loads((CORPUS / "sparql" / "lindas_search_cubes.json").read_bytes())
    cubes = {row["cube"]["value"]: row["name"]["value"] for row in answer["results"]["bindings"]}
    for iri, title in cubes.items():
        portal.make(iri, [(title, "de")])
    async with database.open() as r:
        run = await r.sync(portal.address)

    assert (run.status, run.stats.created) == ("completed", 5)
    assert {title for (title,) in database.query("select title from item")} == set(cubes.values())
