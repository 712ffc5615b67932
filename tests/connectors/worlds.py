"""A keeper of what a connector saw: the flow's part in small, over a dict."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from rowen.connectors.base import FailedBefore, Meter, StoredState, Tools
from rowen.connectors.files import Files
from rowen.connectors.files.options import FilesOptions
from rowen.model.items import Checkpoint, Complete, Document, Failed, Fetched, Raw, Unchanged
from rowen.model.runs import Mode
from rowen.model.url import file_url


def later() -> datetime:
    """A clock that is ahead, so that files written just now are not racy."""
    return datetime.now(UTC) + timedelta(seconds=10)


@dataclass
class Look:
    """What one pull gave, by path relative to the root."""

    order: list[str] = field(default_factory=list)
    fetched: dict[str, Raw] = field(default_factory=dict)
    unchanged: list[str] = field(default_factory=list)
    failed: dict[str, Failed] = field(default_factory=dict)
    complete: bool = False
    meter: Meter = field(default_factory=Meter)

    @property
    def bodies(self) -> dict[str, bytes]:
        return {path: raw.body for path, raw in self.fetched.items()}


class Keeper:
    """Holds what was seen of one root, and pulls it again."""

    mode: Mode = "incremental"
    failed: Sequence[FailedBefore] = ()
    losable = 0

    def __init__(self, root: Path | str, *, now: Callable[[], datetime] = later, **options: Any) -> None:
        self.root = os.fspath(root)
        self.url = file_url(os.fsencode(self.root))
        self.now = now
        self.options = options
        self.held: dict[str, StoredState] = {}
        self.cursor: Any = None
        self.count = 0

    async def look_up(self, urls: Sequence[str]) -> Mapping[str, StoredState]:
        return {url: self.held[url] for url in urls if url in self.held}

    async def everything(self) -> AsyncIterator[Sequence[StoredState]]:
        if self.held:
            yield list(self.held.values())

    def sync(self) -> Look:
        """One run: pull, hold what was fetched, and let go what a complete pull did not see."""
        return asyncio.run(self._sync())

    async def _sync(self) -> Look:
        look = Look()
        connector = Files(
            self.url, FilesOptions(**self.options), Tools(read=_unread, meter=look.meter, client=_offline, now=self.now)
        )
        async for observation in connector.pull(self):
            match observation:
                case Fetched(Raw() as raw):
                    path = self._note(look, raw.url)
                    look.fetched[path] = raw
                    self.held[raw.url] = StoredState(raw.url, raw.etag, None, raw.body_hash, (), raw.depth)
                case Unchanged(url):
                    look.unchanged.append(self._note(look, url))
                case Failed(url):
                    look.failed[self._note(look, url)] = observation
                case Checkpoint(cursor):
                    self.cursor = cursor
                case Complete():
                    look.complete = True
        if look.complete:
            self._let_go(look.order)
        self.count = len(self.held)
        return look

    def _note(self, look: Look, url: str) -> str:
        path = self._path(url)
        look.order.append(path)
        return path

    def _path(self, url: str) -> str:
        return unquote(url.removeprefix(self.url).removeprefix("!").removeprefix("/"))

    def _let_go(self, seen: Iterable[str]) -> None:
        kept = set(seen)
        self.held = {url: held for url, held in self.held.items() if self._path(url) in kept}

    def paths(self) -> set[str]:
        return {self._path(url) for url in self.held}


def _offline() -> Any:
    raise AssertionError("files need no network")


async def _unread(raw: Raw) -> Document:
    raise AssertionError(f"{raw.url} was read by the connector")


def write(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Files below a folder, with the folders that they need."""
    for path, content in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
    return root
