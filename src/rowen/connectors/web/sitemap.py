"""Sitemaps: more places to begin, and dates that spare a request where they prove true.

Read by patterns, not by an XML parser: half of the sitemaps in the wild are not well-formed, and what is not
parsed has no entities that could explode.
"""

import asyncio
import gzip
import html
import io
import re
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from rowen.model.dates import iso_moment

__all__ = ["MOST_BYTES", "Entry", "latest_moment", "read_entries", "sitemap_entries"]

MOST_FILES = 50
MOST_ENTRIES = 200_000
MOST_BYTES = 60 * 1024 * 1024
# So many are looked at before others have their turn: each costs 5 to 10 µs.
_AT_A_TIME = 1_000
_URL = re.compile(r"<(?:\w+:)?(url|sitemap)\b[^>]*>(.*?)</(?:\w+:)?\1\s*>", re.DOTALL | re.IGNORECASE)
_LOC = re.compile(
    r"<(?:\w+:)?loc\b[^>]*>\s*(?:<!\[CDATA\[)?\s*(.*?)\s*(?:\]\]>)?\s*</(?:\w+:)?loc\s*>", re.DOTALL | re.IGNORECASE
)
_LASTMOD = re.compile(r"<(?:\w+:)?lastmod\b[^>]*>\s*([^<]*?)\s*</", re.IGNORECASE)
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_WESTERNMOST_H = -14  # where a day that is told without a zone ends last, with two hours to spare


class Entry(NamedTuple):
    """One line of a sitemap; `nested` if it names another sitemap."""

    url: str
    modified: datetime | None
    nested: bool


async def sitemap_entries(read: Callable[[str], Awaitable[list[Entry]]], addresses: list[str]) -> AsyncIterator[Entry]:
    """The pages of sitemaps and of the sitemaps they name; what cannot be read is left out."""
    waiting, done, entries = list(dict.fromkeys(addresses)), set[str](), 0
    while waiting and len(done) < MOST_FILES:
        address = waiting.pop(0)
        if address in done:
            continue
        done.add(address)
        for number, entry in enumerate(await read(address)):
            if number % _AT_A_TIME == 0:
                await asyncio.sleep(0)
            if entry.nested:
                waiting.append(entry.url)
            elif entries < MOST_ENTRIES:
                entries += 1
                yield entry


def read_entries(body: bytes) -> list[Entry]:
    """What a sitemap lists, in its order; a list of plain URLs is one as well."""
    text = _unpacked(body).decode("utf-8-sig", "replace")
    if "<" not in text[:1000]:
        return [Entry(line.strip(), None, False) for line in text.splitlines() if line.strip().startswith("http")]
    found = []
    for kind, inner in _URL.findall(text):
        if place := _LOC.search(inner):
            dated = _LASTMOD.search(inner)
            url = html.unescape(place[1])
            found.append(Entry(url, latest_moment(dated[1]) if dated else None, kind.lower() == "sitemap"))
    return found


def latest_moment(text: str) -> datetime | None:
    """The latest moment that a date may mean: a day lasts to its end; None for what is no date."""
    moment = iso_moment(text, zone_h=_WESTERNMOST_H)
    return moment + timedelta(days=1) if moment is not None and _DAY.fullmatch(text) else moment


def _unpacked(body: bytes) -> bytes:
    if not body.startswith(b"\x1f\x8b"):
        return body
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(body)) as packed:
            return packed.read(MOST_BYTES)
    except (OSError, EOFError, zlib.error):
        return b""
