"""A small world as somebody has it after some weeks, served by the real pages on loopback."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import quote

import aiohttp
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from rowen import Rowen
from rowen.interfaces import web
from rowen.interfaces.web.routing import PAGES
from rowen.model.access import Principal, Scope
from rowen.server.app import serve
from tests.portals.ckan import CkanPortal
from tests.portals.ldes import LdesSite, Leaf
from tests.portals.site import Page, Site, html

# A server starts and ends in a second; on a loaded machine in ten.
START_S = 60.0
LONG = "An exhaustive inventory of hedgerows, ditches, field gates and drystone walls " * 4
HOSTILE = "<script>document.title='taken'</script><img src=x onerror=alert(1)>\"'>{{7*7}}"
HOVERED = "<b onmouseover=alert(2)>bold"
ARABIC = "خريطة المراعي والحقول في الوادي الشمالي"
CHINESE = "山谷北部牧场与田野的年度调查报告"
NOTES = (
    "See [this](javascript:alert(1)), [that](data:text/html,x) and <svg onload=alert(1)>.\n\n"
    "![a picture](https://elsewhere.example/p.png)\n\n| crop | tons |\n|---|---|\n| hay | 12 |\n"
)


class _Asker:
    """Says who asks, as the server will."""

    def __init__(self, app: ASGIApp, scope: Scope) -> None:
        self.app, self.allowed = app, scope

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})["principal"] = Principal("somebody", self.allowed)
        await self.app(scope, receive, send)


@dataclass
class Answer:
    """What came back."""

    status: int
    text: str
    headers: Mapping[str, str]

    def json(self) -> Any:
        return json.loads(self.text)


@dataclass
class Interface:
    """The pages of one Rowen, reached over HTTP."""

    url: str
    session: aiohttp.ClientSession
    closing: asyncio.Event

    async def get(self, path: str, **headers: str) -> Answer:
        async with self.session.get(self.url + path, headers=headers, allow_redirects=False) as answer:
            return Answer(answer.status, await answer.text(), answer.headers.copy())

    async def post(self, path: str, **fields: Any) -> Answer:
        async with self.session.post(self.url + path, data=fields, allow_redirects=False) as answer:
            return Answer(answer.status, await answer.text(), answer.headers.copy())


@asynccontextmanager
async def served(rowen: Rowen, scope: Scope = Scope.ADMIN, *, root: str = "") -> AsyncIterator[Interface]:
    """The pages, until the end."""
    app = Starlette(routes=web.routes(rowen), middleware=[Middleware(_Asker, scope=scope)])
    app.state.closing = asyncio.Event()
    config = uvicorn.Config(app, "127.0.0.1", 0, log_level="error", lifespan="off", root_path=root)
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    socket = config.bind_socket()
    serving = asyncio.create_task(server._serve([socket]))
    try:
        while not server.started:
            await asyncio.sleep(0.005)
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
            yield Interface(f"http://127.0.0.1:{socket.getsockname()[1]}", session, app.state.closing)
    finally:
        app.state.closing.set()
        server.should_exit = True
        await serving


@asynccontextmanager
async def serving(rowen: Rowen) -> AsyncIterator[str]:
    """The whole server with its worker, as `rowen serve` starts it; gives its address."""
    begun: asyncio.Future[tuple[str, Callable[[], None]]] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(serve(rowen, started=lambda *told: begun.set_result(told)))
    address, stop = await asyncio.wait_for(begun, START_S)
    try:
        yield address
    finally:
        stop()
        await asyncio.wait_for(task, START_S)


@contextmanager
def sites() -> Iterator[dict[str, Any]]:
    """A portal, a documentation, a shop and an event stream, as they are on the first day."""
    there: dict[str, Any] = {"valley": CkanPortal(), "docs": Site(), "shop": Site(), "notices": LdesSite()}
    try:
        _fill(there)
        yield there
    finally:
        for one in there.values():
            one.close()


def _fill(there: dict[str, Any]) -> None:
    valley: CkanPortal = there["valley"]
    for number, title in enumerate((LONG, "Wells", ARABIC, CHINESE, "Footpaths of Quince End", "Milk prices")):
        told = NOTES if number == 1 else f"About {title[:40]}. Measured yearly."
        valley.make(f"special-{number}", title, notes=told, maintainer_email="ada@farm.example")
    for number in range(40):
        valley.make(
            f"set-{number:02}", f"Soil samples of field {number}", notes=f"Clay, silt and sand at point {number}."
        )
    docs: Site = there["docs"]
    pages = tuple(f"/p{number}" for number in range(24))
    docs.put("/", "Handbook of the valley", "All chapters.", links=pages)
    for number, path in enumerate(pages):
        docs.put(
            path, f"Chapter {number}: the hay harvest", f"Mow when the dew is gone. Field {number} is first.", links=()
        )
    docs.put("/p4", escape(f"{HOVERED} claims"), "This page makes claims.", links=())
    docs.put("/p3", escape(HOSTILE), "Nothing here is what it seems.", escape(NOTES), links=())
    for number, price in enumerate((4.5, 12.0, 7.25), start=1):
        sell(there["shop"], number, price)
    there["shop"].put("/", "Farm shop", "What we sell.", links=("/1", "/2", "/3"))
    ldes: LdesSite = there["notices"]
    ldes.leaves = {
        "/root": Leaf([ldes.event("a", "Council meets"), ldes.event("b", "Road closed")], [("/next", None, 0)]),
        "/next": Leaf([ldes.event("c", "Market moved")]),
    }


def sell(shop: Site, number: int, price: float) -> None:
    """A page of the shop, with its facts in its markup."""
    name = ("Six eggs", "Honey, dark", "Goat cheese")[number - 1]
    told = {"@context": "https://schema.org", "@type": "Product", "name": name, "sku": f"S{number}"}
    told["offers"] = {"@type": "Offer", "price": price, "priceCurrency": "EUR"}
    head = f'<script type="application/ld+json">{json.dumps(told)}</script>'
    body = html(name, f"{name} from Rowen Hill at {price} euros.", "Fresh every morning.", head=head)
    shop.pages[f"/{number}"] = Page(body)


async def live(rowen: Rowen, there: dict[str, Any]) -> None:
    """Some weeks in a second: first syncs, changes, troubles, held deletions, facts that changed."""
    plain = {"sitemap": False, "llms": False}
    await rowen.sources.add(there["valley"].address, name="valley", every="auto")
    await rowen.sources.add(there["docs"].url + "/", name="docs", options=plain, every="6h")
    await rowen.sources.add(there["shop"].url + "/", name="shop", options=plain, every="1d")
    await rowen.sources.add(there["notices"].address, name="notices", every="auto")
    await rowen.sources.add("http://127.0.0.1:9/", name="gone-quiet", kind="web", options=plain, every="1h")
    await rowen.extraction.attach("shop", "product", conditions=["price<4"], only_urls=["*/1", "*/2", "*/3"])
    await rowen.access.add_token("dashboard")
    await rowen.access.add_token("ada@farm", scope="admin", days=None)
    for name in ("valley", "docs", "shop", "notices", "gone-quiet"):
        await rowen.sync(name)
    await rowen.searches.save("stiles", "stiles mended", sources=["valley"])
    await rowen.searches.save(HOVERED, "hay")
    await _go_on(rowen, there)


async def _go_on(rowen: Rowen, there: dict[str, Any]) -> None:
    valley, docs, shop = there["valley"], there["docs"], there["shop"]
    for price in (4.75, 4.25, 3.9):
        sell(shop, 1, price)
        await rowen.sync("shop")
    valley.make(
        "special-4",
        "Footpaths of Quince End",
        notes="About the footpaths. Two stiles were mended. Measured yearly.",
        maintainer_email="ada@farm.example",
    )
    valley.make("new", "Beehives by parish")
    await rowen.sync("valley")
    docs.put("/p1", "Chapter 1: the hay harvest", "Mow when the dew is quite gone. Field 1 is second.", links=())
    docs.put("/p2", "Chapter 2", "Broken.", status=500)
    docs.put("/p0", "Chapter 0", "Broken.", status=500)
    docs.put("/", "Handbook of the valley", "All chapters.", links=("/p0", "/p1", "/p2", "/p3", "/p4"))
    await rowen.sync("docs")
    await rowen.sync("valley")


async def addresses(rowen: Rowen) -> dict[str, list[str]]:
    """For each page, addresses that show it; those of hostile, long, foreign and changed items among them."""
    items = [item for name in ("docs", "valley", "shop") for item in await rowen.items.browse(name, limit=100)]
    special = [item.url for item in items if item.title.startswith(("<script", "Footpaths", "An exhaustive", "Six"))]
    tabs = ("text", "diff", "record", "fields", "passages", "similar")
    return {
        **{path: [path] for path in PAGES if "{" not in path},
        "/item": [f"/item?url={quote(url)}&tab={tab}" for url in special for tab in tabs],
        "/search": [
            "/search",
            "/search?q=hay",
            "/search?q=soil&source=valley&kind=ckan",
            "/search?q=zzz",
            "/search?q=%2A",
        ],
        "/changes": [
            "/changes",
            "/changes?kind=extracted&kind=matched",
            "/changes?query=stiles",
            "/changes?field=price",
        ],
        "/changes/{number:int}": ["/changes/1"],
        "/jobs": ["/jobs", "/jobs?state=failed"],
        "/sources": ["/sources", "/sources?q=vall", "/sources?q=zzz"],
        "/sources/{name}": [f"/sources/docs?tab={tab}" for tab in ("items", "changes", "runs", "settings")]
        + ["/sources/notices", "/sources/gone-quiet"],
        "/runs/{number:int}": ["/runs/1", "/runs/5", "/runs/10"],
        "/saved/{number:int}": ["/saved/2", "/saved/1"],
        "/costs": ["/costs", "/costs?days=7"],
    }
