"""Send RDF statements to SPARQL endpoints: as updates, in the order of the change log, each change once.

A new endpoint gets the present state, then all later changes. The offset is stored after each request; a crash repeats
one request, which is harmless. Failures are retried with growing delays: no harvest waits for them, and no change is
skipped.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from random import Random

from rowen.errors import BusyError, ExportError, Hint, RefusedError, RowenError, StoreError, action
from rowen.harvest import agreements
from rowen.harvest.engine import Engine
from rowen.jobs.tasks import ActiveJob
from rowen.jobs.webhooks import direct_client
from rowen.model.rdf import StatementChange, StatementReport, StatementTarget
from rowen.model.sources import Source
from rowen.net.client import Client
from rowen.net.credentials import Credentials
from rowen.net.target import redact
from rowen.publish.rdf import SparqlUpdate, updates
from rowen.publish.webhooks import GIVE_UP, wait_s
from rowen.store import changes, rdf
from rowen.store.database import Database

# An update of 500 statements takes some hundred milliseconds; an update that rebuilds indexes takes a minute.
_LIMIT_S = 120.0
# Only the status of the answer matters, so little of its body is read.
_ANSWER_BYTES = 65_536
# Changes in memory at a time: the largest recorded page has 1,865 statements, 300 kB.
_CHANGES_AT_ONCE = 100


async def push_job(active: ActiveJob, *, target_id: int) -> None:
    """Send all pending changes to an endpoint, as a job of the queue."""
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
    if active.is_ending:
        raise active.early_end()


def endpoint_as_source(source: str, endpoint: str, headers: object) -> Source:
    """Return a source that stands for an endpoint, since agreements on secrets are stored for sources."""
    return Source(0, f"endpoint of {source}", "statement endpoint", endpoint, options={"headers": headers})


@dataclass
class StatementPush:
    """Brings an endpoint up to date; `tries` limits the tries of each request, None stands for the setting."""

    engine: Engine
    target: StatementTarget
    tries: int | None = None
    is_stopped: Callable[[], bool] = lambda: False
    progress: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self._credentials = Credentials.of(self.target.endpoint, self.target.headers)
        self._counts: Counter[str] = Counter()
        self._position = self._sent = 0

    async def send(self, *, again: bool = False) -> StatementReport:
        """Send pending changes; with `again`, send the present state and remove all statements known to be gone."""
        target = self.target
        subject = endpoint_as_source(target.source, target.endpoint, dict(target.headers))
        if not agreements.is_agreed(self.engine.settings, subject):
            raise RefusedError(
                f"The endpoint {redact(target.endpoint)} needs secrets of this machine. That was not agreed to here, "
                "and others may write to the database. Nothing was sent.",
                hint=Hint(action("statements keep", target.source), " with the same address and headers agrees to it."),
            )
        async with (
            rdf.hold_target(self.engine.database, target.source_id, target.endpoint, target.graph) as is_alone,
            direct_client(self.engine.settings, 1) as client,
        ):
            if not is_alone:
                raise BusyError(f"Another process is sending to {redact(target.endpoint)} at the moment.")
            async with self.engine.database.connection() as c:
                stored = await rdf.target(c, target.source_id, target.endpoint, target.graph)
            after = self._position = self._sent = stored.number if stored else 0
            try:
                if again or after == 0:
                    after = await self._send_all(client, with_removals=again)
                async with aclosing(_changes_since(self.engine.database, target.source, after)) as changed:
                    async for part in changed:
                        # This is also checked before the first part: if only later changes were sent, they would look
                        # like the whole state.
                        if self.is_stopped():
                            break
                        for update in updates(part, target.graph):
                            await self._post(client, update)
                            if update.number is not None:
                                await self._advance(after := update.number)
                            if self.is_stopped():
                                break
            except RowenError:
                # Rewind even if another process has sent later changes: the endpoint may still apply the failed
                # request.
                with suppress(StoreError):
                    async with self.engine.database.transaction() as c:
                        await rdf.rewind_target(c, target.source_id, target.endpoint, target.graph, self._sent)
                raise
        counts = self._counts
        return StatementReport(redact(target.endpoint), counts["pages"], counts["added"], counts["removed"], after)

    async def _send_all(self, client: Client, *, with_removals: bool) -> int:
        """Send the present state; return the number of the last change that it includes."""
        async with self.engine.database.connection() as c:
            last = await changes.last_number(c)
        self._sent = last
        if with_removals:
            async with aclosing(_changes_since(self.engine.database, self.target.source, 0)) as changed:
                async for part in changed:
                    removals = []
                    for change in part:
                        page = None if self.target.graph else change.page
                        async with self.engine.database.connection() as c:
                            stated = await rdf.still_stated(c, self.target.source_id, list(change.removed), page=page)
                        gone = [line for line in change.removed if line not in stated]
                        removals.append(replace(change, added=(), removed=gone, elsewhere=()))
                    await self._post_all(client, removals)
        async with (
            self.engine.database.connection() as c,
            aclosing(rdf.current(c, self.target.source_id)) as batches,
        ):
            async for batch in batches:
                await self._post_all(client, [StatementChange(last, page.page, page.lines) for page in batch])
        if not self.is_stopped():
            await self._advance(last)
        return last

    async def _post_all(self, client: Client, batch: Sequence[StatementChange]) -> None:
        for update in updates(batch, self.target.graph):
            if self.is_stopped():
                return
            await self._post(client, update)

    async def _post(self, client: Client, update: SparqlUpdate) -> None:
        self._counts.update(pages=update.pages, added=update.added, removed=update.removed)
        if not update.text:
            return
        response = await client.request(
            "POST",
            self.target.endpoint,
            headers={"Content-Type": "application/sparql-update; charset=utf-8"},
            credentials=self._credentials,
            body=update.text.encode(),
            follow=False,
            limit_s=_LIMIT_S,
            tries=self.tries,
            max_bytes=_ANSWER_BYTES,
        )
        self.progress()
        if not response.ok:
            raise ExportError(
                f"{redact(self.target.endpoint)} refused an update (status {response.status}). "
                "Earlier updates are recorded and will not be repeated.",
                hint="If it needs a key, refer to it: --header 'Authorization: Bearer env:NAME'.",
            )

    async def _advance(self, number: int) -> None:
        target = self.target
        async with self.engine.database.transaction() as c:
            is_mine = await rdf.advance_target(
                c, target.source_id, target.endpoint, target.graph, number, before=self._position
            )
        if not is_mine:
            raise BusyError(
                f"Another process sent to {redact(target.endpoint)}, or removed it, meanwhile. "
                "Changes after the last sent one will be repeated."
            )
        self._position = self._sent = number


async def _changes_since(database: Database, source: str, after: int) -> AsyncGenerator[list[StatementChange]]:
    """Yield the changes of RDF statements after the change number `after`, in order and in batches."""
    while True:
        async with database.connection() as c:
            batch = await rdf.changes_after(c, source, after=after, limit=_CHANGES_AT_ONCE)
        if not batch:
            return
        yield batch
        after = batch[-1].number
