"""Resources: sources, items and differences, which clients can read, watch, and cache for a stated time."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import mcp_types as types

from rowen.interfaces.mcp.addresses import SOURCES, TEMPLATES, ResourceAddress, source_uri
from rowen.interfaces.mcp.answers import MOST_TOKENS, next_look
from rowen.interfaces.mcp.tool import ToolAnswer, ToolCall
from rowen.interfaces.mcp.tools.changes import get_diff
from rowen.interfaces.mcp.tools.items import fetch_item
from rowen.interfaces.mcp.tools.sources import held_source, list_sources, source_line
from rowen.model.wording import count

if TYPE_CHECKING:
    from rowen.model.sources import Source

MARKDOWN = "text/markdown"
# A page of a list that a person scrolls through.
_PAGE = 100
# Without a schedule, somebody may sync at any time; with an hour, a client would miss the change for so long.
_UNPLANNED_MS = 60_000
# A source may be synced manually before its scheduled time, so nobody should rely on the schedule for over a day.
_LONGEST_MS = 86_400_000


async def list_resources(call: ToolCall, cursor: str | None) -> types.ListResourcesResult:
    """List all sources as resources; items are too many to be listed, so clients find them by search."""
    page = await call.rowen.sources.list(limit=_PAGE, after=cursor)
    listed = [_resource(source) for source in page]
    if cursor is None:
        everything = "How all sources are doing."
        listed.insert(
            0, types.Resource(uri=SOURCES, name="sources", title="Sources", description=everything, mime_type=MARKDOWN)
        )
    return types.ListResourcesResult(resources=listed, next_cursor=page.next, ttl_ms=_UNPLANNED_MS)


def _resource(source: Source) -> types.Resource:
    about = f"{source.kind}, {count(source.items, 'item')}, {source.url}"
    return types.Resource(
        uri=source_uri(source.name), name=source.name, description=about, mime_type=MARKDOWN, size=None
    )


def list_templates() -> types.ListResourceTemplatesResult:
    """List the templates of the addresses of items and differences."""
    templates = [
        types.ResourceTemplate(uri_template=template, name=name, description=words, mime_type=MARKDOWN)
        for template, (name, words) in TEMPLATES.items()
    ]
    return types.ListResourceTemplatesResult(resource_templates=templates, ttl_ms=_LONGEST_MS)


async def read_resource(call: ToolCall, uri: str) -> types.ReadResourceResult:
    """Return a resource as Markdown, with harvested text quoted; it is fresh until its source is checked again."""
    answer, source = await _read(call, ResourceAddress.parse(uri))
    contents = types.TextResourceContents(uri=uri, mime_type=MARKDOWN, text=answer.markdown)
    return types.ReadResourceResult(contents=[contents], ttl_ms=lasts_ms(source, call.now))


async def _read(call: ToolCall, address: ResourceAddress) -> tuple[ToolAnswer, Source | None]:
    match address.room:
        case "sources":
            return await list_sources(call, limit=500, budget=MOST_TOKENS), None
        case "source":
            source = await call.rowen.sources.get(address.name)
            known = held_source(source, call.now)
            return ToolAnswer(source_line(known, call.now), known), source
        case "diff":
            answer = await get_diff(
                call, url=address.name, older=address.older, newer=address.newer, budget=MOST_TOKENS
            )
        case _:
            answer = await fetch_item(call, url=address.name, budget=MOST_TOKENS)
    name: str = getattr(answer.result, "source", "")
    return answer, await call.rowen.sources.get(name)


def lasts_ms(source: Source | None, now: datetime) -> int:
    """Return the time in milliseconds for which a client may cache a resource: until its source is checked again."""
    planned = next_look(source, now)
    if planned is None:
        return _UNPLANNED_MS
    return min(_LONGEST_MS, max(0, int((planned - now).total_seconds() * 1000)))
