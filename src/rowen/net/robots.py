"""Read robots.txt: the URLs of a site that may be fetched (RFC 9309)."""

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from protego import Protego

from rowen.errors import AddressRefusedError, CircuitOpenError, FetchError, RedirectError
from rowen.formats.charset import decode_plain
from rowen.net.client import Client
from rowen.net.politeness import LruCache
from rowen.net.response import sniff
from rowen.net.target import parse

PRODUCT = "Rowen"

# RFC 9309, 2.5: a crawler parses at least 500 KiB.
_PARSED_BYTES = 500 * 1024
# RFC 9309, 2.4, allows a day. An hour is longer than most runs, and a site that closes a folder is obeyed within it.
_KEPT_S = 3600.0
# An unreadable file forbids everything: it is requested again as soon as an open circuit would be.
_KEPT_UNREACHABLE_S = 300.0
# Forty rules take 24 kB, rules that fill the 500 KiB take 11 MB. A run requests one site, and the few others whose
# resources its pages use.
_MOST_ORIGINS = 100
_LINE_END = re.compile(r"\r\n?")
_AGENT = re.compile(
    r"^[^\S\n]*+user[- ]?agent[^\S\n]*+(?::|(?<=\s))[^\S\n]*+([^#\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]++)",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class RobotsRules:
    """The robots.txt rules of one origin for Rowen; `refused` is the reason if no URL may be fetched."""

    parsed: Protego | None = field(default=None, repr=False)
    crawl_delay_s: float | None = None
    sitemaps: tuple[str, ...] = ()
    refused: str | None = None

    def allows(self, url: str) -> bool:
        """Return whether a URL of this origin may be fetched."""
        if self.refused is not None:
            return False
        return self.parsed is None or self.parsed.can_fetch(url, PRODUCT)


def read_rules(body: bytes) -> RobotsRules:
    """Return the rules in a robots.txt; a web page in its place allows everything, like a missing file."""
    if sniff(body) == "text/html" or body.lstrip()[:1] == b"<":
        return RobotsRules()
    text = _AGENT.sub(_agent, _LINE_END.sub("\n", decode_plain(body)))
    parsed = Protego.parse(text)
    return RobotsRules(parsed, parsed.crawl_delay(PRODUCT), tuple(dict.fromkeys(parsed.sitemaps)))


def _agent(line: re.Match[str]) -> str:
    """Return a user-agent line with Rowen's name, with `*`, or with a placeholder for all other names.

    The parser stores each rule once for every name above it: with thousands of both, parsing would take forever. The
    file may contain "Rowen/1.0", of which only the product name counts.
    """
    name = line[1].partition("/")[0].strip().lower()
    bare = name.replace("*", "")
    agent = "*" if name == "*" else bare if bare and bare in PRODUCT.lower() else "-"
    return f"user-agent: {agent}"


class Robots:
    """The rules of the visited origins; each file is fetched once and cached for a while."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Callable[[], float] = time.monotonic,
        kept_s: float = _KEPT_S,
        most: int = _MOST_ORIGINS,
    ) -> None:
        self._client = client
        self._clock = clock
        self._kept_s = kept_s
        self._rules = LruCache[tuple[float, RobotsRules]](most)
        self._locks = LruCache[asyncio.Lock](most, lambda lock: not lock.locked())

    @property
    def remembered(self) -> int:
        """The number of origins with rules in memory."""
        return len(self._rules)

    async def rules(self, url: str) -> RobotsRules:
        """Return the rules of a URL's origin; raise if its address is refused or its circuit is open."""
        origin = parse(url).origin
        if rules := self._cached(origin):
            return rules
        async with self._locks.get(origin) or self._locks.put(origin, asyncio.Lock()):
            if rules := self._cached(origin):
                return rules
            rules = await self._fetch(origin)
            kept_s = self._kept_s if rules.refused is None else min(self._kept_s, _KEPT_UNREACHABLE_S)
            self._rules.put(origin, (self._clock() + kept_s, rules))
            return rules

    def _cached(self, origin: str) -> RobotsRules | None:
        until, rules = self._rules.get(origin) or (0.0, None)
        return rules if self._clock() < until else None

    async def allows(self, url: str) -> bool:
        """Return whether a URL may be fetched."""
        return (await self.rules(url)).allows(url)

    async def _fetch(self, origin: str) -> RobotsRules:
        address = f"{origin}/robots.txt"
        body = bytearray()
        try:
            async with self._client.stream(address) as answer:
                status = answer.head.status
                async for piece in answer:
                    body += piece
                    if len(body) >= _PARSED_BYTES:
                        break
        except (AddressRefusedError, CircuitOpenError):
            raise
        except RedirectError:
            return RobotsRules()
        except FetchError as error:
            return RobotsRules(refused=f"{address} could not be read: {error}")
        if status >= 500 or status == 429:
            return RobotsRules(refused=f"{address} answered with status {status}.")
        return read_rules(bytes(body[:_PARSED_BYTES])) if 200 <= status < 300 else RobotsRules()
