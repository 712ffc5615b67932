"""list_changes and get_diff: what changed, and how."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta
from pydantic import Field

from rowen.interfaces.mcp.addresses import diff_uri, item_uri
from rowen.interfaces.mcp.answers import DEFAULT_TOKENS, Budget, Quotes, cut, fitting, freshness, tokens
from rowen.interfaces.mcp.tool import ToolAnswer, ToolCall, ToolResult, ToolSpec, arguments_of, at_most
from rowen.model.wording import address, inline, moment
from rowen.operations.parameters import RevisionNumber, SinceChange

if TYPE_CHECKING:
    from rowen.model.changes import Change

__all__ = ["GET_DIFF", "LIST_CHANGES", "get_diff", "list_changes"]

# One line each, about 40 tokens: they fit into the usual budget.
_PAGE = 30


class ChangeLine(ToolResult):
    """One change."""

    number: int
    kind: str = Field(description="created, updated, amended, deleted, moved, extracted, …")
    url: str
    title: str
    source: str
    at: datetime


class ChangeList(ToolResult):
    """The result of `list_changes`."""

    changes: list[ChangeLine]
    last: int = Field(description="Ask with since=this number later to see only what is new.")
    next: str | None = None


async def list_changes(
    call: ToolCall, *, since: Any, source: str | None, limit: int, after: str | None, budget: int
) -> ToolAnswer:
    """Return the change log since a moment, oldest first."""
    newest = await call.rowen.changes.last_number()
    page = await call.rowen.changes(since=since, source=source, limit=limit, after=after)
    lines = [_line(one) for one in page]
    if not lines:
        return ToolAnswer(f"Nothing changed. The last change has number {newest}.", ChangeList(changes=[], last=newest))

    def shown(some: Sequence[ChangeLine]) -> str:
        return ChangeList(changes=list(some), last=newest, next="0" * 40).model_dump_json()

    kept = fitting(lines, shown, budget)
    is_all = len(kept) == len(lines)
    more = page.next
    if not is_all:
        again = await call.rowen.changes(since=since, source=source, limit=len(kept), after=after)
        more = again.next
    told = [f"- {one.number} {one.kind} {moment(one.at)} {_named(one)}" for one in kept]
    told += (
        [f"\nMore: list_changes again with after={more!r}."] if more else [f"\nThe last change is {kept[-1].number}."]
    )
    last = kept[-1].number if more else newest
    uris = tuple(item_uri(one.url) for one in kept)
    return ToolAnswer("\n".join(told), ChangeList(changes=list(kept), last=last, next=more), uris)


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


class TextDiff(ToolResult):
    """The result of `get_diff`."""

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


async def get_diff(
    call: ToolCall,
    *,
    url: str,
    source: str | None = None,
    older: int | None = None,
    newer: int | None = None,
    budget: int = DEFAULT_TOKENS,
) -> ToolAnswer:
    """Return the differences between two revisions."""
    entry = await call.rowen.get(url, source=source)
    found = await call.rowen.items.compare(url, source=source, older=older, newer=newer)
    whole = await call.rowen.items.diff(url, source=source, older=older, newer=newer)
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
    room = max(60, budget - tokens(result.model_dump_json()) - 120)
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


LIST_CHANGES = ToolSpec(
    "list_changes",
    "List what changed",
    "Use this to answer what is new or different since a date, or since you last looked: the numbered log of everything"
    " that was created, updated or deleted in the kept sources. get_diff shows how an item changed.",
    arguments_of(
        "changes.list",
        only=("since", "source", "after"),
        since=(SinceChange, "7d"),
        limit=(at_most(500), _PAGE),
        budget=(Budget, DEFAULT_TOKENS),
    ),
    ChangeList,
    list_changes,
    ("changes.list", "changes.last_number"),
)


GET_DIFF = ToolSpec(
    "get_diff",
    "Show how an item changed",
    "Use this to see what exactly changed in one item between two of its texts, by default the last two.",
    arguments_of(
        "items.compare",
        rename={"url": "id"},
        older=(
            Annotated[
                RevisionNumber | None, Meta(description="The earlier revision; the one before `newer` if omitted.")
            ],
            None,
        ),
        newer=(
            Annotated[RevisionNumber | None, Meta(description="The later revision; the current one if omitted.")],
            None,
        ),
        budget=(Budget, DEFAULT_TOKENS),
    ),
    TextDiff,
    get_diff,
    ("items.compare", "items.diff", "items.get"),
)
