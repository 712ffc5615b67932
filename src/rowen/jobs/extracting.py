"""The job that extracts facts from what changed in a source. It waits for providers and budgets, and goes on later."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rowen.errors import BudgetExceededError, class_of
from rowen.store import source_schemas, sources
from rowen.store.database import Connection, Database

if TYPE_CHECKING:
    from rowen.jobs.policy import JobTrouble
    from rowen.jobs.tasks import AtWork
    from rowen.model.extraction import ExtractionReport

__all__ = ["QUEUE", "extract_task", "put_behind", "put_extraction"]

QUEUE = "extract"
"""A queue of its own: a slow model does not take the places of syncs."""


async def put_extraction(
    c: Connection,
    database: Database,
    source_id: int,
    *,
    schema: str | None = None,
    order: dict[str, Any] | None = None,
) -> int | None:
    """Have what changed in a source extracted, as a part of a transaction; None if a job for that waits already.

    `schema` is the name of one that it carries, where not all are meant; `order` are fields of an `ExtractionOrder`.
    """
    from procrastinate.jobs import Job as Entry

    from rowen.store import queue

    # What is as usual is left out, so that jobs look as they always did.
    narrower = {name: value for name, value in (("schema", schema), ("order", order)) if value}
    entry = Entry(
        queue=QUEUE,
        task_name="extract",
        priority=0,
        lock=f"extract:{source_id}",
        queueing_lock=f"extract:{source_id}",
        task_kwargs={"source_id": source_id, **narrower},
    )
    return await queue.defer(c, database, entry)


async def put_behind(c: Connection, database: Database, source_id: int) -> None:
    """The same, if there is anything to extract."""
    if await source_schemas.sources_behind(c, source_id):
        await put_extraction(c, database, source_id)


async def extract_task(
    at_work: AtWork, *, source_id: int, schema: str | None = None, order: Mapping[str, Any] | None = None
) -> None:
    """Extract what changed in a source, as `rowen extract --source` does; to end early is to begin no more calls."""
    from rowen.harvest.extraction import ExtractionOrder
    from rowen.harvest.extractor import Extractor
    from rowen.jobs.tasks import JobTroubledError  # the table of tasks names this one

    engine = at_work.engine
    async with engine.database.connection() as c:
        source = await sources.by_id(c, source_id)
        carried = await source_schemas.carried(c, source_id)
    if source is None or all(schema not in (None, one.schema.name) for one in carried):
        return
    asked = ExtractionOrder(**(order or {}))

    def observe(_: ExtractionReport) -> None:
        at_work.tick()

    async with engine.work() as work:
        at_work.work = work
        if at_work.is_ending:
            engine.end(work)
        reports = await Extractor(engine).source(source, name=schema, order=asked, work=work, observe=observe)
    if at_work.is_ending and any(report.pending for report in reports):
        raise at_work.early_end()
    trouble = await _trouble(engine.database, source_id, reports)
    # Who set a budget for one pass did not ask for another one when it is spent.
    if trouble is not None and not (trouble.kind is BudgetExceededError and asked.has_budget):
        raise JobTroubledError(trouble)


async def _trouble(database: Database, source_id: int, reports: list[ExtractionReport]) -> JobTrouble | None:
    """What the rest waits for, with the time at which it may go on."""
    from rowen.jobs.policy import JobTrouble

    waiting = next((report.waits_for for report in reports if report.waits_for), None)
    if waiting is None:
        return None
    async with database.connection() as c:
        until, code = await source_schemas.waits(c, source_id)
    wait_s = max((until - datetime.now(UTC)).total_seconds(), 1.0) if until is not None else None
    return JobTrouble(waiting, class_of(code), wait_s)
