"""What portals of all kinds have in common: a clock of their own, a log of questions, and every way to fail."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from random import Random
from typing import Any, Protocol
from urllib.parse import unquote_plus

from aiohttp import web

from rowen import Rowen, Run
from tests.portals.site import WORDS, Asked, Site

Record = dict[str, Any]

# What makes every answer fail that would contain it: a portal that stumbles over one of its records.
POISON = "a record that the portal cannot write"


class Portal(Site):
    """Records by name. Each change moves the portal's clock on."""

    address: str
    no_listings: tuple[bytes, ...] = ()
    pause_h: float = 100
    quiet_requests = 2
    filter_marks: tuple[str, ...] = ()

    def __init__(self) -> None:
        super().__init__()
        self.records: dict[str, Any] = {}
        self.clock = datetime(2024, 1, 1, tzinfo=UTC)
        self.page_max = 1000
        self.ignores: set[str] = set()
        self.empty_when_filtered = False
        self.miscount = 0
        self.rejects: int | None = None
        self.filtered = 0
        self.body: bytes | None = None
        self.slow_above: int | None = None
        self.broken_above: int | None = None
        self.after_page: Callable[[int], None] | None = None
        self.failures: list[web.Response] = []
        self.ailing: dict[str, tuple[Any, Any]] = {}

    def make(self, name: str, /, title: Any = None, *, tick_h: float = 2, **more: Any) -> Any:
        """A record as it is from now on; a `licence` stands where this kind of portal has it."""
        raise NotImplementedError

    def spoil(self, name: str) -> None:
        """A record that cannot be read, though it can be received."""
        raise NotImplementedError

    def remove(self, name: str) -> Any:
        """Take a record away."""
        return self.records.pop(name)

    def names(self) -> set[str]:
        """The names of the records that are there."""
        return set(self.records)

    def fill(self, count: int) -> None:
        """Records that were all modified long before the last one."""
        for number in range(count):
            self.make(f"d{number:05}", tick_h=0.001)
        self.tick(self.pause_h)
        self.make("zz-last")

    def tick(self, hours: float) -> None:
        self.clock += timedelta(hours=hours)

    def lie(self, lie: str) -> None:
        """Ignore the filter, or answer with nothing whenever it is used."""
        self.ignores = {"filter"} if lie == "everything" else set()
        self.empty_when_filtered = lie == "nothing"

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        question = unquote_plus(request.query_string) + unquote_plus(await request.text())
        if any(mark in question for mark in self.filter_marks):
            self.filtered += 1
            if self.rejects:
                self.log.append(Asked(request.path, self.rejects, False, 0, dict(request.query)))
                return self._rejection(self.rejects)
        return await super()._answer(request)

    def _rejection(self, status: int) -> web.Response:
        """What is answered to a filter that the portal does not take."""
        return web.Response(status=status, text="This filter cannot be used.")

    def after(self, pages: int, change: Callable[[], object]) -> None:
        """Let something happen once, behind so many pages."""
        left = pages

        def count(_: int) -> None:
            nonlocal left
            left -= 1
            if not left:
                self.after_page = None
                change()

        self.after_page = count

    def went_on(self, behind: int) -> bool:
        """Whether the first question for a page was not for the first one, but for what lies behind so many records."""
        raise NotImplementedError

    def questions(self, path: str = "") -> list[dict[str, str]]:
        """The parameters of what was asked."""
        return [dict(asked.headers) for asked in self.log if path in asked.path]

    async def _answer_for(self, request: web.Request) -> web.StreamResponse:
        response = self.stumbled(await self._reply(request))
        asked = self._noted(request)
        self.log.append(Asked(request.path, response.status, False, response.content_length or 0, asked))
        response.headers["Date"] = format_datetime(self.clock, usegmt=True)
        return response

    def _noted(self, request: web.Request) -> dict[str, Any]:
        return {**request.query, **{f"header:{name}": value for name, value in request.headers.items()}}

    async def _reply(self, request: web.Request) -> web.Response:
        return self.trouble() or await self._search(request)

    def trouble(self) -> web.Response | None:
        """What is answered to any question, if there is no answer."""
        if self.failures:
            return self.failures.pop(0)
        return web.Response(status=503, text="Down for maintenance.") if self.down else None

    async def _search(self, request: web.Request) -> web.Response:
        raise NotImplementedError

    async def burden(self, rows: int) -> web.Response | None:
        """What becomes of a question for too many rows."""
        if self.slow_above is not None and rows > self.slow_above:
            await asyncio.Event().wait()
        if self.broken_above is not None and rows > self.broken_above:
            return web.Response(status=502, text="Bad gateway")
        return None

    def turn(self, start: int) -> None:
        """A page was written, after which the portal may change."""
        if self.after_page is not None:
            self.after_page(start)


class JsonPortal(Portal):
    """A portal that answers every question in JSON."""

    async def _reply(self, request: web.Request) -> web.Response:
        if trouble := self.trouble():
            return trouble
        if self.body is not None:
            return web.Response(body=self.body, content_type="application/json")
        return await self._search(request)

    def told(self, data: Any, start: int) -> web.Response:
        """A page, after which the portal may change."""
        response = self.written(data)
        if response.status == 200:
            self.turn(start)
        return response

    def written(self, data: Any) -> web.Response:
        """An answer, unless the portal cannot write it."""
        body = json.dumps(data)
        if POISON in body:
            return web.Response(status=500, text="Internal error")
        return web.Response(text=body, content_type="application/json")


class DatedPortal(JsonPortal):
    """Records with their dates, which are listed in the order of these."""

    quiet_bytes = 3000

    def __init__(self) -> None:
        super().__init__()
        self.dates: dict[str, datetime | None] = {}
        self.window = 10_000
        self.page_max = 100
        self.twice: list[str] = []

    def store(self, name: str, record: Record, *, dated: bool = True) -> Record:
        """A record as it is from now on; it is the portal's own business where its date stands."""
        self.records.pop(name, None)
        self.records[name] = record
        self.dates[name] = self.clock if dated else None
        return record

    def spoil(self, name: str) -> None:
        self.make(name)
        self.records[name] = "odd"

    def make_nameless(self) -> None:
        """A record without an identifier."""
        raise NotImplementedError

    def stir(self) -> None:
        """Let everything move that moves by itself."""
        raise NotImplementedError

    def backdate(self, name: str) -> None:
        """Give a record an old date, as if it had not been touched."""
        raise NotImplementedError

    def remove(self, name: str) -> Any:
        del self.dates[name]
        return super().remove(name)

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


class Changing(Portal):
    """A portal for the refresh-equals-rebuild machine: a few records, and random changes and troubles of them."""

    kind: str
    ignorable: tuple[str, ...] = ("filter", "start", "order")
    garbage: tuple[bytes, ...] = ()
    miscounts: tuple[int, ...] = (0, 0, 1, -1)

    def __init__(self) -> None:
        super().__init__()
        self.page_max = 4
        for number in range(6):
            self.make(f"n{number}")
        self.make("always")

    def change(self, chance: Random) -> None:
        name = f"n{chance.randrange(14)}"
        self.calm()
        match chance.randrange(12):
            case 0 | 1 | 2 | 3:
                self.write(chance, name)
            case 4 | 5 if name in self.records:
                self.remove(name)
                self.tick(chance.choice([0.1, 5]))
            case 6:
                self.spoil(name)
            case 7:
                self.trick(chance, name)
            case 8:
                self.ignores = set(chance.sample(self.ignorable, chance.randrange(3)))
            case 9:
                self.count_wrongly(chance.choice(self.miscounts))
                self.empty_when_filtered = chance.random() < 0.3
            case 10:
                self.body = chance.choice([None, b"<html>Maintenance</html>", *self.garbage, b"[]"])
                self.down = chance.random() < 0.2
            case 11:
                self.page_max = chance.choice([1, 2, 4, 1000])

    def break_filter(self, chance: Random) -> None:
        """Reject the filter, lie about what it shows, or take it again."""
        self.rejects = chance.choice([None, 400, 409, 500])
        self.empty_when_filtered = chance.random() < 0.2

    def mend_filter(self) -> None:
        """Take the filter again."""
        self.rejects, self.empty_when_filtered = None, False

    def count_wrongly(self, by: int) -> None:
        """Declare more or fewer records than there are; who counts one too few does so for good.

        A count that is too low and becomes right while a record vanishes stays as it was: only a reconciliation helps.
        """
        if self.miscount != -1:
            self.miscount = by

    def write(self, chance: Random, name: str) -> None:
        """Some record under this name."""
        raise NotImplementedError

    def trick(self, chance: Random, name: str) -> None:
        """Something that only portals of this kind do."""
        raise NotImplementedError

    def ail(self, chance: Random) -> None:
        name = f"n{chance.randrange(14)}"
        self.calm()
        if name not in self.names() or chance.random() < 0.6:
            self.write(chance, name)
        if self.is_spoiled(self.records[name]):
            self.make(name, "Whole for a moment")
        whole = self.records[name]
        self.records[name] = self.unreadable(chance, whole)
        self.ailing[name] = whole, self.records[name]
        if chance.random() < 0.7:
            # Something else is edited so long after that nobody asks for what was before.
            self.make("always", tick_h=self.pause_h)

    def stick(self, chance: Random) -> None:
        """Let every answer fail that would hold some records, which may be new, edited, or as they were."""
        self.calm()
        for name in chance.sample([f"n{number}" for number in range(14)], chance.choice([1, 1, 2])):
            if name not in self.names() or chance.random() < 0.3:
                self.write(chance, name)
            self.stuck.add(name)
        self.stuck_how = chance.choice(["status 500", "status 500", "status 400", "garbage", "truncated"])
        if chance.random() < 0.7:
            # Something else is edited so long after that nobody asks for what was before.
            self.make("always", tick_h=self.pause_h)

    def recover(self) -> None:
        self.stuck.clear()
        for name, (whole, broken) in self.ailing.items():
            if self.records.get(name) is broken:
                self.records[name] = whole
        self.ailing.clear()

    def unreadable(self, chance: Random, record: Any) -> Any:
        """The same record of the same date, but it cannot be received, or read."""
        return {**record, "odd": chance.choice([nested(900), POISON])}

    def is_spoiled(self, record: Any) -> bool:
        """Whether a record cannot be read."""
        return not isinstance(record, dict)

    def calm(self) -> None:
        """End the troubles that last for one change."""
        self.body, self.down = None, False

    def heal(self) -> None:
        self.calm()
        self.recover()
        self.count_wrongly(0)
        self.ignores = set()
        self.mend_filter()
        for name, record in list(self.records.items()):
            if self.is_spoiled(record):
                self.make(name, "Healed")


def nested(depth: int) -> list[Any]:
    """A list in a list in a list."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def some_words(chance: Random) -> str:
    """A text of any length."""
    return " ".join(chance.choices(WORDS, k=chance.randrange(3, 60)))


class Kept(Protocol):
    """A source on loopback."""

    log: list[Asked]

    @property
    def address(self) -> str:
        """What a user would type."""


async def keep(r: Rowen, portal: Kept, name: str = "portal", **options: Any) -> Run:
    """Harvest a portal for the first time."""
    await r.sources.add(portal.address, name=name, options=options)
    run = await r.sync(name)
    portal.log.clear()
    return run
