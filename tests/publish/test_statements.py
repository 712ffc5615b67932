"""What pages state goes out three ways, and each follows what changed."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest

from rowen import Rowen, RowenError
from tests.conftest import ScratchDatabase
from tests.portals.council import ELI_TITLE, CouncilSite, Paper
from tests.portals.triple_store import TripleStore

GRAPH = "http://example.org/graphs/public"


@pytest.fixture
def council() -> Iterator[CouncilSite]:
    with closing(CouncilSite()) as site:
        yield site


@pytest.fixture
def endpoint() -> Iterator[TripleStore]:
    with closing(TripleStore()) as site:
        yield site


async def follow(r: Rowen, council: CouncilSite) -> None:
    if not await r.sources.list():
        await r.sources.add(council.feed, name="feed")
        await r.sources.add(council.documents, name="papers", options={"revisit": 0})
    await r.sync("feed")
    await r.sync("papers", accept_deletions=True)


def titles(lines: set[str]) -> set[str]:
    return {line.partition('"')[2].partition('"')[0] for line in lines if ELI_TITLE in line}


def consumed(files: list[Path], held: set[tuple[str, ...]] | None = None) -> set[tuple[str, ...]]:
    """What a delta consumer holds after some files: deletes, then inserts, change set by change set."""
    held = set(held or ())
    for path in files:
        for change in json.loads(path.read_text()):
            held -= {_quad(one) for one in change["deletes"]}
            held |= {_quad(one) for one in change["inserts"]}
    return held


def _quad(one: dict[str, Any]) -> tuple[str, ...]:
    return tuple(json.dumps(one[part], sort_keys=True) for part in ("graph", "subject", "predicate", "object"))


def current(database: ScratchDatabase) -> set[str]:
    return {
        line for (line,) in database.query("select jsonb_array_elements_text(record #> '{rdfa,statements}') from item")
    }


async def test_the_dump_holds_what_all_pages_state_each_in_its_graph(
    database: ScratchDatabase, council: CouncilSite, tmp_path: Path
) -> None:
    council.publish("/a", Paper("Cameras"))
    council.publish("/b", Paper("Library", "agenda"))
    async with database.open() as r:
        await follow(r, council)
        report = await r.rdf.dump("papers", tmp_path / "papers.nq")
        summary = await r.rdf.summary("papers")

    quads = list(ox.parse(path=tmp_path / "papers.nq"))
    assert {str(quad.triple) for quad in quads} == current(database)
    assert {quad.graph_name.value for quad in quads} == {f"{council.url}/a", f"{council.url}/b"}
    assert (report.parts, report.added) == (2, len(quads))
    assert (summary.pages, summary.statements) == ({"decision list": 1, "agenda": 1}, len(quads))


async def test_delta_files_replay_to_the_present_state_and_go_on_where_they_ended(
    database: ScratchDatabase, council: CouncilSite, tmp_path: Path
) -> None:
    council.publish("/a", Paper("Cameras"))
    council.publish("/b", Paper("Library"))
    async with database.open() as r:
        await follow(r, council)
        first = await r.rdf.write_deltas("papers", tmp_path / "deltas", graph=GRAPH)
        council.publish("/a", Paper("Cameras, amended"))
        await follow(r, council)
        council.publish("/a", Paper("Cameras"))
        council.withdraw("/b")
        await follow(r, council)
        later = await r.rdf.write_deltas("papers", tmp_path / "deltas", graph=GRAPH)
        idle = await r.rdf.write_deltas("papers", tmp_path / "deltas", graph=GRAPH)
        await r.rdf.dump("papers", tmp_path / "all.nq", graph=GRAPH)

    files = sorted((tmp_path / "deltas").iterdir())
    held = consumed(files)
    assert (first.parts, later.parts, idle.parts, len(files)) == (1, 3, 0, 4)
    assert len(held) == len(current(database)) == len(list(ox.parse(path=tmp_path / "all.nq")))
    [title] = [json.loads(quad[3]) for quad in held if ELI_TITLE in quad[2]]
    assert title == {"type": "literal", "value": "Cameras", "xml:lang": "nl"}, "it left, came back, and is there again"
    assert {json.loads(quad[0])["value"] for quad in held} == {GRAPH}


async def test_what_another_page_still_states_is_not_deleted_from_a_graph_of_all(
    database: ScratchDatabase, council: CouncilSite, tmp_path: Path, endpoint: TripleStore
) -> None:
    council.publish("/a", Paper("Shared", about="http://data.example/id/one"))
    council.publish("/b", Paper("Shared", about="http://data.example/id/one"))
    async with database.open() as r:
        await follow(r, council)
        await r.rdf.write_deltas("papers", tmp_path, graph=GRAPH)
        await r.rdf.push("papers", endpoint.endpoint, graph=GRAPH)
        council.publish("/b", Paper("Its own"))
        await follow(r, council)
        await r.rdf.write_deltas("papers", tmp_path, graph=GRAPH)
        await r.rdf.push("papers", endpoint.endpoint, graph=GRAPH)

    held = {json.loads(quad[3])["value"] for quad in consumed(sorted(tmp_path.iterdir())) if ELI_TITLE in quad[2]}
    assert held == {"Shared", "Its own"}
    assert endpoint.statements() == current(database)


async def test_an_endpoint_is_told_what_changed_once_and_a_failing_one_is_tried_again(
    database: ScratchDatabase, council: CouncilSite, endpoint: TripleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORE_KEY", "hidden")
    headers = {"Authorization": "Bearer env:STORE_KEY"}
    council.publish("/a", Paper("Cameras"))
    council.publish("/b", Paper("Library"))
    async with database.open(fetch_tries=3) as r:
        await follow(r, council)
        endpoint.failures = 1
        first = await r.rdf.push("papers", endpoint.endpoint, headers=headers)
        idle = await r.rdf.push("papers", endpoint.endpoint, headers=headers)
        council.publish("/a", Paper("Cameras, amended"))
        council.withdraw("/b")
        await follow(r, council)
        later = await r.rdf.push("papers", endpoint.endpoint, headers=headers)

    assert (first.parts, idle.parts, later.parts) == (2, 0, 2)
    assert endpoint.statements() == current(database)
    assert endpoint.graphs() == {f"{council.url}/a"}
    assert set(endpoint.keys) == {"Bearer hidden"}
    assert "hidden" not in str(database.query("select * from statement_target"))


async def test_an_endpoint_that_refuses_or_lies_in_a_private_network_is_an_error_and_nothing_is_noted(
    database: ScratchDatabase, council: CouncilSite, endpoint: TripleStore
) -> None:
    council.publish("/a", Paper("Cameras"))
    async with database.open(fetch_tries=1) as r:
        await follow(r, council)
        endpoint.failures = 1
        with pytest.raises(RowenError, match="refused an update"):
            await r.rdf.push("papers", endpoint.endpoint)
        with pytest.raises(RowenError, match="in clear"):
            await r.rdf.push("papers", endpoint.endpoint, headers={"Authorization": "Bearer secret"})
    async with database.open(fetch_tries=1, allow_addresses="") as r:
        with pytest.raises(RowenError, match="not a public address"):
            await r.rdf.push("papers", endpoint.endpoint)

    assert (database.query("select count(*) from statement_target"), endpoint.updates) == ([(0,)], [])


async def test_a_source_that_is_renamed_or_removed_and_added_again_loses_no_delta(
    database: ScratchDatabase, council: CouncilSite, tmp_path: Path
) -> None:
    council.publish("/a", Paper("Cameras"))
    async with database.open() as r:
        await follow(r, council)
        await r.sources.edit("papers", rename="council")
        renamed = await r.rdf.write_deltas("council", tmp_path)
        await r.sources.remove("council")
        await r.sources.add(council.documents, name="council")
        await r.rdf.write_deltas("council", tmp_path)

    assert renamed.parts == 1
    assert consumed(sorted(tmp_path.iterdir())) == set()


def shapes(constraint: str) -> str:
    """A profile that wants something of the titles of all papers."""
    return (
        "@prefix sh: <http://www.w3.org/ns/shacl#> ."
        "<urn:s> a sh:NodeShape ; sh:targetClass <http://xmlns.com/foaf/0.1/Document> ;"
        f" sh:property [ sh:path <{ELI_TITLE}> ; {constraint} ] ."
    )


async def test_what_does_not_conform_to_the_profile_is_left_out_or_counted_and_other_shapes_judge_anew(
    database: ScratchDatabase, council: CouncilSite, tmp_path: Path
) -> None:
    path = tmp_path / "profile.ttl"
    path.write_text(shapes('sh:pattern "^Cam"'))
    council.publish("/a", Paper("Cameras"))
    council.publish("/b", Paper("Library"))
    async with database.open() as r:
        await r.sources.add(council.feed, name="feed")
        await r.sources.add(council.documents, name="papers", options={"revisit": 0, "shapes": f"file:{path}"})
        await follow(r, council)
        dropped, lines = await r.rdf.summary("papers"), current(database)
        path.write_text("What was declared holds.")
        idle = await r.sync("papers", full=True)
        await r.sources.edit("papers", options={"nonconforming": "report"})
        judged = await r.sync("papers", full=True)
        reported = await r.rdf.summary("papers")
        with pytest.raises(RowenError, match="sh:minLength"):
            await r.sources.edit("papers", options={"shapes": shapes("sh:minLength 3")})

    assert (titles(lines), dropped.dropped, dropped.violations) == ({"Cameras"}, {"pattern": 1}, {})
    assert (idle.stats.amended, idle.stats.updated) == (0, 0)
    assert (judged.stats.amended, judged.stats.updated, judged.stats.statements_added) == (1, 0, 1)
    assert (titles(current(database)), reported.dropped, reported.violations) == (
        {"Cameras", "Library"},
        {},
        {"pattern": 1},
    )
