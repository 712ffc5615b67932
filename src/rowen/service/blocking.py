"""The same for scripts that are not async: a thin face over an event loop in a thread of its own."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, TypeVar, Unpack

from rowen.model.library import Entry
from rowen.model.query import Answer, Narrowing
from rowen.model.run import Change, Run
from rowen.model.source import Source
from rowen.service import Rowen
from rowen.settings import Settings, load

__all__ = ["BlockingRowen", "open_blocking"]

T = TypeVar("T")


class BlockingRowen:
    """What scripts need most; everything else is reached by `call`."""

    def __init__(self, rowen: Rowen, loop: asyncio.AbstractEventLoop) -> None:
        self.rowen = rowen
        self._loop = loop

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Wait for any coroutine of `rowen`, such as `r.call(r.rowen.history(url))`."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def add(
        self,
        address: str,
        *,
        name: str | None = None,
        kind: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Source:
        """Keep a copy of something from now on."""
        return self.call(self.rowen.add(address, name=name, kind=kind, options=options))

    def sync(self, target: str, *, full: bool = False, accept_deletions: bool = False) -> Run:
        """Bring one source up to date."""
        return self.call(self.rowen.sync(target, full=full, accept_deletions=accept_deletions))

    def search(
        self,
        words: str,
        *,
        sources: Sequence[str] | None = None,
        version: str | None = None,
        limit: int = 10,
        **narrowing: Unpack[Narrowing],
    ) -> Answer:
        """The items that answer best."""
        return self.call(self.rowen.search(words, sources=sources, version=version, limit=limit, **narrowing))

    def get(self, url: str) -> Entry:
        """One item."""
        return self.call(self.rowen.get(url))

    def changes(self, *, since: int | datetime | timedelta = 0, source: str | None = None) -> list[Change]:
        """The lines of the change log after a number, or since a moment."""
        return self.call(self.rowen.changes(since=since, source=source))


@contextmanager
def open_blocking(settings: Settings | None = None, **flags: Any) -> Iterator[BlockingRowen]:
    """Open Rowen for a script: `with rowen.open_blocking() as r: r.sync("./docs")`."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="rowen", daemon=True)
    thread.start()
    face = BlockingRowen(Rowen(settings or load(**flags)), loop)
    try:
        face.call(face.rowen.start())
        try:
            yield face
        finally:
            face.call(face.rowen.close())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
