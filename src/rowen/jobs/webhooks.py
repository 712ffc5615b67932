"""Deliver changes to webhooks: each change once, in the order of the change log, with retries.

A webhook has its own offset in the log. Acknowledgements are stored one by one, so that a failed delivery does not
cause concurrent deliveries to be repeated. After a crash, deliveries that were pending or just acknowledged are
repeated with the same id.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from itertools import islice
from random import Random
from typing import TypeAlias

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
from rowen.publish.webhooks import GIVE_UP, MOST_IN_A_NOTICE, message, notice, send, verdict, wait_s
from rowen.settings import Settings
from rowen.store import changes, webhooks
from rowen.store.changes import LogBatch
from rowen.store.webhooks import Attempt

# Concurrent requests to a receiver: at 50 ms each, 320 a second. A receiver can limit them with status 429.
_AT_ONCE = 16
# The interval of storing acknowledgements: a crash repeats the deliveries of that time. At a tenth of it, storing would
# take as long as calling a fast receiver.
_WRITE_S = 0.2
# Lines read from the log at a time, some 100 kB.
_BATCH = 500
# Standard Webhooks: receivers should answer within 15 s.
_LIMIT_S = 15.0
# Only the status matters; the start of the body is kept for diagnosis.
_ANSWER_BYTES = 4_096
# Webhooks and endpoints have their own retry delays; a circuit would only hide them.
_NO_CIRCUIT = CircuitLimits(failure_threshold=1_000_000)


async def deliver_job(active: ActiveJob, *, webhook_id: int) -> None:
    """Deliver all pending changes to a webhook, as a job of the queue."""
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
    """Deliver all pending changes to a webhook; return the number of acknowledged changes."""
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
                client = await stack.enter_async_context(direct_client(engine.settings, _AT_ONCE))
            count = await _send_batch(engine, client, webhook, batch, chance, is_stopped=is_stopped, progress=progress)
            delivered += count
            if count < len(batch.lines) or batch.is_all:
                break
    return delivered


def subject_of(webhook: Webhook) -> Source:
    """Return a source that stands for a webhook, since agreements on secrets are stored for sources."""
    options = {f"secret_{number}": secret for number, secret in enumerate(webhook.secrets)}
    return Source(0, f"webhook {webhook.name}", "webhook", webhook.url, options=options)


def direct_client(settings: Settings, concurrency: int) -> Client:
    """Return a client without delays and circuits, for receivers that the user configured."""
    throttle = Throttle(delay_s=0.0, concurrency=concurrency, longest_s=settings.retry_after_limit_s)
    return Client(settings, throttle=throttle, breakers=Breakers(_NO_CIRCUIT))


class _Delivery:
    """A batch of changes for a webhook, and the result of each delivery.

    Requests end in any order. The number up to which all changes were acknowledged is stored, with the later numbers
    that were acknowledged too, so that a crash repeats only deliveries that are not stored.
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
        """Return the next changes to send; empty after a failure."""
        return list(islice(self._waiting, most)) if self.failure is None else []

    def note(self, attempts: Sequence[Attempt]) -> None:
        """Record the results of requests."""
        for attempt in attempts:
            self._unwritten.append(attempt)
            if attempt.error is None:
                self._acknowledged.add(attempt.number)
                self.count += 1
                continue
            self.is_gone |= attempt.status is not None and verdict(attempt.status) == "gone"
            if self.failure is None or attempt.number < self.failure.number:
                self.failure = attempt

    def _progress(self) -> tuple[int, list[int]]:
        """Return the number up to which all changes were acknowledged, and the later acknowledged numbers."""
        while self._first < len(self._lines) and self._lines[self._first].number in self._acknowledged:
            self._first += 1
        after = self._lines[self._first - 1].number if self._first else self._webhook.after
        if self._first == len(self._lines):
            after = self._reached
        return after, sorted(number for number in self._acknowledged if number > after)

    async def write(self) -> None:
        """Store the acknowledgements since the previous call."""
        attempts, self._unwritten = self._unwritten, []
        after, ahead = self._progress()
        if not attempts and after == self._webhook.after:
            return
        async with self._engine.database.transaction() as c:
            await webhooks.record(c, self._webhook.id, attempts)
            await webhooks.settle_success(c, self._webhook, after=after, ahead=ahead)
        self._failures, self._failing_since = 0, None

    async def write_failure(self, random: Random) -> None:
        """Store acknowledgements, the failure and the time of the next try."""
        webhook = self._webhook
        after, ahead = self._progress()
        if self.count:
            # A webhook that failed before gets a single request first; it has accepted this request.
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


async def _send_batch(
    engine: Engine,
    client: Client | None,
    webhook: Webhook,
    batch: LogBatch,
    random: Random,
    *,
    is_stopped: Callable[[], bool],
    progress: Callable[[], None],
) -> int:
    """Send changes, a few at a time, until a delivery fails; return the number of acknowledged changes."""
    delivery = _Delivery(engine, webhook, batch)
    send = _sender(engine, client, webhook) if batch.lines else None
    # Notices to people contain many changes each and are sent one at a time.
    most, at_once = (MOST_IN_A_NOTICE, 1) if webhook.form == "notice" else (1, _AT_ONCE)

    async def send_pending(*, once: bool = False) -> None:
        while send is not None and not is_stopped() and (part := delivery.next_lines(most)):
            delivery.note(await send(part))
            progress()
            if once:
                return

    if webhook.failures:
        # A webhook that failed gets a single request first.
        await send_pending(once=True)
    calls = [asyncio.create_task(send_pending()) for _ in range(at_once)]
    try:
        pending = set(calls)
        while pending:
            _, pending = await asyncio.wait(pending, timeout=_WRITE_S)
            if delivery.failure is None:
                await delivery.write()
    except BaseException:
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        raise
    await asyncio.gather(*calls)
    if delivery.failure is not None:
        await delivery.write_failure(random)
    else:
        await delivery.write()
    return delivery.count


Send: TypeAlias = Callable[[Sequence[Change]], Awaitable[list[Attempt]]]


def _sender(engine: Engine, client: Client | None, webhook: Webhook) -> Send:
    """Return the function that sends changes; if secrets are missing or not agreed to, all its deliveries fail."""
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
        [change] = part
        signed = message(webhook.id, change, secrets=secrets, timestamp=int(time.time()))
        status = error = None
        began = time.monotonic()
        try:
            with one_item(f"The delivery of change {change.number}"):
                answer = await client.request(
                    "POST",
                    webhook.url,
                    headers=signed.headers,
                    body=signed.body,
                    limit_s=_LIMIT_S,
                    tries=1,
                    follow=False,
                    max_bytes=_ANSWER_BYTES,
                )
                status = answer.status
                error = None if verdict(status) == "delivered" else f"It answered with status {status}."
        except (FetchError, ItemError) as problem:
            error = str(problem)
        return [Attempt(change.number, status, error, time.monotonic() - began)]

    async def notify(part: Sequence[Change]) -> list[Attempt]:
        """Send a notice about several changes, which succeeds or fails as a whole."""
        error = None
        began = time.monotonic()
        async with engine.database.connection() as c:
            published = await changes.published(c, [change.number for change in part])
        try:
            with one_item("A notice"):
                await send(secrets[0], *notice(published), allowed=engine.settings.allow_addresses)
        except RowenError as problem:
            error = str(problem)
        took_s = time.monotonic() - began
        return [Attempt(change.number, None, error, took_s) for change in part]

    return notify if webhook.form == "notice" else call
