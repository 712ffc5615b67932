"""search and fetch: find passages, and read the items that contain them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta
from pydantic import Field

from rowen.interfaces.mcp.addresses import item_uri
from rowen.interfaces.mcp.answers import DEFAULT_TOKENS, Budget, Quotes, cut_json, fitting, freshness, next_look, tokens
from rowen.interfaces.mcp.tool import ToolAnswer, ToolCall, ToolResult, ToolSpec, arguments_of, at_most
from rowen.model.passages import excerpt, within
from rowen.model.search import Query
from rowen.model.wording import inline, moment
from rowen.operations.parameters import SearchWords

if TYPE_CHECKING:
    from rowen.model.items import Entry
    from rowen.model.search import Hit

# As many as a person looks at; with more results, each gets only a line of the budget.
_RESULTS = 6
# Prose has fewer tokens than the estimate, and addresses take a part of the budget, so the first try usually fits.
_FIRST_TRY_CHARS_PER_TOKEN = 2.0
# Each further try shortens the passages by a fifth; after this number of tries nothing of them is left.
_TRIES, _LESS = 12, 0.8
# The tokens of the preamble, the heading, and the lines with the next steps.
_MARKS = 120
# The tokens of a paragraph, so that even with the smallest budget something can be read.
LEAST_TEXT_TOKENS = 60


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
    """Search, and shorten the passages until both forms of the answer fit the budget."""
    answer = await call.rowen.search(words, **filters)
    checked = await call.rowen.items.last_checked([hit.url for hit in answer]) if answer else {}
    notes = [f"Nothing has {wrong!r}; {right!r} was searched for." for wrong, right in answer.corrections.items()]
    notes += answer.notes

    def rendered(hits: Sequence[Hit]) -> ToolAnswer:
        results = [
            FoundPassage.of(
                hit,
                id=hit.url,
                url=hit.link,
                heading=hit.path,
                text="\n\n…\n\n".join([hit.text, *(passage.text for passage in hit.further)]),
                checked_at=checked.get((hit.source, hit.url)),
                elsewhere=[twin.url for twin in hit.twins[:3]],
            )
            for hit in hits
        ]
        quotes = Quotes(result.text for result in results)
        nothing = "Nothing was found. Try fewer or other words; word* matches beginnings."
        parts = [quotes.preamble if hits else nothing]
        for number, result in enumerate(results, start=1):
            gone = "no longer shown by its source" if result.held else ""
            head = f"## [{number}] {inline(' › '.join(filter(None, (result.title or result.url, result.heading))))}"
            cited = quotes.cite(result.url, result.source, freshness(result.checked_at, call.now), gone)
            parts.append(f"{head}\n{cited}\n{quotes.quote(result.text)}")
        parts += [f"Note: {inline(note)}" for note in notes]
        parts += [f"More results: search again with after={answer.next!r}."] if answer.next else []
        uris = tuple(item_uri(hit.url) for hit in hits)
        return ToolAnswer("\n\n".join(parts), SearchAnswer(results=results, notes=notes, next=answer.next), uris)

    room: float = budget * _FIRST_TRY_CHARS_PER_TOKEN
    for _ in range(_TRIES):
        hits = within(answer.hits, int(room)) if answer.hits else ()
        tried = rendered(hits)
        if max(tokens(tried.markdown), tokens(tried.result.model_dump_json())) <= budget:
            return tried
        room *= _LESS
    if len(hits) > 1 and tokens(tried.markdown) > budget:
        return rendered(fitting(hits, lambda some: rendered(some).markdown, budget))
    return tried


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
    """Return one item, or the part of it that fits the budget."""
    entry = await call.rowen.get(url, source=source)
    planned = next_look(await call.rowen.sources.get(entry.source), call.now)
    # Both forms of the answer contain addresses and dates in addition to the text.
    around = tokens(_item_text(entry, 0, 0, planned).model_dump_json()) + _MARKS
    room = max(LEAST_TEXT_TOKENS, budget - around)
    if not offset and focus and (passage := excerpt(entry.text, Query.parse(focus).words, room).strip("…")):
        # Start at the part that contains most of the words.
        offset = max(0, entry.text.find(passage[:200]))
    text = cut_json(entry.text[offset:], room)
    item = _item_text(entry, offset, offset + len(text), planned)
    quotes = Quotes([item.text])
    changed = f"revision {item.revision}, changed {moment(item.updated_at)}"
    gone = f"deleted by its source {moment(item.withdrawn_at)}, this is the last copy" if item.withdrawn_at else ""
    parts = [
        quotes.preamble,
        f"# {inline(item.title or item.url)}\n"
        + quotes.cite(item.url, item.source, freshness(item.checked_at, call.now), changed, gone),
        quotes.quote(item.text),
    ]
    if item.next_offset is not None:
        left = item.characters - item.next_offset
        parts.append(f"{left:,} more characters: fetch again with offset={item.next_offset}.")
    return ToolAnswer("\n\n".join(parts), item, (item.uri,))


def _item_text(entry: Entry, start: int, end: int, planned: datetime | None) -> ItemText:
    return ItemText.of(
        entry,
        id=entry.url,
        text=entry.text[start:end],
        next_check_at=planned if entry.withdrawn_at is None else None,
        uri=item_uri(entry.url),
        offset=start,
        next_offset=end if end < len(entry.text) else None,
        characters=len(entry.text),
        tags=entry.tags[:10],
    )


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
