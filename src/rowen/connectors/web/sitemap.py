"""Sitemaps: more places to begin, and dates that spare a request where they prove true.

Read by their tags, not by an XML parser: half of the sitemaps in the wild are not well-formed, and what is not
parsed has no entities that could explode.
"""

import asyncio
import gzip
import html
import io
import re
import zlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from rowen.model.dates import iso_moment
from rowen.model.url import trimmed

__all__ = ["MOST_BYTES", "SitemapEntry", "latest_moment", "read_entries", "sitemap_entries"]

# A sitemap holds 50,000 URLs, so that four of them fill the next limit; sites that have one for each section have more.
MOST_FILES = 50
# Two hundred times as many as `max_pages` lets in by default. They are held in memory while the site is walked.
MOST_ENTRIES = 200_000
# The protocol allows 50 MB for a sitemap when it is unpacked.
MOST_BYTES = 60 * 1024 * 1024
# So many are looked at before others have their turn: each costs 5 to 10 µs.
_AT_A_TIME = 1_000
_TAG = re.compile(r"<(/?)(?:\w+:)?(url|sitemap|loc|lastmod)\b[^<>]*>", re.IGNORECASE)
_CDATA = "<![CDATA["
_WEB = re.compile(r"https?://[^\s<>\]]++", re.IGNORECASE)
_LONGEST_PLACE = 8_192  # characters; no server takes more
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_WESTERNMOST_H = -14  # where a day that is told without a zone ends last, with two hours to spare


class SitemapEntry(NamedTuple):
    """One line of a sitemap; `nested` if it names another sitemap."""

    url: str
    modified: datetime | None
    nested: bool


async def sitemap_entries(
    read: Callable[[str], Awaitable[list[SitemapEntry]]], addresses: list[str]
) -> AsyncIterator[SitemapEntry]:
    """The pages of sitemaps and of the sitemaps they name; what cannot be read is left out."""
    waiting, done, entries = deque(dict.fromkeys(addresses)), set[str](), 0
    while waiting and len(done) < MOST_FILES:
        address = waiting.popleft()
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


def read_entries(body: bytes) -> list[SitemapEntry]:
    """What a sitemap lists, in its order; a list of plain URLs is one as well."""
    text = _unpacked(body).decode("utf-8-sig", "replace")
    if "<" not in text[:1000]:
        return [
            SitemapEntry(line.strip(), None, False) for line in text.splitlines() if line.strip().startswith("http")
        ]
    return list(_entries(text))


def _entries(text: str) -> Iterator[SitemapEntry]:
    """Each entry that is closed and has a place, in one pass over the tags that matter."""
    kind, facts, begun, inside = "", dict[str, str](), dict[str, int](), 0
    for tag in _TAG.finditer(text):
        closes, name = bool(tag[1]), tag[2].lower()
        if name in ("url", "sitemap"):
            place = facts.get("loc") or _bare_place(text, inside, tag.start())
            if closes and name == kind and place:
                dated = facts.get("lastmod")
                yield SitemapEntry(_place(place), latest_moment(dated.strip()) if dated else None, kind == "sitemap")
            if closes or name != kind:
                kind, facts, begun, inside = "" if closes else name, {}, {}, tag.end()
        elif kind and not closes:
            begun.setdefault(name, tag.end())
        elif kind and name in begun:
            facts.setdefault(name, text[begun[name] : tag.start()])


def _bare_place(text: str, begin: int, end: int) -> str:
    """A URL that stands in an entry by itself: some indexes name their sitemaps without a `loc`."""
    inner = text[begin : min(end, begin + _LONGEST_PLACE)].lstrip()
    if inner[: len(_CDATA)].upper() == _CDATA:
        inner = inner[len(_CDATA) :].lstrip()
    return found[0] if (found := _WEB.match(inner)) else ""


def _place(inner: str) -> str:
    """The URL in an entry, which may stand in a CDATA section."""
    inner = inner.strip()
    if inner[: len(_CDATA)].upper() == _CDATA:
        inner = inner[len(_CDATA) :].lstrip()
    return trimmed(html.unescape(inner.removesuffix("]]>").rstrip()))


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
