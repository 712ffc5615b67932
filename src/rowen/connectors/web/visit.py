"""Visits one URL of a site."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from difflib import SequenceMatcher
from hashlib import sha256
from typing import NamedTuple, TypeAlias
from urllib.parse import urlsplit

from rowen.concurrency import end
from rowen.connectors.base import StoredState, Tools
from rowen.connectors.web.memory import OMITTED, TOLD, Bridge
from rowen.connectors.web.options import WebOptions, statement_profile
from rowen.connectors.web.render import Renderer, rendered_hash
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

_HTML = "text/html,application/xhtml+xml,text/markdown;q=0.9,text/plain;q=0.8,*/*;q=0.5"
_MARKDOWN = "text/markdown,text/html;q=0.9,text/plain;q=0.8,*/*;q=0.5"
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_LOGIN = re.compile(r"/(?:log-?in|sign-?in|sso|saml|oauth2?|authenticate|wp-login\.php)(?:[/._?]|$)", re.IGNORECASE)
_LOGIN_HINT = "Set the header that gives access, by reference, in the option headers of the source."
_ORDINARY = ("text/html", "utf-8")
_OBEYED = frozenset({"noindex", "nofollow", "none"})
# Directives of X-Robots-Tag that exclude a page from the index, and that forbid following its links.
NOT_INDEXED, NOT_FOLLOWED = frozenset({"noindex", "none"}), frozenset({"nofollow", "none"})
# Directives of X-Robots-Tag with a value after a colon; otherwise a colon follows the name of a crawler.
_VALUED = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})

# An error page may contain the requested URL, so two error pages need not be identical. At half
# of this, two pages of one template would count as equal, and a real page that says "not found" would be deleted.
ALIKE = 0.9
# Comparing texts of this length took 17 ms; in the worst case time is quadratic.
COMPARED_CHARS = 2000
_APOLOGY = re.compile(
    r"\b404\b|not found|(?:does not|doesn.t|no longer) exist|no such page|nicht gefunden|introuvable|niet gevonden"
    r"|no encontrad|non trovat|não encontrad|nie znaleziono|не найден|見つかりません",
    re.IGNORECASE,
)


class FetchedPage(NamedTuple):
    """A new or changed page.

    `robots` has the directives of its X-Robots-Tag; `omits_robots` is true if the server omits that header in 304
    responses. A page with `leads_on` has links to follow, but is no item.
    """

    document: Document
    robots: frozenset[str] = frozenset()
    leads_on: bool = False
    omits_robots: bool = False


class Same(NamedTuple):
    """An unchanged page; `validators` is set if its validators have changed."""

    links: tuple[str, ...]
    body_hash: bytes | None = None
    validators: Validators | None = None


class Moved(NamedTuple):
    """A redirect."""

    to: str


class NoPage(NamedTuple):
    """A response that cannot be read as a page, such as an image."""

    bridge: Bridge


class Bridged(NamedTuple):
    """An unchanged bridge."""

    bridge: Bridge


class Missing(NamedTuple):
    """A page that does not exist according to its server."""

    status: int


class BrokenPage(NamedTuple):
    """A page that could not be read; `passing` if a retry may succeed."""

    why: str
    passing: bool
    hint: str | None = None
    too_large: bool = False


class Closed(NamedTuple):
    """A page that was not requested because the circuit of its host is open."""

    why: str


Answer: TypeAlias = FetchedPage | Same | Moved | NoPage | Bridged | Missing | BrokenPage | Closed


class SoftMissing:
    """Detects error pages with status 200 by comparing them with the response for a page that cannot exist.

    It sends one request for each origin, and only if the text of some page reads like an error.
    """

    def __init__(self, read: Callable[[str], Awaitable[Document | None]]) -> None:
        self._read = read
        self._answers: dict[str, asyncio.Task[Document | None]] = {}

    async def close(self) -> None:
        """Cancel the requests that are still running, since their caller may have been cancelled."""
        await end(self._answers.values())

    async def is_missing(self, document: Document) -> bool:
        """Return whether a page is the site's error page."""
        if not _APOLOGY.search(f"{document.title}\n{document.text[:500]}"):
            return False

        async def read(url: str) -> Document | None:
            return await self._read(url)

        origin = parse(document.url).origin
        if origin not in self._answers:
            nowhere = f"{origin}/{sha256(origin.encode()).hexdigest()[:20]}"
            self._answers[origin] = asyncio.ensure_future(read(nowhere))
        apology = await asyncio.shield(self._answers[origin])
        if apology is None or apology.title != document.title:
            return False
        texts = apology.text[:COMPARED_CHARS], document.text[:COMPARED_CHARS]
        return SequenceMatcher(None, *texts).ratio() >= ALIKE


class Visitor:
    """Requests URLs of one site, conditionally if they are stored; `renderer` renders pages that need it."""

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
        self._credentials = credentials
        self._renderer = renderer
        self._routed: dict[str, Response] = {}
        self._routing = asyncio.Lock()
        self._soft = SoftMissing(self._read_unconditionally)
        self.site_time: str | None = None

    async def close(self) -> None:
        """Cancel the requests that are still running."""
        await self._soft.close()

    async def visit(self, url: str, depth: int, stored: StoredState | None, bridge: Bridge | None) -> Answer:
        """Request a URL, and compare the response with the stored page or bridge."""
        try:
            if self._renderer is not None and self._renderer.is_sure(url):
                response = await self._get_route(url)
            else:
                response = await self._get(url, stored or bridge)
            # A 304 response lacks the header that excluded the page: the page may now be indexed.
            may_have_opened = (
                stored is None
                and bridge is not None
                and response.not_modified
                and bridge.robots == TOLD
                and not _robots(response) & NOT_INDEXED
            )
            if may_have_opened:
                response = await self._get(url)
        except CircuitOpenError as problem:
            return Closed(str(problem))
        except BodyTooLargeError as problem:
            return _too_large(problem)
        except FetchError as problem:
            return BrokenPage(str(problem), problem.retryable, problem.hint)
        try:
            answer = await self._classify(url, depth, response, stored, bridge)
            return answer._replace(omits_robots=may_have_opened) if isinstance(answer, FetchedPage) else answer
        except UNREADABLE as problem:
            return BrokenPage(f"The answer of {redact(url)} cannot be read: {problem!r}.", False)

    async def _get(self, url: str, known: StoredState | Bridge | None = None) -> Response:
        """Request a URL without following redirects."""
        response = await self._client.get(
            url,
            etag=known.etag if known else None,
            last_modified=known.last_modified if known else None,
            accept=_MARKDOWN if self._options.markdown else _HTML,
            credentials=self._credentials,
            max_bytes=int(self._options.max_bytes),
            follow=False,
        )
        self.site_time = self.site_time or response.headers.get("Date")
        return response

    async def _get_route(self, url: str) -> Response:
        """Return the response for a page that is always rendered; all routes of one document share one request."""
        document, is_route, _ = url.partition("#")
        if not is_route:
            return await self._get(url)
        async with self._routing:
            if document not in self._routed:
                self._routed[document] = await self._get(document)
            return self._routed[document]

    async def _classify(
        self, url: str, depth: int, response: Response, stored: StoredState | None, bridge: Bridge | None
    ) -> Answer:
        robots = _robots(response)
        if response.not_modified and stored:
            # A missing header proves nothing: a server may omit it in a 304 response (RFC 9110, 15.4.5).
            links = () if robots & NOT_FOLLOWED else stored.links
            if robots & NOT_INDEXED:
                return Bridged(Bridge(links, stored.etag, stored.last_modified, robots=TOLD))
            return Same(links, stored.body_hash)
        if response.not_modified:
            bridge = bridge or Bridge()
            if bridge.robots == OMITTED and robots & NOT_INDEXED:
                # The server now sends the header with a 304 response, although it once omitted it.
                bridge = bridge._replace(robots=TOLD)
            return Bridged(bridge)
        if response.status in _REDIRECTS and (location := response.headers.get("Location")):
            route = location.partition("#")[2] or url.partition("#")[2]
            try:
                to = join(parse(url), location).url
            except FetchError as problem:
                return BrokenPage(str(problem), False)
            if _LOGIN.search(urlsplit(to).path) and not _LOGIN.search(urlsplit(url).path):
                return BrokenPage(f"{redact(url)} requires a login.", False, _LOGIN_HINT)
            return Moved(f"{to}#{route}" if route.startswith(("/", "!")) else to)
        if response.status in (404, 410):
            return Missing(response.status)
        if not response.ok:
            passing = response.status >= 500 or response.status in (408, 425, 429)
            return BrokenPage(f"{redact(url)} answered with status {response.status}.", passing)
        return await self._read(url, depth, response, robots, stored)

    async def _read(
        self, url: str, depth: int, response: Response, robots: frozenset[str], stored: StoredState | None
    ) -> Answer:
        validators = Validators(response.etag, response.last_modified, _hash_of(response, robots))
        if stored is not None and stored.body_hash == validators.body_hash:
            return Same(stored.links, stored.body_hash, validators)
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
        media_type = (raw.media_type or "").partition(";")[0].strip().lower()
        if media_type in ("", "application/octet-stream"):
            is_readable = media_type_of(urlsplit(url).path.rpartition("/")[2]) is not None
        else:
            is_readable = can_be_read(media_type)
        if not is_readable:
            return NoPage(Bridge((), response.etag, response.last_modified))
        try:
            if self._renderer is not None and await self._renderer.needs_rendering(raw):
                return await self._render(self._renderer, raw, response, robots, stored)
            document = await self._tools.read(raw)
        except ItemError as problem:
            return BrokenPage(str(problem), False, problem.hint)
        if await self._soft.is_missing(document):
            return Missing(response.status)
        if document.validators != validators:
            document = replace(document, validators=validators)
        return FetchedPage(document, robots, self._leads_on(document, robots))

    async def _render(
        self, renderer: Renderer, raw: Raw, response: Response, robots: frozenset[str], stored: StoredState | None
    ) -> Answer:
        """Render a page; the validators of the response are dropped, since the data comes from other requests."""
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
        digest = rendered_hash(rendered, robots)
        if stored is not None and stored.body_hash == digest:
            return Same(stored.links, digest)
        if await self._soft.is_missing(rendered):
            return Missing(response.status)
        document = replace(rendered, validators=Validators(body_hash=digest))
        return FetchedPage(document, robots, self._leads_on(document, robots))

    def _leads_on(self, document: Document, robots: frozenset[str]) -> bool:
        """Return whether a page must not be indexed, or is an overview that is not stored."""
        if document.record.get("noindex") or robots & NOT_INDEXED:
            return True
        if self._options.overviews == "keep" or document.media_type != "text/html":
            return False
        stated = document.record.get(RDFA) or {}
        return bool(stated.get("type", "overview") == "overview")

    async def _read_unconditionally(self, url: str) -> Document | None:
        """Return the document at a URL; None if it does not return a page."""
        try:
            response = await self._get(url)
            if not response.ok:
                return None
            return await self._tools.read(Raw(url, response.body, media_type=response.media_type))
        except (FetchError, ItemError):
            return None


def _robots(response: Response) -> frozenset[str]:
    """Return the directives of X-Robots-Tag that apply to all crawlers or to this crawler."""
    words: set[str] = set()
    for line in response.headers.getall("X-Robots-Tag", ()):
        named, colon, rest = line.lower().partition(":")
        if not colon or named.strip() in _VALUED:
            words.update(word.strip() for word in line.lower().split(","))
        elif named.strip() == PRODUCT.lower():
            words.update(word.strip() for word in rest.split(","))
    return frozenset(words & _OBEYED)


def _too_large(problem: BodyTooLargeError) -> BrokenPage:
    return BrokenPage(str(problem), False, "Raise the option max_bytes, or exclude the page.", too_large=True)


def _hash_of(response: Response, robots: frozenset[str]) -> Hash:
    """Return the hash of a body, including unusual headers that decide how the body is read."""
    body = body_hash(response.body)
    headers = (response.media_type, response.charset, *sorted(robots))
    return body if headers == _ORDINARY else body_hash(body + repr(headers).encode())


async def disallowed(robots: Robots, url: str) -> Answer | None:
    """Return the answer for a URL that robots.txt disallows or whose robots.txt is unreadable; otherwise None."""
    try:
        rules = await robots.rules(url)
    except CircuitOpenError as problem:
        return Closed(str(problem))
    except FetchError as problem:
        return BrokenPage(str(problem), problem.retryable, problem.hint)
    if rules.refused is not None:
        return BrokenPage(rules.refused, passing=True)
    return None if rules.allows(url) else NoPage(Bridge())


def is_left_out(stored: StoredState | None, trouble: BrokenPage | Closed) -> bool:
    """Return whether the current options exclude a stored page: it is too large, and was read under other options.

    A page that became too large under the same options is an ordinary failure, since the server may be at fault.
    """
    return isinstance(trouble, BrokenPage) and trouble.too_large and stored is not None and stored.body_hash is None


def observation_of(url: str, trouble: BrokenPage | Closed, *, keeps_copy: bool = True) -> Observation:
    """Return the observation of a page that could not be read."""
    if isinstance(trouble, Closed):
        return Skipped(url, trouble.why)
    return Failed(url, trouble.why, trouble.hint, keeps_copy=keeps_copy)
