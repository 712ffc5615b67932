"""What portals of all kinds have in common: a clock of their own, a log of questions, and every way to fail."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

from aiohttp import web

from tests.portals.site import Asked, Site

Record = dict[str, Any]


class Portal(Site):
    """Records by name, with their dates. Each change moves the portal's clock on."""

    address: str
    no_listings: tuple[bytes, ...] = ()
    quiet_requests = 2
    quiet_bytes = 3000

    def __init__(self) -> None:
        super().__init__()
        self.records: dict[str, Record] = {}
        self.dates: dict[str, datetime | None] = {}
        self.clock = datetime(2024, 1, 1, tzinfo=UTC)
        self.window = 10_000
        self.page_max = 100
        self.ignores: set[str] = set()
        self.empty_when_filtered = False
        self.miscount = 0
        self.twice: list[str] = []
        self.body: bytes | None = None
        self.slow_above: int | None = None
        self.broken_above: int | None = None
        self.after_page: Callable[[], None] | None = None
        self.failures: list[web.Response] = []

    def store(self, name: str, record: Record, *, tick_h: float = 2, dated: bool = True) -> Record:
        """A record as it is from now on; it is the portal's own business where its date stands."""
        self.tick(tick_h)
        self.records.pop(name, None)
        self.records[name] = record
        self.dates[name] = self.clock if dated else None
        return record

    def make(self, name: str, title: Any = None, *, tick_h: float = 2, **more: Any) -> Record:
        """A record of this kind of portal, stored; a `licence` stands where this kind has it."""
        raise NotImplementedError

    def spoil(self, name: str) -> None:
        """A record that cannot be read, though it can be received."""
        raise NotImplementedError

    def make_nameless(self) -> None:
        """A record without an identifier."""
        raise NotImplementedError

    def stir(self) -> None:
        """Let everything move that moves by itself."""
        raise NotImplementedError

    def backdate(self, name: str) -> None:
        """Give a record an old date, as if it had not been touched."""
        raise NotImplementedError

    def went_on(self) -> bool:
        """Whether the first question for a page was not for the first one."""
        raise NotImplementedError

    def lie(self, lie: str) -> None:
        """Ignore the filter, or answer with nothing whenever it is used."""
        self.ignores = {"filter"} if lie == "everything" else set()
        self.empty_when_filtered = lie == "nothing"

    def remove(self, name: str) -> Record:
        """Take a record away."""
        del self.dates[name]
        return self.records.pop(name)

    def fill(self, count: int) -> None:
        """Records that were all modified long before the last one."""
        for number in range(count):
            self.make(f"d{number:05}", tick_h=0.001)
        self.tick(100)
        self.make("zz-last")

    def tick(self, hours: float) -> None:
        self.clock += timedelta(hours=hours)

    def questions(self, path: str = "") -> list[dict[str, str]]:
        """The parameters of what was asked."""
        return [dict(asked.headers) for asked in self.log if path in asked.path]

    def found(self, since: datetime | None, *, undated: bool = False) -> list[str]:
        """Names in the order of dates, those without one last."""
        names = [*self.records, *(name for name in self.twice if name in self.records)]
        if since is not None and self.empty_when_filtered:
            return []
        if since is not None and "filter" not in self.ignores:
            names = [name for name in names if self._is_since(name, since, undated=undated)]
        if "order" not in self.ignores:
            late = datetime.max.replace(tzinfo=UTC)
            names.sort(key=lambda name: (self.dates[name] or late, name))
        return names

    def _is_since(self, name: str, since: datetime, *, undated: bool) -> bool:
        at = self.dates[name]
        return undated if at is None else at >= since

    def slice(self, names: list[str], start: int, rows: int) -> list[str]:
        """A page of them, unless the portal does not know pages."""
        start = 0 if "start" in self.ignores else start
        return names[start : start + min(rows, self.page_max)]

    async def _answer_for(self, request: web.Request) -> web.StreamResponse:
        response = await self._reply(request)
        asked = {**request.query, **{f"header:{name}": value for name, value in request.headers.items()}}
        self.log.append(Asked(request.path, response.status, False, response.content_length or 0, asked))
        response.headers["Date"] = format_datetime(self.clock, usegmt=True)
        return response

    async def _reply(self, request: web.Request) -> web.Response:
        if self.failures:
            return self.failures.pop(0)
        if self.down:
            return web.Response(status=503, text="Down for maintenance.")
        if self.body is not None:
            return web.Response(body=self.body, content_type="application/json")
        return await self._search(request)

    async def _search(self, request: web.Request) -> web.Response:
        raise NotImplementedError

    async def burden(self, rows: int) -> web.Response | None:
        """What becomes of a question for too many rows."""
        if self.slow_above is not None and rows > self.slow_above:
            await asyncio.Event().wait()
        if self.broken_above is not None and rows > self.broken_above:
            return web.Response(status=502, text="Bad gateway")
        return None

    def told(self, data: Any) -> web.Response:
        """An answer, after which the portal may change."""
        body = json.dumps(data)
        if self.after_page is not None:
            self.after_page()
        return web.Response(text=body, content_type="application/json")
