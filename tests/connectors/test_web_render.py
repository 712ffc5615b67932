"""Sites that are nothing until their scripts have run: rendered, compared by what they say, and never led astray."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rowen import Run, UsageError
from rowen.net import rendering
from tests.conftest import ScratchDatabase
from tests.logical import contents, index_of
from tests.portals.app import App, needs_chromium
from tests.portals.site import Page

NO_BROWSER = {"browser": "/nowhere/chromium"}


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    monkeypatch.setattr(rendering, "QUIET_S", 0.2)
    app = App()
    app.show("/", "Home", "Welcome to the farm.", links=("/hay", "/about"))
    app.show("/hay", "Hay", "It is dried grass.")
    app.put("/about", "About", "A page that needs no script. " * 10)
    yield app
    app.close()


async def sync(database: ScratchDatabase, app: App, *, settings: dict[str, Any] | None = None, **options: Any) -> Run:
    async with database.open(**settings or {}) as r:
        if not await r.sources.list():
            await r.sources.add(f"{app.url}/", name="app", options=options)
        return await r.sync("app")


@needs_chromium
async def test_only_empty_pages_are_rendered_and_a_second_run_writes_nothing(
    database: ScratchDatabase, app: App
) -> None:
    first = await sync(database, app, render="auto")
    texts = dict(database.query("select url, text from item"))
    app.log.clear()
    second = await sync(database, app)

    assert (first.status, first.stats.created) == ("completed", 3)
    assert "It is dried grass." in texts[f"{app.url}/hay"]
    assert "Card: clover" in texts[f"{app.url}/hay"]
    assert (second.status, second.stats.unchanged, second.stats.rows_written) == ("completed", 3, 0)
    assert app.asked(status=304) == ["/about"]
    assert sorted(app.asked(status=200)) == ["/", "/api/.json", "/api/hay.json", "/app.js", "/hay"]


@needs_chromium
async def test_new_data_behind_an_unchanged_page_is_found_and_equals_a_rebuild(
    new_database: Callable[[], ScratchDatabase], app: App
) -> None:
    database, rebuilt = new_database(), new_database()
    await sync(database, app, render="auto")
    app.tell("/hay", "Hay", "It is dried clover.", links=("/straw",))
    app.show("/straw", "Straw", "What is left of the grain.")

    run = await sync(database, app)
    await sync(rebuilt, app, render="auto")

    assert (run.stats.updated, run.stats.created, run.stats.unchanged) == (1, 1, 2)
    assert index_of(database) == index_of(rebuilt)


@needs_chromium
async def test_data_that_is_down_costs_no_page_that_we_hold(database: ScratchDatabase, app: App) -> None:
    await sync(database, app, render="auto", settings={"fetch_tries": 1})
    before = contents(database)
    app.alter("/api/hay.json", status=503)

    run = await sync(database, app)

    assert (run.stats.failed, run.stats.deleted, run.stats.updated) == (1, 0, 0)
    assert contents(database) == before


@needs_chromium
async def test_routes_behind_a_hash_are_pages_of_one_document(database: ScratchDatabase, app: App) -> None:
    app.tell("/", "Home", "Welcome.", links=("#/hay", "#/straw", "#top"))
    app.tell("/straw", "Straw", "What is left of the grain.", links=("#/hay",))
    app.alter("/", body=app.pages["/"].body.replace(b"</title>", b"</title><link rel=canonical href=/>"))

    run = await sync(database, app, render="auto", hash_routes=True)
    urls = [url.removeprefix(app.url) for url in sorted(contents(database))]
    texts = dict(database.query("select url, text from item"))

    assert (run.status, urls) == ("completed", ["/", "/#/hay", "/#/straw"])
    assert "It is dried grass." in texts[f"{app.url}/#/hay"]
    assert app.asked().count("/") == 2
    assert app.asked().count("/app.js") == 1


@needs_chromium
async def test_what_is_excluded_or_kept_from_robots_is_not_loaded_either(database: ScratchDatabase, app: App) -> None:
    app.pages["/robots.txt"] = Page(b"User-agent: *\nDisallow: /private/", headers={"Content-Type": "text/plain"})
    app.script(
        "/",
        """for (const path of ['/private/a', '/stats/b', '/c'])
          fetch(path).then(() => 'got', () => 'missed').then(word => document.body.append(`(${word} ${path})`))""",
    )

    await sync(database, app, render="always", exclude="*/stats/*")
    [(text,)] = database.query("select text from item")

    assert sorted(re.findall(r"\((.*?)\)", text)) == ["got /c", "missed /private/a", "missed /stats/b"]
    assert app.asked() == ["/", "/c"]


@needs_chromium
async def test_a_page_that_leaves_by_script_is_taken_where_it_goes(database: ScratchDatabase, app: App) -> None:
    app.script("/", "location.href = '/hay'", body="<div id=app></div>")

    run = await sync(database, app, render="auto")

    assert run.status == "completed"
    assert list(contents(database)) == [f"{app.url}/hay"]


async def test_without_a_browser_a_site_that_is_always_rendered_fails_before_its_pages_are_requested(
    database: ScratchDatabase, app: App
) -> None:
    run = await sync(database, app, render="always", settings=NO_BROWSER)

    assert run.status == "failed"
    assert "/nowhere/chromium, named by ROWEN_BROWSER, is no program" in (run.error or "")
    assert "apt install chromium" in (run.error or "")
    assert app.asked() == []


async def test_without_a_browser_only_the_pages_that_need_one_fail(database: ScratchDatabase, app: App) -> None:
    app.put("/", "Home", "A page that needs no script. " * 10, links=("/hay", "/about", "/short"))
    app.pages["/short"] = Page(
        b"<title>Short</title><script src=/count.js></script><p>A short page, but a whole one, as it is."
    )

    run = await sync(database, app, render="auto", settings=NO_BROWSER)
    async with database.open() as r:
        [failed] = await r.items.quarantine("app")

    assert (run.stats.created, run.stats.failed) == (3, 1)
    assert failed.url == f"{app.url}/hay"
    assert "no program" in failed.error
    assert "/app.js" not in app.asked()


async def test_routes_without_a_browser_are_refused_when_the_source_is_added(
    database: ScratchDatabase, app: App
) -> None:
    async with database.open() as r:
        with pytest.raises(UsageError, match="hash_routes needs render"):
            await r.sources.add(f"{app.url}/", options={"hash_routes": True})
