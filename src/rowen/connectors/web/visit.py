"""One look at one URL of a site."""

import asyncio
import re
from dataclasses import dataclass, replace
from typing import TypeAlias
from urllib.parse import urlsplit

from rowen.connectors.base import Held, Tools
from rowen.connectors.web.memory import OMITTED, TOLD, Bridge
from rowen.connectors.web.options import WebOptions, statement_profile
from rowen.connectors.web.render import Renderer, rendered_hash
from rowen.connectors.web.soft404 import SoftMissing
from rowen.errors import BodyTooLargeError, CircuitOpenError, FetchError, ItemError, RowenError
from rowen.model.files import can_be_read, media_type_of
from rowen.model.hashes import Hash, body_hash
from rowen.model.items import Document, Failed, Observation, Raw, Skipped, Validators
from rowen.model.rdf import RDFA
from rowen.model.text import UNREADABLE
from rowen.net.client import Client
from rowen.net.credentials import Credentials
from rowen.net.response import Response
from rowen.net.robots import PRODUCT, Robots
from rowen.net.target import join, parse, redact

__all__ = [
    "NOT_FOLLOWED",
    "NOT_INDEXED",
    "Answer",
    "Bridged",
    "BrokenPage",
    "Closed",
    "FetchedPage",
    "Missing",
    "Moved",
    "NoPage",
    "Same",
    "Visitor",
    "is_left_out",
    "kept_out",
    "told",
]

_HTML = "text/html,application/xhtml+xml,text/markdown;q=0.9,text/plain;q=0.8,*/*;q=0.5"
_MARKDOWN = "text/markdown,text/html;q=0.9,text/plain;q=0.8,*/*;q=0.5"
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_GONE = frozenset({404, 410})
_PASSING = frozenset({408, 425, 429})
_LOGIN = re.compile(r"/(?:log-?in|sign-?in|sso|saml|oauth2?|authenticate|wp-login\.php)(?:[/._?]|$)", re.IGNORECASE)
_LOGIN_HINT = "Give the source the header that opens it, by reference, in its option headers."
_ORDINARY = ("text/html", "utf-8")
_OBEYED = frozenset({"noindex", "nofollow", "none"})
NOT_INDEXED = frozenset({"noindex", "none"})
"""Words of X-Robots-Tag that keep a page out of the index."""
NOT_FOLLOWED = frozenset({"nofollow", "none"})
"""Words of X-Robots-Tag under which the links of a page are not followed."""
# Words of X-Robots-Tag whose colon does not follow the name of a crawler.
_VALUED = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """A page that is not the one we hold.

    `robots` are the words of its X-Robots-Tag; `omits_robots` tells that its origin leaves it out of answers 304.
    A page that `leads_on` has links to follow, and is no item.
    """

    document: Document
    robots: frozenset[str] = frozenset()
    leads_on: bool = False
    omits_robots: bool = False


@dataclass(frozen=True, slots=True)
class Same:
    """Still what we hold; `validators` where they are others now."""

    links: tuple[str, ...]
    body_hash: bytes | None = None
    validators: Validators | None = None


@dataclass(frozen=True, slots=True)
class Moved:
    """A redirect."""

    to: str


@dataclass(frozen=True, slots=True)
class NoPage:
    """Something that cannot be read as a page, such as a picture."""

    bridge: Bridge


@dataclass(frozen=True, slots=True)
class Bridged:
    """Still the bridge that we remember."""

    bridge: Bridge


@dataclass(frozen=True, slots=True)
class Missing:
    """The origin says that there is nothing."""

    status: int


@dataclass(frozen=True, slots=True)
class BrokenPage:
    """There is something, but it was not to be had; `passing` if another try may help."""

    why: str
    passing: bool
    hint: str | None = None
    too_large: bool = False


@dataclass(frozen=True, slots=True)
class Closed:
    """Not asked, because the host's circuit is open."""

    why: str


Answer: TypeAlias = FetchedPage | Same | Moved | NoPage | Bridged | Missing | BrokenPage | Closed


class Visitor:
    """Asks for URLs of one site, with what we hold of them; `renderer` renders pages that need it."""

    def __init__(
        self,
        client: Client,
        options: WebOptions,
        tools: Tools,
        *,
        credentials: Credentials | None = None,
        renderer: Renderer | None = None,
    ) -> None:
        self._client = client
        self._options = options
        self._tools = tools
        self._accept = _MARKDOWN if options.markdown else _HTML
        self._credentials = credentials
        self._renderer = renderer
        self._routed: dict[str, Response] = {}
        self._routing = asyncio.Lock()
        self._soft = SoftMissing(self._read_plainly)
        self.site_time: str | None = None

    async def visit(self, url: str, depth: int, held: Held | None, bridge: Bridge | None) -> Answer:
        """What a URL answers now."""
        try:
            if self._renderer is not None and self._renderer.is_sure(url):
                response = await self._ask_for_route(url)
            else:
                response = await self.ask(url, held or bridge)
            asks_again = held is None and bridge is not None and _may_have_opened(response, bridge)
            if asks_again:
                response = await self.ask(url)
        except CircuitOpenError as problem:
            return Closed(str(problem))
        except BodyTooLargeError as problem:
            return _too_large(problem)
        except FetchError as problem:
            return BrokenPage(str(problem), problem.retryable, problem.hint)
        try:
            answer = await self._understand(url, depth, response, held, bridge)
            return replace(answer, omits_robots=asks_again) if isinstance(answer, FetchedPage) else answer
        except UNREADABLE as problem:
            return BrokenPage(f"What {redact(url)} answers cannot be understood: {problem!r}.", False)

    async def ask(self, url: str, known: Held | Bridge | None = None) -> Response:
        """The answer of a URL; a redirect is an answer."""
        response = await self._client.get(
            url,
            etag=known.etag if known else None,
            last_modified=known.last_modified if known else None,
            accept=self._accept,
            credentials=self._credentials,
            max_bytes=int(self._options.max_bytes),
            follow=False,
        )
        self.site_time = self.site_time or response.headers.get("Date")
        return response

    async def _ask_for_route(self, url: str) -> Response:
        """The answer behind a page that is rendered anyway, asked for once for all routes that lead into it."""
        document, is_route, _ = url.partition("#")
        if not is_route:
            return await self.ask(url)
        async with self._routing:
            if document not in self._routed:
                self._routed[document] = await self.ask(document)
            return self._routed[document]

    async def _understand(
        self, url: str, depth: int, response: Response, held: Held | None, bridge: Bridge | None
    ) -> Answer:
        if response.not_modified:
            return _not_modified(response, held) if held else Bridged(_still_told(response, bridge or Bridge()))
        if response.status in _REDIRECTS and (location := response.headers.get("Location")):
            return _moved(url, location)
        if response.status in _GONE:
            return Missing(response.status)
        if not response.ok:
            return _broken(url, response)
        return await self._read(url, depth, response, held)

    async def _read(self, url: str, depth: int, response: Response, held: Held | None) -> Answer:
        robots = _robots(response)
        validators = Validators(response.etag, response.last_modified, _print(response, robots))
        if held is not None and held.body_hash == validators.body_hash:
            return Same(held.links, held.body_hash, validators)
        raw = Raw(
            url,
            response.body,
            media_type=response.media_type,
            charset=response.charset,
            language=self._options.language,
            depth=depth,
            etag=response.etag,
            last_modified=response.last_modified,
            select=self._options.select,
            ignore=self._options.ignore,
            statements=self._options.rdfa,
            profile=statement_profile(self._options.shapes, self._options.nonconforming),
        )
        if not _readable(raw):
            return NoPage(Bridge((), response.etag, response.last_modified))
        try:
            if self._renderer is not None and await self._renderer.wants(raw):
                return await self._render(self._renderer, raw, response, held)
            document = await self._tools.read(raw)
        except ItemError as problem:
            return BrokenPage(str(problem), False, problem.hint)
        if await self._soft.is_missing(document):
            return Missing(response.status)
        if document.validators != validators:
            document = replace(document, validators=validators)
        return FetchedPage(document, robots, self._leads_on(document, robots))

    async def _render(self, renderer: Renderer, raw: Raw, response: Response, held: Held | None) -> Answer:
        """What a page says once it is rendered. No validator is kept: its data comes from elsewhere."""
        try:
            rendered = await renderer.render(raw, response)
        except CircuitOpenError as problem:
            return Closed(str(problem))
        except BodyTooLargeError as problem:
            return _too_large(problem)
        except RowenError as problem:
            return BrokenPage(str(problem), True, problem.hint)
        if isinstance(rendered, str):
            return Moved(rendered)
        robots = _robots(response)
        seen = rendered_hash(rendered, robots)
        if held is not None and held.body_hash == seen:
            return Same(held.links, seen)
        if await self._soft.is_missing(rendered):
            return Missing(response.status)
        document = replace(rendered, validators=Validators(body_hash=seen))
        return FetchedPage(document, robots, self._leads_on(document, robots))

    def _leads_on(self, document: Document, robots: frozenset[str]) -> bool:
        """Whether a page asks not to be indexed, or is an overview where those are not wanted."""
        if document.record.get("noindex") or robots & NOT_INDEXED:
            return True
        if self._options.overviews == "keep" or document.media_type != "text/html":
            return False
        stated = document.record.get(RDFA) or {}
        return bool(stated.get("type", "overview") == "overview")

    async def close(self) -> None:
        """Abandon the requests that are still running."""
        await self._soft.close()

    async def _read_plainly(self, url: str) -> Document | None:
        """What a URL says, if it answers with a page at all."""
        try:
            response = await self.ask(url)
            if not response.ok:
                return None
            return await self._tools.read(Raw(url, response.body, media_type=response.media_type))
        except (FetchError, ItemError):
            return None


def _robots(response: Response) -> frozenset[str]:
    """What the headers ask of crawlers in general, and of us by name."""
    words: set[str] = set()
    for line in response.headers.getall("X-Robots-Tag", ()):
        named, colon, rest = line.lower().partition(":")
        if not colon or named.strip() in _VALUED:
            words.update(word.strip() for word in line.lower().split(","))
        elif named.strip() == PRODUCT.lower():
            words.update(word.strip() for word in rest.split(","))
    return frozenset(words & _OBEYED)


def _not_modified(response: Response, held: Held) -> Answer:
    """What an answer 304 says of a page that we hold: its headers count, although its body is the same.

    A header that is missing proves nothing, since an origin may leave it out of such an answer (RFC 9110, 15.4.5).
    """
    robots = _robots(response)
    links = () if robots & NOT_FOLLOWED else held.links
    if robots & NOT_INDEXED:
        return Bridged(Bridge(links, held.etag, held.last_modified, robots=TOLD))
    return Same(links, held.body_hash)


def _still_told(response: Response, bridge: Bridge) -> Bridge:
    """A bridge whose origin does send the header with an answer 304, although it once left it out."""
    told = bridge.robots == OMITTED and _robots(response) & NOT_INDEXED
    return bridge._replace(robots=TOLD) if told else bridge


def _may_have_opened(response: Response, bridge: Bridge) -> bool:
    """Whether a page that its header kept out of the index may be open now: an answer 304 without that header."""
    return response.not_modified and bridge.robots == TOLD and not _robots(response) & NOT_INDEXED


def _too_large(problem: BodyTooLargeError) -> BrokenPage:
    return BrokenPage(str(problem), False, "Raise the option max_bytes, or exclude the page.", too_large=True)


def _print(response: Response, robots: frozenset[str]) -> Hash:
    """The hash of a body, and of what its headers say about how to read it where that is out of the ordinary."""
    body = body_hash(response.body)
    told = (response.media_type, response.charset, *sorted(robots))
    return body if told == _ORDINARY else body_hash(body + repr(told).encode())


def _readable(raw: Raw) -> bool:
    told = (raw.media_type or "").partition(";")[0].strip().lower()
    if told in ("", "application/octet-stream"):
        return media_type_of(urlsplit(raw.url).path.rpartition("/")[2]) is not None
    return can_be_read(told)


def _moved(url: str, location: str) -> Answer:
    route = location.partition("#")[2] or url.partition("#")[2]
    try:
        to = join(parse(url), location).url
        if _LOGIN.search(urlsplit(to).path) and not _LOGIN.search(urlsplit(url).path):
            return BrokenPage(f"{redact(url)} asks for a login.", False, _LOGIN_HINT)
        return Moved(f"{to}#{route}" if route.startswith(("/", "!")) else to)
    except FetchError as problem:
        return BrokenPage(str(problem), False)


def _broken(url: str, response: Response) -> BrokenPage:
    passing = response.status >= 500 or response.status in _PASSING
    return BrokenPage(f"{redact(url)} answered with status {response.status}.", passing)


async def kept_out(robots: Robots, url: str) -> Answer | None:
    """The answer for a URL that robots.txt does not let us ask for; without a readable robots.txt we do not know."""
    try:
        rules = await robots.rules(url)
    except CircuitOpenError as problem:
        return Closed(str(problem))
    except FetchError as problem:
        return BrokenPage(str(problem), problem.retryable, problem.hint)
    if rules.refused is not None:
        return BrokenPage(rules.refused, passing=True)
    return None if rules.allows(url) else NoPage(Bridge())


def is_left_out(held: Held | None, trouble: BrokenPage | Closed) -> bool:
    """Whether the options leave out a page that they once let in: it is too large, and was read under other ones.

    A page that became too large under the same options is a failure like others, since a server may be to blame.
    """
    return isinstance(trouble, BrokenPage) and trouble.too_large and held is not None and held.body_hash is None


def told(url: str, trouble: BrokenPage | Closed, *, keeps_copy: bool = True) -> Observation:
    """What a run hears of a page that was not to be had."""
    if isinstance(trouble, Closed):
        return Skipped(url, trouble.why)
    return Failed(url, trouble.why, trouble.hint, keeps_copy=keeps_copy)
