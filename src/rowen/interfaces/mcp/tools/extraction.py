"""get_extraction and extract: stored facts, and facts of a page that is read now."""

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


class FactsVersion(ToolResult):
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

    extractions: list[FactsVersion] = Field(description="Of one item: newest first.")
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
    """Return the facts of one item with their history, or the facts of all items."""
    more: str | None = None
    if url is not None:
        history = await call.rowen.extraction.history(url, schema, source=source)
        facts = [_facts(version) for version in reversed(history)][:limit]
    else:
        sources = [source] if source else []
        page = await call.rowen.extraction.list(schema, sources=sources, where=where, limit=limit, after=after)
        facts, more = [_facts(extraction) for extraction in page], page.next
    if not facts:
        return ToolAnswer("No facts are kept that fit.", ExtractionList(extractions=[]))
    fitted = fitting(facts, lambda some: _markdown(some, call.now), budget)
    is_cut = len(fitted) < len(facts)
    result = ExtractionList(extractions=list(fitted), truncated=is_cut, next=None if is_cut else more)
    text = _markdown(fitted, call.now)
    text += "\n\nNot all fitted: ask with a larger budget." if is_cut else ""
    text += f"\n\nMore: ask again with after={more!r}." if result.next else ""
    return ToolAnswer(text, result, tuple({item_uri(version.url): None for version in fitted}))


def _facts(version: Extraction) -> FactsVersion:
    changes = [change.to_json() for change in version.diff]
    return FactsVersion.of(version, schema_name=version.schema, version=version.number, changes=changes)


def _markdown(facts: Sequence[FactsVersion], now: datetime) -> str:
    texts = [json.dumps(version.data, ensure_ascii=False) for version in facts]
    quotes = Quotes(texts)
    parts = [quotes.preamble]
    for version, text in zip(facts, texts, strict=True):
        about = [version.source, version.schema_name, f"version {version.version} since {moment(version.at)}"]
        about += [f"by {version.origin}", freshness(version.checked_at or version.at, now)]
        parts.append(f"{quotes.cite(version.url, *about)}\n{quotes.quote(text)}")
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
    """Read one page now, and return its facts."""
    page = await call.rowen.extract(address, schema, budget_usd=budget_usd, reach=call.reach)
    result = ExtractedPage.of(page, schema_name=page.schema, ungrounded=list(page.ungrounded), at=call.now)
    text = result.model_dump_json(include={"data"})
    quotes = Quotes([text])
    doubt = f"not in the text: {', '.join(page.ungrounded)}" if page.ungrounded else ""
    head = quotes.cite(page.url, page.schema, f"read {moment(call.now)}", f"by {page.model or page.origin}", doubt)
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
