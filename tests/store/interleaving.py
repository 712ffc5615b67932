"""Another client that commits a change at a chosen moment of a consumer: before its n-th statement, or while it waits.

A moment is each statement that this process sends, and each suspension of the consumer's own task. The commit is made
while the event loop stands still, so that a run can be repeated.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Self

import psycopg
from psycopg.conninfo import make_conninfo

from rowen import Rowen
from rowen.errors import StoreError
from rowen.model.url import key
from rowen.store.locks import Lock
from tests.conftest import ScratchDatabase
from tests.refresh.statements import OF_THE_POOL

PATIENCE_S = 30  # against hanging
LOG_LOCK = f"select {Lock.CHANGE.tried()}"


class OtherClient:
    """Stores new items, each a copy of one that is there, and logs each as the store does."""

    def __init__(self, database: ScratchDatabase) -> None:
        self._c = psycopg.connect(database.conninfo, autocommit=True, options="-c search_path=rowen,public")
        [self._source, self._name, self._template, self._host] = self._c.execute(
            "select source.id, source.name, min(item.id), 'https://example.org/' from item"
            " join source on source.id = source_id group by source.id order by source.id limit 1"
        ).fetchone() or (0, "", 0, "")
        self.count = 0
        self.stored: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._c.close()

    @property
    def next_url(self) -> str:
        """The address of the item that is stored next."""
        return f"{self._host}late/{self.count}"

    def store(self) -> bool:
        """Commit one more item; return False if a transaction of this process holds the lock of the log."""
        with self._c.transaction():
            [is_free] = self._c.execute(LOG_LOCK.encode()).fetchone() or (False,)
            if not is_free:
                return False
            url = self.next_url
            of = {"key": key(url), "url": url, "source": self._source, "name": self._name}
            [item] = self._copy("item", of, "id = %(template)s", "key", "url") or (0,)
            self._copy("chunk", {"item_id": item}, "item_id = %(template)s", "item_id")
            self._c.execute(_LINE, of)
        self.count += 1
        self.stored.append(url)
        return True

    def _copy(self, table: str, values: dict[str, Any], where: str, *other: str) -> Any:
        columns = [
            name
            for (name,) in self._c.execute(
                "select column_name from information_schema.columns where table_schema = 'rowen' and table_name = %s"
                " and is_identity = 'NO' order by ordinal_position",
                [table],
            ).fetchall()
        ]
        taken = [f"%({name})s" if name in other else name for name in columns]
        statement = f"insert into {table} ({', '.join(columns)}) select {', '.join(taken)} from {table} where {where}"
        row = self._c.execute(
            f"{statement} returning {'id'}".encode(), {**values, "template": self._template}
        ).fetchone()
        assert row is not None
        return row


class OtherProcess:
    """The Python API on the same database, in a thread with a loop of its own; a wait for a lock fails."""

    def __init__(self, database: ScratchDatabase, *, lock_timeout_ms: int, **settings: Any) -> None:
        self._settings = settings
        self._scratch = ScratchDatabase(
            make_conninfo(database.conninfo, options=f"-c lock_timeout={lock_timeout_ms}"), database.home / "other"
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._opened = self._scratch.open(trust_database=True, **self._settings)
        self._rowen = self._run(self._opened.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._opened.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def call(self, work: Callable[[Rowen], Coroutine[Any, Any, Any]]) -> bool:
        """Finish an action while the caller is suspended; return False if a lock of the caller prevents it."""
        try:
            self._run(work(self._rowen))
        except StoreError:
            return False
        return True

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)


_LINE = """
with line as (
    insert into change (number, source_id, source, kind, key, url, title, content_hash, record_hash, at)
    select (select max(number) + 1 from change), %(source)s, %(name)s, 'created', key, url, title, content_hash,
           record_hash, clock_timestamp()
      from item where source_id = %(source)s and key = %(key)s
    returning number
), stated as (
    insert into statement_change (number, source_id, source, page, added, removed, kept, file, at)
    select number, %(source)s, %(name)s, %(url)s, array['<' || %(url)s || '> <urn:p> "x"'], '{}', 0, number,
           clock_timestamp() from line
)
select pg_notify('rowen_change', '')
"""


class Moment:
    """Acts once, at the n-th moment of a consumer; `count` is the number of its moments."""

    def __init__(self, number: int, act: Callable[[], bool]) -> None:
        self.number = number
        self.count = 0
        self.acted = self._is_acting = False
        self._act = act

    def pass_by(self) -> None:
        """Count a moment; if the act is impossible, try at the next one."""
        if self._is_acting:
            return
        self.count += 1
        if not self.acted and self.count >= self.number:
            self._is_acting = True
            self.acted = self._act()
            self._is_acting = False

    async def during(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine and count its moments."""
        with self._at_statements():
            return await _Stepped(work, self.pass_by)

    @contextmanager
    def _at_statements(self) -> Iterator[None]:
        original = psycopg.AsyncCursor.execute

        async def counting(cursor: Any, query: Any, *given: Any, **how: Any) -> Any:
            if query != "" and not str(query).startswith(OF_THE_POOL):
                self.pass_by()
            return await original(cursor, query, *given, **how)

        psycopg.AsyncCursor.execute = counting  # type: ignore[method-assign]
        try:
            yield
        finally:
            psycopg.AsyncCursor.execute = original  # type: ignore[method-assign]


class _Stepped(Awaitable[Any]):
    """Awaits a coroutine, and reports each of its suspensions."""

    def __init__(self, work: Coroutine[Any, Any, Any], waits: Callable[[], None]) -> None:
        self._work = work
        self._waits = waits

    def __await__(self) -> Generator[Any, Any, Any]:
        step, given = self._work.send, None
        while True:
            try:
                awaited = step(given)  # type: ignore[arg-type]
            except StopIteration as end:
                return end.value
            self._waits()
            try:
                step, given = self._work.send, (yield awaited)
            except BaseException as problem:  # noqa: BLE001 (it is handed on)
                step, given = self._work.throw, problem  # type: ignore[assignment]
