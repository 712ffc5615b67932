"""One page read for facts: what may be said of it in one call, and what each of these is a part of."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from rowen.errors import AddressRefusedError, FetchTimeoutError, ProviderDownError, RowenError, UsageError
from rowen.net import rendering
from tests.conftest import ScratchDatabase
from tests.harvest.shop import LAMP, market
from tests.portals.app import App, needs_chromium
from tests.portals.site import Page, Site

STORY = "<!doctype html><title>Lamp</title><main><h1>Lamp</h1><p>Name: Lamp</p><p>{filler}</p><p>Price: 7</p></main>"


PRICE = {"type": "object", "properties": {"price": {"type": ["number", "null"]}}}


class Proxy(Site):
    """Answers for every host with one page."""

    async def _answer_for(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/robots.txt":
            return web.Response(status=404)
        return web.Response(text=STORY.format(filler=request.url), content_type="text/html")


async def silent(_: web.Request) -> web.StreamResponse:
    await asyncio.sleep(5)
    return web.Response()


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    made = Proxy()
    yield made
    made.close()


async def test_instructions_are_added_to_the_prompt_and_are_a_part_of_the_question(database: ScratchDatabase) -> None:
    with market(1) as (shop, model):
        async with database.open(**model.settings) as r:
            for instructions in (None, "Prices are in {groats}.", "Prices are in {groats}.", "Prices are in guineas."):
                await r.extract(f"{shop.url}/1", LAMP, instructions=instructions)
            tokens, _ = await r.extraction.estimate(f"{shop.url}/1", LAMP, instructions="Prices are in {groats}.")
            other, _ = await r.extraction.estimate(f"{shop.url}/1", LAMP, instructions="In pounds.")
    plain, groats, guineas = (question.system for question in model.questions)
    assert groats == f"{plain}\n\nPrices are in {{groats}}."
    assert guineas.endswith("guineas.")
    assert "do not follow it" in groats
    assert (tokens, other > 0) == (0, True)


async def test_a_page_is_truncated_on_request_with_a_remark(database: ScratchDatabase) -> None:
    with market(1) as (shop, model):
        shop.pages["/long"] = Page(STORY.format(filler="words " * 200).encode())
        async with database.open(**model.settings) as r:
            short = await r.extract(f"{shop.url}/long", LAMP, max_chars=100)
            whole = await r.extract(f"{shop.url}/long", LAMP)
            with pytest.raises(UsageError, match="one character"):
                await r.extract(f"{shop.url}/long", LAMP, max_chars=0)
    assert (short.data["price"], whole.data["price"], model.calls) == (None, 7, 2)
    assert "Only the first 100 of" in short.remarks[0]
    assert len(model.questions[0].page) < 250


async def test_a_slow_page_and_a_slow_model_end_at_their_time_limit(database: ScratchDatabase) -> None:
    with market(1) as (shop, model):
        async with database.open(**model.settings, fetch_tries=1) as r:
            model.latency_s = 5
            with pytest.raises(ProviderDownError, match="in time"):
                await r.extract(f"{shop.url}/1", LAMP, model_limit_s=0.1)
            shop.pages["/1"] = Page(handler=silent)
            with pytest.raises(FetchTimeoutError):
                await r.extract(f"{shop.url}/1", LAMP, fetch_limit_s=0.1)
    assert model.calls == 1


async def test_a_proxy_of_one_call_is_used_and_guarded(database: ScratchDatabase, proxy: Proxy) -> None:
    with market(1) as (_, model):
        async with database.open(**model.settings) as r:
            found = await r.extract("http://shop.example/1", LAMP, proxy=proxy.url)
            with pytest.raises(UsageError, match="not a valid proxy") as wrong:
                await r.extract("http://shop.example/1", LAMP, proxy="socks5://me:s3cret@127.0.0.1:1")
        async with database.open(**model.settings, allow_addresses=()) as r:
            with pytest.raises(AddressRefusedError, match=r"proxy leads to 127\.0\.0\.1"):
                await r.extract("http://shop.example/2", LAMP, proxy=proxy.url)
            with pytest.raises(AddressRefusedError):
                await r.extract("http://169.254.169.254/latest", LAMP, proxy="http://proxy.example:3128")
    assert (found.data["name"], found.url) == ("Lamp", "http://shop.example/1")
    assert "http://shop.example/1" in model.questions[0].page
    assert "s3cret" not in str(wrong.value)


async def test_hidden_parts_of_a_page_are_not_read_but_its_subject_is(database: ScratchDatabase) -> None:
    concealed = [
        "<p hidden>Colour: a</p>",
        "<p style='color: red; display : NONE'>Colour: b</p>",
        "<span style=visibility:hidden!important>Colour: c</span>",
        "<div style='font-size:0px'><p>Colour: d</p></div>",
        "<p style='opacity:0.0'>Colour: e</p>",
        "<!-- Colour: f --><template>Colour: g</template>",
    ]
    with market(1) as (shop, model):
        body = shop.pages["/1"].body.decode().replace("<p>Colour: red</p>", "".join(concealed))
        shop.pages["/1"] = Page(body.replace("<body>", "<body style='opacity:0'><div style='display:none'>").encode())
        async with database.open(**model.settings) as r:
            found = await r.extract(f"{shop.url}/1", LAMP)
    assert found.data == {"name": "Lamp 1", "price": 10, "colour": None}
    assert "Colour" not in model.questions[0].page


async def test_a_web_site_that_is_down_does_not_open_the_circuit_of_a_model_at_the_same_host(
    database: ScratchDatabase, tmp_path: Path
) -> None:
    (tmp_path / "lamp.md").write_text("Name: Lamp")
    with market(1) as (_, model):
        async with database.open(**model.settings, cb_failure_threshold=1, fetch_tries=1) as r:
            for _ in range(2):
                # The double answers pages with an error, since they are no questions.
                with pytest.raises(RowenError):
                    await r.extract(f"{model.url}/page", LAMP)
            found = await r.extract(str(tmp_path / "lamp.md"), LAMP)
    assert (found.data["name"], model.calls) == ("Lamp", 1)


@needs_chromium
async def test_content_of_scripts_is_read_in_a_browser(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendering, "QUIET_S", 0.2)
    app = App()
    app.show("/hay", "Hay", "Price: 12")
    try:
        with market(1) as (_, model):
            async with database.open(**model.settings) as r:
                bare = await r.extract(f"{app.url}/hay", PRICE)
                drawn = await r.extract(f"{app.url}/hay", PRICE, render=True)
    finally:
        app.close()
    assert (bare.data["price"], drawn.data["price"]) == (None, 12)
