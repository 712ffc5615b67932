"""What may be deleted without somebody's word: few items at a time, whoever says that they are gone."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from rowen import Checkpoint, Complete, Failed, Fetched, Gone, Incomplete, Observation, Rowen, Run, Unchanged
from rowen.errors import RowenError
from rowen.harvest.sweep import Guard
from tests.conftest import ScratchDatabase
from tests.logical import contents, index_of, replayed
from tests.portals.catalogs import keep as keep_portal
from tests.portals.oai import OaiRepository
from tests.portals.scripted import Scripted, page, shows
from tests.portals.site import Page, Site, html, keep
from tests.refresh.machine import at_statement

ADDRESS = "scripted:one"
MISSING = Page(html("Not found", "Nothing here."), status=404)


@pytest.fixture(autouse=True)
def _scripted(kinds: Callable[[Any], None]) -> None:
    kinds(Scripted)


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()


async def sync(r: Rowen, *observations: Observation, **how: bool) -> Run:
    shows(*observations)
    return await r.sync(ADDRESS, **how)


def fetched(*numbers: int) -> list[Observation]:
    return [Fetched(page(number)) for number in numbers]


def gone(*numbers: int) -> list[Observation]:
    return [Gone(page(number).url) for number in numbers]


def unchanged(*numbers: int) -> list[Observation]:
    return [Unchanged(page(number).url) for number in numbers]


def star(site: Site, count: int) -> None:
    """A root that links to all other pages."""
    site.put("/", "Home", "Welcome.", links=tuple(f"/p{number}" for number in range(1, count)))
    for number in range(1, count):
        site.put(f"/p{number}", f"Page {number}", f"All about number {number}.")


def all_but_the_root_are(site: Site, answer: Page) -> dict[str, Page]:
    """Break the site; returns its pages as they were."""
    before = dict(site.pages)
    site.pages = {path: found if path == "/" else answer for path, found in site.pages.items()}
    return before


async def fresh(new_database: Callable[[], ScratchDatabase], site: Site) -> ScratchDatabase:
    database = new_database()
    async with database.open() as r:
        await keep(r, site)
    return database


async def test_a_deployment_gone_wrong_deletes_nothing_however_often_it_is_looked_at(
    database: ScratchDatabase, site: Site, new_database: Callable[[], ScratchDatabase]
) -> None:
    star(site, 61)
    async with database.open() as r:
        await keep(r, site)
        before = all_but_the_root_are(site, MISSING)
        runs = [await r.sync("site") for _ in range(3)]
        held = (await r.sources.get("site")).deletions_held
        found = await r.search("number 17")
        site.pages = before
        healed = await r.sync("site")
        again = await r.sync("site")
        left = (await r.sources.get("site")).deletions_held

    assert [(run.stats.deleted, run.stats.deletions_held) for run in runs] == [(0, 60)] * 3
    assert (held, left, bool(found)) == (60, 0, True)
    assert (healed.stats.deleted, healed.stats.created) == (0, 0)
    assert (again.stats.unchanged, again.stats.rows_written) == (61, 0)
    assert index_of(database) == index_of(await fresh(new_database, site))


async def test_pages_that_stay_gone_go_when_somebody_says_so(
    database: ScratchDatabase, site: Site, new_database: Callable[[], ScratchDatabase]
) -> None:
    star(site, 61)
    async with database.open() as r:
        await keep(r, site)
        all_but_the_root_are(site, MISSING)
        await r.sync("site")
        accepted = await r.sync("site", accept_deletions=True)
        left = (await r.sources.get("site")).deletions_held

    assert (accepted.stats.deleted, accepted.stats.deletions_held, left) == (60, 0, 0)
    assert replayed(database) == contents(database)
    assert index_of(database) == index_of(await fresh(new_database, site))


async def test_a_soft_404_for_everything_deletes_nothing(database: ScratchDatabase, site: Site) -> None:
    star(site, 61)
    async with database.open() as r:
        await keep(r, site)
        apology = Page(html("Not found", "This page does not exist."), validator="none")
        all_but_the_root_are(site, apology)
        site.default = apology
        run = await r.sync("site")

    assert (run.stats.deleted, run.stats.deletions_held, len(contents(database))) == (0, 60, 61)


@pytest.mark.parametrize("status", [404, 410])
async def test_single_pages_that_are_gone_go_with_the_same_run(
    database: ScratchDatabase, site: Site, status: int
) -> None:
    star(site, 61)
    async with database.open() as r:
        await keep(r, site)
        for number in range(1, 10):
            site.pages[f"/p{number}"] = Page(status=status)
        run = await r.sync("site")

    assert (run.status, run.stats.deleted, run.stats.deletions_held) == ("completed", 9, 0)
    assert replayed(database) == contents(database)


async def test_what_is_gone_and_what_vanished_count_together(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *fetched(*range(30)), Complete())
        held = await sync(r, *unchanged(*range(20)), *gone(*range(20, 25)), Complete())
        few = await sync(r, *unchanged(*range(21)), *gone(*range(21, 25)), *unchanged(*range(26, 30)), Complete())

    assert (held.stats.deleted, held.stats.deletions_held) == (0, 10)
    assert (few.stats.deleted, few.stats.deletions_held) == (5, 0)


@pytest.mark.parametrize(("held", "may_go"), [(1, 1), (2, 1), (3, 1), (4, 2), (10, 5), (18, 9), (60, 9), (67, 10)])
def test_of_a_small_source_half_may_go_and_of_a_large_one_a_share(held: int, may_go: int) -> None:
    guard = Guard(10, 0.15, 0.5)

    assert guard.bound(held) == may_go
    assert guard.allows(may_go, of=held)
    assert not guard.allows(may_go + 1, of=held)


async def test_nine_of_ten_are_too_many_although_they_are_fewer_than_the_floor(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *fetched(*range(10)), Complete())
        vanished = await sync(r, *unchanged(0), Complete())
        told = await sync(r, *unchanged(0), *gone(*range(1, 10)), Complete())

    assert [(run.stats.deleted, run.stats.deletions_held) for run in (vanished, told)] == [(0, 9), (0, 9)]


async def test_new_pages_do_not_make_room_for_more_deletions(database: ScratchDatabase) -> None:
    """A parked domain has pages enough of its own."""
    async with database.open() as r:
        await sync(r, *fetched(*range(60)), Complete())
        run = await sync(r, *unchanged(0), *fetched(*range(1000, 1500)), Complete())

    assert (run.stats.created, run.stats.deleted, run.stats.deletions_held) == (500, 0, 59)


async def test_a_listing_of_changes_does_not_forget_the_deletions_that_were_held_back(
    database: ScratchDatabase,
) -> None:
    """The cursor is past them: nobody will tell again."""
    async with database.open() as r:
        await sync(r, *fetched(*range(30)), Checkpoint(1), Complete())
        held = await sync(r, *gone(*range(20)), Checkpoint(2))
        still = await sync(r, *unchanged(25), Checkpoint(3))
        shown = (await r.sources.get("one")).deletions_held
        back = await sync(r, *fetched(3, 4), Checkpoint(4))
        accepted = await sync(r, Checkpoint(5), accept_deletions=True)
        left = (await r.sources.get("one")).deletions_held

    assert [(run.stats.deleted, run.stats.deletions_held) for run in (held, still, back)] == [(0, 20), (0, 20), (0, 18)]
    assert (shown, accepted.stats.deleted, left) == (20, 18, 0)
    assert replayed(database) == contents(database)


async def test_items_that_all_come_back_are_no_longer_held_for_deletion(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *fetched(*range(30)), Checkpoint(1), Complete())
        await sync(r, *gone(*range(20)), Checkpoint(2))
        await sync(r, *fetched(*range(20)), Checkpoint(3))
        left = (await r.sources.get("one")).deletions_held
        accepted = await sync(r, Checkpoint(4), accept_deletions=True)

    assert (left, accepted.stats.deleted, len(contents(database))) == (0, 0, 30)


async def test_a_partial_run_deletes_the_few_that_are_gone_and_holds_many_back(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *fetched(*range(40)), Complete())
        few = await sync(r, *unchanged(0), *gone(1, 2), Incomplete("A folder could not be read."))
        many = await sync(r, *unchanged(0), *gone(*range(3, 30)), Incomplete("A folder could not be read."))

    assert (few.status, few.stats.deleted, few.stats.deletions_held) == ("partial", 2, 0)
    assert (many.status, many.stats.deleted, many.stats.deletions_held) == ("partial", 0, 27)


async def test_a_partial_run_leaves_the_count_of_what_had_vanished_before(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *fetched(*range(40)), Complete())
        await sync(r, *unchanged(*range(20)), Complete())
        await sync(r, *unchanged(0), *gone(1), Incomplete("A folder could not be read."))
        held = (await r.sources.get("one")).deletions_held

    assert held == 20


async def test_a_dry_run_tells_what_would_be_deleted_and_what_held_back(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *fetched(*range(30)), Complete())
        few = await sync(r, *unchanged(*range(1, 30)), *gone(0), Complete(), dry_run=True)
        many = await sync(r, *gone(*range(20)), dry_run=True)

    assert (few.stats.deleted, few.stats.deletions_held) == (1, 0)
    assert (many.stats.deleted, many.stats.deletions_held) == (0, 20)
    assert database.query("select count(*) from item_gone") == [(0,)]


async def test_of_gone_and_there_the_last_word_counts_in_one_group_and_in_several(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *fetched(*range(8)), Complete())
        together = await sync(r, *gone(0), *fetched(0), *fetched(1), *gone(1), *fetched(*range(2, 8)))
        apart = [*gone(2), Checkpoint(1), *unchanged(2), Checkpoint(2), *fetched(3), Checkpoint(3), *gone(3)]
        separately = await sync(r, *apart)

    assert (together.stats.deleted, separately.stats.deleted) == (1, 1)
    assert {url[-1] for url in contents(database)} == set("024567")


async def test_an_item_that_arrives_and_is_gone_in_one_run_is_not_kept(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *fetched(*range(5)), Complete())
        await sync(r, *unchanged(*range(5)), *fetched(7), Checkpoint(1), *gone(7), Complete())

    assert len(contents(database)) == 5


async def test_items_that_arrive_and_are_gone_in_one_run_hold_no_other_deletions_back(
    database: ScratchDatabase,
) -> None:
    async with database.open() as r:
        await sync(r, *fetched(*range(30)), Complete())
        arrived = range(30, 60)
        run = await sync(r, *unchanged(*range(25)), *fetched(*arrived), Checkpoint(1), *gone(*arrived), Complete())

    assert (run.stats.deleted, run.stats.deletions_held, len(contents(database))) == (35, 0, 25)


async def test_an_item_that_arrives_and_is_gone_in_one_run_is_deleted_while_others_are_held_back(
    database: ScratchDatabase,
) -> None:
    async with database.open() as r:
        await sync(r, *fetched(*range(30)), Complete())
        await sync(r, *unchanged(*range(10)), Complete())
        run = await sync(r, *unchanged(*range(10)), *fetched(40), Checkpoint(1), *gone(40), Complete())

    assert (run.stats.deleted, run.stats.deletions_held, len(contents(database))) == (1, 20, 30)


async def test_a_partial_run_that_deletes_forgets_no_failure_of_an_item_that_it_did_not_see(
    database: ScratchDatabase,
) -> None:
    async with database.open() as r:
        await sync(r, *fetched(*range(5)), Failed(page("broken").url, "It is broken."), Complete())
        partial = await sync(r, *unchanged(0), *gone(1), Incomplete("It went away."))
        after_partial = database.query("select url from quarantine")
        await sync(r, *unchanged(0, 2, 3, 4), Complete())

    assert (partial.status, partial.stats.deleted) == ("partial", 1)
    assert after_partial == [(page("broken").url,)]
    assert database.query("select url from quarantine") == []


async def test_a_run_that_dies_before_it_deletes_leaves_that_to_the_next(database: ScratchDatabase) -> None:
    """The cursor has moved past the source's word by then."""

    def die() -> None:
        raise psycopg.OperationalError("the network went away")

    async with database.open() as r:
        await sync(r, *fetched(*range(30)), Checkpoint(0), Complete())
        with at_statement("delete from item where", before=die), pytest.raises(RowenError):
            await sync(r, *gone(1, 2), Checkpoint(1))
        kept, cursor = len(contents(database)), (await r.sources.get("one")).cursor
        run = await sync(r, Checkpoint(2))

    assert (kept, cursor, run.stats.deleted, len(contents(database))) == (30, 1, 2, 28)
    assert replayed(database) == contents(database)


async def test_what_fails_after_it_was_said_to_be_gone_is_kept(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *fetched(*range(30)), Checkpoint(0), Complete())
        await sync(r, *gone(*range(20)), Checkpoint(1))
        await sync(r, Failed(page(0).url, "It cannot be read."), Checkpoint(2))
        accepted = await sync(r, Checkpoint(3), accept_deletions=True)

    assert (accepted.stats.deleted, page(0).url in contents(database)) == (19, True)


async def test_a_run_that_saw_nothing_but_tombstones_deletes_no_more_than_these(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *fetched(*range(5)), Complete())
        run = await sync(r, *gone(0, 1), Complete(), accept_deletions=True)

    assert (run.stats.deleted, run.stats.deletions_held, len(contents(database))) == (2, 3, 3)


def linked(site: Site, count: int, head: str = "") -> None:
    """Pages that all have something in their head."""
    for number in range(1, count):
        site.pages[f"/p{number}"] = Page(html(f"Page {number}", f"All about number {number}.", head=head))


async def test_robots_txt_that_forbids_all_deletes_nothing(database: ScratchDatabase, site: Site) -> None:
    star(site, 20)
    async with database.open() as r:
        await keep(r, site)
        site.pages["/robots.txt"] = Page(b"User-agent: *\nDisallow: /", headers={"Content-Type": "text/plain"})
        everything = await r.sync("site")
        site.pages["/robots.txt"] = Page(b"User-agent: *\nDisallow: /p", headers={"Content-Type": "text/plain"})
        pages = await r.sync("site")
        del site.pages["/robots.txt"]
        healed = await r.sync("site")

    assert (everything.status, everything.stats.deleted) == ("failed", 0)
    assert (pages.stats.deleted, pages.stats.deletions_held) == (0, 19)
    assert (healed.stats.unchanged, healed.stats.created, healed.stats.deletions_held) == (20, 0, 0)


async def test_noindex_on_all_pages_deletes_nothing_unasked(
    database: ScratchDatabase, site: Site, new_database: Callable[[], ScratchDatabase]
) -> None:
    star(site, 20)
    async with database.open() as r:
        await keep(r, site)
        linked(site, 20, "<meta name=robots content=noindex>")
        held = await r.sync("site")
        accepted = await r.sync("site", accept_deletions=True)

    assert (held.stats.deleted, held.stats.deletions_held, accepted.stats.deleted) == (0, 19, 19)
    assert index_of(database) == index_of(await fresh(new_database, site))


async def test_a_header_noindex_on_all_pages_deletes_nothing_unasked(database: ScratchDatabase, site: Site) -> None:
    star(site, 20)
    async with database.open() as r:
        await keep(r, site)
        for number in range(1, 20):
            site.alter(f"/p{number}", headers={"X-Robots-Tag": "noindex"}, etag_salt="1")
        held = await r.sync("site")

    assert (held.stats.deleted, held.stats.deletions_held) == (0, 19)


async def test_a_canonical_link_of_all_pages_to_the_root_is_not_believed(database: ScratchDatabase, site: Site) -> None:
    star(site, 20)
    async with database.open() as r:
        await keep(r, site)
        linked(site, 20, f"<link rel=canonical href='{site.url}/'>")
        run = await r.sync("site")

    assert (run.status, run.stats.deleted, run.stats.deletions_held, len(contents(database))) == ("completed", 0, 0, 20)


@pytest.mark.parametrize("left", [b"", b"<urlset></urlset>", b"<html>Soon</html>", None])
async def test_a_sitemap_that_shrinks_to_nothing_deletes_nothing_unasked(
    database: ScratchDatabase, site: Site, left: bytes | None
) -> None:
    star(site, 20)
    site.put("/", "Home", "Welcome.")
    entries = "".join(f"<url><loc>{site.url}/p{number}</loc></url>" for number in range(1, 20))
    xml = {"Content-Type": "application/xml"}
    site.pages["/sitemap.xml"] = Page(f"<urlset>{entries}</urlset>".encode(), headers=xml)
    async with database.open() as r:
        await keep(r, site, sitemap=True)
        if left is None:
            del site.pages["/sitemap.xml"]
        else:
            site.pages["/sitemap.xml"] = Page(left, headers=xml)
        run = await r.sync("site")

    assert (run.stats.deleted, run.stats.deletions_held, len(contents(database))) == (0, 19, 20)


async def test_pages_that_all_became_a_meta_refresh_change_nothing(database: ScratchDatabase, site: Site) -> None:
    star(site, 20)
    async with database.open() as r:
        await keep(r, site)
        before = index_of(database)
        for number in range(1, 20):
            refresh = f"<html><head><meta http-equiv=refresh content='0;url=/login?from={number}'></head></html>"
            site.pages[f"/p{number}"] = Page(refresh.encode())
        run = await r.sync("site")

    assert (run.status, run.stats.deleted, index_of(database)) == ("partial", 0, before)


@pytest.mark.parametrize("trouble", [500, 404])
async def test_a_page_that_was_kept_while_the_shell_changed_is_read_anew_when_it_is_back(
    database: ScratchDatabase, site: Site, new_database: Callable[[], ScratchDatabase], trouble: int
) -> None:
    """It answers "not modified", but what we hold of it was read with another shell."""

    def release(version: int) -> None:
        shell = f"Version {version} of this site."
        site.put("/", "Home", "Welcome.", links=tuple(f"/p{number}" for number in range(1, 30)))
        for number in range(1, 30):
            site.put(f"/p{number}", f"Page {number}", f"All about number {number}.", shell)

    release(1)
    async with database.open() as r:
        await keep(r, site)
        old = {path: page for path, page in site.pages.items() if path in [f"/p{number}" for number in range(9, 30)]}
        release(2)
        site.pages.update({path: Page(status=trouble) for path in old})
        await r.sync("site")
        site.pages.update(old)
        back = await r.sync("site")

    assert (back.status, back.stats.deleted) == ("completed", 0)
    assert index_of(database) == index_of(await fresh(new_database, site))


async def test_an_archive_that_calls_all_its_records_deleted_keeps_them(database: ScratchDatabase) -> None:
    world = OaiRepository()
    try:
        world.fill(40)
        async with database.open() as r:
            await keep_portal(r, world)
            for name in list(world.records)[:30]:
                world.remove(name)
            world.tick(5)
            run = await r.sync("portal")
            again = await r.sync("portal")
            accepted = await r.sync("portal", accept_deletions=True)
    finally:
        world.close()

    assert [(one.stats.deleted, one.stats.deletions_held) for one in (run, again)] == [(0, 30), (0, 30)]
    assert accepted.stats.deleted == 30


# Ten new ones in each build: one takes up to a second.
@settings(max_examples=10, phases=(Phase.generate,), suppress_health_check=list(HealthCheck))
@given(
    size=st.integers(1, 80),
    runs=st.lists(
        st.tuples(st.lists(st.sampled_from("UGFX-"), min_size=80, max_size=80), st.sampled_from("CIN"), st.booleans()),
        min_size=1,
        max_size=4,
    ),
)
def test_no_sequence_of_faults_deletes_more_in_a_run_than_the_guard_allows(
    new_database: Callable[[], ScratchDatabase], size: int, runs: list[tuple[list[str], str, bool]]
) -> None:
    """Each run says of each item that it is unchanged, gone, fetched or failed, or nothing at all."""
    database, guard = new_database(), Guard(10, 0.15, 0.5)
    made: dict[str, Callable[[int], list[Observation]]] = {
        "U": unchanged,
        "G": gone,
        "F": fetched,
        "X": lambda number: [Failed(page(number).url, "It cannot be read.")],
        "-": lambda number: [],
    }
    endings: dict[str, list[Observation]] = {"C": [Complete()], "I": [Incomplete("It broke off.")], "N": []}

    async def all_runs() -> None:
        async with database.open() as r:
            await sync(r, *fetched(*range(size)), Checkpoint(0), Complete())
            for words, ending, checkpoints in runs:
                before = contents(database)
                seen = [
                    one
                    for number, word in enumerate(words[:size])
                    for one in [*made[word](number), *([Checkpoint(number)] if checkpoints and number % 7 == 0 else [])]
                ]
                run = await sync(r, *seen, *endings[ending])
                lost = len(before.keys() - contents(database).keys())
                assert lost == run.stats.deleted
                assert lost <= guard.bound(len(before))
                assert replayed(database) == contents(database)

    asyncio.run(all_runs())
