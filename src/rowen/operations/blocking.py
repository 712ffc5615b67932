"""The same for scripts that are not async: a thin face over an event loop in a thread of its own."""

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import wait
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from rowen.model.changes import Change
from rowen.model.items import Entry
from rowen.model.runs import Run
from rowen.model.search import Answer, Narrowing
from rowen.model.sources import Source
from rowen.operations import Rowen
from rowen.settings import Settings, load

__all__ = ["BlockingRowen", "open_blocking"]

T = TypeVar("T")


class BlockingRowen:
    """What scripts need most; everything else is reached by `call`."""

    def __init__(self, rowen: Rowen) -> None:
        self.rowen = rowen
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rowen", daemon=True)
        self._thread.start()
        try:
            self.call(rowen.start())
        except BaseException:
            self._end_loop()
            raise
        _close_at_exit(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<BlockingRowen {'closed' if self._loop.is_closed() else 'open'}>"

    def close(self) -> None:
        """End worker processes and close the database; again, it does nothing."""
        if self._loop.is_closed():
            return
        try:
            self.call(self.rowen.close())
        finally:
            self._end_loop()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Wait for any coroutine of `rowen`, such as `r.call(r.rowen.history(url))`; Ctrl-C cancels it."""
        tasks: list[asyncio.Task[Any] | None] = []

        async def run() -> T:
            tasks.append(asyncio.current_task())
            return await coroutine

        def cancel() -> None:
            for task in tasks:
                assert task is not None  # noqa: S101 (it runs)
                task.cancel()
            if not tasks:
                self._loop.call_soon(cancel)

        future = asyncio.run_coroutine_threadsafe(run(), self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            # Left to itself it would go on, and hold its source, behind a caller who believes that it has ended.
            self._loop.call_soon_threadsafe(cancel)
            wait([future])
            raise

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

    def sources(self) -> list[Source]:
        """All sources."""
        return self.call(self.rowen.sources())

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


def _close_at_exit(opened: BlockingRowen) -> None:
    """Close it when the program ends.

    What `atexit` has is called when threads can no longer be started, and closing needs some.
    """
    threading._register_atexit(opened.close)  # type: ignore[attr-defined]  # noqa: SLF001 (there is no public way)


def open_blocking(settings: Settings | None = None, **flags: Any) -> BlockingRowen:
    """Open Rowen for a script or a notebook: `r = rowen.open_blocking()`, then `r.sync("./docs")`.

    It closes when the program ends; before that with `r.close()`, or at the end of `with rowen.open_blocking() as r:`.
    """
    return BlockingRowen(Rowen(settings or load(**flags)))
