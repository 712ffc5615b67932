"""The rendering of one page: the client fetches the resources that it requests, and the result is read."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from ipaddress import ip_address
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from playwright.async_api import BrowserContext, CDPSession, Page, Request, Route, WebSocketRoute
from playwright.async_api import Error as BrowserError

from rowen.errors import BodyTooLargeError, CircuitOpenError, FetchError, ItemError
from rowen.net.client import Client
from rowen.net.credentials import Credentials
from rowen.net.response import Response
from rowen.net.target import parse, redact

__all__ = ["BrowserError", "PageRender", "RenderJob", "RenderSources", "ScriptCache"]

# Between an answer and the next request of a page lie its own scripts, not the network. Half of it may cut off pages
# on a slow machine; twice as much costs each page half a second more.
QUIET_S = 0.5
# The time of a page beside waiting for answers: timers, animations, pages that never become idle.
PATIENCE_S = 10.0
_TICK_S = 0.05  # a tenth of the quiet time
# Bounds the cost of a page that sends requests without end; at one request a second and host its time limit comes
# first.
_MOST_REQUESTS = 300
# All of a page may not cost more than the largest body (ROWEN_BODY_LIMIT_BYTES by default).
_MOST_BYTES = 64 << 20
# For the scripts and styles of a whole run; others are fetched again for each page.
_CACHE_BYTES = 64 << 20

# Pictures, fonts and films have no text; frames are pages of their own; streams never end.
_FETCHED = frozenset({"script", "stylesheet", "xhr", "fetch"})
_KEPT = frozenset({"script", "stylesheet"})
_POSTED = frozenset({"xhr", "fetch"})
# The client names itself, sends its own credentials, and keeps neither cookies nor a cache.
_UNSENT = ("cookie", "user-agent", "host", "connection", "content-length", "range", "sec-", "if-", "accept-encoding")
_UNTOLD = frozenset({"content-disposition", "content-encoding", "content-length", "set-cookie", "transfer-encoding"})

_NO_WAY_OUT = (
    "for (const name of ['RTCPeerConnection', 'webkitRTCPeerConnection', 'WebTransport']) delete globalThis[name]"
)
_IDLE = "new Promise(done => requestIdleCallback(done, {timeout: 1000}))"
# A copy in a document without a window runs no scripts. Open shadow trees are inserted where they are rendered.
_SERIALISE = """(url, most) => {
  const root = document.documentElement;
  if (!root) return "";
  const inert = document.implementation.createHTMLDocument("");
  const skipped = node => node.localName === "style" || node.localName === "template" ||
    (node.localName === "script" && node.type !== "application/ld+json");
  const seen = node => {
    if (node.localName !== "slot" || !(node.getRootNode() instanceof ShadowRoot)) return [node];
    const given = node.assignedNodes();
    return (given.length ? given : [...node.childNodes]).flatMap(seen);
  };
  const copy = node => {
    if (node.nodeType !== Node.ELEMENT_NODE) return inert.createTextNode(node.data);
    const twin = inert.importNode(node, false);
    for (const child of (node.shadowRoot ?? node).childNodes)
      for (const one of seen(child))
        if (one.nodeType === Node.TEXT_NODE || (one.nodeType === Node.ELEMENT_NODE && !skipped(one)))
          twin.append(copy(one));
    return twin;
  };
  const twin = copy(root);
  if (document.baseURI.split("#")[0] !== url && !twin.querySelector("base[href]")) {
    const base = inert.createElement("base");
    base.setAttribute("href", document.baseURI);
    twin.querySelector("head")?.prepend(base);
  }
  const html = twin.outerHTML;
  return html.length > most ? null : "<!doctype html>" + html;
}"""


class ScriptCache:
    """The scripts and styles of a run: most pages of a site share theirs, and each is fetched once."""

    def __init__(self) -> None:
        self._answers: dict[str, asyncio.Task[Response]] = {}
        self._free_bytes = _CACHE_BYTES

    async def get(self, url: str, fetch: Callable[[], Awaitable[Response]]) -> Response:
        """Return a cached resource, or fetch it; failures are not cached."""
        task = self._answers.get(url)
        if task is None:
            task = self._answers[url] = asyncio.create_task(self._put(url, fetch))
        return await asyncio.shield(task)

    async def _put(self, url: str, fetch: Callable[[], Awaitable[Response]]) -> Response:
        try:
            answer = await fetch()
        except BaseException:
            del self._answers[url]
            raise
        if answer.ok and len(answer.body) <= self._free_bytes:
            self._free_bytes -= len(answer.body)
        else:
            del self._answers[url]
        return answer

    async def clear(self) -> None:
        """Cancel fetches in progress."""
        tasks = list(self._answers.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._answers.clear()


class RenderSources(NamedTuple):
    """The sources of a page's resources; `may` decides whether a URL may be requested."""

    client: Client
    scripts: ScriptCache
    may: Callable[[str], Awaitable[bool]]


class RenderJob(NamedTuple):
    """The answer to render, under the requested URL (with its fragment)."""

    url: str
    answer: Response
    credentials: Credentials | None
    limit_s: float
    max_bytes: int


class PageRender:
    """One page being rendered.

    `left_for` is the address to which the page redirects; `trouble` is the error of a missing resource of its own site.
    """

    def __init__(self, job: RenderJob, sources: RenderSources) -> None:
        self.left_for: str | None = None
        self.trouble: FetchError | None = None
        self._job = job
        self._sources = sources
        self._origin = parse(job.url).origin
        self._site = _site(job.url)
        self._opened = False
        self._asked = 0
        self._left_bytes = _MOST_BYTES
        self._under_way: set[asyncio.Task[Response | None]] = set()
        self._over: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def run(self, context: BrowserContext) -> str:
        """Return the page as HTML once it is idle; empty if it redirects to another."""
        work = asyncio.create_task(self._render(context))
        try:
            either: set[asyncio.Future[Any]] = {work, self._over}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            return "" if self.left_for else (self._over if self._over.done() else work).result()
        finally:
            tasks = {work, *self._under_way}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._over.cancel()

    async def _render(self, context: BrowserContext) -> str:
        await context.route_web_socket("**/*", _hang_up)
        await context.route("**/*", _refuse)
        await context.add_init_script(_NO_WAY_OUT)
        page = await context.new_page()
        await page.route("**/*", self._route)
        page.on("crash", self._note_crash)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._job.limit_s):
                await page.goto(self._job.url, wait_until="domcontentloaded", timeout=0)
                world = await _World.of(page)
                await self._come_to_rest(world)
        if self.trouble is not None:
            raise self.trouble
        return await self._read(page)

    async def _come_to_rest(self, world: "_World") -> None:
        """Wait until the page requests nothing more, and has had time to process the answers."""
        last_asked, own_s, quiet_s = -1, 0.0, 0.0
        while own_s < PATIENCE_S:
            await asyncio.sleep(_TICK_S)
            own_s += 0 if self._under_way else _TICK_S
            quiet_s = 0 if self._under_way or last_asked != self._asked else quiet_s + _TICK_S
            last_asked = self._asked
            if quiet_s >= QUIET_S:
                await world.evaluate(_IDLE)
                if last_asked == self._asked:
                    return

    async def _read(self, page: Page) -> str:
        url, most = self._job.url.partition("#")[0], self._job.max_bytes
        world = await _World.of(page)
        html = await world.evaluate(f"({_SERIALISE})({json.dumps(url)}, {most})")
        if html is None or len(html) > most:
            raise BodyTooLargeError(
                f"{redact(url)} is larger than {most:,} bytes when rendered; it was not kept.",
                hint="The option max_bytes sets the largest page.",
            )
        return str(html)

    def _note_crash(self, _: Page) -> None:
        self._fail(ItemError(f"{redact(self._job.url)} could not be rendered: it exceeded the memory limit."))

    def _fail(self, error: BaseException) -> None:
        if not self._over.done():
            self._over.set_exception(error)

    async def _route(self, route: Route) -> None:
        """Answer a request of the browser in place of the network."""
        request = route.request
        answer = self._navigate(request) if request.is_navigation_request() else await self._supply(request)
        with suppress(BrowserError):
            if answer is None:
                await route.abort("aborted")
            else:
                await route.fulfill(status=answer.status, headers=_told(answer), body=answer.body)

    def _navigate(self, request: Request) -> Response | None:
        if request.frame.parent_frame is not None:
            return None
        if not self._opened:
            self._opened = True
            return self._job.answer
        if request.url.partition("#")[0] != self._job.url.partition("#")[0]:
            self._leave(request.url)
        return None

    def _leave(self, url: str) -> None:
        if not self._over.done():
            self.left_for = url
            self._over.set_result("")

    async def _supply(self, request: Request) -> Response | None:
        if not self._wanted(request) or self._asked >= _MOST_REQUESTS or self._left_bytes <= 0:
            return None
        self._asked += 1
        task = asyncio.create_task(self._fetch(request))
        self._under_way.add(task)
        try:
            await asyncio.wait({task})
            return self._judge(request, task)
        finally:
            self._under_way.discard(task)

    def _wanted(self, request: Request) -> bool:
        kind = request.resource_type
        if request.method == "POST":
            return kind in _POSTED and request.url.startswith(self._origin + "/")
        return request.method in ("GET", "HEAD") and kind in _FETCHED

    async def _fetch(self, request: Request) -> Response | None:
        client, scripts, may = self._sources
        if not await may(request.url):
            return None
        if request.resource_type in _KEPT:
            return await scripts.get(request.url, lambda: self._ask(client, request))
        return await self._ask(client, request)

    async def _ask(self, client: Client, request: Request) -> Response:
        return await client.request(
            request.method,
            request.url,
            headers=_sent(request.headers),
            body=request.post_data_buffer,
            credentials=self._job.credentials,
            max_bytes=self._job.max_bytes,
            limit_s=self._job.limit_s / 2,
            tries=1 if request.method == "POST" else None,
        )

    def _judge(self, request: Request, task: "asyncio.Task[Response | None]") -> Response | None:
        if task.cancelled():
            return None
        match task.exception():
            case None:
                return self._weigh(request, task.result())
            case FetchError() as error:
                if error.retryable or isinstance(error, CircuitOpenError):
                    self._mind(request.url, error)
            case BaseException() as error:
                self._fail(error)
        return None

    def _weigh(self, request: Request, answer: Response | None) -> Response | None:
        if answer is not None:
            self._left_bytes -= len(answer.body)
            if answer.status >= 500 or answer.status == 429:
                self._mind(request.url, FetchError(f"{redact(request.url)} answered with status {answer.status}."))
        return answer

    def _mind(self, url: str, error: FetchError) -> None:
        """Note that data of the site itself is missing. Counters and adverts of others may fail."""
        if self.trouble is None and _site(url) == self._site:
            self.trouble = error


class _World(NamedTuple):
    """An isolated JavaScript world for Rowen's scripts, which those of the page cannot reach."""

    session: CDPSession
    number: int

    @classmethod
    async def of(cls, page: Page) -> "_World":
        session = await page.context.new_cdp_session(page)
        tree = await session.send("Page.getFrameTree")
        frame = tree["frameTree"]["frame"]["id"]
        world = await session.send("Page.createIsolatedWorld", {"frameId": frame, "worldName": "rowen"})
        return cls(session, world["executionContextId"])

    async def evaluate(self, script: str) -> Any:
        parameters = {"expression": script, "contextId": self.number, "returnByValue": True, "awaitPromise": True}
        answer = await self.session.send("Runtime.evaluate", parameters)
        if problem := answer.get("exceptionDetails"):
            raise ItemError(f"The rendered page could not be read: {problem.get('text')}.")
        return answer["result"].get("value")


async def _hang_up(socket: WebSocketRoute) -> None:
    await socket.close()


async def _refuse(route: Route) -> None:
    with suppress(BrowserError):
        await route.abort()


def _sent(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if not name.lower().startswith(_UNSENT)}


def _told(answer: Response) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in answer.headers.items():
        lower = name.lower()
        if lower not in _UNTOLD:
            headers[lower] = f"{headers[lower]}, {value}" if lower in headers else value
    return headers


def _site(url: str) -> str:
    """Return the end of a host name that hosts of one site share."""
    name = urlsplit(url).hostname or ""
    with suppress(ValueError):
        return str(ip_address(name))
    return ".".join(name.split(".")[-2:])
