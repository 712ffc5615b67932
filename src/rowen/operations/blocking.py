"""The client for scripts that are not async: every operation, run on an event loop in a separate thread."""

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Iterable
from concurrent.futures import wait
from functools import wraps
from inspect import isawaitable
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from rowen.operations import GROUPS, VERBS, Rowen
from rowen.operations.operation import ResourceGroup
from rowen.settings import Settings, load

T = TypeVar("T")


class BlockingRowen:
    """A client whose operations block until they are done, and whose iterators are plain iterators."""

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
        """Stop worker processes and close the database; a second call does nothing."""
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
        """Run a coroutine of `rowen`, or one of your own, and return its result; Ctrl-C cancels it."""
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
            # Otherwise the operation would continue, and keep its source locked, although the caller believes that it
            # has ended.
            self._loop.call_soon_threadsafe(cancel)
            wait([future])
            raise

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "rowen":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self._offered(getattr(self.rowen, name))

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *GROUPS, *VERBS]

    def _offered(self, value: Any) -> Any:
        """Return the blocking form of a group or an operation; any other value is returned unchanged."""
        if isinstance(value, ResourceGroup):
            return BlockingGroup(self, value)
        if not callable(value):
            return value

        @wraps(value)
        def operation(*arguments: Any, **named: Any) -> Any:
            result = self.call(_result(value, arguments, named))
            return self._steps(result) if isinstance(result, AsyncIterator) else result

        return operation

    def _steps(self, iterator: AsyncIterator[T]) -> Generator[T]:
        end = object()
        try:
            while (value := self.call(_next(iterator, end))) is not end:
                yield cast("T", value)
        finally:
            if isinstance(iterator, AsyncGenerator):
                self.call(iterator.aclose())


class BlockingGroup:
    """The operations of one resource as blocking calls."""

    def __init__(self, blocking: BlockingRowen, group: ResourceGroup) -> None:
        self._blocking = blocking
        self._group = group

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self._blocking._offered(getattr(self._group, name))  # noqa: SLF001 (a part of that class)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the group's main operation, if it has one: `r.changes(since=0)`."""
        return self._blocking._offered(self._group.__call__)(*arguments, **named)  # type: ignore[operator]  # noqa: SLF001

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *dir(self._group)]


async def _result(operation: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Call an operation on the event loop."""
    result = operation(*arguments, **named)
    return await result if isawaitable(result) else result


async def _next(iterator: AsyncIterator[T], end: object) -> T | object:
    return await anext(iterator, end)


def _close_at_exit(opened: BlockingRowen) -> None:
    """Close the client when the program ends.

    Functions registered with `atexit` run when threads can no longer be started, but closing starts some.
    """
    threading._register_atexit(opened.close)  # type: ignore[attr-defined]  # noqa: SLF001 (there is no public way)


def open_blocking(settings: Settings | None = None, **flags: Any) -> BlockingRowen:
    """Open Rowen for a script or a notebook: `r = rowen.open_blocking()`, then `r.sync("./docs")`.

    The client is closed when the program ends, or earlier by `r.close()` or `with rowen.open_blocking() as r:`.
    """
    return BlockingRowen(Rowen(settings or load(**flags)))
