"""list_sources, find_version, add_source, sync_source and remove_source."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta
from pydantic import Field

from rowen.errors import RefusedError
from rowen.interfaces.mcp.addresses import source_uri
from rowen.interfaces.mcp.answers import DEFAULT_TOKENS, Budget, fitting, freshness, next_look
from rowen.interfaces.mcp.tool import ToolAnswer, ToolCall, ToolResult, ToolSpec, arguments_of, at_most
from rowen.model.wording import address, count, inline, moment
from rowen.operations.summary import cost, counts, remarks

if TYPE_CHECKING:
    from rowen.model.sources import Source

# Each has one line, so a page fits into the default budget.
_PAGE = 40


# Each takes a line too; a larger number is an outage of the network, for which `rowen circuits` is better.
_MOST_UNREACHED = 10


class HeldSource(ToolResult):
    """One source."""

    name: str = Field(description="Give this as `sources` to search.")
    kind: str
    url: str
    items: int
    version: str | None = None
    state: str
    checked_at: datetime | None = Field(default=None, description="When it was last compared with the original.")
    next_check_at: datetime | None = Field(default=None, description="When it is next compared; None: nothing planned.")
    failures: int = Field(default=0, description="How often in a row it could not be read.")


class UnreachedService(ToolResult):
    """A service that failed too often and is not called, or only as a probe."""

    kind: str = Field(description="embedder, model, or host: that of a source.")
    name: str
    state: str
    probe_at: datetime | None = Field(default=None, description="When it is called again.")


class ListedSources(ToolResult):
    """The result of `list_sources`."""

    sources: list[HeldSource]
    unreached: list[UnreachedService] = Field(default=[], description="Services whose circuit is not closed.")
    next: str | None = None


def held_source(source: Source, now: datetime) -> HeldSource:
    """Return a source in the form used by the tools."""
    checked_at = source.last_complete_at or source.last_run_at
    return HeldSource.of(source, version=source.release, checked_at=checked_at, next_check_at=next_look(source, now))


def source_line(source: HeldSource, now: datetime) -> str:
    """Return a source in one line."""
    facts = [source.kind, source.version or "", count(source.items, "item"), freshness(source.checked_at, now)]
    facts += [f"next check {moment(source.next_check_at)}"] if source.next_check_at else []
    facts += ["paused"] if source.state == "paused" else []
    facts += [f"could not be read {count(source.failures, 'time')} in a row"] if source.failures else []
    return " · ".join(
        [f"- **{inline(source.name)}** <{address(source.url)}>", *(inline(fact) for fact in facts if fact)]
    )


async def list_sources(
    call: ToolCall, *, limit: int, after: str | None = None, budget: int = DEFAULT_TOKENS
) -> ToolAnswer:
    """Return the sources by name."""
    page = await call.rowen.sources.list(limit=limit, after=after)
    unreached = await _unreached(call) if after is None else []
    known = [held_source(source, call.now) for source in page]
    if not known:
        text = "No source is kept yet." if after is None else "There are no more sources."
        return ToolAnswer(text, ListedSources(sources=[]))

    def rendered(some: Sequence[HeldSource]) -> str:
        return ListedSources(sources=list(some), unreached=unreached, next="0" * 80).model_dump_json()

    fitted = fitting(known, rendered, budget)
    more = page.next
    if len(fitted) < len(known):
        more = (await call.rowen.sources.list(limit=len(fitted), after=after)).next
    lines = [source_line(source, call.now) for source in fitted]
    lines += [
        f"- Not called at the moment: {service.kind} {inline(service.name)}, its circuit is {service.state}; next probe"
        f" {moment(service.probe_at)}"
        for service in unreached
    ]
    lines += [f"\nMore: list_sources again with after={more!r}."] if more else []
    uris = tuple(source_uri(source.name) for source in fitted)
    return ToolAnswer("\n".join(lines), ListedSources(sources=list(fitted), unreached=unreached, next=more), uris)


async def _unreached(call: ToolCall) -> list[UnreachedService]:
    """Return services that some process does not call, each once, up to a limit."""
    services: dict[tuple[str, str], UnreachedService] = {}
    for circuit in await call.rowen.circuits.list():
        if circuit.state != "closed" and len(services) < _MOST_UNREACHED:
            services.setdefault((circuit.kind, circuit.name), UnreachedService.of(circuit))
    return list(services.values())


class VersionAnswer(ToolResult):
    """The result of `find_version`."""

    library: str
    source: str | None = Field(default=None, description="Give this as `sources` to search; None: no version fits.")
    version: str | None = None
    available: list[str] = Field(default=[], description="All versions that are kept.")
    unversioned: list[str] = Field(default=[], description="Sources of it that have no version.")


async def find_version(call: ToolCall, *, library: str, version: str | None = None) -> ToolAnswer:
    """Return the version of a library that matches."""
    best = await call.rowen.sources.find_version(library, version)
    if best.source is not None:
        text = f"Version {inline(best.version or '')} of {inline(best.library)} is kept as source `{best.source}`."
    else:
        fits = f" that fits {inline(version)}" if version else ""
        text = f"No version of {inline(best.library)}{fits} is kept."
    text += f" Kept versions: {inline(', '.join(best.available) or 'none')}."
    text += f" Without a version: {inline(', '.join(best.unversioned))}." if best.unversioned else ""
    return ToolAnswer(text, VersionAnswer.of(best, available=list(best.available), unversioned=list(best.unversioned)))


# A small source is read within this time; clients abandon a tool after a minute, some after half a minute.
_PATIENCE_S = 20.0


class AddedSource(ToolResult):
    """The result of `add_source`."""

    source: HeldSource
    notes: tuple[str, ...] = ()


async def add_source(call: ToolCall, *, address: str, **how: Any) -> ToolAnswer:
    """Add a source."""
    source = await call.rowen.sources.add(address, reach=call.reach, **how)
    known = held_source(source, call.now)
    text = f"Added:\n{source_line(known, call.now)}\n\nIt was not read yet: sync_source does."
    return ToolAnswer(text, AddedSource(source=known), (source_uri(source.name),))


class SyncAnswer(ToolResult):
    """The result of `sync_source`."""

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


async def sync_source(call: ToolCall, *, name: str, full: bool, wait_s: float) -> ToolAnswer:
    """Bring a source up to date."""
    source = await call.rowen.sources.get(name)
    return await sync_soon(call, source.name, full=full, wait_s=wait_s)


async def sync_soon(call: ToolCall, name: str, *, full: bool, wait_s: float) -> ToolAnswer:
    """Refresh an existing source: by a worker if one is running, else in this process."""
    if await call.rowen.queue.list_workers():
        job = await call.rowen.queue.enqueue(name, full=full)
        result = SyncAnswer(source=name, status="queued", job=job.id)
        text = f"{inline(name)}: a worker reads it next (job {job.id}). list_changes shows what comes of it."
        return ToolAnswer(text, result, (source_uri(name),))
    work = call.begin(call.rowen.sync(name, full=full))
    done, _ = await asyncio.wait({work}, timeout=wait_s)
    if not done:
        text = f"{inline(name)}: still being read. list_sources shows when it was last seen whole."
        return ToolAnswer(text, SyncAnswer(source=name, status="running"), (source_uri(name),))
    run = work.result()
    notes = tuple(str(remark) for remark in remarks(run))
    result = SyncAnswer.of(run.stats, source=run.source, status=run.status, run=run.id, error=run.error, remarks=notes)
    became = ", ".join(text for text, _ in counts(run.stats)) or "nothing there"
    lines = [f"{inline(run.source)}: {run.status}; {became}. {cost(run.stats).capitalize()}."]
    lines += [f"- {inline(note)}" for note in notes]
    return ToolAnswer("\n".join(lines), result, (source_uri(run.source),))


class RemovedSource(ToolResult):
    """The result of `remove_source`."""

    source: str
    removed: int


async def remove_source(call: ToolCall, *, name: str, items: int) -> ToolAnswer:
    """Remove a source with all its items."""
    source = await call.rowen.sources.get(name)
    if source.items != items:
        raise RefusedError(
            f"Source {source.name!r} holds {count(source.items, 'item')}, not {items:,}. Nothing was removed.",
            hint="Ask the user whether it is the one that is meant, and give the number that it has now.",
        )
    removed = await call.rowen.sources.remove(source.name)
    text = f"Removed {inline(source.name)} with {count(removed, 'item')}. The change log keeps what it was."
    return ToolAnswer(text, RemovedSource(source=source.name, removed=removed), (source_uri(source.name),))


LIST_SOURCES = ToolSpec(
    "list_sources",
    "List the sources",
    "Use this to learn what there is a copy of, how fresh each copy is, and when it is next compared with the original."
    " Names from here narrow a search.",
    arguments_of(
        "sources.list",
        leave_out=("counted",),
        limit=(at_most(500), _PAGE),
        budget=(Budget, DEFAULT_TOKENS),
    ),
    ListedSources,
    list_sources,
    ("sources.list", "circuits.list"),
)


FIND_VERSION = ToolSpec(
    "find_version",
    "Find the right version",
    "Use this before searching the documentation of a package in a certain version: it tells which kept source has the"
    " best match for a version or range, and which versions there are.",
    arguments_of("sources.find_version"),
    VersionAnswer,
    find_version,
    ("sources.find_version",),
)


ADD_SOURCE = ToolSpec(
    "add_source",
    "Keep a copy of something",
    "Use this when the user wants a site, repository, catalog, feed or package to be kept and searchable from now on."
    " It is read by sync_source, or by a worker if it has a schedule (every).",
    arguments_of("sources.add"),
    AddedSource,
    add_source,
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
    arguments_of(
        "queue.enqueue",
        leave_out=("accept_deletions",),
        wait_s=(
            Annotated[float, Meta(ge=0, le=300, description="Seconds to wait for the end before answering.")],
            _PATIENCE_S,
        ),
    ),
    SyncAnswer,
    sync_source,
    ("queue.enqueue", "runs.sync"),
    writes=True,
    goes_out=True,
)


REMOVE_SOURCE = ToolSpec(
    "remove_source",
    "Forget a source",
    "Use this only when the user asked for it: it forgets a source with all its items and their history.",
    arguments_of(
        "sources.remove",
        items=Annotated[
            int,
            Meta(
                ge=0, description="Number of its items, from list_sources: confirms that the right source is removed."
            ),
        ],
    ),
    RemovedSource,
    remove_source,
    ("sources.remove",),
    writes=True,
    changes_sources=True,
    destroys=True,
    repeatable=False,
)
