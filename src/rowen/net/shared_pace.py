"""Limit the rate of requests to each host across all processes of a database.

A hundred workers on many machines must be as polite to one host as a single worker. The usual case, one process that
requests a host alone, must not pay for that. So a process registers at each host. If it is the only process there, the
database answers "alone", and the process paces itself as `Throttle` does; once a second it reports its state, in one
statement for all its hosts. When a second process registers, it waits until the first process has been informed. From
then on the database grants the start of every request, by its own clock. This takes one statement for a request,
another when the request was sent, and a third one if other processes may need the slot before this process's next
request. Why this is safe:

- A process is alone only if the database said so while no other process was registered, and only for the length of a
  lease, counted from before its request to the database. A process that was suspended for longer asks again before it
  starts anything.
- While a process reports its state, it starts no request, so that the report contains every start.
- A start is granted for a certain moment, but the process may wake up late or wait for its connection. So it reports
  when the request was sent, and until then the database grants no other start: the gap counts from the actual request.
  This is a second statement for a request, but nothing waits for it.
- The slots of a dead process are freed with its lease. Other processes do not wait for a process that asks late.
- When the database is unreachable, each process continues alone. It assumes as many processes at a host as in the last
  answer, takes its share of the slots, and multiplies the gap by their number. That neither stops requests nor doubles
  them, and lasts no longer than a run without its database. After a crash of the server no process is registered;
  within a second all are registered again.

Circuits are not shared: each process detects a failing host itself, with a few requests at the shared rate.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from rowen.errors import StoreError
from rowen.net.politeness import Lane, Permit, Throttle

log = logging.getLogger(__name__)

LEASE_S = 5.0
"""How long a silent process keeps its slots: five reports. At half of it a machine that swaps would lose its slots;
at twice of it, the slots of a killed process would be unused for ten seconds.
"""

# How often a process reports its progress, and so how long a second one waits at first. A statement costs half a
# millisecond; at a tenth of the time it would slow down a crawl of an unchanged site.
_REPORT_S = 1.0
# A process unregisters at a host without requests for this time, so that the next process there is alone. It is longer
# than parsing one page of a catalog, the time between two requests.
_LINGER_S = 2.0
# How long a process reuses its freed slots without asking while others wait for a slot: passing a slot on costs the
# time until they ask again, some 20 ms, a twelfth of it. At twice of it, each of four processes would wait for 1.5 s.
_TURN_S = 0.25
# The end of a request is reported with the next request if that comes soon; others wait for a slot no longer than this.
_SOON_S = 0.02
# The time limit of a statement, and the pause after a failure: a busy server answers in less, and a restarted one is
# back after about this time.
_PATIENCE_S = 2.0
_AWAY_S = 5.0
# A process that was suspended after a start was granted asks again; the database waits a second for a start to be used.
_LATEST_S = 0.5
_NEVER = float("-inf")


class HostReport(NamedTuple):
    """A process's report about a host: the number of requests in progress, and the seconds until its next start."""

    host: str
    active: int
    free_s: float = 0.0
    leaves: bool = False


class HostNews(NamedTuple):
    """The answer to a report: whether the process is alone, how long to wait, and the number of other processes.

    `since_s` is the time since any process last started a request.
    """

    host: str
    alone: bool
    wait_s: float
    others: int
    since_s: float


class HostAnswer(NamedTuple):
    """The answer to a request for a start: the process paces itself, may start, or must ask again.

    `wait_s` is the time until the host may be requested, `next_s` the time until the process may ask again.
    """

    verdict: Literal["alone", "start", "wait"]
    wait_s: float
    next_s: float
    others: int


class HostSlots(Protocol):
    """The shared registry of processes at hosts; it raises `StoreError` if it is unreachable.

    The slots of a process expire after `lease_s` of silence.
    """

    lease_s: float

    async def take(self, host: str, *, active: int, more: bool, most: int, gap_s: float) -> HostAnswer:
        """Request a slot beside `active` slots of this process; all processes together have `most` slots."""
        ...

    async def sent(self, host: str) -> None:
        """Report that a request was sent."""
        ...

    async def tell(self, reports: Sequence[HostReport]) -> list[HostNews]:
        """Report the state at some hosts, and return the state of other processes there."""
        ...


@dataclass(slots=True)
class _Post:
    """The state of this process at a host: `active` requests are in progress, `reported` is the last reported number.

    The process paces itself until `alone_until`, as one of `crowd` processes if the database is unreachable. Otherwise
    it requests the next start at `next_at`; if the host needs no gap, it reuses its slots until `turn_until`.
    """

    active: int = 0
    reported: int = 0
    next_at: float = _NEVER
    turn_until: float = _NEVER
    alone_until: float = _NEVER
    others: int = 0
    crowd: int = 1
    used_at: float = _NEVER
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    freed: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class _SharedPermit(Permit):
    """A permit whose start and end are reported to other processes."""

    host: str
    post: _Post
    pace: "SharedThrottle"
    is_sent: bool = False

    def sent(self) -> None:
        self.is_sent = True
        Permit.sent(self)
        self.pace.depart(self.host, self.lane, self.post)

    def release(self) -> None:
        if not self.is_sent:
            self.sent()
        Permit.release(self)
        self.pace.end(self.lane, self.post)


class SharedThrottle(Throttle):
    """Limits the requests of this process together with all processes that share the same slots."""

    def __init__(self, slots: HostSlots, **own: Any) -> None:
        super().__init__(**own)
        self._slots = slots
        self._posts: dict[str, _Post] = {}
        # One statement at a time: reports and answers must not overtake each other.
        self._speaking = asyncio.Lock()
        self._keeper: asyncio.Task[None] | None = None
        self._departures: set[asyncio.Task[None]] = set()
        self._has_news = asyncio.Event()
        self._away_until = _NEVER

    async def close(self) -> None:
        """Unregister this process at all hosts."""
        keeper, self._keeper = self._keeper, None
        if keeper is None:
            return
        async with self._speaking:
            keeper.cancel()
        await asyncio.gather(keeper, *self._departures, return_exceptions=True)
        await self._report(leaving=True)

    async def hold(self, host: str, wait_s: float) -> None:
        """Start no request to a host for `wait_s`, in any process."""
        await super().hold(host, wait_s)
        self._post(host)
        await self._report(host, is_held=True)

    async def enter(self, host: str) -> Permit:
        """Wait until a request to the host may start, in view of the requests of all processes."""
        permit = await super().enter(host)
        return _SharedPermit(permit.lane, permit.gate, permit.clock, host, self._post(host), self)

    def depart(self, host: str, lane: Lane, post: _Post) -> None:
        """Record that a request was sent; a background task reports it, so that the request does not wait."""

        async def report() -> None:
            # Without this report, other processes wait for a second, and then continue.
            with suppress(StoreError, TimeoutError):
                async with self._patience():
                    await self._slots.sent(host)

        if lane.least_gap_s and not self._is_alone(post):
            task = asyncio.create_task(report())
            self._departures.add(task)
            task.add_done_callback(self._departures.discard)

    def end(self, lane: Lane, post: _Post) -> None:
        """Record that a request ended; report it soon if other processes may need the slot before the next request."""
        post.active -= 1
        post.used_at = self._clock()
        post.freed.set()
        if post.others and (post.others + 1 >= lane.concurrency or not lane.users):
            self._has_news.set()

    def _post(self, host: str) -> _Post:
        post = self._posts.get(host)
        if post is None:
            post = self._posts[host] = _Post(used_at=self._clock())
            if self._keeper is None or self._keeper.done():
                self._keeper = asyncio.create_task(self._keep())
        return post

    def _is_alone(self, post: _Post) -> bool:
        return post.alone_until > self._clock()

    async def _turn(self, host: str, lane: Lane) -> None:
        post = self._post(host)
        while True:
            if not self._is_alone(post):
                if await self._await_start(host, lane, post):
                    return
            elif (wait_s := lane.free_at - self._clock()) > 0:
                await self._sleep(wait_s)
            elif post.active >= max(1, lane.concurrency // post.crowd):
                post.freed.clear()
                await post.freed.wait()
            else:
                post.active += 1
                self._note_start(lane, times=post.crowd)
                return

    async def _await_start(self, host: str, lane: Lane, post: _Post) -> bool:
        """Ask until a request may start, one task at a time; return False if this process must pace itself."""
        async with post.asking:
            while not self._is_alone(post):
                if post.reported > post.active and post.turn_until > self._clock():
                    post.active += 1
                    return True
                if (wait_s := post.next_at - self._clock()) > 0:
                    await self._sleep(wait_s)
                elif await self._request_start(host, lane, post):
                    return True
        return False

    async def _request_start(self, host: str, lane: Lane, post: _Post) -> bool:
        """Ask once, and wait for the granted start; give it back if it was missed by more than `_LATEST_S`."""
        start_s = await self._take(host, lane, post)
        if start_s is None:
            return False
        starts_at = self._clock() + start_s
        try:
            if start_s > 0:
                await self._sleep(start_s)
        except BaseException:
            self.depart(host, lane, post)
            self.end(lane, post)
            raise
        if self._clock() > starts_at + _LATEST_S:
            self.end(lane, post)
            return False
        self._note_start(lane)
        return True

    async def _take(self, host: str, lane: Lane, post: _Post) -> float | None:
        """Return the seconds until a request may start; None if this process paces itself or must ask again."""
        async with self._speaking:
            sent_at = self._clock()
            more = lane.users > post.active + 1
            try:
                async with self._patience():
                    answer = await self._slots.take(
                        host, active=post.active, more=more, most=lane.concurrency, gap_s=lane.least_gap_s
                    )
            except (StoreError, TimeoutError) as problem:
                self._continue_alone([post], problem)
                return None
            post.others = answer.others
            if answer.verdict == "alone":
                self._set_alone(lane, post, sent_at, answer.wait_s)
                return None
            post.next_at = self._clock() + answer.next_s
            post.active += answer.verdict == "start"
            post.reported = post.active
            if answer.verdict == "wait":
                return None
            if not lane.least_gap_s:
                post.turn_until = sent_at + _TURN_S
            return answer.wait_s

    async def _keep(self) -> None:
        """Report the state regularly while there are hosts; report free slots soon if other processes wait for them."""
        while self._posts:
            try:
                await asyncio.wait_for(self._has_news.wait(), _REPORT_S)
            except TimeoutError:
                await self._report()
                continue
            self._has_news.clear()
            await asyncio.sleep(_SOON_S)
            if freed := [host for host, post in self._posts.items() if post.others and post.reported > post.active]:
                await self._report(*freed)

    async def _report(self, *only: str, leaving: bool = False, is_held: bool = False) -> None:
        """Report the state at some or all hosts; unregister at hosts without recent requests."""
        async with self._speaking:
            reports: dict[str, HostReport] = {}
            for host in only or tuple(self._posts):
                post, lane = self._posts[host], self._lane(host)
                is_idle = not lane.users and self._clock() - post.used_at > _LINGER_S
                is_own = self._is_alone(post) or is_held
                free_s = max(0.0, lane.free_at - self._clock()) if is_own else 0.0
                reports[host] = HostReport(host, post.active, free_s, leaving or is_idle)
                if leaving or is_idle:
                    del self._posts[host]
            posts = {host: self._posts[host] for host in reports if host in self._posts}
            for post in posts.values():
                post.alone_until = post.turn_until = _NEVER
            sent_at = self._clock()
            try:
                async with self._patience():
                    news = await self._slots.tell(list(reports.values())) if reports else []
            except (StoreError, TimeoutError) as problem:
                return self._continue_alone(posts.values(), problem)
            for host, alone, wait_s, others, since_s in news:
                if (reported_post := posts.get(host)) is not None:
                    reported_post.others, reported_post.reported = others, reports[host].active
                    if alone:
                        lane = self._lane(host)
                        self._set_alone(lane, reported_post, sent_at, max(wait_s, lane.least_gap_s - since_s))
        return None

    def _set_alone(self, lane: Lane, post: _Post, sent_at: float, wait_s: float) -> None:
        post.alone_until, post.crowd = sent_at + self._slots.lease_s, 1
        if wait_s > 0:
            lane.free_at = max(lane.free_at, self._clock() + wait_s)

    @asynccontextmanager
    async def _patience(self) -> AsyncIterator[None]:
        """Limit the wait for an answer; raise `TimeoutError` at once shortly after a failure."""
        if self._clock() < self._away_until:
            raise TimeoutError
        async with asyncio.timeout(_PATIENCE_S):
            yield

    def _continue_alone(self, posts: Iterable[_Post], problem: Exception) -> None:
        """Continue without the database, as one of the number of processes in its last answer."""
        now = self._clock()
        if now >= self._away_until:
            self._away_until = now + _AWAY_S
            log.warning("could not share the pace of hosts: %s", problem or "no answer in time")
        for post in posts:
            post.alone_until, post.crowd = self._away_until, post.others + 1
