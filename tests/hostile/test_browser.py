"""What a page's scripts reach: its own site through our client, and nothing of this machine or its network."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from rowen.errors import ItemError
from rowen.net import rendering
from rowen.net.client import Client
from rowen.net.render import Browser, Rendered
from tests.conftest import ScratchDatabase
from tests.net.test_render import Trap
from tests.net.world import Counts, settings
from tests.portals.app import App, needs_chromium

pytestmark = needs_chromium

SECRET = "the secret of this machine"
# One attempt each; what comes back is written into the page, which is what we would store.
REACH = """
const told = (how, what) => document.body.append(`${how}: ${what}; `)
const ways = {
  fetch: url => fetch(url).then(answer => answer.text()),
  nocors: url => fetch(url, {mode: 'no-cors'}).then(answer => answer.type + answer.status),
  xhr: url => new Promise((done, fail) => {
    const ask = new XMLHttpRequest(); ask.onload = () => done(ask.responseText); ask.onerror = ask.onabort = fail
    ask.open('GET', url); ask.send() }),
  frame: url => new Promise(done => {
    const frame = document.createElement('iframe'); frame.src = url; document.body.append(frame)
    setTimeout(() => { try { done(frame.contentDocument.body.innerText) } catch (e) { done('closed') } }, 300) }),
  object: url => new Promise(done => {
    const held = document.createElement('object'); held.data = url; document.body.append(held)
    setTimeout(() => { try { done(held.contentDocument.body.innerText) } catch (e) { done('closed') } }, 300) }),
  module: url => import(url).then(() => 'ran'),
  style: url => new Promise((done, fail) => {
    const sheet = document.createElement('link'); sheet.rel = 'stylesheet'; sheet.href = url
    sheet.onload = () => done('loaded'); sheet.onerror = fail; document.head.append(sheet) }),
  image: url => new Promise((done, fail) => {
    const seen = new Image(); seen.onload = () => done(seen.width); seen.onerror = fail; seen.src = url }),
  worker: url => new Promise((done, fail) => {
    const code = `fetch(${JSON.stringify(url)}).then(a => a.text()).then(t => postMessage(t), () => postMessage('no'))`
    const worker = new Worker(URL.createObjectURL(new Blob([code])))
    worker.onmessage = event => done(event.data); worker.onerror = fail }),
  open: url => Promise.resolve(open(url) ? 'opened' : 'no'),
}
const late = () => new Promise(done => setTimeout(() => done('no answer'), 700))
const tried = []
for (const url of URLS) for (const [how, way] of Object.entries(ways))
  tried.push(Promise.race([Promise.resolve().then(() => way(url)), late()])
    .then(what => told(how, what), () => told(how, 'refused')))
Promise.all(tried).then(() => told('all', 'tried'))
"""


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    # Long enough for all attempts to come to an end.
    monkeypatch.setattr(rendering, "QUIET_S", 2.0)
    app = App()
    yield app
    app.close()


@asynccontextmanager
async def drawn(app: App, path: str = "/", *, meter: Counts | None = None, **changes: str) -> AsyncIterator[Rendered]:
    async with Client(settings(**changes), meter=meter) as client, Browser(client) as browser:
        answer = await client.get(app.url + path)
        yield await browser.render(app.url + path, answer, max_bytes=10**6, limit_s=20)


def reaching(urls: list[str]) -> str:
    return REACH.replace("URLS", repr(urls))


async def test_scripts_read_no_file_and_no_page_of_the_browser_itself(app: App, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text(SECRET)
    files = [(tmp_path / "secret.txt").as_uri(), f"view-source:{(tmp_path / 'secret.txt').as_uri()}"]
    app.script("/", reaching([*files, "file:///etc/hostname", "chrome://version", "filesystem:file:///"]))

    async with drawn(app) as page:
        pass

    assert "all: tried" in page.html
    assert SECRET not in page.html
    assert "module: ran" not in page.html
    assert app.asked() == ["/"]


# All of them in one page: a browser takes seconds to start, and one attempt does not stand in another's way.
HOSTS = ("127.0.0.2", "2130706434", "0x7f.2", "0177.0.0.2", "127.2", "[::ffff:127.0.0.2]")
PRIVATE = ["http://10.0.0.1/", "http://192.168.0.1/", "http://169.254.169.254/latest/", "http://[fe80::1]/"]


async def test_scripts_reach_no_spelling_of_this_machine(app: App) -> None:
    async with Trap("127.0.0.2") as trap:
        app.script("/", reaching([f"http://{host}:{trap.port}/" for host in HOSTS]))

        async with drawn(app, allow_addresses="127.0.0.1/32") as page:
            pass

        assert "all: tried" in page.html
        assert trap.calls == []


async def test_scripts_reach_no_private_network(app: App) -> None:
    app.script("/", reaching(PRIVATE))
    meter = Counts()

    async with drawn(app, meter=meter) as page:
        pass

    assert "all: tried" in page.html
    assert meter.requests == 1, "what is refused makes no connection and counts as no request"
    assert app.asked() == ["/"]


def listened_on(process: psutil.Process) -> list[Any]:
    with suppress(psutil.NoSuchProcess):
        return [one.laddr for one in process.net_connections() if one.status == "LISTEN"]
    return []


async def test_a_browser_listens_nowhere(app: App) -> None:
    app.script("/", "document.body.append('ready')")

    async with drawn(app) as page:
        children = psutil.Process().children(recursive=True)
        listening = [one for child in children for one in listened_on(child)]

    assert "ready" in page.html
    assert children
    assert listening == []


PLACES = ("file:///etc/hostname", "chrome://version", "javascript:alert(1)", "data:text/html,x")


async def test_a_page_that_leaves_for_a_file_leads_nowhere(database: ScratchDatabase, app: App) -> None:
    away = [f"/away{number}" for number in range(len(PLACES))]
    app.put("/", "Home", "Welcome. " * 50, links=away)
    for path, place in zip(away, PLACES, strict=True):
        app.script(path, f"location.replace('{place}'); document.body.innerHTML = '<div id=app></div>'")

    async with database.open() as r:
        await r.sources.add(f"{app.url}/", name="app", options={"render": "always"})
        run = await r.sync("app")

    assert run.status in ("completed", "partial")
    assert set(away) <= set(app.asked())
    assert [url for (url,) in database.query("select url from item") if not url.startswith(app.url)] == []
    assert set(app.asked()) <= {"/", *away, "/robots.txt", "/sitemap.xml", "/llms.txt"}


@pytest.mark.unwatched  # the driver of the browser takes its time for each request, in steps of its own
async def test_a_storm_of_pages_opened_and_requests_made_is_bounded(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    # A storm of twenty times the bound is one, whatever the bound is; half a minute of a whole machine is not needed.
    monkeypatch.setattr(rendering, "_MOST_REQUESTS", 6)
    app.script("/", "for (let i = 0; i < 60; i++) { fetch('/x' + i); open('/y' + i) } document.body.append('done')")

    with suppress(ItemError):
        async with asyncio.timeout(60), drawn(app):
            pass

    assert 1 < len(app.asked()) <= 7
