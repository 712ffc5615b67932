"""Documents that a feed announces: each is visited when it is announced, and what it leads to."""

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from rowen import Rowen, Run
from rowen.connectors.announced import AnnouncedOptions
from tests.conftest import ScratchDatabase
from tests.portals.council import CouncilSite, Paper


@pytest.fixture
def council() -> Iterator[CouncilSite]:
    with closing(CouncilSite()) as site:
        yield site


async def keep(r: Rowen, council: CouncilSite, **options: object) -> Run:
    await r.sources.add(council.feed, name="feed")
    await r.sources.add(council.documents, name="papers", options={"revisit": 0, **options})
    return await again(r, council)


async def again(r: Rowen, council: CouncilSite, **how: bool) -> Run:
    await r.sync("feed")
    council.log.clear()
    return await r.sync("papers", **how)


def papers(database: ScratchDatabase) -> dict[str, str]:
    return dict(
        database.query(
            "select regexp_replace(item.url, '^.*/', '/'), title from item join source on source.id = source_id"
            " where kind = 'announced' order by 1"
        )
    )


def outcomes(database: ScratchDatabase) -> dict[str, str]:
    return dict(
        database.query(
            "select regexp_replace(name, '^.*/', '/'), value ->> 'outcome' from source_note where room = 'announced'"
        )
    )


async def test_announced_documents_become_items_with_their_statements_and_are_linked_to_their_run(
    database: ScratchDatabase, council: CouncilSite
) -> None:
    council.publish("/a", Paper("Cameras", "decision list"))
    council.publish("/b", Paper("Meeting of May", "agenda"))
    async with database.open() as r:
        run = await keep(r, council)
        announcements = await r.sources.announcements("papers")

    assert (run.kind, run.status, run.complete, run.stats.created) == ("announced", "completed", True, 2)
    assert papers(database) == {"/a": "Cameras", "/b": "Meeting of May"}
    [(rdfa, tags)] = database.query("select record -> 'rdfa', tags from item where title = 'Cameras'")
    assert (rdfa["type"], tags) == ("decision list", ["decision list"])
    assert '<http://data.example/id/a> <http://data.europa.eu/eli/ontology#title> "Cameras"@nl' in rdfa["statements"]
    assert [
        (announcement.location, announcement.outcome, announcement.run, announcement.job)
        for announcement in announcements
    ] == [
        (f"{council.url}/b", "stored", run.id, None),
        (f"{council.url}/a", "stored", run.id, None),
    ]


async def test_only_new_announcements_are_visited_and_an_unchanged_feed_costs_no_request_and_no_row(
    database: ScratchDatabase, council: CouncilSite
) -> None:
    for name in "abc":
        council.publish(f"/{name}", Paper(f"Paper {name}"))
    async with database.open() as r:
        await keep(r, council)
        idle = await again(r, council)
        visited_idly = council.visited()
        council.publish("/b", Paper("Paper b, amended"))
        council.put_paper("/c", Paper("Changed without a word"))
        run = await again(r, council)
        visited = council.visited()
        full = await again(r, council, full=True)

    assert (visited_idly, idle.status, idle.stats.rows_written, idle.stats.unchanged) == ([], "completed", 0, 3)
    assert (visited, run.stats.updated, run.stats.unchanged) == (["/b"], 1, 2)
    assert (full.stats.updated, papers(database)["/c"]) == (1, "Changed without a word")


async def test_links_of_documents_are_followed_from_their_href_and_an_overview_is_no_item(
    database: ScratchDatabase, council: CouncilSite
) -> None:
    council.publish("/overview", Paper("All meetings", "", links=("/minutes;jsessionid=1", "/list.pdf", "/gone")))
    council.put_paper("/minutes", Paper("Minutes", "minutes", links=("/extract#part", "https://other.example/x")))
    council.put_paper("/extract", Paper("Extract", "extract"))
    async with database.open() as r:
        run = await keep(r, council)
        council.put_paper("/overview", Paper("All meetings", "", links=("/minutes",)))
        council.put_paper("/minutes", Paper("Minutes, again", "minutes"))
        await again(r, council)

    assert (run.status, run.stats.created) == ("completed", 2)
    assert papers(database) == {"/minutes": "Minutes", "/extract": "Extract"}, "what is known is not visited again"
    assert council.visited() == ["/overview"]
    assert outcomes(database) == {"/overview": "overview"}


async def test_several_versions_of_a_publication_are_one_visit_and_a_withdrawn_one_takes_its_documents_along(
    database: ScratchDatabase, council: CouncilSite
) -> None:
    council.publish("/a", Paper("Old"))
    council.publish("/a", Paper("New", links=("/below",)))
    council.put_paper("/below", Paper("Below", "extract"))
    council.publish("/b", Paper("Other"))
    async with database.open() as r:
        await r.sources.add(council.feed, name="feed", options={"versions": "all"})
        await keep_documents(r, council)
        visited = sorted(council.visited())
        council.withdraw("/a")
        run = await again(r, council, accept_deletions=True)

    assert visited == ["/a", "/b", "/below"]
    assert (run.stats.deleted, run.stats.statements_removed > 0) == (2, True)
    assert papers(database) == {"/b": "Other"}


async def keep_documents(r: Rowen, council: CouncilSite, **options: object) -> Run:
    await r.sources.add(council.documents, name="papers", options={"revisit": 0, **options})
    return await again(r, council)


async def test_a_job_visits_no_more_than_its_share_and_the_next_one_goes_on(
    database: ScratchDatabase, council: CouncilSite
) -> None:
    for number in range(5):
        council.publish(f"/p{number}", Paper(f"Paper {number}"))
    async with database.open() as r:
        first = await keep(r, council, job_urls=2)
        visited = [sorted(council.visited())]
        waiting = await r.sources.announcements("papers", outcome="waiting")
        for _ in range(2):
            last = await again(r, council)
            visited.append(sorted(council.visited()))

    assert (first.status, first.error_code) == ("partial", "portion_read")
    assert len(waiting) == 3
    assert visited == [["/p0", "/p1"], ["/p2", "/p3"], ["/p4"]]
    assert (last.status, len(papers(database))) == ("completed", 5)


async def test_a_share_of_known_documents_is_visited_again_when_something_is_new(
    database: ScratchDatabase, new_database: Callable[[], ScratchDatabase], council: CouncilSite
) -> None:
    for number in range(40):
        council.publish(f"/p{number}", Paper(f"Paper {number}"))
    revisited = []
    for pool in (database, new_database()):
        async with pool.open() as r:
            await keep(r, council, revisit=0.3, seed=7)
            idle = await again(r, council)
            council.publish("/new", Paper("New"))
            await again(r, council)
        revisited.append({request.path: request.status for request in council.log if request.path.startswith("/p")})
        council.leaves["/root"].events.pop()

    assert idle.stats.requests == 0
    assert 2 < len(revisited[0]) < 26  # 12 of 40, by hashes of URLs with a port that differs each time
    assert set(revisited[0].values()) == {304}
    assert revisited[0] == revisited[1], "the seed decides which"


def test_a_tenth_is_visited_again_unless_somebody_wants_another_share() -> None:
    assert AnnouncedOptions().revisit == 0.1


async def test_failed_and_gone_documents_are_listed_with_the_announcement_and_tried_again(
    database: ScratchDatabase, council: CouncilSite
) -> None:
    council.publish("/a", Paper("Well"))
    council.publish("/gone")
    council.publish("/ill", Paper("Ill"))
    council.alter("/ill", status=500)
    async with database.open() as r:
        run = await keep(r, council)
        before = outcomes(database)
        [failed] = await r.sources.announcements("papers", outcome="failed")
        council.alter("/ill", status=200)
        after = await again(r, council)

    assert (run.status, run.stats.failed) == ("partial", 1)
    assert before == {"/a": "stored", "/gone": "gone", "/ill": "failed"}
    assert failed.why == f"{council.url}/ill answered with status 500."
    assert (after.status, outcomes(database)["/ill"]) == ("completed", "stored")


async def test_an_overview_whose_links_were_read_by_older_rules_is_read_again_once(
    database: ScratchDatabase, council: CouncilSite
) -> None:
    council.publish("/overview", Paper("All meetings", "", links=("/minutes",)))
    council.put_paper("/minutes", Paper("Minutes", "minutes"))
    async with database.open() as r:
        await keep(r, council)
        database.execute(
            "update source_note set value = value - 'version' || '{\"links\": []}' where room = 'overview'"
        )
        await again(r, council)
        first = [(request.path, request.status) for request in council.log if request.path == "/overview"]
        run = await again(r, council)
        second = [(request.path, request.status) for request in council.log if request.path == "/overview"]

    assert (first, second) == ([("/overview", 200)], [("/overview", 304)])
    assert (run.stats.rows_written, papers(database)) == (0, {"/minutes": "Minutes"})


async def test_an_address_that_is_gone_is_requested_at_growing_intervals_and_found_when_it_returns(
    database: ScratchDatabase, council: CouncilSite
) -> None:
    council.publish("/a", Paper("Well", links=("/later",)))
    visits = []
    async with database.open() as r:
        await keep(r, council)
        for days_gone, hours_since in [(0, 0.1), (0.01, 0.2), (10, 1), (10, 13), (10, 1)]:
            backdate(database, days_gone=days_gone, hours_since=hours_since)
            run = await again(r, council)
            visits.append(council.visited())
        idle = run.stats.rows_written
        backdate(database, days_gone=10, hours_since=13)
        council.put_paper("/later", Paper("Later", "minutes"))
        later = await again(r, council)

    assert visits == [["/later"], ["/later"], [], ["/later"], []]
    assert (idle, run.status, later.stats.created) == (0, "completed", 1)
    assert database.query("select count(*) from source_note where room = 'gone'") == [(0,)]


async def test_a_gone_document_whose_deletion_is_pending_stays_gone_in_idle_jobs(
    database: ScratchDatabase, council: CouncilSite
) -> None:
    for number in range(30):
        council.publish(f"/{number}", Paper(f"Paper {number}"))
    async with database.open() as r:
        await keep(r, council)
        for number in range(20):
            council.publish(f"/{number}")
            council.pages.pop(f"/{number}")
        waiting = await again(r, council)
        backdate(database, days_gone=10, hours_since=1)
        idle = await again(r, council)
        visited = council.visited()
        accepted = await again(r, council, accept_deletions=True)

    assert (waiting.stats.deletions_held, idle.stats.deletions_held, visited) == (20, 20, [])
    assert (accepted.stats.deleted, len(papers(database))) == (20, 10)


def backdate(database: ScratchDatabase, *, days_gone: float, hours_since: float) -> None:
    """Move what is remembered of addresses that are gone into the past."""
    last = f"now() - make_interval(hours => 1) * {hours_since}"
    database.execute(
        "update source_note set value = value || jsonb_build_object("
        f"'since', {last} - make_interval(days => 1) * {days_gone}, 'last', {last}) where room = 'gone'"
    )


async def test_without_its_feed_the_run_fails_with_a_hint(database: ScratchDatabase, council: CouncilSite) -> None:
    async with database.open() as r:
        await r.sources.add(council.documents, name="papers")
        run = await r.sync("papers")
        source = await r.sources.get("papers")

    assert run.status == "failed"
    assert "There is no feed source for" in (run.error or "")
    assert source.schedule == "every 10min"


@pytest.mark.parametrize("junk", ["[]", "1", '{"number": "x"}', '{"number": -5, "more": {}}'])
async def test_a_cursor_or_a_note_that_cannot_be_read_is_passed_over(
    database: ScratchDatabase, council: CouncilSite, junk: str
) -> None:
    council.publish("/a", Paper("Cameras"))
    async with database.open() as r:
        await keep(r, council)
        database.query("update source set cursor = %s::jsonb where kind = 'announced' returning id", junk)
        database.query(
            "insert into source_note (source_id, room, key, name, value) select id, room, sha256(room::bytea), 'x', '7'"
            " from source, unnest(array['announced', 'overview']) as room where kind = 'announced' returning 1"
        )
        council.publish("/b", Paper("Library"))
        run = await again(r, council)

    assert (run.status, papers(database)) == ("completed", {"/a": "Cameras", "/b": "Library"})


@pytest.mark.parametrize(
    "location", ["http://", "http://[x", "http://a.example:99999/", "https://" + "x" * 5000, "http://127.0.0.1:1/é<"]
)
async def test_a_hostile_location_costs_itself_alone(
    database: ScratchDatabase, council: CouncilSite, location: str
) -> None:
    council.publish("/a", Paper("Cameras"))
    council.leaves["/root"].events.append(
        council.event("bad", more=f"<http://www.w3.org/ns/prov#atLocation> '''{location}''' ;")
    )
    async with database.open(fetch_tries=1) as r:
        await keep(r, council)
        run = await again(r, council)

    assert "connector of kind" not in (run.error or "")
    assert papers(database) == {"/a": "Cameras"}
