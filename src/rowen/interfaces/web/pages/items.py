"""One item: its text, changes, record, facts, passages, and similar items."""

import asyncio
from dataclasses import replace
from typing import Any

from starlette.requests import Request

from rowen.errors import NotFoundError, UsageError
from rowen.interfaces.web.prose import first_part
from rowen.interfaces.web.view import View, command, number, scope, text
from rowen.model.changes import leaves
from rowen.model.items import Entry
from rowen.operations import Rowen
from rowen.operations.facts import redacted
from rowen.operations.registry import CONTACTS

TABS = ("text", "diff", "record", "fields", "passages", "similar")
# Enough for most records; a page with the longest record would have a megabyte.
_FIELDS = 150
_PASSAGES = 20
_SIMILAR = 8
# The maximum length of a diff on the page; the rest is available as JSON.
_DIFF_CHARS = 24_000
# The parts of a tab that are facts; the others are their presentation.
_FACTS = ("diff", "extractions", "detail", "similar")


async def item(rowen: Rowen, request: Request) -> View:
    """Show an item by its URL, with one of its tabs."""
    url = text(request, "url")
    if url is None:
        raise UsageError("The URL of the item is missing.", hint="Such as /item?url=https://example.org/page.")
    entry = await rowen.get(url, source=text(request, "source"))
    if not scope(request).allows(CONTACTS):
        entry = replace(entry, record=redacted(dict(entry.record), rowen.settings.redacted_keys))
    history = await rowen.items.history(entry.url, source=entry.source)
    tab = text(request, "tab")
    tab = tab if tab in TABS else "text"
    content = await _tab(rowen, request, entry, tab)
    twins = await rowen.items.duplicates(entry.url, source=entry.source) if entry.withdrawn_at is None else None
    context = {"entry": entry, "history": history, "tab": tab, "twins": twins, **content}
    facts = {"item": entry, "history": history, **{name: part for name, part in content.items() if name in _FACTS}}
    commands = (command("get", entry.url), command("diff", entry.url), command("history", entry.url))
    return View("item.html", entry.title or entry.url, context, facts, commands)


async def _tab(rowen: Rowen, request: Request, entry: Entry, tab: str) -> dict[str, Any]:
    match tab:
        case "diff":
            return await _diff(rowen, request, entry)
        case "record":
            values = list(leaves(dict(entry.record)))
            detail = await rowen.items.detail(entry.url, source=entry.source)
            return {"leaves": values[:_FIELDS], "beyond": max(0, len(values) - _FIELDS), "detail": detail}
        case "fields":
            histories = {}
            for attached in await rowen.extraction.list_attached(entry.source):
                try:
                    histories[attached.schema] = await rowen.extraction.history(
                        entry.url, attached.schema, source=entry.source
                    )
                except NotFoundError:
                    continue
            return {"extractions": histories}
        case "passages":
            detail = await rowen.items.detail(entry.url, source=entry.source)
            return {"detail": detail, "passages": detail.passages[:_PASSAGES]}
        case "similar":
            if entry.withdrawn_at is not None:
                return {"similar": []}
            return {"similar": list(await rowen.items.similar(entry.url, source=entry.source, limit=_SIMILAR))}
    # The page has the title above the text, so a heading with the same words is skipped.
    heading = f"# {entry.title}\n"
    first = len(heading) if entry.text.startswith(heading) else 0
    start = min(number(text(request, "from")) or first, len(entry.text))
    html, rest = await asyncio.to_thread(first_part, entry.text, entry.url, start)
    return {"html": html, "start": start, "rest": rest}


async def _diff(rowen: Rowen, request: Request, entry: Entry) -> dict[str, Any]:
    older, newer = number(text(request, "older")), number(text(request, "newer"))
    diff = await rowen.items.compare(entry.url, source=entry.source, older=older, newer=newer)
    left, hunks = _DIFF_CHARS, []
    for hunk in diff.hunks:
        lines = []
        for line in hunk.lines:
            left -= len(line.text) + 60
            if left < 0:
                break
            lines.append(line)
        hunks.append(lines)
        if left < 0:
            break
    return {"diff": diff, "hunks": hunks, "is_cut": left < 0}
