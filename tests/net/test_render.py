"""The browser: it renders what scripts make of a page, within bounds, and has no way to the network but our client."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Self

import psutil
import pytest
from aiohttp import web

from rowen.errors import FetchError, ItemError, SourceError, UsageError
from rowen.net import rendering
from rowen.net.client import Client
from rowen.net.render import Browser, Rendered, find_chromium
from tests.cancelling import cancelled_at_each_wait, cancelled_at_wait
from tests.net.world import Counts, settings
from tests.portals.app import App, needs_chromium
from tests.portals.site import Page

pytestmark = needs_chromium

RenderPage = Callable[..., Awaitable[Rendered]]
OK = "<p>All is well.</p>"


@pytest.fixture
def app() -> Iterator[App]:
    app = App()
    app.script("/well", f"document.body.innerHTML = '{OK}'")
    yield app
    app.close()


@asynccontextmanager
async def browser(
    app: App, *, meter: Counts | None = None, memory_bytes: int = 1 << 30, **changes: Any
) -> AsyncIterator[RenderPage]:
    async with (
        Client(settings(**changes), meter=meter) as client,
        Browser(client, memory_bytes=memory_bytes) as browser,
    ):

        async def rendered(path: str, *, limit_s: float = 20, max_bytes: int = 10**6) -> Rendered:
            answer = await client.get(app.url + path)
            return await browser.render(app.url + path, answer, max_bytes=max_bytes, limit_s=limit_s)

        yield rendered


class Trap:
    """Addresses where nobody should ever call, by TCP or UDP."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.host = host
        self.calls: list[str] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._called, self.host, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://{self.host}:{self.port}"
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((self.host, self.port))
        self._socket.setblocking(False)
        asyncio.get_running_loop().add_reader(self._socket, lambda: self.calls.append(f"udp {self._socket.recv(99)!r}"))
        return self

    def _called(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.calls.append("tcp")
        writer.close()

    async def __aexit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        self._server.close()


async def test_content_of_scripts_and_shadow_trees_is_read_and_shared_scripts_are_fetched_once(app: App) -> None:
    app.show("/meadow", "Meadow", "All about hay.", links=("/pond",))
    app.show("/pond", "Pond", "All about newts.")
    meter = Counts()

    async with browser(app, meter=meter) as render_page:
        meadow, pond = await asyncio.gather(render_page("/meadow"), render_page("/pond"))

    assert meadow.url == f"{app.url}/meadow"
    assert "<h1>Meadow</h1>" in meadow.html
    assert '<a href="/pond">' in meadow.html
    assert "<x-card><p>Card: clover</p><p>No more.</p></x-card>" in meadow.html
    assert "<script" not in meadow.html
    assert "All about newts." in pond.html
    assert sorted(app.asked()) == ["/api/meadow.json", "/api/pond.json", "/app.js", "/meadow", "/pond"]
    assert meter.requests == 5


async def test_the_browser_has_our_name_no_cookies_and_no_eye_for_pictures(app: App) -> None:
    app.pages["/data"] = Page(b"{}", headers={"Set-Cookie": "seen=1", "Content-Type": "application/json"})
    app.script(
        "/",
        "document.cookie = 'own=1'; fetch('/data').then(() => fetch('/data')).then(() => document.body.append('done'))",
        body="<img src=/a.png><video src=/b.mp4></video><iframe src=/c></iframe><embed src=/d>",
    )

    async with browser(app) as render_page:
        rendered = await render_page("/")

    assert "done" in rendered.html
    assert app.asked() == ["/", "/data", "/data"]
    assert all(asked.headers["User-Agent"].startswith("Rowen/") for asked in app.log)
    assert not any("Cookie" in asked.headers for asked in app.log)


async def test_a_page_cannot_reach_private_addresses_not_even_by_redirect(app: App) -> None:
    async with Trap("127.0.0.2") as trap:
        app.pages["/detour"] = Page(status=302, headers={"Location": f"{trap.url}/secret"})
        app.script(
            "/",
            f"""for (const url of ['{trap.url}/secret', '/detour', 'http://169.254.169.254/latest/meta-data/'])
              fetch(url).then(() => document.body.append('reached; '), () => document.body.append('refused; '))""",
        )

        async with browser(app, allow_addresses="127.0.0.1/32") as render_page:
            rendered = await render_page("/")

    assert "refused; refused; refused;" in rendered.html
    assert trap.calls == []


async def test_no_way_leads_around_the_client(app: App) -> None:
    async with Trap() as trap:
        place = f"{trap.host}:{trap.port}"
        app.script(
            "/",
            f"""const tries = [
              () => new WebSocket('ws://{place}/'), () => new EventSource('http://{place}/'),
              () => navigator.sendBeacon('http://{place}/', 'x'), () => open('http://{place}/'),
              () => document.forms[0].submit(), () => document.links[0].click(),
              () => fetch('http://{place}/', {{method: 'POST', body: 'x'}}), () => fetch('/', {{method: 'DELETE'}}),
              () => new Worker(URL.createObjectURL(new Blob([`new WebSocket('ws://{place}/')`]))),
              () => navigator.serviceWorker.register('/worker.js'),
              () => new WebTransport('https://{place}/'),
              () => {{
                const call = new RTCPeerConnection({{iceServers: [{{urls: 'stun:{place}'}}]}})
                call.createDataChannel('x')
                call.createOffer().then(offer => call.setLocalDescription(offer))
              }}]
            for (const attempt of tries) try {{ attempt() }} catch {{}}
            setTimeout(() => document.body.append('done'), 400)""",
            body=f"""<link rel=preconnect href=http://{place}><link rel=prefetch href=http://{place}/a>
              <link rel=dns-prefetch href=http://{place}><img src=http://{place}/b><iframe src=http://{place}/c></iframe>
              <form method=post target=_blank action=http://{place}/d></form><a target=_blank href=http://{place}/e>e</a>""",
        )

        async with browser(app) as render_page:
            rendered = await render_page("/")

    assert "done" in rendered.html
    assert trap.calls == []
    assert app.asked() == ["/"]


async def test_questions_by_post_are_passed_on_to_the_same_origin(app: App) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"said": await request.text(), "as": request.content_type})

    app.pages["/graphql"] = Page(handler=answer)
    app.script(
        "/",
        """fetch('/graphql', {method: 'POST', body: '{"query": 1}', headers: {'Content-Type': 'application/json'}})
          .then(answer => answer.text()).then(text => document.body.append(text))""",
    )

    async with browser(app) as render_page:
        rendered = await render_page("/")

    assert '{"said": "{\\"query\\": 1}", "as": "application/json"}' in rendered.html


async def test_pages_without_end_are_bounded_in_time_and_size(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "PATIENCE_S", 1.0)
    monkeypatch.setattr(rendering, "READ_LIMIT_S", 2.0)
    app.script("/endless", "while (true) {}")
    app.script("/alerts", "alert('x'); confirm('y'); prompt('z'); document.body.append('dismissed')")
    app.script("/asking", "document.body.append('ticker'); setInterval(() => fetch('/well'), 100)")
    app.script("/growing", "document.body.append('x'.repeat(2_000_000))")
    paths = ("/endless", "/alerts", "/asking", "/growing", "/well")

    async with browser(app) as render_page:
        # Only the endless one meets its limit; on a busy machine the others need more than that.
        limits_s = {"/endless": 3.0}
        rendering_all = (render_page(path, limit_s=limits_s.get(path, 60)) for path in paths)
        rendered = await asyncio.gather(*rendering_all, return_exceptions=True)
        endless, alerts, asking, growing, well = map(str, rendered)

    assert "/endless could not be rendered: its scripts did not finish in 3 s." in endless
    assert "dismissed" in alerts
    assert "ticker" in asking
    assert "/growing is larger than 1,000,000 bytes when rendered" in growing
    assert OK in well


async def test_a_page_that_takes_too_much_memory_is_ended_and_the_next_one_rendered(app: App) -> None:
    app.script("/greedy", "const all = []; while (true) all.push(new Uint8Array(1 << 24).fill(1))")

    async with browser(app, memory_bytes=400 << 20) as render_page:
        with pytest.raises(ItemError, match="exceeded the memory limit"):
            await render_page("/greedy")
        well = await render_page("/well")

    assert OK in well.html


async def test_a_redirecting_page_returns_its_target(app: App) -> None:
    app.script("/old", "location.replace('/new')")
    app.script("/pushed", "history.pushState({}, '', '/deep/down'); document.body.innerHTML = '<a href=more>more</a>'")

    async with browser(app) as render_page:
        old, pushed = await asyncio.gather(render_page("/old"), render_page("/pushed"))

    assert old == Rendered(f"{app.url}/new", "")
    assert pushed.url == f"{app.url}/pushed"
    assert f'<base href="{app.url}/deep/down">' in pushed.html
    assert "/new" not in app.asked()


async def test_a_page_whose_own_data_is_down_is_not_rendered_but_other_peoples_may_be(app: App) -> None:
    app.pages["/data"] = Page(b"Sorry.", status=503)
    app.script("/", "fetch('/data').catch(() => {})")
    app.script("/counted", "fetch('http://counter.invalid/').catch(() => document.body.append('uncounted'))")

    async with browser(app, fetch_tries=1) as render_page:
        own, other = await asyncio.gather(render_page("/"), render_page("/counted"), return_exceptions=True)

    assert isinstance(own, FetchError)
    assert "/data answered with status 503" in str(own)
    assert isinstance(other, Rendered)
    assert "uncounted" in other.html


async def test_a_browser_that_dies_costs_a_page_at_most_and_is_started_again(app: App) -> None:
    async with browser(app) as render_page:
        await render_page("/well")
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                if "chrom" in process.name():
                    process.kill()
        with suppress(ItemError):
            await render_page("/well")
        well = await render_page("/well")

    assert OK in well.html


async def test_nothing_is_started_before_the_first_page_and_nothing_left_after_the_last(app: App) -> None:
    def started() -> set[int]:
        return {child.pid for child in psutil.Process().children(recursive=True)}

    before = started()
    async with browser(app) as render_page:
        assert started() == before
        await render_page("/well")
        assert started() > before

    assert started() == before


async def test_without_a_browser_the_error_names_the_package_to_install(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="named by ROWEN_BROWSER, is no program"):
        async with browser(app, browser="/nowhere/chromium") as render_page:
            await render_page("/well")

    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UsageError, match="no Chromium was found") as missing:
        find_chromium()
    assert "apt install chromium" in str(missing.value.hint)

    monkeypatch.setitem(sys.modules, "rowen.net.rendering", None)
    with pytest.raises(UsageError, match="Playwright is not installed") as missing:
        async with browser(app) as render_page:
            await render_page("/well")
    assert "playwright" in str(missing.value.hint)


async def test_a_browser_that_does_not_start_is_a_clear_error(app: App, tmp_path: Path) -> None:
    broken = tmp_path / "chromium"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)

    with pytest.raises(SourceError, match="chromium could not be started"):
        async with browser(app, browser=str(broken)) as render_page:
            await render_page("/well")


async def test_after_a_cancelled_page_the_next_one_is_rendered_and_nothing_is_left(app: App) -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    app.script("/other", "document.body.innerHTML = '<p>Another page.</p>'")
    async with browser(app) as render_page:
        waits = 0
        async for number in cancelled_at_each_wait(lambda: render_page("/other")):
            waits = number
            async with asyncio.timeout(60):
                assert OK in (await render_page("/well")).html, number
    assert waits > 3
    assert {child.pid for child in psutil.Process().children(recursive=True)} == before


async def test_a_browser_whose_start_or_end_is_cancelled_leaves_no_process(app: App) -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}

    async def once() -> None:
        async with browser(app) as render_page:
            await render_page("/well")

    # A start takes a second; each third wait is cancelled.
    waits = 2
    while await cancelled_at_wait(once(), waits):
        waits += 3
        async with asyncio.timeout(60):
            while left := {child.pid for child in psutil.Process().children(recursive=True)} - before:
                await asyncio.sleep(0.05)
        assert not left
    assert waits > 5
