"""get_extraction and extract: facts that are stored, and facts of a page read now."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta
from pydantic import Field

from rowen.interfaces.mcp.addresses import item_uri
from rowen.interfaces.mcp.answers import DEFAULT_TOKENS, Budget, Quotes, fitting, freshness
from rowen.interfaces.mcp.tool import ToolAnswer, ToolCall, ToolResult, ToolSpec, arguments_of, at_most
from rowen.model.wording import moment
from rowen.operations.parameters import ItemUrl, OnlySource, SchemaName, SourceAddress

if TYPE_CHECKING:
    from rowen.model.extraction import Extraction

__all__ = ["EXTRACT", "GET_EXTRACTION"]


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
    """The result of `get_extraction`."""

    extractions: list[ExtractedFacts] = Field(description="Of one item: newest first.")
    truncated: bool = Field(default=False, description="Not all fitted: ask with a larger budget.")
    next: str | None = None


async def get_extraction(
    call: ToolCall,
    *,
    schema: str,
    url: str | None,
    source: str | None,
    where: Sequence[str],
    limit: int,
    after: str | None,
    budget: int,
) -> ToolAnswer:
    """Return the facts of an item with their history, or those of all items."""
    more: str | None = None
    if url is not None:
        history = await call.rowen.extraction.history(url, schema, source=source)
        found = [_facts(one) for one in reversed(history)][:limit]
    else:
        sources = [source] if source else []
        page = await call.rowen.extraction.list(schema, sources=sources, where=where, limit=limit, after=after)
        found, more = [_facts(one) for one in page], page.next
    if not found:
        return ToolAnswer("No facts are kept that fit.", ExtractionList(extractions=[]))
    kept = fitting(found, lambda some: _facts_words(some, call.now), budget)
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


class ExtractedPage(ToolResult):
    """The result of `extract`."""

    url: str
    schema_name: str = Field(serialization_alias="schema")
    data: Any = Field(description="The facts, as read from the page: quoted material.")
    origin: str
    reused: bool = Field(description="The answer was paid for before.")
    usd: float | None = None
    ungrounded: list[str] = Field(default=[], description="Fields whose values do not stand in the text: doubt them.")
    at: datetime


async def extract_page(call: ToolCall, *, address: str, schema: str, budget_usd: float | None) -> ToolAnswer:
    """Return the facts of one page, read now."""
    found = await call.rowen.extract(address, schema, budget_usd=budget_usd, reach=call.reach)
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


GET_EXTRACTION = ToolSpec(
    "get_extraction",
    "Read extracted facts",
    "Use this for facts that were read from pages under a schema (prices, dates, licences, …): those of one item with"
    " their history, or of all items that satisfy conditions. It reads what is kept and asks no model.",
    arguments_of(
        "extraction.list",
        leave_out=("sources",),
        rename={"url": "id"},
        schema=SchemaName,
        url=(Annotated[ItemUrl | None, Meta(description="URL of an item: its facts, with how they changed.")], None),
        source=(OnlySource | None, None),
        limit=(at_most(200), 20),
        budget=(Budget, DEFAULT_TOKENS),
    ),
    ExtractionList,
    get_extraction,
    ("extraction.history", "extraction.list"),
)


EXTRACT = ToolSpec(
    "extract",
    "Read facts from a page now",
    "Use this to read facts from one page as JSON under a schema, as the page is now. It may call a paid model; what"
    " was answered before costs nothing.",
    arguments_of(
        "extraction.extract",
        only=("budget_usd",),
        rename={"address": "url"},
        address=Annotated[SourceAddress, Meta(description="The page to read now (https://…).")],
        schema=SchemaName,
    ),
    ExtractedPage,
    extract_page,
    ("extraction.extract",),
    writes=True,
    goes_out=True,
)
