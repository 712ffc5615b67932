"""list_sources and find_version: what there is a copy of."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from rowen.interfaces.mcp.addresses import source_uri
from rowen.interfaces.mcp.budget import DEFAULT_TOKENS, Budget, fitting
from rowen.interfaces.mcp.tool import Arguments, ToolAnswer, ToolCall, ToolResult, ToolSpec
from rowen.interfaces.mcp.words import freshness, next_look
from rowen.model.wording import address, count, inline, moment

if TYPE_CHECKING:
    from rowen.model.sources import Source

__all__ = ["FIND_VERSION", "LIST_SOURCES", "HeldSource", "held_source", "source_line"]

# One line each: so many are a page, and fit into the usual budget.
_PAGE = 40
# Each takes a line as well: more than these are an outage of the network, and are told by `rowen circuits`.
_MOST_UNREACHED = 10


class ListSourcesArguments(Arguments):
    """What `list_sources` takes."""

    limit: Annotated[int, Field(ge=1, le=500, description="At most so many.")] = _PAGE
    budget: Budget = DEFAULT_TOKENS
    after: str | None = Field(default=None, description="The `next` of the answer before, for more.")


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
    """What `list_sources` gives."""

    sources: list[HeldSource]
    unreached: list[UnreachedService] = Field(default=[], description="Services whose circuit is not closed.")
    next: str | None = None


def held_source(source: Source, now: datetime) -> HeldSource:
    """A source as it is told."""
    return HeldSource(
        name=source.name,
        kind=source.kind,
        url=source.url,
        items=source.items,
        version=source.release,
        state=source.state,
        checked_at=source.last_complete_at or source.last_run_at,
        next_check_at=next_look(source, now),
        failures=source.failures,
    )


def source_line(source: HeldSource, now: datetime) -> str:
    """A source in one line."""
    facts = [source.kind, source.version or "", count(source.items, "item"), freshness(source.checked_at, now)]
    facts += [f"next check {moment(source.next_check_at)}"] if source.next_check_at else []
    facts += ["paused"] if source.state == "paused" else []
    facts += [f"could not be read {count(source.failures, 'time')} in a row"] if source.failures else []
    told = " · ".join(inline(fact) for fact in facts if fact)
    return f"- **{inline(source.name)}** <{address(source.url)}> · {told}"


async def listed(call: ToolCall, asked: ListSourcesArguments) -> ToolAnswer:
    """The sources, by name."""
    page = await call.rowen.sources.list(limit=asked.limit, after=asked.after)
    unreached = await _unreached(call) if asked.after is None else []
    known = [held_source(source, call.now) for source in page]
    if not known:
        text = "No source is kept yet." if asked.after is None else "There are no more sources."
        return ToolAnswer(text, ListedSources(sources=[]))

    def shown(some: Sequence[HeldSource]) -> str:
        return ListedSources(sources=list(some), unreached=unreached, next="0" * 80).model_dump_json()

    kept = fitting(known, shown, asked.budget)
    more = (
        page.next
        if len(kept) == len(known)
        else (await call.rowen.sources.list(limit=len(kept), after=asked.after)).next
    )
    lines = [source_line(one, call.now) for one in kept]
    lines += [
        f"- Not called at the moment: {one.kind} {inline(one.name)}, its circuit is {one.state}; next probe"
        f" {moment(one.probe_at)}"
        for one in unreached
    ]
    lines += [f"\nMore: list_sources again with after={more!r}."] if more else []
    uris = tuple(source_uri(one.name) for one in kept)
    return ToolAnswer("\n".join(lines), ListedSources(sources=list(kept), unreached=unreached, next=more), uris)


async def _unreached(call: ToolCall) -> list[UnreachedService]:
    """Return each service once that some process does not call, at most a few."""
    found: dict[tuple[str, str], UnreachedService] = {}
    for one in await call.rowen.circuits.list():
        if one.state != "closed" and len(found) < _MOST_UNREACHED:
            service = UnreachedService(kind=one.kind, name=one.name, state=one.state, probe_at=one.probe_at)
            found.setdefault((one.kind, one.name), service)
    return list(found.values())


class FindVersionArguments(Arguments):
    """What `find_version` takes."""

    library: str = Field(description="The name of a package or source, without a version.", min_length=1)
    version: str | None = Field(
        default=None, description="Which version: 2, 2.x, ^2.1, '>=1.0,<2', latest. Without it, the highest."
    )


class VersionAnswer(ToolResult):
    """What `find_version` gives."""

    library: str
    source: str | None = Field(default=None, description="Give this as `sources` to search; None: no version fits.")
    version: str | None = None
    available: list[str] = Field(default=[], description="All versions that are kept.")
    unversioned: list[str] = Field(default=[], description="Sources of it that have no version.")


async def version_found(call: ToolCall, asked: FindVersionArguments) -> ToolAnswer:
    """The version that is meant."""
    found = await call.rowen.sources.find_version(asked.library, asked.version)
    result = VersionAnswer(
        library=found.library,
        source=found.source,
        version=found.version,
        available=list(found.available),
        unversioned=list(found.unversioned),
    )
    if found.source is not None:
        told = f"Version {inline(found.version or '')} of {inline(found.library)} is kept as source `{found.source}`."
    else:
        fits = f" that fits {inline(asked.version)}" if asked.version else ""
        told = f"No version of {inline(found.library)}{fits} is kept."
    told += f" Kept versions: {inline(', '.join(found.available) or 'none')}."
    told += f" Without a version: {inline(', '.join(found.unversioned))}." if found.unversioned else ""
    return ToolAnswer(told, result)


LIST_SOURCES = ToolSpec(
    "list_sources",
    "List the sources",
    "Use this to learn what there is a copy of, how fresh each copy is, and when it is next compared with the original."
    " Names from here narrow a search.",
    ListSourcesArguments,
    ListedSources,
    listed,
    ("sources.list", "circuits.list"),
)
FIND_VERSION = ToolSpec(
    "find_version",
    "Find the right version",
    "Use this before searching the documentation of a package in a certain version: it tells which kept source has the"
    " best match for a version or range, and which versions there are.",
    FindVersionArguments,
    VersionAnswer,
    version_found,
    ("sources.find_version",),
)
