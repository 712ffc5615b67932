"""Telling receivers what changed: each change once, in the order of the log, however often a receiver fails.

A receiver reads the log from its own number. What it acknowledged is remembered one by one, so that a change which
fails keeps back none of those that were under way beside it, and none is sent again. What is repeated has the id that
it had before: after a crash, at most the calls that were under way are.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any

from rowen.errors import FetchError, RowenError
from rowen.fetch.breaker import Breakers, CircuitLimits
from rowen.fetch.client import Client
from rowen.fetch.credentials import resolve
from rowen.fetch.politeness import Throttle
from rowen.harvest import agreements
from rowen.harvest.engine import Engine
from rowen.jobs.tasks import AtWork, JobReleasedError
from rowen.model.run import Change
from rowen.model.source import Source
from rowen.model.webhook import Webhook
from rowen.publish.notices import MOST_IN_A_NOTICE, notice, send
from rowen.publish.webhook import GIVE_UP, message, verdict, wait_s
from rowen.store import publications, webhooks
from rowen.store.webhooks import Attempt

__all__ = ["deliver", "deliver_job", "subject_of"]

# Calls under way to one receiver: at 50 ms each, 320 a second. Each such part is one transaction, written while the
# next one is sent; half of it would write twice as often, twice would repeat more after a crash. A receiver that wants
# no more says 429.
_AT_ONCE = 16
# Lines that are read from the log at a time, some 100 kB.
_BATCH = 500
# The specification asks receivers to answer within 15 s, and to work afterwards.
_LIMIT_S = 15.0
# Nobody reads what a receiver says beyond its status; some of it is kept for whoever looks for the error.
_ANSWER_BYTES = 4_096
# The waits of a receiver are its own: a circuit would only hide them.
_NO_CIRCUIT = CircuitLimits(failure_threshold=1_000_000)


async def deliver_job(at_work: AtWork, *, webhook_id: int) -> None:
    """Tell one receiver all that it has to hear, as a job of the queue."""
    await deliver(at_work.engine, webhook_id, is_stopped=lambda: at_work.leaving, progress=at_work.tick)
    if at_work.leaving:
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
                lines, done = await webhooks.pending(c, webhook, limit=_BATCH)
            if client is None and lines:
                client = await stack.enter_async_context(_client(engine))
            told = await _tell(engine, client, webhook, lines, done, chance, is_stopped=is_stopped, progress=progress)
            delivered += told
            if told < len(lines) or len(lines) < _BATCH:
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


class _Writing:
    """One statement after the other, each beside what goes on."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    async def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin with this when the last one is done."""
        try:
            await self.aclose()
        except BaseException:
            work.close()
            raise
        self._task = asyncio.create_task(work)

    async def aclose(self) -> None:
        """Wait for the last one; raises what it raised."""
        task, self._task = self._task, None
        if task is not None:
            await task


async def _tell(
    engine: Engine,
    client: Client | None,
    webhook: Webhook,
    lines: Sequence[Change],
    done: int,
    random: Random,
    *,
    is_stopped: Callable[[], bool],
    progress: Callable[[], None],
) -> int:
    """Send some changes, a few at a time; stops at the first that fails. Returns how many were acknowledged.

    What was acknowledged is written while the next ones are under way: a crash repeats two parts at most.
    """
    writing = _Writing()
    acknowledged: set[int] = set(webhook.ahead)
    count = 0
    # A receiver that failed gets one call first; people get one message about many changes.
    most = MOST_IN_A_NOTICE if webhook.form == "notice" else _AT_ONCE
    size = 1 if webhook.failures and webhook.form == "webhook" else most
    start = 0
    async with aclosing(writing):
        while start < len(lines) and not is_stopped():
            part = lines[start : start + size]
            attempts = await _send(engine, client, webhook, part)
            progress()
            good = {attempt.number for attempt in attempts if attempt.error is None}
            acknowledged |= good
            count += len(good)
            start, size = start + len(part), most
            if len(good) < len(part):
                await writing.aclose()
                await _failed(engine, webhook, lines, acknowledged, attempts, random)
                return count
            after = done if start >= len(lines) else part[-1].number
            await writing.begin(_succeeded(engine, webhook, attempts, after))
            webhook = replace(webhook, failures=0)
    if not lines:
        await _succeeded(engine, webhook, [], done)
    return count


async def _send(engine: Engine, client: Client | None, webhook: Webhook, part: Sequence[Change]) -> list[Attempt]:
    assert client is not None  # noqa: S101 (there are lines to send)
    try:
        agreements.refuse_strange(engine.settings, subject_of(webhook))
        secrets = [resolve(secret) for secret in webhook.secrets]
    except RowenError as problem:
        return [Attempt(part[0].number, None, str(problem), 0.0)]
    if webhook.form == "notice":
        return await _notify(engine, secrets[0], part)
    return list(await asyncio.gather(*(_call(client, webhook, change, secrets) for change in part)))


async def _notify(engine: Engine, address: str, part: Sequence[Change]) -> list[Attempt]:
    """Tell people of some changes in one message: all of them are told, or none."""
    began = time.monotonic()
    async with engine.database.connection() as c:
        told = await publications.of_numbers(c, [change.number for change in part])
    error = None
    try:
        await send(address, *notice(told), allowed=engine.settings.allow_addresses)
    except RowenError as problem:
        error = str(problem)
    took_s = time.monotonic() - began
    return [Attempt(change.number, None, error, took_s) for change in part]


async def _call(client: Client, webhook: Webhook, change: Change, secrets: Sequence[str]) -> Attempt:
    sent = message(webhook.id, change, secrets=secrets, timestamp=int(time.time()))
    began = time.monotonic()
    try:
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
    except FetchError as problem:
        return Attempt(change.number, None, str(problem), time.monotonic() - began)
    took_s = time.monotonic() - began
    what = verdict(answer.status)
    error = None if what == "delivered" else f"It answered with status {answer.status}."
    return Attempt(change.number, answer.status, error, took_s)


async def _succeeded(engine: Engine, webhook: Webhook, attempts: Sequence[Attempt], after: int) -> None:
    async with engine.database.transaction() as c:
        await webhooks.record(c, webhook.id, attempts)
        await webhooks.settle_success(c, webhook.id, after)


async def _failed(
    engine: Engine,
    webhook: Webhook,
    lines: Sequence[Change],
    acknowledged: set[int],
    attempts: Sequence[Attempt],
    random: Random,
) -> None:
    """Remember what was delivered, and when to call again."""
    first = next(attempt for attempt in attempts if attempt.error is not None)
    before = [change.number for change in lines if change.number < first.number]
    after = before[-1] if before else webhook.after
    gone = any(attempt.status is not None and verdict(attempt.status) == "gone" for attempt in attempts)
    since = webhook.failing_since or datetime.now(UTC)
    disabled = gone or datetime.now(UTC) - since > GIVE_UP
    async with engine.database.transaction() as c:
        await webhooks.record(c, webhook.id, attempts)
        await webhooks.settle_failure(
            c,
            webhook,
            after=after,
            ahead=sorted(number for number in acknowledged if number > after),
            error=first.error or "",
            wait_s=wait_s(webhook.failures + 1, random),
            disabled=disabled,
        )
