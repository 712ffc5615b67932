"""list_changes, get_diff and get_extraction: what changed, how, and which facts were read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from rowen.errors import UsageError
from rowen.interfaces.mcp.addresses import diff_uri, item_uri
from rowen.interfaces.mcp.budget import DEFAULT_TOKENS, Budget, cut, fitting, tokens
from rowen.interfaces.mcp.tool import Arguments, ToolAnswer, ToolCall, ToolResult, ToolSpec
from rowen.interfaces.mcp.words import Quotes, freshness
from rowen.model.dates import parse_since
from rowen.model.wording import address, inline, moment

if TYPE_CHECKING:
    from rowen.model.changes import Change
    from rowen.model.extraction import Extraction

__all__ = ["GET_DIFF", "GET_EXTRACTION", "LIST_CHANGES"]

# One line each, about 40 tokens: they fit into the usual budget.
_PAGE = 30


class ListChangesArguments(Arguments):
    """What `list_changes` takes."""

    since: str = Field(
        default="7d", description="A time that has passed (2h, 1d, 4w), a date (2026-01-31), or a change number (4711)."
    )
    source: str | None = Field(default=None, description="Only of this source.")
    limit: Annotated[int, Field(ge=1, le=500, description="At most so many.")] = _PAGE
    budget: Budget = DEFAULT_TOKENS
    after: str | None = Field(default=None, description="The `next` of the answer before, for later changes.")


class ChangeLine(ToolResult):
    """One change."""

    number: int
    kind: str = Field(description="created, updated, amended, deleted, moved, extracted, …")
    url: str
    title: str
    source: str
    at: datetime


class ChangeList(ToolResult):
    """What `list_changes` gives."""

    changes: list[ChangeLine]
    last: int = Field(description="Ask with since=this number later to see only what is new.")
    next: str | None = None


async def changed(call: ToolCall, asked: ListChangesArguments) -> ToolAnswer:
    """The change log since a moment, oldest first."""
    since, newest = _since(asked.since), await call.rowen.changes.last_number()
    page = await call.rowen.changes(since=since, source=asked.source, limit=asked.limit, after=asked.after)
    lines = [_line(one) for one in page]
    if not lines:
        return ToolAnswer(f"Nothing changed. The last change has number {newest}.", ChangeList(changes=[], last=newest))

    def shown(some: Sequence[ChangeLine]) -> str:
        return ChangeList(changes=list(some), last=newest, next="0" * 40).model_dump_json()

    kept = fitting(lines, shown, asked.budget)
    is_all = len(kept) == len(lines)
    more = page.next
    if not is_all:
        again = await call.rowen.changes(since=since, source=asked.source, limit=len(kept), after=asked.after)
        more = again.next
    told = [f"- {one.number} {one.kind} {moment(one.at)} {_named(one)}" for one in kept]
    told += (
        [f"\nMore: list_changes again with after={more!r}."] if more else [f"\nThe last change is {kept[-1].number}."]
    )
    last = kept[-1].number if more else newest
    uris = tuple(item_uri(one.url) for one in kept)
    return ToolAnswer("\n".join(told), ChangeList(changes=list(kept), last=last, next=more), uris)


def _since(text: str) -> int | datetime | timedelta:
    try:
        return parse_since(text.strip())
    except (ValueError, OverflowError):
        raise UsageError(
            f"{text!r} is no moment.", hint="Such as 2h, 1d, 4w, a date (2026-01-31) or a change number (4711)."
        ) from None


def _line(change: Change) -> ChangeLine:
    return ChangeLine(
        number=change.number,
        kind=change.kind,
        url=change.url,
        title=change.title,
        source=change.source,
        at=change.at,
    )


def _named(one: ChangeLine) -> str:
    return f"{inline(one.title or one.url)} <{address(one.url)}> ({inline(one.source)})"


class GetDiffArguments(Arguments):
    """What `get_diff` takes."""

    id: str = Field(description="The URL of an item.", min_length=1)
    source: str | None = Field(default=None, description="Which source's copy, where several have it.")
    older: int | None = Field(
        default=None, ge=0, description="The earlier revision; by default the one before `newer`."
    )
    newer: int | None = Field(default=None, ge=1, description="The later revision; by default the one in force.")
    budget: Budget = DEFAULT_TOKENS


class TextDiff(ToolResult):
    """What `get_diff` gives."""

    url: str
    source: str
    older: int
    newer: int
    diff: str = Field(description="A unified diff, quoted; empty if only title or tags differ.")
    truncated: bool = Field(default=False, description="The rest did not fit: ask with a larger budget.")
    title_before: str
    title_after: str
    tags_added: tuple[str, ...] = ()
    tags_removed: tuple[str, ...] = ()
    checked_at: datetime


async def compared(call: ToolCall, asked: GetDiffArguments) -> ToolAnswer:
    """What changed between two revisions."""
    which = {"source": asked.source, "older": asked.older, "newer": asked.newer}
    entry = await call.rowen.get(asked.id, source=asked.source)
    found = await call.rowen.items.compare(asked.id, **which)  # type: ignore[arg-type]
    whole = await call.rowen.items.diff(asked.id, **which)  # type: ignore[arg-type]
    result = TextDiff(
        url=found.url,
        source=found.source,
        older=found.older,
        newer=found.newer,
        diff="",
        title_before=found.title[0],
        title_after=found.title[1],
        tags_added=list(found.tags_added[:20]),
        tags_removed=list(found.tags_removed[:20]),
        checked_at=entry.checked_at,
    )
    # The marks and the line with the address stand round it.
    room = max(60, asked.budget - tokens(result.model_dump_json()) - 120)
    text = cut(whole, room)
    while tokens(json.dumps(text, ensure_ascii=False)) > room and len(text) > 1:
        text = cut(text, tokens(text) * 4 // 5)
    result = result.model_copy(update={"diff": text, "truncated": len(text) < len(whole)})
    return ToolAnswer(_diff_words(result, call.now), result, (diff_uri(found.url), item_uri(found.url)))


def _diff_words(diff: TextDiff, now: datetime) -> str:
    quotes = Quotes([diff.diff])
    revisions = f"revision {diff.older} → {diff.newer}"
    lines = [
        quotes.preamble,
        f"# {inline(diff.title_after or diff.url)}\n"
        + quotes.cite(diff.url, diff.source, revisions, freshness(diff.checked_at, now)),
    ]
    if diff.title_before != diff.title_after:
        lines.append(f"Title before: {inline(diff.title_before or 'none')}")
    tags = [f"+{inline(tag)}" for tag in diff.tags_added] + [f"-{inline(tag)}" for tag in diff.tags_removed]
    lines += [f"Tags: {', '.join(tags)}"] if tags else []
    lines.append(quotes.quote(diff.diff) if diff.diff else "The texts are the same; title or tags differ.")
    lines += ["The rest did not fit: ask with a larger budget."] if diff.truncated else []
    return "\n\n".join(lines)


class GetExtractionArguments(Arguments):
    """What `get_extraction` takes."""

    schema_name: str = Field(alias="schema", description="The name of the schema, such as product or pricing.")
    id: str | None = Field(default=None, description="The URL of an item: its facts, with how they changed.")
    source: str | None = Field(default=None, description="Only of this source.")
    where: list[str] = Field(default=[], description="Conditions on the facts, such as price<100; without an id.")
    limit: Annotated[int, Field(ge=1, le=200, description="At most so many.")] = 20
    budget: Budget = DEFAULT_TOKENS
    after: str | None = Field(default=None, description="The `next` of the answer before, for more.")


class ExtractedFacts(ToolResult):
    """One version of an item's facts."""

    url: str
    source: str
    schema_name: str = Field(serialization_alias="schema")
    version: int
    data: Any = Field(description="The facts, as read from the page: quoted material.")
    changes: list[dict[str, Any]] = Field(default=[], description="What differs from the version before.")
    origin: str = Field(description="How they were read: model, structured or rules.")
    at: datetime
    checked_at: datetime | None = None


class ExtractionList(ToolResult):
    """What `get_extraction` gives."""

    extractions: list[ExtractedFacts] = Field(description="Of one item: newest first.")
    truncated: bool = Field(default=False, description="Not all fitted: ask with a larger budget.")
    next: str | None = None


async def extracted(call: ToolCall, asked: GetExtractionArguments) -> ToolAnswer:
    """Facts of an item with their history, or of all items."""
    more: str | None = None
    if asked.id is not None:
        history = await call.rowen.extraction.history(asked.id, asked.schema_name, source=asked.source)
        found = [_facts(one) for one in reversed(history)][: asked.limit]
    else:
        sources = [asked.source] if asked.source else []
        how: dict[str, Any] = {"sources": sources, "where": asked.where, "limit": asked.limit, "after": asked.after}
        page = await call.rowen.extraction.list(asked.schema_name, **how)
        found, more = [_facts(one) for one in page], page.next
    if not found:
        return ToolAnswer("No facts are kept that fit.", ExtractionList(extractions=[]))
    kept = fitting(found, lambda some: _facts_words(some, call.now), asked.budget)
    is_cut = len(kept) < len(found)
    result = ExtractionList(extractions=list(kept), truncated=is_cut, next=None if is_cut else more)
    told = _facts_words(kept, call.now)
    told += "\n\nNot all fitted: ask with a larger budget." if is_cut else ""
    told += f"\n\nMore: ask again with after={more!r}." if result.next else ""
    return ToolAnswer(told, result, tuple({item_uri(one.url): None for one in kept}))


def _facts(one: Extraction) -> ExtractedFacts:
    return ExtractedFacts(
        url=one.url,
        source=one.source,
        schema_name=one.schema,
        version=one.number,
        data=one.data,
        changes=[change.to_json() for change in one.diff],
        origin=one.origin,
        at=one.at,
        checked_at=one.checked_at,
    )


def _facts_words(found: Sequence[ExtractedFacts], now: datetime) -> str:
    texts = [json.dumps(one.data, ensure_ascii=False) for one in found]
    quotes = Quotes(texts)
    parts = [quotes.preamble]
    for one, text in zip(found, texts, strict=True):
        said = [one.source, one.schema_name, f"version {one.version} since {moment(one.at)}", f"by {one.origin}"]
        parts.append(quotes.cite(one.url, *said, freshness(one.checked_at or one.at, now)) + "\n" + quotes.quote(text))
    return "\n\n".join(parts)


LIST_CHANGES = ToolSpec(
    "list_changes",
    "List what changed",
    "Use this to answer what is new or different since a date, or since you last looked: the numbered log of everything"
    " that was created, updated or deleted in the kept sources. get_diff shows how an item changed.",
    ListChangesArguments,
    ChangeList,
    changed,
    ("changes.list", "changes.last_number"),
)
GET_DIFF = ToolSpec(
    "get_diff",
    "Show how an item changed",
    "Use this to see what exactly changed in one item between two of its texts, by default the last two.",
    GetDiffArguments,
    TextDiff,
    compared,
    ("items.compare", "items.diff", "items.get"),
)
GET_EXTRACTION = ToolSpec(
    "get_extraction",
    "Read extracted facts",
    "Use this for facts that were read from pages under a schema (prices, dates, licences, …): those of one item with"
    " their history, or of all items that satisfy conditions. It reads what is kept and asks no model.",
    GetExtractionArguments,
    ExtractionList,
    extracted,
    ("extraction.history", "extraction.list"),
)
