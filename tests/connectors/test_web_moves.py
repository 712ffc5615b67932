"""Pages that have moved, pages under several names, and pages that prefer another name."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import pytest

from rowen.model.url import canonical
from rowen.store.items import items
from tests.conftest import ScratchDatabase
from tests.connectors.test_web import names, paths
from tests.logical import contents, index_of
from tests.portals.council import Paper
from tests.portals.site import Page, Site, html, keep

__all__ = ["names"]


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    site.grow(13)
    yield site
    site.close()


def redirect(to: str, status: int = 301) -> Page:
    return Page(status=status, headers={"Location": to})


def preferring(title: str, canonical: str, links: tuple[str, ...] = ()) -> Page:
    return Page(html(title, f"About {title}.", links=links, head=f'<link rel="canonical" href="{canonical}">'))


async def rebuilt(new_database: Callable[[], ScratchDatabase], site: Site, **options: object) -> ScratchDatabase:
    database = new_database()
    async with database.open() as r:
        await keep(r, site, **options)
    return database


async def test_pages_that_redirect_are_kept_under_their_final_urls(
    database: ScratchDatabase, site: Site, new_database: Callable[[], ScratchDatabase]
) -> None:
    async with database.open() as r:
        await keep(r, site)
        for number, status in enumerate([301, 302, 303, 307, 308], start=2):
            site.pages[f"/new/{number}"] = site.pages[f"/p{number}"]
            site.pages[f"/p{number}"] = redirect(f"/new/{number}", status)
        run = await r.sync("site")
        again = await r.sync("site")

    assert (run.stats.moved, run.stats.created, run.stats.deleted, run.stats.unchanged) == (5, 0, 0, 8)
    assert (again.stats.unchanged, again.stats.not_modified, again.stats.rows_written) == (13, 13, 0)
    assert index_of(database) == index_of(await rebuilt(new_database, site))


async def test_a_chain_of_redirects_is_followed_to_its_end_at_the_same_depth(
    database: ScratchDatabase, site: Site
) -> None:
    site.pages |= {
        "/p2": redirect("/b"),
        "/b": redirect("c?x=1", 302),
        "/c?x=1": redirect("/d"),
        "/d": site.pages["/p2"],
    }
    async with database.open() as r:
        run = await keep(r, site)

    assert (run.stats.created, run.stats.requests) == (13, 17)
    assert "/d" in paths(database, site)
    assert database.query("select depth from item_check join item on id = item_id where url like '%/d'") == [(1,)]


async def test_pages_that_begin_to_redirect_in_circles_are_failed_and_kept_with_all_behind_them(
    database: ScratchDatabase, site: Site
) -> None:
    async with database.open() as r:
        await keep(r, site)
        before = index_of(database)
        for circle in [("/p5",), ("/p3", "/b"), ("/p9", "/p10"), ("/p6", "/c", "/d")]:
            for here, there in zip(circle, (*circle[1:], circle[0]), strict=True):
                site.pages[here] = redirect(there)
        run = await r.sync("site")
        cases = {case.url.removeprefix(site.url): case.error for case in await r.items.quarantine()}

    assert (run.stats.deleted, index_of(database)) == (0, before)
    assert {"/p5", "/p3", "/p9", "/p10", "/p6"} <= set(cases)
    assert all("redirects in a circle" in error for error in cases.values())


async def test_a_redirect_out_of_the_site_is_not_followed_and_deletes_the_page(
    database: ScratchDatabase, site: Site
) -> None:
    async with database.open() as r:
        await keep(r, site)
        site.pages["/p12"] = redirect("http://elsewhere.example/p12")
        run = await r.sync("site")

    assert (run.status, run.stats.deleted, run.stats.failed, run.stats.requests) == ("completed", 1, 0, 14)


async def test_a_redirect_to_a_stored_page_makes_no_second_item(database: ScratchDatabase, site: Site) -> None:
    site.pages["/p12"] = redirect("/p1")
    async with database.open() as r:
        run = await keep(r, site)

    assert (run.stats.created, site.asked().count("/p1")) == (12, 0)


async def test_a_redirect_to_another_spelling_of_the_same_url_is_followed(
    database: ScratchDatabase, site: Site
) -> None:
    """As from http to https, which are one page to us."""
    site.pages["/p2?utm_source=redirect"] = site.pages["/p2"]
    site.pages["/p2"] = redirect("/p2?utm_source=redirect")
    site.pages["/?utm_source=redirect"] = site.pages["/"]
    site.pages["/"] = redirect("/?utm_source=redirect")
    async with database.open() as r:
        run = await keep(r, site)
        again = await r.sync("site")

    assert (run.stats.created, run.stats.failed) == (13, 0)
    assert (again.stats.unchanged, again.stats.not_modified, again.stats.rows_written) == (13, 13, 0)


async def test_a_start_that_redirects_to_another_path_moves_the_borders_of_the_site(
    database: ScratchDatabase, site: Site
) -> None:
    site.pages["/docs"] = redirect("/en/docs/")
    site.put("/en/docs/", "Docs", links=("a", "/en/other", "/docs/b"))
    site.put("/en/docs/a", "A")
    async with database.open() as r:
        await keep(r, site, "/docs")
        again = await r.sync("site")

    assert paths(database, site) == {"/en/docs/", "/en/docs/a"}
    assert (again.status, again.stats.rows_written) == ("completed", 0)


@pytest.mark.parametrize("start", ["", "/"])
async def test_a_start_that_redirects_to_another_host_moves_the_borders_of_the_site(
    database: ScratchDatabase, site: Site, names: dict[str, str], start: str
) -> None:
    port = site.url.rpartition(":")[2]
    there = f"http://www.example.test:{port}"
    site.pages["/"] = redirect(f"{there}/start")
    site.pages["/start"] = Page(html("Start", links=("/p11", f"{site.url}/p12")))
    async with database.open() as r:
        await keep(r, site, start)

    assert set(contents(database)) == {f"{there}/start", f"{there}/p11"}


@pytest.mark.parametrize("to", ["/", "/a"])
async def test_a_start_that_redirects_in_a_circle_fails_the_run_and_deletes_nothing(
    database: ScratchDatabase, site: Site, to: str
) -> None:
    async with database.open() as r:
        await keep(r, site)
        site.pages |= {"/a": redirect("/"), "/": redirect(to)}
        run = await r.sync("site")

    assert (run.status, len(contents(database))) == ("failed", 13)
    assert "redirects in a circle" in (run.error or "")


async def test_a_page_that_moved_to_where_nothing_answers_yet_is_kept_until_it_does(
    database: ScratchDatabase, site: Site, new_database: Callable[[], ScratchDatabase]
) -> None:
    async with database.open() as r:
        await keep(r, site)
        site.pages["/new"] = Page(status=503)
        page, site.pages["/p2"] = site.pages["/p2"], redirect("/new")
        waiting = await r.sync("site")
        stored = paths(database, site)
        site.pages["/new"] = page
        moved = await r.sync("site")

    assert (waiting.stats.failed, waiting.stats.deleted, len(stored)) == (2, 0, 13)
    assert (moved.stats.moved, moved.stats.created, moved.stats.deleted, moved.stats.chunks_written) == (1, 0, 0, 1)
    assert index_of(database) == index_of(await rebuilt(new_database, site))


async def test_an_outage_of_a_redirect_loses_no_page_behind_it(database: ScratchDatabase, site: Site) -> None:
    site.pages["/deep"] = site.pages["/p2"]
    site.pages["/p2"] = redirect("/deep")
    async with database.open() as r:
        await keep(r, site, max_depth=1)
        before = index_of(database)
        site.alter("/p2", status=502)
        down = await r.sync("site")
        site.alter("/p2", status=301)
        up = await r.sync("site")

    assert (down.stats.failed, down.stats.deleted, index_of(database)) == (1, 0, before)
    assert (up.stats.unchanged, up.stats.rows_written) == (3, 0)


async def test_without_its_memory_an_outage_of_a_redirect_makes_runs_partial_until_it_is_over(
    database: ScratchDatabase, site: Site
) -> None:
    site.pages["/deep"] = site.pages["/p2"]
    site.pages["/p2"] = redirect("/deep")
    async with database.open() as r:
        await keep(r, site)
        before = index_of(database)
        site.alter("/p2", status=502)
        runs = [await r.sync("site", full=True), await r.sync("site")]
        site.alter("/p2", status=301)
        healed = await r.sync("site")

    assert [run.status for run in runs] == ["partial", "partial"]
    assert "may lead to stored pages" in (runs[1].error or "")
    assert (healed.status, healed.stats.deleted, index_of(database)) == ("completed", 0, before)


async def test_variants_of_a_page_that_name_it_are_one_item_and_cost_a_304(
    database: ScratchDatabase, site: Site
) -> None:
    site.put("/p12", "Page 12", links=("/print?id=1&style=print", "/print?id=1", "/print?id=1&lang=en"))
    for path in ("/print?id=1&style=print", "/print?id=1&lang=en", "/print?id=1"):
        site.pages[path] = preferring(path, "/print?id=1", ("/behind",))
    site.put("/behind", "Behind")
    async with database.open() as r:
        run = await keep(r, site)
        again = await r.sync("site")

    assert (run.stats.created, "/print?id=1" in paths(database, site)) == (15, True)
    assert (again.stats.not_modified, again.stats.unchanged, again.stats.rows_written) == (17, 15, 0)


async def test_a_page_that_prefers_another_page_is_still_a_page(database: ScratchDatabase, site: Site) -> None:
    site.pages["/p12"] = preferring("Page 12", "/p11")
    site.pages["/p11"] = preferring("Page 11", "http://elsewhere.example/p11")
    async with database.open() as r:
        await keep(r, site)

        assert len(contents(database)) == 13
        assert (await r.get(f"{site.url}/p12")).record == {"canonical": f"{site.url}/p11"}


async def test_pages_that_prefer_each_other_are_one_item_also_when_one_changes(
    database: ScratchDatabase, site: Site, new_database: Callable[[], ScratchDatabase]
) -> None:
    site.put("/p12", "Page 12", links=("/a", "/a/"))
    site.pages |= {"/a": preferring("First", "/a/"), "/a/": preferring("Second", "/a")}
    async with database.open() as r:
        await keep(r, site)
        site.pages["/a/"] = preferring("Third", "/a")
        await r.sync("site")
        again = await r.sync("site")

    assert len(paths(database, site) & {"/a", "/a/"}) == 1
    assert (again.stats.unchanged, again.stats.rows_written) == (14, 0)
    assert index_of(database) == index_of(await rebuilt(new_database, site))


async def test_a_page_whose_canonical_address_redirects_to_it_keeps_its_url(
    database: ScratchDatabase, site: Site
) -> None:
    site.put("/p12", "Page 12", links=("/a", "/a/"))
    site.pages |= {"/a": redirect("/a/"), "/a/": preferring("Second", "/a")}
    async with database.open() as r:
        await keep(r, site)

    assert paths(database, site) & {"/a", "/a/"} == {"/a/"}


async def test_a_page_is_taken_itself_when_the_one_it_prefers_is_excluded_later(
    database: ScratchDatabase, site: Site, new_database: Callable[[], ScratchDatabase]
) -> None:
    site.put("/p12", "Page 12", links=("/a?full=1",))
    site.pages |= {"/a?full=1": preferring("Full", "/a"), "/a": preferring("Short", "/a")}
    async with database.open() as r:
        await keep(r, site)
        await r.sources.edit("site", options={"exclude": r"/\/a$/"})
        await r.sync("site")

    assert paths(database, site) & {"/a", "/a?full=1"} == {"/a?full=1"}
    assert index_of(database) == index_of(await rebuilt(new_database, site, exclude=r"/\/a$/"))


async def test_one_body_under_two_spellings_is_one_item_until_they_differ(
    database: ScratchDatabase, site: Site, new_database: Callable[[], ScratchDatabase]
) -> None:
    twins = {"/a/": "/a/index.html", "/b": "/b/", "/Page": "/page", "/q?b=1&a=2": "/q?a=2&b=1"}
    ones, others = set(twins), set(twins.values())
    site.put("/p12", "Page 12", links=tuple(path for pair in twins.items() for path in pair))
    for path in ones | others:
        site.put(path, "Twin", "The same.", links=("/behind",))
    site.put("/behind", "Behind", "Something behind them.")
    async with database.open() as r:
        await keep(r, site)
        alone = paths(database, site) & (ones | others)
        same = await r.sync("site")
        for path in ones:
            site.put(path, "Twin", "No longer the same.", links=("/behind",))
        await r.sync("site")

    assert (alone, paths(database, site) & (ones | others)) == (ones, ones | others)
    assert (same.stats.not_modified, same.stats.unchanged, same.stats.rows_written) == (22, 18, 0)
    assert index_of(database) == index_of(await rebuilt(new_database, site))


async def test_of_two_spellings_the_first_one_of_the_walk_is_stored(
    database: ScratchDatabase, site: Site, new_database: Callable[[], ScratchDatabase]
) -> None:
    site.put("/p12", "Page 12", links=("/a/", "/a/index.html"))
    site.put("/a/", "Twin", "The same.")
    site.put("/a/index.html", "Twin", "The same.")
    async with database.open() as r:
        await keep(r, site)
        site.put("/p12", "Page 12", links=("/a/index.html", "/a/"))
        await r.sync("site")
        again = await r.sync("site")

    assert paths(database, site) & {"/a/", "/a/index.html"} == {"/a/index.html"}
    assert again.stats.rows_written == 0
    assert index_of(database) == index_of(await rebuilt(new_database, site))


@pytest.mark.parametrize(
    "start",
    [
        Page(html("Start", links=("/p1",), head="<meta name=robots content=noindex>")),
        preferring("Start", "/index.html", ("/p1",)),
    ],
    ids=["noindex", "canonical"],
)
async def test_a_start_that_is_no_item_itself_still_is_where_every_run_starts(
    database: ScratchDatabase, site: Site, start: Page
) -> None:
    site.pages |= {"/": start, "/index.html": preferring("Start", "/index.html", ("/p1",))}
    async with database.open() as r:
        first = await keep(r, site)
        again = await r.sync("site")

    assert site.asked().count("/") == 1
    assert (first.status, "/p1" in paths(database, site), "/" in paths(database, site)) == ("completed", True, False)
    assert (again.status, again.stats.rows_written, site.bodies()) == ("completed", 0, [])


async def test_a_page_that_redirects_stays_the_same_item_with_its_history_and_its_vectors(
    database: ScratchDatabase, site: Site, new_database: Callable[[], ScratchDatabase]
) -> None:
    async with database.open(embedder="hash") as r:
        await keep(r, site)
        old, new = f"{site.url}/p5", f"{site.url}/new/5"
        site.put("/p5", "Page 5", "Hay is made in June.")
        await r.sync("site")
        [(item_id,)] = database.query("select id from item where url = %s", canonical(old))
        site.put("/new/5", "Page 5", "Hay is made in July.")
        site.pages["/p5"] = redirect("/new/5")
        rehearsed = await r.sync("site", dry_run=True)
        run = await r.sync("site")
        changes = [change for change in await r.changes(limit=1000) if change.run == run.id]
        versions = await r.items.history(new)
        again = await r.sync("site")

    assert database.query("select id from item where url = %s", canonical(new)) == [(item_id,)]
    assert (run.stats.moved, run.stats.updated, run.stats.created, run.stats.deleted) == (1, 1, 0, 0)
    assert (rehearsed.stats.moved, rehearsed.stats.updated, rehearsed.stats.deleted) == (1, 1, 0)
    assert [(change.kind, change.moved_from) for change in changes] == [("created", None), ("moved", canonical(old))]
    assert len(versions) == 3
    assert again.stats.rows_written == 0
    assert index_of(database) == index_of(await rebuilt(new_database, site))


async def test_a_rearranged_site_whose_old_addresses_redirect_keeps_its_items(
    database: ScratchDatabase, site: Site, new_database: Callable[[], ScratchDatabase]
) -> None:
    async with database.open() as r:
        await keep(r, site)
        ids = dict(database.query("select title, id from item"))
        for path in [path for path in site.pages if path.startswith("/p")]:
            site.pages[f"/v2{path}"] = rewritten(site.pages[path])
            site.pages[path] = redirect(f"/v2{path}")
        site.pages["/"] = rewritten(site.pages["/"])
        run = await r.sync("site")
        requests = list(site.log)
        site.log.clear()
        again = await r.sync("site")

    assert dict(database.query("select title, id from item")) == ids
    assert (run.status, run.stats.moved, run.stats.deleted) == ("completed", 12, 0)
    assert {line.path for line in requests if line.status == 301} == {f"/p{number}" for number in range(1, 13)}
    assert (again.stats.rows_written, [line.status for line in site.log if line.status == 301]) == (0, [])
    assert index_of(database) == index_of(await rebuilt(new_database, site))


async def test_a_page_that_fails_hides_no_redirect_of_pages_that_vanished(
    database: ScratchDatabase, site: Site
) -> None:
    async with database.open() as r:
        await keep(r, site)
        site.pages["/new"] = site.pages["/p12"]
        site.pages["/p12"] = redirect("/new")
        site.pages = {
            path: replace(page, body=page.body.replace(b'href="/p12"', b'href="/new"'))
            for path, page in site.pages.items()
        }
        site.alter("/p11", status=500)
        run = await r.sync("site")

    assert (run.stats.failed, run.stats.moved, run.stats.deleted) == (1, 1, 0)


async def test_pages_that_vanish_cost_no_request_where_nothing_is_new(database: ScratchDatabase, site: Site) -> None:
    async with database.open() as r:
        await keep(r, site)
        site.pages = {
            path: Page(html("Alone", "Nothing below.")) if path == "/" else page for path, page in site.pages.items()
        }
        site.log.clear()
        run = await r.sync("site", accept_deletions=True)

    assert (run.stats.deleted, [line.path for line in site.log if line.path.startswith("/p")]) == (12, [])


@pytest.mark.parametrize("batch", [2000, 1])
async def test_no_more_pages_that_vanished_are_requested_than_are_new(
    database: ScratchDatabase, site: Site, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(items, "every_known", partial(items.every_known, batch=batch))
    async with database.open() as r:
        await keep(r, site)
        site.put("/", "Home", "Welcome.", links=("/new", "/newer"))
        for path in ("/new", "/newer"):
            site.put(path, "News", f"All about {path}.")
        site.log.clear()
        run = await r.sync("site", accept_deletions=True)

    assert (run.stats.created, run.stats.deleted) == (2, 12)
    assert len([line.path for line in site.log if line.path.startswith("/p")]) == 2


async def test_pages_that_vanished_are_not_requested_where_something_may_still_lead_to_them(
    database: ScratchDatabase, site: Site
) -> None:
    site.put("/deep", "Deep", "All that lies below.", links=("/p1",))
    site.pages["/below"] = redirect("/deep")
    site.put("/", "Home", "Welcome.", links=("/below",))
    async with database.open() as r:
        await keep(r, site)
        site.alter("/below", status=502)
        site.put("/", "Home", "Welcome.", links=("/below", "/new"))
        site.put("/new", "New", "All about what is new.")
        site.log.clear()
        run = await r.sync("site", full=True)

    assert (run.status, run.stats.created, run.stats.deleted) == ("partial", 1, 0)
    assert [line.path for line in site.log if line.path.startswith(("/p", "/deep"))] == []


async def test_of_several_pages_that_redirect_to_one_the_one_with_its_content_moves(
    database: ScratchDatabase, site: Site
) -> None:
    async with database.open() as r:
        await keep(r, site)
        [(item_id,)] = database.query("select id from item where title = 'Page 3'")
        site.pages |= {"/one": site.pages["/p3"], "/p2": redirect("/one"), "/p3": redirect("/one")}
        site.put("/other", "Other", "Says something else.")
        site.pages |= {"/p4": redirect("/other"), "/p5": redirect("/other")}
        run = await r.sync("site", accept_deletions=True)

    assert (run.stats.moved, run.stats.created) == (1, 1)
    assert database.query("select id from item where url = %s", canonical(f"{site.url}/one")) == [(item_id,)]
    assert not paths(database, site) & {"/p2", "/p3", "/p4", "/p5"}


async def test_of_two_pages_with_the_content_of_the_one_that_they_redirect_to_none_moves(
    database: ScratchDatabase, site: Site
) -> None:
    for path in ("/p4", "/p5"):
        site.put(path, "Twin", "Says the same.")
    async with database.open() as r:
        await keep(r, site)
        site.put("/one", "Twin", "Says the same.")
        site.pages |= {"/p4": redirect("/one"), "/p5": redirect("/one")}
        run = await r.sync("site", accept_deletions=True)

    assert (run.status, run.stats.moved, run.stats.created, run.stats.deleted) == ("completed", 0, 1, 2)


async def test_rdf_statements_of_a_page_that_moved_leave_its_old_address(database: ScratchDatabase) -> None:
    site = Site()
    site.pages["/"] = Page(Paper("Start", links=("/a",)).html("/"))
    site.pages["/a"] = Page(Paper("Cameras").html("/a"))
    try:
        async with database.open() as r:
            await r.sources.add(f"{site.url}/", name="council", options={"rdfa": "documents"})
            await r.sync("council")
            site.pages |= {"/b": site.pages["/a"], "/a": redirect("/b")}
            run = await r.sync("council")
    finally:
        site.close()

    deltas = database.query(
        "select right(page, 2), cardinality(added), cardinality(removed) from statement_change"
        " where run_id = %s order by number",
        run.id,
    )
    assert run.stats.moved == 1
    assert deltas == [("/b", 5, 0), ("/a", 0, 5)]


def rewritten(page: Page) -> Page:
    return replace(page, body=page.body.replace(b'href="/p', b'href="/v2/p'))
