"""A browser without network access of its own, for pages that need their scripts to show content.

All its requests go through the client, so that pace, limits and the address guard apply, and the meter counts them. Its
own connections are closed: it resolves no name, and its proxy has a name that does not exist.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

import psutil  # type: ignore[import-untyped] # its stubs are another package

from rowen.errors import ItemError, SourceError, UsageError
from rowen.net.client import Client
from rowen.net.credentials import Credentials
from rowen.net.response import Response
from rowen.net.target import redact
from rowen.programs import find
from rowen.version import how_to_install

if TYPE_CHECKING:
    from playwright.async_api import Browser as Chromium
    from playwright.async_api import BrowserContext

    from rowen.net.rendering import RenderJob, RenderSources

__all__ = ["Browser", "Rendered", "find_chromium"]

# The client may spend half of it on one answer, so that a single slow one does not cost the page.
LIMIT_S = 60.0
# As many as a host has requests at a time (ROWEN_HOST_CONCURRENCY); each page is a process that may take MEMORY_BYTES.
SIDE_BY_SIDE = 3
# Twice the limit of its scripts (--max-old-space-size below): the rest is for the document itself.
MEMORY_BYTES = 1 << 30
# For serialising a page whose time is up: no network is involved, only its size, which `max_bytes` bounds.
READ_LIMIT_S = 5.0
# Closing waits for no network either: a browser that cannot close a page in this time is closed as a whole.
_CLOSE_LIMIT_S = 10.0
# Generous, since a cold start on a loaded machine is no fault. One that hangs costs a run this much, once.
_START_LIMIT_S = 60.0
# Four checks a second: in between, a page can exceed its limit only for a moment.
_WATCH_S = 0.25
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
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


class Rendered(NamedTuple):
    """A rendered page. If `url` differs from the requested one, the page redirects there, and is empty."""

    url: str
    html: str


async def _allow(_: str) -> bool:
    return True


def find_chromium(named: Path | None = None) -> Path:
    """Return the browser that is named, or else the first Chromium on the PATH."""
    path = find(named) if named else next(filter(None, map(find, _NAMES)), None)
    if path is not None:
        return Path(path)
    what = f"{named}, named by ROWEN_BROWSER, is no program" if named else "no Chromium was found"
    raise UsageError(
        f"Pages cannot be rendered: {what}.",
        hint="Install it (Debian: apt install chromium), name one in ROWEN_BROWSER, or set the option render=never.",
    )


class Browser:
    """One Chromium for one run, as an async context manager; it starts with the first page.

    `may` decides about each request of a page except the one for the page itself.
    """

    def __init__(
        self,
        client: Client,
        *,
        may: Callable[[str], Awaitable[bool]] = _allow,
        memory_bytes: int = MEMORY_BYTES,
    ) -> None:
        self._client = client
        self._may = may
        self._memory_bytes = memory_bytes
        self._turns = asyncio.Semaphore(SIDE_BY_SIDE)
        self._starting = asyncio.Lock()
        self._chromium: Chromium | None = None
        self._sources: RenderSources | None = None
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._open.aclose()

    async def render(
        self,
        url: str,
        answer: Response,
        *,
        max_bytes: int,
        credentials: Credentials | None = None,
        limit_s: float = LIMIT_S,
    ) -> Rendered:
        """Return the page that the scripts of an answer produce.

        Raises `ItemError` if it cannot be rendered, and a `FetchError` if it becomes too large or a resource of its own
        site is missing: without its data a page has other content.
        """
        await self.start()
        from rowen.net.rendering import RenderJob

        async with self._turns:
            return await self._render(RenderJob(url, answer, credentials, limit_s, max_bytes))

    async def start(self) -> None:
        """Start Chromium, unless it is running; raises a `UsageError` if it is not installed."""
        async with self._starting:
            if self._chromium is not None and self._chromium.is_connected():
                return
            await self._open.aclose()
            try:
                from rowen.net.rendering import BrowserError
            except ImportError:
                raise UsageError(
                    "Pages cannot be rendered: Playwright is not installed.",
                    hint=f"Install it (`{how_to_install('render')}`), or set the option render=never.",
                ) from None
            path = find_chromium(self._client.settings.browser)
            try:
                async with asyncio.timeout(_START_LIMIT_S):
                    self._chromium = await self._launch(path)
            except (BrowserError, TimeoutError, OSError) as problem:
                await self._open.aclose()
                raise SourceError(f"{path} could not be started: {_first_line(problem)}") from None

    async def _launch(self, path: Path) -> "Chromium":
        from playwright.async_api import async_playwright

        from rowen.net.rendering import RenderSources, ScriptCache

        self._sources = RenderSources(self._client, ScriptCache(), self._may)
        playwright = await async_playwright().start()
        self._open.push_async_callback(_within_limit, playwright.stop)
        is_root = os.geteuid() == 0
        chromium = await playwright.chromium.launch(
            executable_path=path,
            args=_FLAGS,
            chromium_sandbox=not is_root,
            # Chromium needs no variable of this process, least of all its secrets.
            env={"PATH": os.defpath, "LANG": "C.UTF-8"},
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
        )
        self._open.push_async_callback(_within_limit, chromium.close)
        self._open.push_async_callback(self._sources.scripts.clear)
        watch = asyncio.create_task(self._watch(chromium))
        self._open.push_async_callback(_ended, watch)
        return chromium

    async def _render(self, job: "RenderJob") -> Rendered:
        from rowen.net.rendering import BrowserError, PageRender

        assert self._chromium is not None and self._sources is not None  # noqa: S101, PT018 (it was started)
        chromium = self._chromium
        page = PageRender(job, self._sources)
        try:
            context = await self._new_context(chromium)
            try:
                async with asyncio.timeout(job.limit_s + READ_LIMIT_S):
                    html = await page.run(context)
            finally:
                await _close(context.close, chromium.close)
        except TimeoutError:
            raise ItemError(
                f"{redact(job.url)} could not be rendered: its scripts did not finish in {job.limit_s:g} s."
            ) from None
        except BrowserError as problem:
            raise ItemError(f"{redact(job.url)} could not be rendered: {_first_line(problem)}") from None
        return Rendered(page.left_for or job.url, html)

    async def _new_context(self, chromium: "Chromium") -> "BrowserContext":
        """Open a fresh context. If that fails, the browser is closed, and the next page starts another one."""
        try:
            async with asyncio.timeout(_START_LIMIT_S):
                return await chromium.new_context(
                    accept_downloads=False, service_workers="block", locale="en-US", timezone_id="UTC"
                )
        except BaseException:
            self._chromium = None
            raise

    async def _watch(self, chromium: "Chromium") -> None:
        """Kill the process of a page that takes too much memory; its render fails, the others continue."""
        from rowen.net.rendering import BrowserError

        with suppress(BrowserError):
            session = await chromium.new_browser_cdp_session()
            while True:
                answer = await session.send("SystemInfo.getProcessInfo")
                for process in answer["processInfo"]:
                    if process["type"] == "renderer":
                        _end_if_larger(int(process["id"]), self._memory_bytes)
                await asyncio.sleep(_WATCH_S)


def _end_if_larger(pid: int, most_bytes: int) -> None:
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        if process.memory_info().rss > most_bytes:
            process.kill()


async def _close(close: Callable[[], Awaitable[None]], close_all: Callable[[], Awaitable[None]]) -> None:
    """Close one page. A browser that cannot do that is closed as a whole, and started again when needed."""
    if not await _within_limit(close):
        await _within_limit(close_all)


async def _within_limit(close: Callable[[], Awaitable[None]]) -> bool:
    from rowen.net.rendering import BrowserError

    try:
        async with asyncio.timeout(_CLOSE_LIMIT_S):
            await close()
    except TimeoutError:
        return False
    except BrowserError:
        return True
    return True


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _first_line(problem: Exception) -> str:
    """Return the reason of an error: the first line of the log that Playwright puts into it."""
    text = str(problem).strip() or type(problem).__name__
    return text.splitlines()[0]
