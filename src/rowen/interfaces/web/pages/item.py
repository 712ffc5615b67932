"""One item: its text, what changed, its record, passages, facts, and what is like it."""

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

__all__ = ["item"]

TABS = ("text", "diff", "record", "fields", "passages", "similar")
# Enough for most records; a page with all of the longest would have a megabyte.
_FIELDS = 150
_PASSAGES = 20
_SIMILAR = 8
# Characters of a diff that are shown; the rest is in the twin.
_DIFF_CHARS = 24_000


async def item(rowen: Rowen, request: Request) -> View:
    """An item by its URL, and one of its tabs."""
    url = text(request, "url")
    if url is None:
        raise UsageError("An item is shown by its address.", hint="Such as /item?url=https://example.org/page.")
    source = text(request, "source")
    entry = _readable(rowen, request, await rowen.get(url, source=source))
    history = await rowen.items.history(entry.url, source=entry.source)
    asked = text(request, "tab")
    tab = asked if asked in TABS else "text"
    shown = await _TABS[tab](rowen, request, entry)
    twins = await rowen.items.duplicates(entry.url, source=entry.source) if entry.withdrawn_at is None else None
    context = {"entry": entry, "history": history, "tab": tab, "twins": twins, **shown}
    facts = {"item": entry, "history": history, **{name: one for name, one in shown.items() if name in _TOLD}}
    commands = (command("get", entry.url), command("diff", entry.url), command("history", entry.url))
    return View("item.html", entry.title or entry.url, context, facts, commands)


def _readable(rowen: Rowen, request: Request, entry: Entry) -> Entry:
    """An item as somebody may see it: who may only read gets no contact details out of its record."""
    if scope(request).allows(CONTACTS):
        return entry
    return replace(entry, record=redacted(dict(entry.record), rowen.settings.redacted_keys))


# What of a tab is facts; the rest is how it is shown.
_TOLD = ("diff", "extractions", "detail", "similar")


async def _text(rowen: Rowen, request: Request, entry: Entry) -> dict[str, Any]:
    start = min(number(text(request, "from")) or _after_title(entry), len(entry.text))
    html, rest = await asyncio.to_thread(first_part, entry.text, entry.url, start)
    return {"html": html, "start": start, "rest": rest}


def _after_title(entry: Entry) -> int:
    """Where a text goes on after a heading that only says what stands above it already."""
    heading = f"# {entry.title}\n"
    return len(heading) if entry.text.startswith(heading) else 0


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


async def _record(rowen: Rowen, request: Request, entry: Entry) -> dict[str, Any]:
    found = list(leaves(dict(entry.record)))
    detail = await rowen.items.detail(entry.url, source=entry.source)
    return {"leaves": found[:_FIELDS], "beyond": max(0, len(found) - _FIELDS), "detail": detail}


async def _fields(rowen: Rowen, request: Request, entry: Entry) -> dict[str, Any]:
    histories = {}
    for carried in await rowen.extraction.list_attached(entry.source):
        try:
            histories[carried.schema] = await rowen.extraction.history(entry.url, carried.schema, source=entry.source)
        except NotFoundError:
            continue
    return {"extractions": histories}


async def _passages(rowen: Rowen, request: Request, entry: Entry) -> dict[str, Any]:
    detail = await rowen.items.detail(entry.url, source=entry.source)
    return {"detail": detail, "passages": detail.passages[:_PASSAGES]}


async def _similar(rowen: Rowen, request: Request, entry: Entry) -> dict[str, Any]:
    if entry.withdrawn_at is not None:
        return {"similar": []}
    return {"similar": list(await rowen.items.similar(entry.url, source=entry.source, limit=_SIMILAR))}


_TABS = {
    "text": _text,
    "diff": _diff,
    "record": _record,
    "fields": _fields,
    "passages": _passages,
    "similar": _similar,
}
