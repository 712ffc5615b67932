"""search and fetch: find passages, and read the items that they stand in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta
from pydantic import Field

from rowen.interfaces.mcp.addresses import item_uri
from rowen.interfaces.mcp.answers import DEFAULT_TOKENS, Budget, Quotes, cut, fitting, freshness, next_look, tokens
from rowen.interfaces.mcp.tool import ToolAnswer, ToolCall, ToolResult, ToolSpec, arguments_of, at_most
from rowen.model.passages import excerpt, within
from rowen.model.search import Query
from rowen.model.wording import inline, moment
from rowen.operations.parameters import SearchWords

if TYPE_CHECKING:
    from rowen.model.items import Entry
    from rowen.model.search import Hit

__all__ = ["FETCH", "SEARCH", "FoundPassage", "SearchAnswer", "fetch_item", "search_items"]

# As many as a person looks at; more of them leave each only a line of the budget.
_RESULTS = 6


# Prose is a little shorter in tokens than what is counted, and the addresses take a share: the first try fits mostly.
_FIRST_TRY_CHARS_PER_TOKEN = 2.0


# Each further try gives the passages a fifth less; after so many nothing of them is left.
_TRIES, _LESS = 12, 0.8


class FoundPassage(ToolResult):
    """One search result."""

    id: str = Field(description="Give this to fetch to read the whole text.")
    title: str
    url: str = Field(description="Cite this address; it leads to the passage.")
    source: str
    heading: str = Field(default="", description="The headings above the passage.")
    text: str = Field(description="The passage, quoted.")
    checked_at: datetime | None = Field(default=None, description="When this was last compared with the original.")
    held: bool = Field(default=False, description="The source no longer shows it.")
    elsewhere: list[str] = Field(default=[], description="Other addresses of the same thing.")


class SearchAnswer(ToolResult):
    """The result of `search`."""

    results: list[FoundPassage]
    notes: tuple[str, ...] = ()
    next: str | None = None


async def search_items(call: ToolCall, *, words: str, budget: int = DEFAULT_TOKENS, **filters: Any) -> ToolAnswer:
    """Search, and cut the passages until both forms of the answer fit the budget."""
    found = await call.rowen.search(words, **filters)
    checked = await call.rowen.items.last_checked([hit.url for hit in found]) if found else {}
    notes = [*(f"Nothing has {wrong!r}; {right!r} was searched for." for wrong, right in found.corrections.items())]
    notes += found.notes
    room: float = budget * _FIRST_TRY_CHARS_PER_TOKEN
    for _ in range(_TRIES):
        hits = within(found.hits, int(room)) if found.hits else ()
        answer = _said(hits, notes, found.next, checked, call.now)
        if max(tokens(answer.markdown), tokens(answer.result.model_dump_json())) <= budget:
            break
        room *= _LESS
    if len(hits) > 1 and tokens(answer.markdown) > budget:
        kept = fitting(hits, lambda some: _said(some, notes, found.next, checked, call.now).markdown, budget)
        answer = _said(kept, notes, found.next, checked, call.now)
    return answer


def _said(
    hits: Sequence[Hit],
    notes: Sequence[str],
    more: str | None,
    checked: Mapping[tuple[str, str], datetime],
    now: datetime,
) -> ToolAnswer:
    quotes = Quotes(_text(hit) for hit in hits)
    results = [
        FoundPassage(
            id=hit.url,
            title=hit.title,
            url=hit.link,
            source=hit.source,
            heading=hit.path,
            text=_text(hit),
            checked_at=checked.get((hit.source, hit.url)),
            held=hit.held,
            elsewhere=[twin.url for twin in hit.twins[:3]],
        )
        for hit in hits
    ]
    parts = [quotes.preamble] if hits else ["Nothing was found. Try fewer or other words; word* matches beginnings."]
    parts += [_entry(number, one, quotes, now) for number, one in enumerate(results, start=1)]
    parts += [f"Note: {inline(note)}" for note in notes]
    parts += [f"More results: search again with after={more!r}."] if more else []
    uris = tuple(item_uri(hit.url) for hit in hits)
    return ToolAnswer("\n\n".join(parts), SearchAnswer(results=results, notes=list(notes), next=more), uris)


def _text(hit: Hit) -> str:
    return "\n\n…\n\n".join([hit.text, *(passage.text for passage in hit.further)])


def _entry(number: int, one: FoundPassage, quotes: Quotes, now: datetime) -> str:
    gone = "no longer shown by its source" if one.held else ""
    head = f"## [{number}] {inline(' › '.join(filter(None, (one.title or one.url, one.heading))))}"
    return "\n".join(
        [head, quotes.cite(one.url, one.source, freshness(one.checked_at, now), gone), quotes.quote(one.text)]
    )


class ItemText(ToolResult):
    """The result of `fetch`."""

    id: str
    title: str
    url: str = Field(description="Cite this address.")
    text: str = Field(description="The text as Markdown, or the part of it that fits, quoted.")
    source: str
    revision: int = Field(description="Which text of this item it is; a higher number later means that it changed.")
    updated_at: datetime
    checked_at: datetime = Field(description="When this was last compared with the original.")
    next_check_at: datetime | None = Field(default=None, description="When it is next compared; None: nothing planned.")
    withdrawn_at: datetime | None = Field(default=None, description="Set if the source deleted it: a last copy.")
    uri: str = Field(description="The resource; subscribe to it to hear when it changes.")
    offset: int = Field(default=0, description="The character at which `text` begins.")
    next_offset: int | None = Field(default=None, description="Set if there is more: fetch again with this offset.")
    characters: int = Field(description="How long the whole text is.")
    tags: tuple[str, ...] = ()
    language: str | None = None


async def fetch_item(
    call: ToolCall,
    *,
    url: str,
    source: str | None = None,
    focus: str | None = None,
    offset: int = 0,
    budget: int = DEFAULT_TOKENS,
) -> ToolAnswer:
    """Return one item, or as much of it as fits."""
    entry = await call.rowen.get(url, source=source)
    planned = next_look(await call.rowen.sources.get(entry.source), call.now)
    # What stands round the text: addresses and dates, in both forms of the answer.
    around = tokens(_read(entry, 0, 0, planned).model_dump_json()) + _MARKS
    room = max(LEAST_TEXT_TOKENS, budget - around)
    start = offset or (_place_of(entry.text, focus, room) if focus else 0)
    text = cut(entry.text[start:], room)
    while tokens(json.dumps(text, ensure_ascii=False)) > room and len(text) > 1:
        text = cut(text, tokens(text) * 4 // 5)
    return _item_answer(_read(entry, start, start + len(text), planned), call.now)


# The preamble, the heading and the lines that say where to go on.
_MARKS = 120


# A paragraph: however small the budget, something can be read.
LEAST_TEXT_TOKENS = 60


def _place_of(text: str, focus: str, room: int) -> int:
    """Return where the part begins that has most of the words."""
    words = Query.parse(focus).words
    found = excerpt(text, words, room).strip("…")
    return max(0, text.find(found[:200])) if found else 0


def _read(entry: Entry, start: int, end: int, planned: datetime | None) -> ItemText:
    return ItemText(
        id=entry.url,
        title=entry.title,
        url=entry.url,
        text=entry.text[start:end],
        source=entry.source,
        revision=entry.revision,
        updated_at=entry.updated_at,
        checked_at=entry.checked_at,
        next_check_at=planned if entry.withdrawn_at is None else None,
        withdrawn_at=entry.withdrawn_at,
        uri=item_uri(entry.url),
        offset=start,
        next_offset=end if end < len(entry.text) else None,
        characters=len(entry.text),
        tags=entry.tags[:10],
        language=entry.language,
    )


def _item_answer(read: ItemText, now: datetime) -> ToolAnswer:
    quotes = Quotes([read.text])
    changed = f"revision {read.revision}, changed {moment(read.updated_at)}"
    gone = f"deleted by its source {moment(read.withdrawn_at)}, this is the last copy" if read.withdrawn_at else ""
    parts = [
        quotes.preamble,
        f"# {inline(read.title or read.url)}\n"
        + quotes.cite(read.url, read.source, freshness(read.checked_at, now), changed, gone),
        quotes.quote(read.text),
    ]
    if read.next_offset is not None:
        left = read.characters - read.next_offset
        parts.append(f"{left:,} more characters: fetch again with offset={read.next_offset}.")
    return ToolAnswer("\n\n".join(parts), read, (read.uri,))


SEARCH = ToolSpec(
    "search",
    "Search the kept copies",
    "Use this first for any question that the kept sources (documentation, sites, repositories, data catalogs, feeds)"
    " may answer. Finds passages by words and by meaning in all sources, and gives each with the address to cite and"
    " when it was last compared with the original. Answer from the passages and cite their URLs.",
    arguments_of(
        "items.search",
        leave_out=("meaning",),
        rename={"words": "query"},
        words=Annotated[SearchWords, Meta(min_length=1)],
        limit=(at_most(50), _RESULTS),
        budget=(Budget, DEFAULT_TOKENS),
    ),
    SearchAnswer,
    search_items,
    ("items.search", "items.last_checked"),
)


FETCH = ToolSpec(
    "fetch",
    "Read one item",
    "Use this to read the whole text of something that search found, or of any URL that is kept. Long texts come in"
    " parts: go on with offset, or name words in focus. It reads the kept copy and asks no other server.",
    arguments_of(
        "items.get",
        rename={"url": "id"},
        focus=(
            Annotated[str | None, Meta(description="Words to begin at: the part with most of them comes first.")],
            None,
        ),
        offset=(
            Annotated[int, Meta(ge=0, description="Continue at this character: the last answer's `next_offset`.")],
            0,
        ),
        budget=(Budget, DEFAULT_TOKENS),
    ),
    ItemText,
    fetch_item,
    ("items.get", "sources.get"),
)
