"""Entries of a file that name no kind: their addresses are asked, unless a source of that name stands there already."""

import asyncio
from collections.abc import Sequence

from rowen.concurrency import together
from rowen.connectors import registry
from rowen.errors import RowenError
from rowen.model.sources import Source
from rowen.operations.declarations import Declared, Found
from rowen.operations.discovery import discover
from rowen.settings import Settings

__all__ = ["look_at"]

# A portal takes up to twenty seconds to be found out; at eight a time, three hundred slow ones take ten minutes.
_AT_ONCE = 8


async def look_at(declared: Sequence[Declared], held: Sequence[Source], settings: Settings) -> dict[str, Found]:
    """What stands at each address, or why that cannot be told."""
    places = asyncio.Semaphore(_AT_ONCE)
    by_name = {source.name: source for source in held}

    async def one(entry: Declared) -> tuple[str, Found]:
        async with places:
            return entry.url, await _find(entry.url, by_name.get(entry.name), settings)

    return dict(await together(*(one(entry) for entry in declared)))


async def _find(address: str, kept: Source | None, settings: Settings) -> Found:
    if kept is not None and registry.accepted(address, registry.connector(kept.kind)) == kept.url:
        return kept.kind, kept.url
    try:
        formal = registry.recognise(address)
        if formal[0] != "web":
            return formal
        if not settings.probe:
            return "addresses are not asked here (ROWEN_PROBE)."
        found = await discover(formal[1], settings.for_source(formal[1]))
    except RowenError as problem:
        return str(problem)
    if found is None or found.kind == "web":
        return 'no catalog was found there; kind = "web" crawls it as a site.'
    return found.kind, found.url
