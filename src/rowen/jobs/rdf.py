"""Telling SPARQL endpoints what pages state: by updates, in the order of the log, each change once.

An endpoint that was told nothing is sent the present state, then what changed since. What it took is noted after each
request; a crash repeats one, which does no harm. One that fails is tried again after a while, longer each time: no
harvest waits for it, and nothing is skipped.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from random import Random

from rowen.errors import BusyError, ExportError, Hint, RefusedError, RowenError, StoreError, action
from rowen.harvest import agreements
from rowen.harvest.engine import Engine
from rowen.jobs.tasks import ActiveJob
from rowen.model.rdf import StatementChange, StatementReport, StatementTarget
from rowen.model.sources import Source
from rowen.net.circuits import Breakers, CircuitLimits
from rowen.net.client import Client
from rowen.net.credentials import Credentials
from rowen.net.politeness import Throttle
from rowen.net.target import redact
from rowen.publish.statements import SparqlUpdate, updates
from rowen.publish.webhook import GIVE_UP, wait_s
from rowen.store import changes, rdf
from rowen.store.database import Database

__all__ = ["StatementPush", "endpoint_as_source", "push_job"]

# The waits of an endpoint are its own: a circuit would only hide them.
_NO_CIRCUIT = CircuitLimits(failure_threshold=1_000_000)
# Updates of 500 statements take a store some hundred milliseconds; one that rebuilds its indexes takes a minute.
_LIMIT_S = 120.0
# Nobody reads what an endpoint says beyond its status.
_ANSWER_BYTES = 65_536
# Changes that are held at a time: a page of 1,865 statements, as the largest recorded one has, is 300 kB.
_CHANGES_AT_ONCE = 100


async def push_job(active: ActiveJob, *, target_id: int) -> None:
    """Tell one endpoint all that it has to hear, as a job of the queue."""
    engine = active.engine
    async with engine.database.connection() as c:
        target = await rdf.target_by_id(c, target_id)
    if target is None or target.state != "active":
        return
    push = StatementPush(engine, target, tries=1, is_stopped=lambda: active.is_ending, progress=active.tick)
    try:
        await push.send()
    except BusyError:
        raise
    except RowenError as problem:
        await _failed(engine, target, problem)
    if active.is_ending:
        raise active.early_end()


async def _failed(engine: Engine, target: StatementTarget, problem: RowenError) -> None:
    """Remember why, and when to try again."""
    since = target.failing_since or datetime.now(UTC)
    chance = Random()  # noqa: S311 - jitter, not a secret
    async with engine.database.transaction() as c:
        await rdf.note_target_failure(
            c,
            target.id,
            error=str(problem),
            wait_s=wait_s(target.failures + 1, chance),
            disabled=datetime.now(UTC) - since > GIVE_UP,
        )


def endpoint_as_source(source: str, endpoint: str, headers: object) -> Source:
    """An endpoint in the shape in which it is agreed which secrets may go where."""
    return Source(0, f"endpoint of {source}", "statement endpoint", endpoint, options={"headers": headers})


class StatementPush:
    """One endpoint that is brought up to date; `tries` are those of each request, by default the setting's."""

    def __init__(
        self,
        engine: Engine,
        target: StatementTarget,
        *,
        tries: int | None = None,
        is_stopped: Callable[[], bool] = lambda: False,
        progress: Callable[[], None] = lambda: None,
    ) -> None:
        self._engine = engine
        self._database = engine.database
        self._target = target
        self._tries = tries
        self._is_stopped = is_stopped
        self._progress = progress
        self._credentials = Credentials.of(target.endpoint, target.headers)
        self._counts: Counter[str] = Counter()
        self._position = self._sent = 0

    async def send(self, *, again: bool = False) -> StatementReport:
        """Send what the endpoint was not told yet; `again` all that is stated now, less what is known to be gone."""
        target = self._target
        self._refuse_strange()
        async with (
            rdf.hold_target(self._database, target.source_id, target.endpoint, target.graph) as is_alone,
            self._client() as client,
        ):
            if not is_alone:
                raise BusyError(f"{redact(target.endpoint)} is told by another process at this moment.")
            after = self._position = self._sent = await self._told()
            try:
                if again or after == 0:
                    after = await self._send_all(client, with_removals=again)
                async with aclosing(_changes_since(self._database, target.source, after)) as changed:
                    async for part in changed:
                        # Also before the first one: later changes alone would look like the whole state.
                        if self._is_stopped():
                            break
                        after = await self._send(client, part) or after
            except RowenError:
                await self._rewind()
                raise
        counts = self._counts
        return StatementReport(redact(target.endpoint), counts["pages"], counts["added"], counts["removed"], after)

    async def _told(self) -> int:
        target = self._target
        async with self._database.connection() as c:
            held = await rdf.target(c, target.source_id, target.endpoint, target.graph)
        return held.number if held else 0

    async def _send_all(self, client: Client, *, with_removals: bool) -> int:
        """Send the present state; returns the number of the change that was the last one when it was read."""
        async with self._database.connection() as c:
            last = await changes.last_number(c)
        self._sent = last
        if with_removals:
            async with aclosing(_changes_since(self._database, self._target.source, 0)) as changed:
                async for part in changed:
                    await self._post_all(client, [await self._gone_now(change) for change in part])
        async with (
            self._database.connection() as c,
            aclosing(rdf.current(c, self._target.source_id)) as found,
        ):
            async for batch in found:
                await self._post_all(client, [StatementChange(last, page.page, page.lines) for page in batch])
        if not self._is_stopped():
            await self._advance(last)
        return last

    async def _gone_now(self, change: StatementChange) -> StatementChange:
        """What a change removed and nothing states any more."""
        graph, page = self._target.graph, change.page
        async with self._database.connection() as c:
            stated = await rdf.still_stated(
                c, self._target.source_id, list(change.removed), page=None if graph else page
            )
        gone = [line for line in change.removed if line not in stated]
        return replace(change, added=(), removed=gone, elsewhere=())

    async def _send(self, client: Client, part: Sequence[StatementChange]) -> int | None:
        """Send changes in order, and note what was taken after each request."""
        taken = None
        for update in updates(part, self._target.graph):
            await self._post(client, update)
            if update.number is not None:
                await self._advance(taken := update.number)
            if self._is_stopped():
                break
        return taken

    async def _post_all(self, client: Client, told: Sequence[StatementChange]) -> None:
        for update in updates(told, self._target.graph):
            if self._is_stopped():
                return
            await self._post(client, update)

    async def _post(self, client: Client, update: SparqlUpdate) -> None:
        self._counts.update(pages=update.pages, added=update.added, removed=update.removed)
        if not update.text:
            return
        response = await client.request(
            "POST",
            self._target.endpoint,
            headers={"Content-Type": "application/sparql-update; charset=utf-8"},
            credentials=self._credentials,
            body=update.text.encode(),
            follow=False,
            limit_s=_LIMIT_S,
            tries=self._tries,
            max_bytes=_ANSWER_BYTES,
        )
        self._progress()
        if not response.ok:
            raise ExportError(
                f"{redact(self._target.endpoint)} did not take an update (status {response.status}). "
                "What it took before is noted, and not sent again.",
                hint="If it wants a key, name where that is found: --header 'Authorization: Bearer env:NAME'.",
            )

    async def _advance(self, number: int) -> None:
        target = self._target
        async with self._database.transaction() as c:
            is_mine = await rdf.advance_target(
                c, target.source_id, target.endpoint, target.graph, number, before=self._position
            )
        if not is_mine:
            raise BusyError(
                f"{redact(target.endpoint)} was told, or forgotten, by another process meanwhile. "
                "What followed the change that was sent last is told once more."
            )
        self._position = self._sent = number

    async def _rewind(self) -> None:
        """Send again what another process may have sent after a failed request: that request may have been applied."""
        target = self._target
        with suppress(StoreError):
            async with self._database.transaction() as c:
                await rdf.rewind_target(c, target.source_id, target.endpoint, target.graph, self._sent)

    def _client(self) -> Client:
        """A client that keeps no pause between updates: whoever named the endpoint wants them."""
        settings = self._engine.settings
        throttle = Throttle(delay_s=0.0, concurrency=1, longest_s=settings.retry_after_limit_s)
        return Client(settings, throttle=throttle, breakers=Breakers(_NO_CIRCUIT))

    def _refuse_strange(self) -> None:
        target = self._target
        subject = endpoint_as_source(target.source, target.endpoint, dict(target.headers))
        if not agreements.is_agreed(self._engine.settings, subject):
            raise RefusedError(
                f"The endpoint {redact(target.endpoint)} wants secrets of this machine, which was not agreed to here, "
                "and others may write to the database. Nothing was sent.",
                hint=Hint(action("statements keep", target.source), " with the same address and headers agrees to it."),
            )


async def _changes_since(database: Database, source: str, after: int) -> AsyncGenerator[list[StatementChange]]:
    """How statements changed after a number, in order, some at a time."""
    while True:
        async with database.connection() as c:
            found = await rdf.changed(c, source, after=after, limit=_CHANGES_AT_ONCE)
        if not found:
            return
        yield found
        after = found[-1].number
