"""A browser without its own network access, for pages that need their scripts to show content.

All its requests go through the client, so that rate limits, size limits and the address guard apply, and the meter
counts them. The browser itself cannot connect: it resolves no name, and its proxy has a name that does not exist.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from rowen.errors import UsageError
from rowen.net.client import Client
from rowen.net.credentials import Credentials
from rowen.net.response import Response
from rowen.programs import find
from rowen.version import how_to_install

if TYPE_CHECKING:
    from rowen.net.rendering import Chromium

# The client may spend half of it on one answer, so that a single slow resource does not make the page fail.
LIMIT_S = 60.0
# As many as a host has requests at a time (ROWEN_HOST_CONCURRENCY); each page is a process that may take MEMORY_BYTES.
SIDE_BY_SIDE = 3
# Twice the limit of its scripts (--max-old-space-size below): the rest is for the document itself.
MEMORY_BYTES = 1 << 30
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class Rendered(NamedTuple):
    """A rendered page. If `url` differs from the requested URL, the page redirects there, and `html` is empty."""

    url: str
    html: str


class RenderJob(NamedTuple):
    """The answer to render, under the requested URL (with its fragment)."""

    url: str
    answer: Response
    credentials: Credentials | None
    limit_s: float
    max_bytes: int


async def _allow(_: str) -> bool:
    return True


def find_chromium(named: Path | None = None) -> Path:
    """Return the browser `named`, or the first Chromium on the PATH."""
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

    `may` decides about each request of a page, except the request for the page itself.
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

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._chromium is not None:
            await self._chromium.close()

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

        Raises `ItemError` if it cannot be rendered, and a `FetchError` if it becomes too large or a resource of its
        own site is missing, since without its data a page has other content.
        """
        async with self._turns:
            await self.start()
            assert self._chromium is not None  # noqa: S101 (it was started)
            return await self._chromium.render(RenderJob(url, answer, credentials, limit_s, max_bytes))

    async def start(self) -> None:
        """Start Chromium, unless it is running; raise a `UsageError` if it is not installed."""
        async with self._starting:
            if self._chromium is not None:
                if self._chromium.is_connected:
                    return
                await self._chromium.close()
            try:
                from rowen.net.rendering import Chromium
            except ImportError:
                raise UsageError(
                    "Pages cannot be rendered: Playwright is not installed.",
                    hint=f"Install it (`{how_to_install('render')}`), or set the option render=never.",
                ) from None
            self._chromium = Chromium(self._client, self._may, self._memory_bytes)
            await self._chromium.start(find_chromium(self._client.settings.browser))
