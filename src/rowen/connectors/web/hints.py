"""Reads what a site publishes beside its pages: sitemaps with their dates, and llms.txt.

Sitemaps are read by their tags and not by an XML parser: half of the sitemaps in use are not well-formed, and without
a parser no entity can expand.
"""

import asyncio
import gzip
import html
import io
import re
import zlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar

from rowen.connectors.base import Parse
from rowen.connectors.web.options import WebOptions
from rowen.connectors.web.scope import SiteScope
from rowen.errors import CircuitOpenError, FetchError, ItemError
from rowen.model.dates import iso_moment
from rowen.model.url import canonical, trimmed
from rowen.net.client import Client
from rowen.net.response import Response
from rowen.net.robots import RobotsRules
from rowen.net.target import join, parse

T = TypeVar("T")

# A sitemap may have 50,000 URLs, so four of them reach the next limit; a site with one per section has more sitemaps.
MOST_FILES = 50
# Forty times the default of `max_pages`. The entries are held in memory during the walk.
MOST_ENTRIES = 200_000
# The protocol allows 50 MB for a sitemap when it is unpacked.
MOST_BYTES = 60 * 1024 * 1024
# Number of entries after which other tasks may run; each entry takes 5 to 10 µs.
_AT_A_TIME = 1_000
_TAG = re.compile(r"<(/?)(?:\w+:)?(url|sitemap|loc|lastmod)\b[^<>]*>", re.IGNORECASE)
_CDATA = "<![CDATA["
_WEB = re.compile(r"https?://[^\s<>\]]++", re.IGNORECASE)
_LONGEST_PLACE = 8_192  # characters; no server takes more
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_WESTERNMOST_H = -14  # the zone where a day ends last, with two hours to spare
_MARKDOWN_LINK = re.compile(r"\]\(\s*+<?([^\s<>()]++)(?=[\s<>()])")
_NO_WEB = re.compile(r"(?!https?:)[a-z][a-z0-9+.-]*:|#", re.IGNORECASE)

# Clocks of a site's machines differ, and a page may be published some time after its stated date: without an
# overlap it would be missed. At twice as much, a changed page is requested again for another hour.
OVERLAP = timedelta(hours=1)
# One page in 20 is requested although its date claims no change: a few runs detect false dates, at a cost of 5 %.
SAMPLED = 20
# On sites of a few pages the sample above would often be empty.
ALWAYS_REQUESTED = 3
# After a false date, so many runs request every page. With one run, a site with false dates in every other run would
# be trusted again before each of them.
DISTRUST_RUNS = 3


class Hints(NamedTuple):
    """The URLs to visit after the root, and the dates in sitemaps; `trouble` if a file is temporarily unreadable."""

    seeds: list[str]
    modified: dict[str, datetime]
    trouble: str | None = None


class SitemapEntry(NamedTuple):
    """One entry of a sitemap; `nested` is true if the entry names another sitemap."""

    url: str
    modified: datetime | None
    nested: bool


async def gather(client: Client, root: str, options: WebOptions, rules: RobotsRules | None, read: Parse) -> Hints:
    """Read the sitemaps and llms.txt of a site; a missing file is no error, and a source of one page reads neither."""
    seeds: list[str] = []
    modified: dict[str, datetime] = {}
    if options.max_pages == 1:
        return Hints(seeds, modified)
    files = _Files(client, read)
    scope = SiteScope(root, options)
    origin = parse(root).origin
    if options.sitemap:
        addresses = list(rules.sitemaps) if rules and rules.sitemaps else [f"{origin}/sitemap.xml"]
        async for entry in files.sitemap_entries(addresses):
            url = scope.clean(entry.url)
            if url is not None and scope.takes(url):
                seeds.append(url)
                if entry.modified is not None:
                    modified[canonical(url)] = entry.modified
    if options.llms:
        address = f"{origin}/llms.txt"
        response = await files.get(address)
        # Some sites return a web page for a missing llms.txt.
        if response is not None and response.media_type != "text/html":
            seeds += await files.read(address, recommended, response.body, response.url)
    return Hints(seeds, modified, files.trouble)


class _Files:
    """Requests the files of a site; `trouble` is set if a file is temporarily unavailable."""

    def __init__(self, client: Client, read: Parse) -> None:
        self._client = client
        self._parse = read
        self.trouble: str | None = None

    async def get(self, address: str) -> Response | None:
        """Return the response for a file; None if the file does not exist or is unavailable."""
        try:
            response = await self._client.get(address, max_bytes=MOST_BYTES)
        except CircuitOpenError:
            raise
        except FetchError as problem:
            self.trouble = str(problem) if problem.retryable else self.trouble
            return None
        if response.status >= 500 or response.status in (408, 425, 429):
            self.trouble = f"{address} answered with status {response.status}; it may name stored pages."
        return response if response.ok else None

    async def read(self, address: str, function: Callable[..., list[T]], *facts: object) -> list[T]:
        """Parse a file; if that fails, set `trouble`, since the file may name stored pages."""
        try:
            return await self._parse(function, *facts)
        except ItemError as problem:
            self.trouble = f"{address} cannot be read: {problem}"
            return []

    async def sitemap_entries(self, addresses: list[str]) -> AsyncIterator[SitemapEntry]:
        """Yield the pages in sitemaps and nested sitemaps; unreadable sitemaps are left out."""
        waiting, done, entries = deque(dict.fromkeys(addresses)), set[str](), 0
        while waiting and len(done) < MOST_FILES:
            address = waiting.popleft()
            if address in done:
                continue
            done.add(address)
            response = await self.get(address)
            listed = await self.read(address, read_entries, response.body) if response else []
            for number, entry in enumerate(listed):
                if number % _AT_A_TIME == 0:
                    await asyncio.sleep(0)
                if entry.nested:
                    waiting.append(entry.url)
                elif entries < MOST_ENTRIES:
                    entries += 1
                    yield entry


def recommended(body: bytes, url: str) -> list[str]:
    """Return the links in an llms.txt."""
    base = parse(url)
    links = []
    for link in _MARKDOWN_LINK.findall(body.decode("utf-8", "replace")):
        if not _NO_WEB.match(link):
            with suppress(FetchError):
                links.append(join(base, link).url)
    return links


def read_entries(body: bytes) -> list[SitemapEntry]:
    """Return the entries of a sitemap, in order; a plain list of URLs is accepted as well."""
    if body.startswith(b"\x1f\x8b"):
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(body)) as packed:
                body = packed.read(MOST_BYTES)
        except (OSError, EOFError, zlib.error):
            return []
    text = body.decode("utf-8-sig", "replace")
    if "<" not in text[:1000]:
        lines = map(str.strip, text.splitlines())
        return [SitemapEntry(line, None, False) for line in lines if line.startswith("http")]
    # Each entry with an end tag and a place, in one pass over the tags that matter.
    entries: list[SitemapEntry] = []
    kind, facts, begun, inside = "", dict[str, str](), dict[str, int](), 0
    for tag in _TAG.finditer(text):
        closes, name = bool(tag[1]), tag[2].lower()
        if name in ("url", "sitemap"):
            place = facts.get("loc", "")
            if not place:  # some indexes name their sitemaps without a `loc`
                bare = _WEB.match(_without_mark(text[inside : min(tag.start(), inside + _LONGEST_PLACE)]))
                place = bare[0] if bare else ""
            if closes and name == kind and place:
                url = trimmed(html.unescape(_without_mark(place).rstrip().removesuffix("]]>").rstrip()))
                dated = facts.get("lastmod")
                moment = latest_moment(dated.strip()) if dated else None
                entries.append(SitemapEntry(url, moment, kind == "sitemap"))
            if closes or name != kind:
                kind, facts, begun, inside = "" if closes else name, {}, {}, tag.end()
        elif kind and not closes:
            begun.setdefault(name, tag.end())
        elif kind and name in begun:
            facts.setdefault(name, text[begun[name] : tag.start()])
    return entries


def _without_mark(inner: str) -> str:
    """Return the text of an element without the start of a CDATA section."""
    inner = inner.lstrip()
    return inner[len(_CDATA) :].lstrip() if inner[: len(_CDATA)].upper() == _CDATA else inner


def latest_moment(text: str) -> datetime | None:
    """Return the latest moment that a date may mean, for a day its end; None for an invalid date."""
    moment = iso_moment(text, zone_h=_WESTERNMOST_H)
    return moment + timedelta(days=1) if moment is not None and _DAY.fullmatch(text) else moment


class Dates:
    """The dates of sitemaps in one run, and whether they are trusted.

    A date before the last walk claims that a page is unchanged. If all claims of a run were true, the next runs
    request only a sample. One false claim ends the trust for some runs. `trust` above zero avoids requests; below zero
    it increases by one with each run.
    """

    def __init__(self, modified: Mapping[str, datetime], *, as_of: datetime | None, trust: int) -> None:
        self._modified = modified
        self._as_of = as_of
        self._trust = trust
        self._claims = 0
        self._true = 0
        self.lies = 0

    def claims(self, url: str) -> bool:
        """Return whether the sitemap claims that a page has not changed since the last walk."""
        if self._as_of is None or not self._modified:
            return False
        moment = self._modified.get(canonical(url))
        return moment is not None and moment < self._as_of - OVERLAP

    def avoids(self, url: str) -> bool:
        """Return whether a claim is trusted without a request."""
        if self._trust <= 0 or self.lies:
            return False
        self._claims += 1
        return self._claims > ALWAYS_REQUESTED and zlib.crc32(f"{url}{self._as_of}".encode()) % SAMPLED != 0

    def check(self, *, held_true: bool) -> None:
        """Record whether a claim was true."""
        if held_true:
            self._true += 1
        else:
            self.lies += 1

    @property
    def trust(self) -> int:
        """Return the trust for the next run."""
        if self.lies:
            return -DISTRUST_RUNS
        if self._trust < 0:
            return self._trust + 1
        return 1 if self._true or self._claims else self._trust
