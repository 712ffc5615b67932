"""add_source, sync_source, remove_source and extract: what an assistant may do where it is allowed to."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from rowen.errors import RefusedError
from rowen.interfaces.mcp.addresses import source_uri
from rowen.interfaces.mcp.tool import Arguments, ToolAnswer, ToolCall, ToolResult, ToolSpec
from rowen.interfaces.mcp.tools.listing import HeldSource, held_source, source_line
from rowen.interfaces.mcp.words import Quotes
from rowen.model.wording import count, inline, moment

if TYPE_CHECKING:
    from rowen.model.runs import Run

__all__ = ["ADD_SOURCE", "EXTRACT", "REMOVE_SOURCE", "SYNC_SOURCE", "SyncAnswer", "synced_soon"]

# A small source is done by then; clients give up on a tool after a minute, some after half of one.
_PATIENCE_S = 20.0


class AddSourceArguments(Arguments):
    """What `add_source` takes."""

    address: str = Field(
        description="What to keep a copy of: a web address, a repository, a catalog or a feed (https://…), or a package"
        " (pypi:requests, npm:react@18).",
        min_length=1,
    )
    name: str | None = Field(default=None, description="A short name; by default made from the address.")
    kind: str | None = Field(default=None, description="Which kind of source it is; by default found out.")
    every: str | None = Field(
        default=None, description="How often to look again: 6h, 1d, auto (as often as it changes). None: when asked."
    )
    options: dict[str, Any] = Field(default={}, description="Options of the kind, such as max_pages or include.")


class AddedSource(ToolResult):
    """What `add_source` gives."""

    source: HeldSource
    notes: tuple[str, ...] = ()


async def added(call: ToolCall, asked: AddSourceArguments) -> ToolAnswer:
    """Keep a copy of something from now on."""
    source = await call.rowen.sources.add(
        asked.address,
        name=asked.name,
        kind=asked.kind,
        options=asked.options,
        reach=call.reach,
        every=asked.every,
    )
    known = held_source(source, call.now)
    told = f"Added:\n{source_line(known, call.now)}\n\nIt was not read yet: sync_source does."
    return ToolAnswer(told, AddedSource(source=known), (source_uri(source.name),))


class SyncSourceArguments(Arguments):
    """What `sync_source` takes."""

    name: str = Field(description="The name of a source (see list_sources).", min_length=1)
    full: bool = Field(default=False, description="Read everything again instead of what may have changed.")
    wait_s: Annotated[
        float, Field(ge=0, le=300, description="How many seconds to wait for the end before answering.")
    ] = _PATIENCE_S


class SyncAnswer(ToolResult):
    """What `sync_source` gives."""

    source: str
    status: str = Field(description="completed, partial, failed, cancelled; running or queued: not done yet.")
    created: int = 0
    updated: int = 0
    amended: int = 0
    unchanged: int = 0
    deleted: int = 0
    failed: int = 0
    deletions_held: int = 0
    run: int | None = None
    job: int | None = None
    error: str | None = None
    remarks: tuple[str, ...] = ()


async def synced(call: ToolCall, asked: SyncSourceArguments) -> ToolAnswer:
    """Bring a source up to date: by a worker if one lives, else here."""
    source = await call.rowen.sources.get(asked.name)
    return await synced_soon(call, source.name, full=asked.full, wait_s=asked.wait_s)


async def synced_soon(call: ToolCall, name: str, *, full: bool, wait_s: float) -> ToolAnswer:
    """The same, for a source that there is."""
    if await call.rowen.queue.list_workers():
        job = await call.rowen.queue.enqueue(name, full=full)
        result = SyncAnswer(source=name, status="queued", job=job.id)
        told = f"{inline(name)}: a worker reads it next (job {job.id}). list_changes shows what comes of it."
        return ToolAnswer(told, result, (source_uri(name),))
    work = call.begin(call.rowen.sync(name, full=full))
    done, _ = await asyncio.wait({work}, timeout=wait_s)
    if not done:
        told = f"{inline(name)}: still being read. list_sources shows when it was last seen whole."
        return ToolAnswer(told, SyncAnswer(source=name, status="running"), (source_uri(name),))
    return _run_answer(work.result())


def _run_answer(run: Run) -> ToolAnswer:
    from rowen.operations.summary import cost, counts, remarks

    notes = [str(remark) for remark in remarks(run)]
    stats = run.stats
    result = SyncAnswer(
        source=run.source,
        status=run.status,
        created=stats.created,
        updated=stats.updated,
        amended=stats.amended,
        unchanged=stats.unchanged,
        deleted=stats.deleted,
        failed=stats.failed,
        deletions_held=stats.deletions_held,
        run=run.id,
        error=run.error,
        remarks=notes,
    )
    became = ", ".join(text for text, _ in counts(stats)) or "nothing there"
    lines = [f"{inline(run.source)}: {run.status}; {became}. {cost(stats).capitalize()}."]
    lines += [f"- {inline(note)}" for note in notes]
    return ToolAnswer("\n".join(lines), result, (source_uri(run.source),))


class RemoveSourceArguments(Arguments):
    """What `remove_source` takes."""

    name: str = Field(description="The name of the source.", min_length=1)
    items: int = Field(
        ge=0, description="How many items it holds, from list_sources: a check that this is the one that you mean."
    )


class RemovedSource(ToolResult):
    """What `remove_source` gives."""

    source: str
    removed: int


async def removed(call: ToolCall, asked: RemoveSourceArguments) -> ToolAnswer:
    """Forget a source with all its items."""
    source = await call.rowen.sources.get(asked.name)
    if source.items != asked.items:
        raise RefusedError(
            f"Source {source.name!r} holds {count(source.items, 'item')}, not {asked.items:,}. Nothing was removed.",
            hint="Ask the user whether it is the one that is meant, and give the number that it has now.",
        )
    gone = await call.rowen.sources.remove(source.name)
    told = f"Removed {inline(source.name)} with {count(gone, 'item')}. The change log keeps what it was."
    return ToolAnswer(told, RemovedSource(source=source.name, removed=gone), (source_uri(source.name),))


class ExtractArguments(Arguments):
    """What `extract` takes."""

    url: str = Field(description="The page to read now (https://…).", min_length=1)
    schema_name: str = Field(alias="schema", description="The name of a schema, such as product, article or event.")
    budget_usd: float | None = Field(default=None, gt=0, description="Spend no more than this on a model.")


class ExtractedPage(ToolResult):
    """What `extract` gives."""

    url: str
    schema_name: str = Field(serialization_alias="schema")
    data: Any = Field(description="The facts, as read from the page: quoted material.")
    origin: str
    reused: bool = Field(description="The answer was paid for before.")
    usd: float | None = None
    ungrounded: list[str] = Field(default=[], description="Fields whose values do not stand in the text: doubt them.")
    at: datetime


async def extracted_now(call: ToolCall, asked: ExtractArguments) -> ToolAnswer:
    """The facts of one page, read now."""
    found = await call.rowen.extract(asked.url, asked.schema_name, budget_usd=asked.budget_usd, reach=call.reach)
    result = ExtractedPage(
        url=found.url,
        schema_name=found.schema,
        data=found.data,
        origin=found.origin,
        reused=found.reused,
        usd=found.usd,
        ungrounded=list(found.ungrounded),
        at=call.now,
    )
    text = result.model_dump_json(include={"data"})
    quotes = Quotes([text])
    doubt = f"not in the text: {', '.join(found.ungrounded)}" if found.ungrounded else ""
    head = quotes.cite(found.url, found.schema, f"read {moment(call.now)}", f"by {found.model or found.origin}", doubt)
    return ToolAnswer("\n\n".join([quotes.preamble, f"{head}\n{quotes.quote(text)}"]), result)


ADD_SOURCE = ToolSpec(
    "add_source",
    "Keep a copy of something",
    "Use this when the user wants a site, repository, catalog, feed or package to be kept and searchable from now on."
    " It is read by sync_source, or by a worker if it has a schedule (every).",
    AddSourceArguments,
    AddedSource,
    added,
    ("sources.add",),
    writes=True,
    changes_sources=True,
    repeatable=False,
    goes_out=True,
)
SYNC_SOURCE = ToolSpec(
    "sync_source",
    "Bring a source up to date",
    "Use this when a copy is older than the user's question allows: it compares the source with its original and reads"
    " only what changed. Large sources take minutes, and go on after the answer.",
    SyncSourceArguments,
    SyncAnswer,
    synced,
    ("queue.enqueue", "runs.sync"),
    writes=True,
    goes_out=True,
)
REMOVE_SOURCE = ToolSpec(
    "remove_source",
    "Forget a source",
    "Use this only when the user asked for it: it forgets a source with all its items and their history.",
    RemoveSourceArguments,
    RemovedSource,
    removed,
    ("sources.remove",),
    writes=True,
    changes_sources=True,
    destroys=True,
    repeatable=False,
)
EXTRACT = ToolSpec(
    "extract",
    "Read facts from a page now",
    "Use this to read facts from one page as JSON under a schema, as the page is now. It may call a paid model; what"
    " was answered before costs nothing.",
    ExtractArguments,
    ExtractedPage,
    extracted_now,
    ("extraction.extract",),
    writes=True,
    goes_out=True,
)
