"""Render one page: the client fetches the resources that the page requests, and the resulting document is read."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import psutil  # type: ignore[import-untyped] # its stubs are another package
from playwright.async_api import (
    Browser,
    BrowserContext,
    CDPSession,
    Page,
    Request,
    Route,
    WebSocketRoute,
    async_playwright,
)
from playwright.async_api import Error as BrowserError

from rowen.errors import BodyTooLargeError, CircuitOpenError, FetchError, ItemError, SourceError
from rowen.net.client import Client
from rowen.net.render import Rendered, RenderJob
from rowen.net.response import Response
from rowen.net.target import parse, redact

# Between an answer and the next request, only scripts of the page run, no network. Half of it may cut off pages
# on a slow machine; twice as much costs each page half a second more.
QUIET_S = 0.5
# The time limit of a page, without its waits for answers: for timers, animations, pages that never become idle.
PATIENCE_S = 10.0
# For serialising a page after its time limit: this needs no network, and `max_bytes` limits the size of the page.
READ_LIMIT_S = 5.0
# For closing a page, which needs no network either: a browser that takes longer is closed as a whole.
_CLOSE_LIMIT_S = 10.0
# Generous, since a cold start on a loaded machine is no error. A start that hangs costs a run this time, once.
_START_LIMIT_S = 60.0
# Four checks a second: in between, a page can exceed its limit only for a moment.
_WATCH_S = 0.25
_FLAGS = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--dns-prefetch-disable",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--js-flags=--max-old-space-size=512",
    "--no-first-run",
    "--no-pings",
    "--proxy-bypass-list=<-loopback>",
    "--proxy-server=http://nowhere.invalid:1",
    # Telephony sends datagrams past the proxy; the flag's name differs between releases.
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
)
_TICK_S = 0.05  # a tenth of the quiet time
# Bounds the cost of a page that sends requests without end; at one request a second and host its time limit comes
# first.
_MOST_REQUESTS = 300
# All resources of a page together may not be larger than the default of ROWEN_BODY_LIMIT_BYTES.
_MOST_BYTES = 64 << 20
# For the scripts and styles of a whole run; others are fetched again for each page.
_CACHE_BYTES = 64 << 20

# Pictures, fonts and films have no text; frames are pages of their own; streams never end.
_FETCHED = frozenset({"script", "stylesheet", "xhr", "fetch"})
_CACHED = frozenset({"script", "stylesheet"})
_POSTED = frozenset({"xhr", "fetch"})
# The client names itself, sends its own credentials, and keeps neither cookies nor a cache.
_UNSENT = ("cookie", "user-agent", "host", "connection", "content-length", "range", "sec-", "if-", "accept-encoding")
_DROPPED = frozenset({"content-disposition", "content-encoding", "content-length", "set-cookie", "transfer-encoding"})

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
    """The cached scripts and styles of a run: most pages of a site share them, so that each is fetched once."""

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
    """The client and cache that supply a page's resources; `may` decides whether a URL may be requested."""

    client: Client
    scripts: ScriptCache
    may: Callable[[str], Awaitable[bool]]


class Chromium:
    """A running browser that limits the memory of its pages."""

    def __init__(self, client: Client, may: Callable[[str], Awaitable[bool]], memory_bytes: int) -> None:
        self._sources = RenderSources(client, ScriptCache(), may)
        self._memory_bytes = memory_bytes
        self._browser: Browser | None = None
        self._open = AsyncExitStack()

    @property
    def is_connected(self) -> bool:
        """Whether the browser can open pages."""
        return self._browser is not None and self._browser.is_connected()

    async def start(self, path: Path) -> None:
        """Start the browser; raise `SourceError` if that fails."""
        try:
            async with asyncio.timeout(_START_LIMIT_S):
                playwright = await async_playwright().start()
                self._open.push_async_callback(_within_limit, playwright.stop)
                browser = await playwright.chromium.launch(
                    executable_path=path,
                    args=_FLAGS,
                    chromium_sandbox=os.geteuid() != 0,
                    # Chromium needs no variable of this process, least of all its secrets.
                    env={"PATH": os.defpath, "LANG": "C.UTF-8"},
                    handle_sigint=False,
                    handle_sigterm=False,
                    handle_sighup=False,
                )
                self._open.push_async_callback(_within_limit, browser.close)
                self._open.push_async_callback(self._sources.scripts.clear)
                watch = asyncio.create_task(self._watch(browser))
                self._open.push_async_callback(_ended, watch)
                self._browser = browser
        except (BrowserError, TimeoutError, OSError) as problem:
            await self.close()
            raise SourceError(f"{path} could not be started: {_first_line(problem)}") from None

    async def close(self) -> None:
        """Close the browser."""
        await self._open.aclose()

    async def render(self, job: RenderJob) -> Rendered:
        """Return a rendered page; raise `ItemError` if it cannot be rendered."""
        assert self._browser is not None  # noqa: S101 (it was started)
        browser, page = self._browser, PageRender(job, self._sources)
        try:
            try:
                async with asyncio.timeout(_START_LIMIT_S):
                    context = await browser.new_context(
                        accept_downloads=False, service_workers="block", locale="en-US", timezone_id="UTC"
                    )
            except BaseException:
                # The next page starts another browser.
                self._browser = None
                raise
            try:
                async with asyncio.timeout(job.limit_s + READ_LIMIT_S):
                    html = await page.run(context)
            finally:
                # A browser that cannot close a page is closed as a whole, and started again when needed.
                if not await _within_limit(context.close):
                    await _within_limit(browser.close)
        except TimeoutError:
            raise ItemError(
                f"{redact(job.url)} could not be rendered: its scripts did not finish in {job.limit_s:g} s."
            ) from None
        except BrowserError as problem:
            raise ItemError(f"{redact(job.url)} could not be rendered: {_first_line(problem)}") from None
        return Rendered(page.left_for or job.url, html)

    async def _watch(self, browser: Browser) -> None:
        """Kill the process of a page that uses too much memory; its rendering fails, other pages continue."""
        with suppress(BrowserError):
            session = await browser.new_browser_cdp_session()
            while True:
                answer = await session.send("SystemInfo.getProcessInfo")
                for process in answer["processInfo"]:
                    if process["type"] == "renderer":
                        with suppress(psutil.Error):
                            renderer = psutil.Process(int(process["id"]))
                            if renderer.memory_info().rss > self._memory_bytes:
                                renderer.kill()
                await asyncio.sleep(_WATCH_S)


async def _within_limit(close: Callable[[], Awaitable[None]]) -> bool:
    try:
        async with asyncio.timeout(_CLOSE_LIMIT_S):
            await close()
    except TimeoutError:
        return False
    except BrowserError:
        return True
    return True


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _first_line(problem: Exception) -> str:
    """Return the reason of an error: the first line of the log that Playwright puts into its message."""
    text = str(problem).strip() or type(problem).__name__
    return text.splitlines()[0]


class PageRender:
    """One page being rendered.

    `left_for` is the URL to which the page redirects; `trouble` is the error of a missing resource of its own site.
    """

    def __init__(self, job: RenderJob, sources: RenderSources) -> None:
        self.left_for: str | None = None
        self.trouble: FetchError | None = None
        self._job = job
        self._sources = sources
        self._origin = parse(job.url).origin
        self._site = _site(job.url)
        self._opened = False
        self._requested = 0
        self._left_bytes = _MOST_BYTES
        self._under_way: set[asyncio.Task[Response | None]] = set()
        self._over: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def run(self, context: BrowserContext) -> str:
        """Return the page as HTML once it is idle; empty if it redirects to another page."""
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
        crash = ItemError(f"{redact(self._job.url)} could not be rendered: it exceeded the memory limit.")
        page.on("crash", lambda _: self._fail(crash))
        with suppress(TimeoutError):
            async with asyncio.timeout(self._job.limit_s):
                await page.goto(self._job.url, wait_until="domcontentloaded", timeout=0)
                await self._settle(await _World.of(page))
        if self.trouble is not None:
            raise self.trouble
        url, most = self._job.url.partition("#")[0], self._job.max_bytes
        world = await _World.of(page)
        html = await world.evaluate(f"({_SERIALISE})({json.dumps(url)}, {most})")
        if html is None or len(html) > most:
            raise BodyTooLargeError(
                f"{redact(url)} is larger than {most:,} bytes when rendered; it was not kept.",
                hint="The option max_bytes sets the largest page.",
            )
        return str(html)

    async def _settle(self, world: "_World") -> None:
        """Wait until the page sends no more requests and has had time to process the answers."""
        last, own_s, quiet_s = -1, 0.0, 0.0
        while own_s < PATIENCE_S:
            await asyncio.sleep(_TICK_S)
            own_s += 0 if self._under_way else _TICK_S
            quiet_s = 0 if self._under_way or last != self._requested else quiet_s + _TICK_S
            last = self._requested
            if quiet_s >= QUIET_S:
                await world.evaluate(_IDLE)
                if last == self._requested:
                    return

    def _fail(self, error: BaseException) -> None:
        if not self._over.done():
            self._over.set_exception(error)

    async def _route(self, route: Route) -> None:
        """Answer a request of the browser instead of the network."""
        request, answer = route.request, None
        if not request.is_navigation_request():
            answer = await self._supply(request)
        elif request.frame.parent_frame is None and not self._opened:
            self._opened, answer = True, self._job.answer
        elif request.frame.parent_frame is None:
            is_other = request.url.partition("#")[0] != self._job.url.partition("#")[0]
            if is_other and not self._over.done():
                self.left_for = request.url
                self._over.set_result("")
        with suppress(BrowserError):
            if answer is None:
                await route.abort("aborted")
            else:
                headers: dict[str, str] = {}
                for name, value in answer.headers.items():
                    lower = name.lower()
                    if lower not in _DROPPED:
                        headers[lower] = f"{headers[lower]}, {value}" if lower in headers else value
                await route.fulfill(status=answer.status, headers=headers, body=answer.body)

    async def _supply(self, request: Request) -> Response | None:
        kind = request.resource_type
        if request.method == "POST":
            is_wanted = kind in _POSTED and request.url.startswith(self._origin + "/")
        else:
            is_wanted = request.method in ("GET", "HEAD") and kind in _FETCHED
        if not is_wanted or self._requested >= _MOST_REQUESTS or self._left_bytes <= 0:
            return None
        self._requested += 1
        task = asyncio.create_task(self._fetch(request))
        self._under_way.add(task)
        try:
            await asyncio.wait({task})
        finally:
            self._under_way.discard(task)
        if task.cancelled():
            return None
        match task.exception():
            case None:
                answer = task.result()
                if answer is not None:
                    self._left_bytes -= len(answer.body)
                    if answer.status >= 500 or answer.status == 429:
                        self._miss(FetchError(f"{redact(request.url)} answered with status {answer.status}."), request)
                return answer
            case FetchError() as error:
                if error.retryable or isinstance(error, CircuitOpenError):
                    self._miss(error, request)
            case BaseException() as error:
                self._fail(error)
        return None

    async def _fetch(self, request: Request) -> Response | None:
        client, scripts, may = self._sources
        headers = {name: value for name, value in request.headers.items() if not name.lower().startswith(_UNSENT)}

        async def ask() -> Response:
            return await client.request(
                request.method,
                request.url,
                headers=headers,
                body=request.post_data_buffer,
                credentials=self._job.credentials,
                max_bytes=self._job.max_bytes,
                limit_s=self._job.limit_s / 2,
                tries=1 if request.method == "POST" else None,
            )

        if not await may(request.url):
            return None
        return await scripts.get(request.url, ask) if request.resource_type in _CACHED else await ask()

    def _miss(self, error: FetchError, request: Request) -> None:
        """Record a missing resource of the site itself; counters and advertisements of other sites may fail."""
        if self.trouble is None and _site(request.url) == self._site:
            self.trouble = error


class _World(NamedTuple):
    """An isolated JavaScript world for Rowen's scripts, which scripts of the page cannot reach."""

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


def _site(url: str) -> str:
    """Return the end of a host name that all hosts of one site share."""
    name = urlsplit(url).hostname or ""
    with suppress(ValueError):
        return str(ip_address(name))
    return ".".join(name.split(".")[-2:])
