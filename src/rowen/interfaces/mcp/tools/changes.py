"""list_changes and get_diff: the change log, and the differences between revisions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta
from pydantic import Field

from rowen.interfaces.mcp.addresses import diff_uri, item_uri
from rowen.interfaces.mcp.answers import DEFAULT_TOKENS, Budget, Quotes, cut_json, fitting, freshness, tokens
from rowen.interfaces.mcp.tool import ToolAnswer, ToolCall, ToolResult, ToolSpec, arguments_of, at_most
from rowen.model.wording import address, inline, moment
from rowen.operations.parameters import RevisionNumber, SinceChange

# Each has one line of about 40 tokens, so they fit into the default budget.
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
    """Return the lines of the change log since a moment, oldest first."""
    newest = await call.rowen.changes.last_number()
    page = await call.rowen.changes(since=since, source=source, limit=limit, after=after)
    lines = [ChangeLine.of(change) for change in page]
    if not lines:
        return ToolAnswer(f"Nothing changed. The last change has number {newest}.", ChangeList(changes=[], last=newest))

    def rendered(some: Sequence[ChangeLine]) -> str:
        return ChangeList(changes=list(some), last=newest, next="0" * 40).model_dump_json()

    fitted = fitting(lines, rendered, budget)
    more = page.next
    if len(fitted) < len(lines):
        more = (await call.rowen.changes(since=since, source=source, limit=len(fitted), after=after)).next
    texts = [
        f"- {line.number} {line.kind} {moment(line.at)} {inline(line.title or line.url)} <{address(line.url)}>"
        f" ({inline(line.source)})"
        for line in fitted
    ]
    last = fitted[-1].number
    texts.append(f"\nMore: list_changes again with after={more!r}." if more else f"\nThe last change is {last}.")
    uris = tuple(item_uri(line.url) for line in fitted)
    result = ChangeList(changes=list(fitted), last=last if more else newest, next=more)
    return ToolAnswer("\n".join(texts), result, uris)


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
    compared = await call.rowen.items.compare(url, source=source, older=older, newer=newer)
    whole = await call.rowen.items.diff(url, source=source, older=older, newer=newer)
    diff = TextDiff.of(
        compared,
        diff="",
        title_before=compared.title[0],
        title_after=compared.title[1],
        tags_added=compared.tags_added[:20],
        tags_removed=compared.tags_removed[:20],
        checked_at=entry.checked_at,
    )
    # The marks and the line with the address take some tokens too.
    room = max(60, budget - tokens(diff.model_dump_json()) - 120)
    text = cut_json(whole, room)
    diff = diff.model_copy(update={"diff": text, "truncated": len(text) < len(whole)})
    quotes = Quotes([text])
    revisions = f"revision {diff.older} → {diff.newer}"
    lines = [
        quotes.preamble,
        f"# {inline(diff.title_after or diff.url)}\n"
        + quotes.cite(diff.url, diff.source, revisions, freshness(diff.checked_at, call.now)),
    ]
    if diff.title_before != diff.title_after:
        lines.append(f"Title before: {inline(diff.title_before or 'none')}")
    tags = [f"+{inline(tag)}" for tag in diff.tags_added] + [f"-{inline(tag)}" for tag in diff.tags_removed]
    lines += [f"Tags: {', '.join(tags)}"] if tags else []
    lines.append(quotes.quote(text) if text else "The texts are the same; title or tags differ.")
    lines += ["The rest did not fit: ask with a larger budget."] if diff.truncated else []
    return ToolAnswer("\n\n".join(lines), diff, (diff_uri(diff.url), item_uri(diff.url)))


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
