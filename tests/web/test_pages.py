"""Every page says what it should, escaped and small; its twin says the same; no reader is shown a deed."""

import re
import shlex
from contextlib import closing
from html import unescape
from urllib.parse import quote

import click
import pytest

from rowen.interfaces.cli.app import app
from rowen.interfaces.web.pages import overview
from rowen.interfaces.web.routing import ACTIONS, PAGES
from rowen.interfaces.web.view import Guarded
from rowen.model.access import Scope
from tests.conftest import ScratchDatabase
from tests.portals.site import Site
from tests.web.world import Answer, addresses, served

# What a page and its longest list may weigh; what a picture may.
MOST_BYTES, MOST_SVG_BYTES = 60_000, 3_000
INLINE = re.compile(
    r"""<[^>]*\s(?:style|on\w+)\s*=|<style|<script(?![^>]*\ssrc=)|href=["']?\s*(?:javascript|data):""", re.IGNORECASE
)


def test_every_page_is_answered_small_and_without_inline_scripts(walked: dict[str, Answer]) -> None:
    shapes = [re.compile(re.sub(r"\{.*?\}", "[^/?]+", path)) for path in PAGES]
    unseen = [shape.pattern for shape in shapes if not any(shape.fullmatch(path.partition("?")[0]) for path in walked)]
    pictures = [svg for one in walked.values() for svg in re.findall(r"<svg.*?</svg>", one.text, re.DOTALL)]

    assert unseen == ["/jobs/[^/?]+", "/webhooks/[^/?]+"]
    assert {path: one.status for path, one in walked.items() if one.status != 200} == {}
    assert {path: len(one.text) for path, one in walked.items() if len(one.text.encode()) > MOST_BYTES} == {}
    assert {path: found[0] for path, one in walked.items() if (found := INLINE.search(one.text))} == {}
    assert all("default-src 'none'" in one.headers["Content-Security-Policy"] for one in walked.values())
    assert max(map(len, pictures)) <= MOST_SVG_BYTES


async def test_every_page_has_a_twin_of_plain_facts(lived_in: ScratchDatabase) -> None:
    async with lived_in.open() as rowen, served(rowen) as interface:
        paths = [paths[0] for page, paths in (await addresses(rowen)).items() if page != "/help"]
        twins = {path: await interface.get(twin_of(path)) for path in paths}

    assert {path: one.text[:200] for path, one in twins.items() if one.status != 200} == {}
    assert all(isinstance(twin.json(), dict) for twin in twins.values())


def twin_of(path: str) -> str:
    place, mark, query = path.partition("?")
    return ("/overview" if place == "/" else place) + ".json" + mark + query


async def test_the_twin_says_what_the_page_says(lived_in: ScratchDatabase) -> None:
    async with lived_in.open() as rowen, served(rowen) as interface:
        overview = (await interface.get("/overview.json")).json()
        sources = (await interface.get("/sources.json")).json()
        found = (await interface.get("/search.json?q=stiles")).json()
        run = (await interface.get("/runs/10.json")).json()

    assert (overview["state"]["items"], overview["state"]["held"], overview["state"]["needs"]) == (79, 19, 2)
    assert {one["name"]: one["items"] for one in sources["sources"]} == {
        "docs": 25,
        "gone-quiet": 0,
        "notices": 3,
        "shop": 4,
        "valley": 47,
    }
    assert found["hits"][0]["title"] == "Footpaths of Quince End"
    assert (run["run"]["deletions_held"], [one["items"] for one in run["troubles"]]) == (19, [2])


async def test_hostile_titles_and_texts_are_shown_and_never_run(lived_in: ScratchDatabase) -> None:
    async with lived_in.open() as rowen, served(rowen) as interface:
        [hostile] = [item.url for item in await rowen.items.browse("docs", limit=100) if "script" in item.title]
        found = await interface.get("/search?q=claims")
        pages = [
            await interface.get(path)
            for path in (f"/item?url={quote(hostile)}", "/changes", "/sources/docs", "/sources/docs?tab=changes")
        ]

    assert "&lt;b onmouseover=alert(2)&gt;bold" in found.text
    for page in pages:
        assert "<script>document" not in page.text
        assert "<img src=x" not in page.text
        assert "&lt;script&gt;document" in page.text
        assert "{{7*7}}" in page.text


def test_links_to_other_sites_are_web_addresses_without_referrer(walked: dict[str, Answer]) -> None:
    texts = [one.text for one in walked.values()]
    links = [link for text in texts for link in re.findall(r"<a\s[^>]*href=\"([a-z]+:[^\"]*)\"[^>]*>", text)]
    tags = [tag for text in texts for tag in re.findall(r"<a\s[^>]*href=\"[a-z]+:[^>]*>", text)]

    assert len(links) > 100
    assert {unescape(link).partition(":")[0] for link in links} == {"http", "https"}
    assert all("noreferrer" in tag for tag in tags)


async def test_the_scope_read_shows_no_form_that_would_be_refused(lived_in: ScratchDatabase) -> None:
    async with lived_in.open() as rowen, served(rowen, Scope.READ) as interface:
        texts = [(await interface.get(paths[-1])).text for paths in (await addresses(rowen)).values()]
        looked = await interface.get("/add?address=https://example.org")
        refused = {path: await interface.post(filled(path)) for path in ACTIONS}

    posts = {
        action for text in texts for action in re.findall(r"<form[^>]*method=\"post\"[^>]*action=\"([^\"]*)\"", text)
    }
    assert posts == {"/theme"}
    assert looked.status == 403
    assert {path: one.status for path, one in refused.items() if one.status != 403} == {}
    assert all("Nothing was changed" in one.text for one in refused.values())
    assert lived_in.query("select count(*) from source where state = 'paused'") == [(0,)]


def filled(path: str) -> str:
    return path.replace("{number:int}", "1").replace("{name}", "docs")


async def test_a_writer_may_not_do_what_needs_an_administrator(lived_in: ScratchDatabase) -> None:
    async with lived_in.open() as rowen, served(rowen, Scope.WRITE) as interface:
        paths = [path for path, deed in ACTIONS.items() if isinstance(deed, Guarded) and deed.scope is Scope.ADMIN]
        refused = {path: (await interface.post(filled(path))).status for path in paths}
        seen = {
            path: (await interface.get(path)).status for path in ("/tokens", "/tokens.json", "/tokens/dashboard/revoke")
        }

    assert set(refused.values()) == {403}
    assert set(seen.values()) == {403}
    assert set(refused) == {
        "/jobs/pause",
        "/jobs/resume",
        "/tokens",
        "/tokens/{name}/revoke",
        "/webhooks",
        "/webhooks/{name}/remove",
    }


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/sources/nobody", 404, "not_found"),
        ("/item?url=https%3A%2F%2Fnowhere.example%2F", 404, "not_found"),
        ("/item", 400, "usage"),
        ("/runs/999", 404, "not_found"),
        ("/runs?after=nonsense", 400, "usage"),
        ("/webhooks/nobody", 404, "not_found"),
    ],
)
async def test_errors_have_the_message_and_the_code_of_the_terminal(
    lived_in: ScratchDatabase, path: str, status: int, code: str
) -> None:
    async with lived_in.open() as rowen, served(rowen) as interface:
        page, twin = await interface.get(path), await interface.get(twin_of(path))

    assert (page.status, twin.status, twin.json()["code"]) == (status, status, code)
    assert f"<code>{code}</code>" in page.text
    assert twin.json()["error"] in unescape(page.text)
    assert ".json" not in twin.json()["error"], "who asked for a page named no twin"


def test_the_commands_that_pages_show_can_be_typed(walked: dict[str, Answer]) -> None:
    texts = [one.text for one in walked.values()]
    told = {unescape(one) for text in texts for one in re.findall(r'<li><code class="cmd">(.*?)</code></li>', text)}

    assert len(told) > 25
    for command in told:
        program, *words = shlex.split(command)
        assert program == "rowen"
        assert understood(app, words), command


def understood(group: click.Group, words: list[str]) -> bool:
    """Whether the terminal knows a command with these options."""
    name, *rest = words
    command = group.get_command(click.Context(group), name)
    if isinstance(command, click.Group) and rest and command.get_command(click.Context(command), rest[0]):
        return understood(command, rest)
    known = {option for parameter in command.params for option in parameter.opts} if command else set()
    return command is not None and {word for word in rest if word.startswith("--")} <= known


async def test_below_another_path_all_addresses_begin_with_it(lived_in: ScratchDatabase) -> None:
    async with lived_in.open() as rowen, served(rowen, root="/hay") as interface:
        page = await interface.get("/sources/docs")  # a proxy takes the path away
        css = re.search(r'rel="stylesheet" href="([^"]+)"', page.text)
        assert css
        style = await interface.get(css[1].removeprefix("/hay"))

    assert page.status == 200
    assert style.status == 200
    assert {
        link for link in re.findall(r"(?:href|action|src)=\"(/[^\"]*)\"", page.text) if not link.startswith("/hay/")
    } == set()


async def test_files_are_immutable_and_nothing_else_is_served(lived_in: ScratchDatabase) -> None:
    async with lived_in.open() as rowen, served(rowen) as interface:
        page = await interface.get("/help")
        files = re.findall(r"/static/\w+/[\w.]+", page.text)
        kept = [await interface.get(path) for path in files]
        same = await interface.get(files[0], **{"If-None-Match": kept[0].headers["ETag"]})
        others = [await interface.get(path) for path in ("/static/x/NOTICE.txt", "/static/x/..%2Frouting.py")]

    assert {one.status for one in kept} == {200}
    assert all("immutable" in one.headers["Cache-Control"] for one in kept)
    assert same.status == 304
    assert {other.status for other in others} == {404}


async def test_a_choice_of_colours_is_remembered_and_leads_nowhere_else(lived_in: ScratchDatabase) -> None:
    async with lived_in.open() as rowen, served(rowen, Scope.READ) as interface:
        chosen = await interface.post("/theme", theme="dark", back="/runs?source=docs")
        dark = await interface.get("/runs")
        led = [(await interface.post("/theme", theme="light", back=back)).headers["Location"] for back in AWAY]
        await interface.post("/theme", theme="system", back="/")
        plain = await interface.get("/runs")

    assert (chosen.status, chosen.headers["Location"]) == (303, "/runs?source=docs")
    assert 'data-theme="dark"' in dark.text
    assert set(led) == {"/"}
    assert "data-theme" not in plain.text


AWAY = ("https://elsewhere.example/", "//elsewhere.example", "/\\elsewhere.example", "javascript:alert(1)", "")


def row_of(page: Answer, words: str) -> str:
    """The row of a table that has these words, without its markup."""
    rows = re.findall(r"<tr>.*?</tr>", page.text, re.DOTALL)
    return next(" ".join(re.sub(r"<[^>]+>", " ", unescape(row)).split()) for row in rows if words in row)


async def test_avoided_costs_are_shown_in_each_unit(lived_in: ScratchDatabase) -> None:
    async with lived_in.open() as rowen, served(rowen) as interface:
        savings = await rowen.status.savings()
        pages = [await interface.get(path) for path in ("/", "/costs?days=7")]

    assert savings.requests_spared > 0
    for page in pages:
        row = row_of(page, 'scope="row">requests<')
        assert row == f"requests {savings.requests} {savings.requests_spared}"
        assert f'aria-label="requests: spent {savings.requests}, not needed {savings.requests_spared}"' in page.text


async def test_sources_show_state_items_next_run_and_last_error(lived_in: ScratchDatabase) -> None:
    async with lived_in.open() as rowen, served(rowen) as interface:
        page, valley = await interface.get("/sources"), await interface.get("/sources/valley")

    assert re.search(r"<dt>Expected fresh</dt><dd><div[^>]*>[\d.]+ %</div>", valley.text)
    assert "19 pending deletions" in row_of(page, "docs")
    assert re.search(r"fresh 47 .* in \d+ (?:h|min)", row_of(page, ">valley<"))
    assert "every 6 hours" in row_of(page, "docs")
    assert "failed" in row_of(page, "gone-quiet")
    assert "could not be read" in row_of(page, "gone-quiet")
    assert 'aria-label="4 runs: 4 completed; 7 changes"' in page.text


async def test_changes_are_filtered_by_source_kind_words_and_field_with_their_feeds_beside(
    lived_in: ScratchDatabase,
) -> None:
    async with lived_in.open() as rowen, served(rowen) as interface:
        price = (await interface.get("/changes.json?field=price&kind=extracted")).json()["changes"]
        stiles = (await interface.get("/changes.json?query=stiles")).json()["changes"]
        page = await interface.get("/changes?source=valley&query=stiles")
        narrow = await interface.get("/changes?kind=created&kind=deleted&field=price")
        first = (await interface.get("/changes.json?source=docs")).json()
        second = (
            (await interface.get(f"/changes.json?source=docs&after={first['next']}")).json() if first["next"] else None
        )

    assert [one["diff"][0]["after"] for one in price[:3]] == [3.9, 4.25, 4.75]
    assert {stile["title"] for stile in stiles} == {"Footpaths of Quince End"}
    assert '"/sources/valley/feeds/atom?query=stiles"' in page.text
    assert '"/feeds/json?kind=created&amp;kind=deleted&amp;field=price"' in narrow.text
    assert len(first["changes"]) + len(second["changes"] if second else []) == 27


async def test_a_filter_that_is_repeated_counts_once_and_too_many_are_refused(lived_in: ScratchDatabase) -> None:
    """Each has a link that names all others, so that what they cost grows with the square of their number."""
    names = "&".join(f"tag=t{number}" for number in range(101))
    async with lived_in.open() as rowen, served(rowen) as interface:
        repeated = await interface.get("/search?q=hay" + "&source=docs" * 3_000)
        too_many = await interface.get(f"/search?q=hay&{names}")
        kinds = await interface.get("/changes?" + "&".join(["kind=created"] * 3_000))

    assert (repeated.status, repeated.text.count('aria-current="true"')) == (200, 1)
    assert (too_many.status, "at most 100 filters" in too_many.text) == (400, True)
    assert kinds.text.count('name="kind" value="created"') == 1


async def test_a_search_takes_every_filter_that_is_declared(lived_in: ScratchDatabase) -> None:
    async with lived_in.open() as rowen, served(rowen) as interface:
        whole = (await interface.get("/search.json?q=stiles")).json()["hits"]
        below = (await interface.get(f"/search.json?q=stiles&path={quote(whole[0]['url'])}")).json()["hits"]
        others = [
            (await interface.get(f"/search.json?q=stiles&{query}")).json()["hits"]
            for query in ("publisher=nobody", "since=2999-01-01", "until=1999-01-01", "where=price%3C0", "version=9.9")
        ]
        page = await interface.get("/search?q=stiles&since=7d&publisher=council&tag=a&tag=b")
        wrong = await interface.get("/search?q=stiles&since=soon")

    assert whole
    assert {hit["url"] for hit in below} == {whole[0]["url"]}
    assert others == [[], [], [], [], []]
    assert all(f'name="{name}"' in page.text for name in ("version", "publisher", "since", "until", "path", "where"))
    assert page.text.count('aria-current="true"') == 4
    assert 'value="council"' in page.text
    assert 'name="since" value="7d"' in page.text
    assert 'role="alert"' in wrong.text


async def test_a_diff_shows_added_and_removed_words(lived_in: ScratchDatabase) -> None:
    async with lived_in.open() as rowen, served(rowen) as interface:
        [url] = [
            item.url for item in await rowen.items.browse("valley", limit=100) if item.title.startswith("Footpaths")
        ]
        page = await interface.get(f"/item?url={quote(url)}&tab=diff")

    assert re.search(r'<li class="added" id="L1">.*stiles were mended</ins>', page.text)
    assert "<del>Quince</del>" in page.text


async def test_facts_are_a_table_with_the_history_of_each_number(lived_in: ScratchDatabase) -> None:
    async with lived_in.open() as rowen, served(rowen) as interface:
        page = await interface.get("/extractions?schema=product&where=price%3C5")

    assert "Six eggs 3.9" in row_of(page, "Six eggs")
    assert 'aria-label="from 4.5 to 3.9 in 4 versions"' in page.text
    assert "Honey" not in page.text


async def test_a_run_groups_its_errors_and_shows_avoided_work(lived_in: ScratchDatabase) -> None:
    async with lived_in.open() as rowen, served(rowen) as interface:
        page = await interface.get("/runs/10")

    assert row_of(page, "status 500").startswith("The item answered with status 500. 2 ")
    assert "Spared reading 2 items" in page.text
    assert "19 items vanished and were kept" in page.text


async def test_saved_searches_show_their_news_escaped(lived_in: ScratchDatabase) -> None:
    async with lived_in.open() as rowen, served(rowen) as interface:
        listed = await interface.get("/saved")
        news = (await interface.get("/saved/1.json")).json()
        page = await interface.get("/saved/1")
        quiet = await interface.get("/saved/2")
        empty = await interface.get("/search")

    assert "&lt;b onmouseover=alert(2)&gt;bold" in listed.text
    assert "<b onmouseover" not in listed.text + quiet.text + empty.text
    assert [(one["kind"], one["title"]) for one in news["news"]] == [("matches", "Footpaths of Quince End")]
    assert news["search"]["matches"] == 1
    assert "Footpaths of Quince End" in page.text
    assert '"/sources/valley/feeds/atom?query=stiles+mended"' in page.text
    assert "Saved searches" in empty.text


async def test_the_scope_read_shows_no_contact_details_of_a_record(lived_in: ScratchDatabase) -> None:
    async with lived_in.open() as rowen:
        [url] = [
            item.url for item in await rowen.items.browse("valley", limit=100) if item.title.startswith("Footpaths")
        ]
        shown = {}
        for scope in (Scope.READ, Scope.WRITE):
            async with served(rowen, scope) as interface:
                paths = (f"/item?tab=record&url={quote(url)}", f"/item.json?url={quote(url)}")
                shown[scope] = "".join([(await interface.get(path)).text for path in paths])

    assert shown[Scope.READ].count("(hidden)") == 2
    assert "ada@farm.example" not in shown[Scope.READ]
    assert shown[Scope.WRITE].count("ada@farm.example") == 2


async def test_a_feed_that_fails_is_named_with_its_error_where_feeds_are_followed(database: ScratchDatabase) -> None:
    with closing(Site()) as site:
        site.down = True
        async with database.open(fetch_tries=1) as rowen, served(rowen) as interface:
            for kind in ("feed", "ldes"):
                await rowen.sources.add(f"{site.url}/{kind}", name=kind, kind=kind)
                await rowen.sync(kind)
            followed = await interface.get("/following")
            source = await interface.get("/sources/ldes")

    assert followed.text.count('<span class="mark failing">failing</span>') == 2
    assert f"{site.url}/ldes" in followed.text
    assert "Last error" in source.text
    assert "answered with status" in source.text


async def test_many_feeds_take_no_more_queries_than_one(database: ScratchDatabase, statements: list[str]) -> None:
    numbers = []
    async with database.open() as rowen:
        for number in range(5):
            await rowen.sources.add(f"https://feeds.example.org/{number}", name=f"feed{number}", kind="feed")
            await rowen.sources.list_following()
            statements.clear()
            assert len(await rowen.sources.list_following()) == number + 1
            numbers.append(len(statements))

    assert len(set(numbers)) == 1
    assert 0 < numbers[0] < 10


async def test_feeds_are_shown_page_by_page(database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "_FEEDS", 2)
    async with database.open() as rowen, served(rowen) as interface:
        for number in range(5):
            await rowen.sources.add(f"https://feeds.example.org/{number}", name=f"feed{number}", kind="feed")
        pages = [(await interface.get("/following.json")).json()]
        while pages[-1]["next"]:
            pages.append((await interface.get(f"/following.json?after={pages[-1]['next']}")).json())

    assert [[feed["source"] for feed in page["feeds"]] for page in pages] == [
        ["feed0", "feed1"],
        ["feed2", "feed3"],
        ["feed4"],
    ]
