"""The walks over what a package has on the web: its documentation, and a changelog that is a page."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from rowen.connectors.base import FailedBefore, Held, Known, Tools
from rowen.connectors.packages.links import moving, versioned
from rowen.connectors.packages.memory import DocsCursor
from rowen.connectors.web import Web
from rowen.connectors.web.options import WebOptions
from rowen.errors import FetchError, SourceError
from rowen.model.items import Checkpoint, Complete, Cursor, Failed, Incomplete, Observation
from rowen.model.runs import Mode
from rowen.net.client import Client
from rowen.net.robots import Robots

__all__ = ["DocsSite", "settle"]


class _KnownOfSite:
    """What we hold, with the cursor of one site."""

    def __init__(self, known: Known, cursor: Cursor) -> None:
        self.mode: Mode = known.mode
        self.cursor: Cursor = cursor
        self.count: int = known.count
        self.failed: Sequence[FailedBefore] = known.failed
        self.losable: int = known.losable
        self._known = known

    async def look_up(self, urls: Sequence[str]) -> Mapping[str, Held]:
        return await self._known.look_up(urls)

    async def everything(self) -> AsyncIterator[Sequence[Held]]:
        async for batch in self._known.everything():
            yield [held for held in batch if held.url.startswith("http")]

    async def recall(self, room: str, names: Sequence[str]) -> Mapping[str, Any]:
        """The notes of these names."""
        return await self._known.recall(room, names)

    def recall_all(self, room: str) -> AsyncIterator[Mapping[str, Any]]:
        """All notes of a room, in batches."""
        return self._known.recall_all(room)


@dataclass(slots=True)
class DocsSite:
    """One site of a package. `memory` is what the last walk left; `had_pages` whether it found any.

    `named` is the address that the user gave for it; its origin alone sees the headers.

    After a walk, `beyond` counts the pages beyond the limit, and `trouble` tells why what we hold of it must stay. A
    site that never was there is an item that failed, and holds up nothing: dead links are common.
    """

    root: str
    options: WebOptions
    memory: DocsCursor | None
    had_pages: bool
    hint: str
    named: str | None = None
    trouble: str | None = None
    beyond: int = 0

    async def walk(self, known: Known, tools: Tools) -> AsyncGenerator[Observation]:
        """Look at its pages."""
        before = self.memory
        site = Web(self.root, self.options, tools, named=self.named)
        try:
            async with aclosing(site.pull(_KnownOfSite(known, before and before["cursor"]))) as observations:
                async for observation in observations:
                    match observation:
                        case Checkpoint(cursor):
                            self.memory = {"reached": True, "cursor": cursor}
                        case Incomplete(why):
                            self.trouble = why
                        case Complete(beyond=beyond):
                            self.beyond = beyond
                        case _:
                            yield observation
        except SourceError as problem:
            self.memory = before or {"reached": self.had_pages, "cursor": None}
            if self.had_pages:
                self.trouble = str(problem)
            yield Failed(self.root, str(problem), self.hint)


async def settle(client: Client, url: str, version: str, *, robots: bool) -> str | None:
    """Where the documentation of just this version is, or else the URL itself; None if the site did not answer."""
    rules = Robots(client) if robots else None
    try:
        start = url if moving(url) else await _arrival(client, url, rules)
        for candidate in versioned(start or url, version):
            if await _arrival(client, candidate, rules) == candidate:
                return candidate
    except FetchError:
        return None
    return url


async def _arrival(client: Client, url: str, robots: Robots | None) -> str | None:
    """Where a URL leads in the end, if there is something."""
    if robots is not None and not (await robots.rules(url)).allows(url):
        return None
    response = await client.get(url)
    if response.status >= 500:
        raise FetchError(f"{url} answered with status {response.status}.")
    return response.url if response.ok else None
