"""Telling receivers what changed: each change once, in the order of the log, however often a receiver fails.

A receiver reads the log from its own number. What it acknowledged is remembered one by one, so that a change which
fails keeps back none of those that were under way beside it, and none is sent again. What is repeated has the id that
it had before: after a crash, those that were under way or had just been acknowledged are.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from itertools import islice
from random import Random
from typing import Any, TypeAlias

from rowen.errors import FetchError, ItemError, RowenError
from rowen.harvest import agreements
from rowen.harvest.engine import Engine
from rowen.jobs.tasks import ActiveJob, JobReleasedError
from rowen.model.changes import Change
from rowen.model.sources import Source
from rowen.model.text import one_item
from rowen.model.webhooks import Webhook
from rowen.net.circuits import Breakers, CircuitLimits
from rowen.net.client import Client
from rowen.net.credentials import resolve
from rowen.net.politeness import Throttle
from rowen.publish.notices import MOST_IN_A_NOTICE, notice, send
from rowen.publish.webhook import GIVE_UP, message, verdict, wait_s
from rowen.store import changes, webhooks
from rowen.store.changes import LogBatch
from rowen.store.webhooks import Attempt

__all__ = ["deliver", "deliver_job", "subject_of"]

# Calls under way to one receiver: at 50 ms each, 320 a second. One that wants no more says 429.
_AT_ONCE = 16
# What was acknowledged is written so often, while calls go on: a crash repeats what was told in that time. At a tenth
# of it, writing would take as long as calling a fast receiver.
_WRITE_S = 0.2
# Lines that are read from the log at a time, some 100 kB.
_BATCH = 500
# The specification asks receivers to answer within 15 s, and to work afterwards.
_LIMIT_S = 15.0
# Nobody reads what a receiver says beyond its status; some of it is kept for whoever looks for the error.
_ANSWER_BYTES = 4_096
# The waits of a receiver are its own: a circuit would only hide them.
_NO_CIRCUIT = CircuitLimits(failure_threshold=1_000_000)


async def deliver_job(active: ActiveJob, *, webhook_id: int) -> None:
    """Tell one receiver all that it has to hear, as a job of the queue."""
    await deliver(active.engine, webhook_id, is_stopped=lambda: active.leaving, progress=active.tick)
    if active.leaving:
        raise JobReleasedError


async def deliver(
    engine: Engine,
    webhook_id: int,
    *,
    is_stopped: Callable[[], bool] = lambda: False,
    progress: Callable[[], None] = lambda: None,
    random: Random | None = None,
) -> int:
    """Tell one receiver all that it has to hear; returns how many changes it acknowledged."""
    chance = random or Random()  # noqa: S311 - jitter, not a secret
    delivered = 0
    async with AsyncExitStack() as stack:
        client: Client | None = None
        while not is_stopped():
            async with engine.database.connection() as c:
                webhook = await webhooks.by_id(c, webhook_id)
                if webhook is None or webhook.state != "active":
                    break
                batch = await webhooks.pending(c, webhook, limit=_BATCH)
            if client is None and batch.lines:
                client = await stack.enter_async_context(_client(engine))
            told = await _tell(engine, client, webhook, batch, chance, is_stopped=is_stopped, progress=progress)
            delivered += told
            if told < len(batch.lines) or batch.is_all:
                break
    return delivered


def subject_of(webhook: Webhook) -> Source:
    """A receiver in the shape in which it is agreed which secrets may go where."""
    options = {f"secret_{number}": secret for number, secret in enumerate(webhook.secrets)}
    return Source(0, f"webhook {webhook.name}", "webhook", webhook.url, options=options)


def _client(engine: Engine) -> Client:
    """A client that keeps no pause between calls: these are messages that somebody asked for."""
    throttle = Throttle(delay_s=0.0, concurrency=_AT_ONCE, longest_s=engine.settings.retry_after_limit_s)
    return Client(engine.settings, throttle=throttle, breakers=Breakers(_NO_CIRCUIT))


class _Delivery:
    """Changes on their way to a receiver, and what became of each.

    Calls answer in any order. What is written down is the number up to which all were acknowledged, and which later
    ones were as well, so that a crash repeats only what was not written yet.
    """

    def __init__(self, engine: Engine, webhook: Webhook, batch: LogBatch) -> None:
        self._engine = engine
        self._webhook = webhook
        self._lines = batch.lines
        self._reached = batch.reached
        self._waiting = iter(batch.lines)
        self._acknowledged: set[int] = set(webhook.ahead)
        self._unwritten: list[Attempt] = []
        self._first = 0
        self._failures, self._failing_since = webhook.failures, webhook.failing_since
        self.failure: Attempt | None = None
        self.is_gone = False
        self.count = 0

    def next_lines(self, most: int) -> list[Change]:
        """The changes to tell next; none after one that failed."""
        return list(islice(self._waiting, most)) if self.failure is None else []

    def note(self, attempts: Sequence[Attempt]) -> None:
        """Take notice of what became of calls."""
        for attempt in attempts:
            self._unwritten.append(attempt)
            if attempt.error is None:
                self._acknowledged.add(attempt.number)
                self.count += 1
                continue
            self.is_gone |= attempt.status is not None and verdict(attempt.status) == "gone"
            if self.failure is None or attempt.number < self.failure.number:
                self.failure = attempt

    def _after(self) -> int:
        """The number up to which there is nothing left to tell."""
        while self._first < len(self._lines) and self._lines[self._first].number in self._acknowledged:
            self._first += 1
        if self._first == len(self._lines):
            return self._reached
        return self._lines[self._first - 1].number if self._first else self._webhook.after

    async def write(self) -> None:
        """Write down what was acknowledged since the last time."""
        attempts, self._unwritten = self._unwritten, []
        after = self._after()
        if not attempts and after == self._webhook.after:
            return
        ahead = sorted(number for number in self._acknowledged if number > after)
        async with self._engine.database.transaction() as c:
            await webhooks.record(c, self._webhook.id, attempts)
            await webhooks.settle_success(c, self._webhook, after=after, ahead=ahead)
        self._failures, self._failing_since = 0, None

    async def write_failure(self, random: Random) -> None:
        """Write down what was acknowledged, what failed, and when to call again."""
        webhook, after = self._webhook, self._after()
        ahead = sorted(number for number in self._acknowledged if number > after)
        if self.count:
            # A receiver that failed before gets one call first, and has accepted it.
            self._failures, self._failing_since = 0, None
        since = self._failing_since or datetime.now(UTC)
        async with self._engine.database.transaction() as c:
            await webhooks.record(c, webhook.id, self._unwritten)
            if self.count:
                await webhooks.settle_success(c, webhook, after=after, ahead=ahead)
            await webhooks.settle_failure(
                c,
                webhook,
                after=after,
                ahead=ahead,
                error=(self.failure.error if self.failure else None) or "",
                wait_s=wait_s(self._failures + 1, random),
                disabled=self.is_gone or datetime.now(UTC) - since > GIVE_UP,
            )


async def _tell(
    engine: Engine,
    client: Client | None,
    webhook: Webhook,
    batch: LogBatch,
    random: Random,
    *,
    is_stopped: Callable[[], bool],
    progress: Callable[[], None],
) -> int:
    """Send some changes, a few at a time; stops at the first that fails. Returns how many were acknowledged."""
    telling = _Delivery(engine, webhook, batch)
    send = _sender(engine, client, webhook) if batch.lines else None
    # People get one message about many changes, one after the other.
    most, at_once = (MOST_IN_A_NOTICE, 1) if webhook.form == "notice" else (1, _AT_ONCE)

    async def tell_on(*, once: bool = False) -> None:
        while send is not None and not is_stopped() and (part := telling.next_lines(most)):
            telling.note(await send(part))
            progress()
            if once:
                return

    if webhook.failures:
        # A receiver that failed gets one call first.
        await tell_on(once=True)
    async with _side_by_side(tell_on, at_once) as calls:
        while calls:
            _, calls = await asyncio.wait(calls, timeout=_WRITE_S)
            if telling.failure is None:
                await telling.write()
    if telling.failure is not None:
        await telling.write_failure(random)
    else:
        await telling.write()
    return telling.count


@asynccontextmanager
async def _side_by_side(
    work: Callable[[], Coroutine[Any, Any, None]], number: int
) -> AsyncGenerator[set[asyncio.Task[None]]]:
    """So many tasks that do the same; none is left behind, and what one of them raised is raised."""
    tasks = {asyncio.create_task(work()) for _ in range(number)}
    try:
        yield set(tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
    await asyncio.gather(*tasks)


Send: TypeAlias = Callable[[Sequence[Change]], Awaitable[list[Attempt]]]


def _sender(engine: Engine, client: Client | None, webhook: Webhook) -> Send:
    """How a receiver is told of changes; one whose secrets may not be used, or are not there, cannot be."""
    try:
        agreements.refuse_strange(engine.settings, subject_of(webhook))
        secrets = [resolve(secret) for secret in webhook.secrets]
    except RowenError as problem:
        why = str(problem)

        async def refuse(part: Sequence[Change]) -> list[Attempt]:
            return [Attempt(part[0].number, None, why, 0.0)]

        return refuse

    async def call(part: Sequence[Change]) -> list[Attempt]:
        assert client is not None  # noqa: S101 (there are lines to send)
        return [await _call(client, webhook, change, secrets) for change in part]

    async def notify(part: Sequence[Change]) -> list[Attempt]:
        return await _notify(engine, secrets[0], part)

    return notify if webhook.form == "notice" else call


async def _notify(engine: Engine, address: str, part: Sequence[Change]) -> list[Attempt]:
    """Tell people of some changes in one message: all of them are told, or none."""
    began = time.monotonic()
    async with engine.database.connection() as c:
        told = await changes.published(c, [change.number for change in part])
    error = None
    try:
        with one_item("A notice"):
            await send(address, *notice(told), allowed=engine.settings.allow_addresses)
    except RowenError as problem:
        error = str(problem)
    took_s = time.monotonic() - began
    return [Attempt(change.number, None, error, took_s) for change in part]


async def _call(client: Client, webhook: Webhook, change: Change, secrets: Sequence[str]) -> Attempt:
    sent = message(webhook.id, change, secrets=secrets, timestamp=int(time.time()))
    began = time.monotonic()
    try:
        with one_item(f"The call about change {change.number}"):
            answer = await client.request(
                "POST",
                webhook.url,
                headers=sent.headers,
                body=sent.body,
                limit_s=_LIMIT_S,
                tries=1,
                follow=False,
                max_bytes=_ANSWER_BYTES,
            )
    except (FetchError, ItemError) as problem:
        return Attempt(change.number, None, str(problem), time.monotonic() - began)
    took_s = time.monotonic() - began
    what = verdict(answer.status)
    error = None if what == "delivered" else f"It answered with status {answer.status}."
    return Attempt(change.number, answer.status, error, took_s)
