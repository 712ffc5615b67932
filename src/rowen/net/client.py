"""The HTTP client, with conditional requests, rate limits, size limits, and a guard against private addresses."""

import asyncio
import logging
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypedDict, TypeVar, Unpack

from yarl import URL

from rowen.errors import AddressRefusedError, BadAnswerError, FetchError, RedirectError
from rowen.model.text import header
from rowen.net.circuits import Breaker, Breakers, CircuitLimits, State
from rowen.net.credentials import Credentials
from rowen.net.politeness import LruCache, Permit, Throttle, backoff_s
from rowen.net.response import Hop, RequestMeter, Response, Stream, respond
from rowen.net.sessions import TRANSPORT_ERRORS, Exchange, Sessions, aiohttp, translated
from rowen.net.target import Target, is_own, join, parse, redact
from rowen.settings import Settings
from rowen.tracing import span

if TYPE_CHECKING:
    from aiohttp.abc import AbstractResolver

# The caller's headers that are sent to another origin after a redirect.
_HARMLESS = ("accept", "accept-language", "content-type")


class RequestOptions(TypedDict, total=False):
    """The options of a request.

    `etag` and `last_modified` are the validators that came with `url` itself. `max_bytes` limits the decoded body,
    `limit_s` the time of one try, `idle_s` the silence of the server within a try, `tries` the number of tries.
    Without `follow`, a redirect is returned as the answer.
    """

    etag: str | None
    last_modified: str | None
    headers: Mapping[str, str] | None
    accept: str | None
    credentials: Credentials | None
    body: bytes | None
    max_bytes: int | None
    limit_s: float | None
    idle_s: float | None
    tries: int | None
    follow: bool


@dataclass(slots=True)
class Request:
    """A request to one target; a redirect replaces it by another request."""

    method: str
    target: Target
    limit_bytes: int
    limit_s: float
    tries: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    credentials: tuple[Credentials, ...] = ()
    body: bytes | None = field(default=None, repr=False)
    conditional: bool = False
    follow: bool = True
    idle_s: float | None = None

    def wire_headers(self) -> Mapping[str, str]:
        """Return the headers to send, with the credentials for the target's origin."""
        if not self.credentials:
            return self.headers
        sent = dict(self.headers)
        for credentials in self.credentials:
            sent.update(credentials.headers(self.target.origin))
        return sent

    def redirected(self, status: int, target: Target, spent_s: float) -> "Request":
        """Return the request that follows a redirect, without the validators, which belong to the former URL."""
        dropped = {"if-none-match", "if-modified-since"}
        rewritten = status == 303 or (status in (301, 302) and self.method == "POST")
        if rewritten:
            dropped |= {"content-type"}
        same = target.origin == self.target.origin
        headers = {
            name: value
            for name, value in self.headers.items()
            if (lower := name.lower()) not in dropped and (same or lower in _HARMLESS)
        }
        method, body = ("GET" if self.method != "HEAD" else "HEAD", None) if rewritten else (self.method, self.body)
        left_s = max(self.limit_s - spent_s, 0.001)
        return replace(
            self, method=method, target=target, headers=headers, body=body, limit_s=left_s, conditional=False
        )


_log = logging.getLogger(__name__)
# Browsers follow 20. A chain that leads somewhere has two or three: http to https, to www, to a language.
_MOST_REDIRECTS = 10
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})
# Hosts for which it is cached whether they are in the user's own network; a miss costs one check of a name.
_OWN_KEPT = 1_000

T = TypeVar("T")


@dataclass(slots=True)
class _Unread:
    """A meter for clients that were created without one."""

    requests: int = 0
    not_modified: int = 0
    bytes: int = 0


class Client:
    """Sends HTTP requests, as an async context manager.

    Every status is returned as a `Response`; a `FetchError` is raised if there is no answer. If clients share a
    throttle and breakers, they share the pace and the circuit of each host. A `proxy` replaces the proxy of the
    settings, and its address must be allowed. Clock, sleep and randomness can be injected.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        meter: RequestMeter | None = None,
        throttle: Throttle | None = None,
        breakers: Breakers | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        random: Random | None = None,
        proxy: str | None = None,
        resolver: "AbstractResolver | None" = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._settings = settings
        self._meter = meter or _Unread()
        self._clock = clock
        self._sleep = sleep
        self._now = now
        self._random = random or Random()  # noqa: S311 - jitter, not a secret
        self.throttle = throttle or Throttle(
            delay_s=settings.host_delay_s,
            concurrency=settings.host_concurrency,
            longest_s=settings.retry_after_limit_s,
            clock=clock,
            sleep=sleep,
            random=self._random,
        )
        self.breakers = breakers or Breakers(CircuitLimits.of(settings), clock=clock)
        self._usual_timeout = _timeout(settings, settings.total_limit_s)
        # Hosts of the user's own network need no pause, unless the user set one, for all hosts or for the source.
        self._spares_own = "host_delay_s" not in settings.model_fields_set
        self._paced: set[str] = set()
        self._own: LruCache[bool] = LruCache(_OWN_KEPT)
        self._proxy = proxy
        self._resolver = resolver
        self._tls = tls
        self._open_sessions: Sessions | None = None

    async def __aenter__(self) -> Self:
        self._open_sessions = Sessions(self._settings, proxy=self._proxy, resolver=self._resolver, tls=self._tls)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._sessions.close()
        self._open_sessions = None

    @property
    def settings(self) -> Settings:
        """The settings of the client."""
        return self._settings

    @property
    def _sessions(self) -> Sessions:
        if self._open_sessions is None:
            raise RuntimeError("A client can only be used inside `async with`.")
        return self._open_sessions

    def pace(
        self,
        url: str,
        *,
        delay_s: float | None = None,
        concurrency: int | None = None,
        crawl_delay_s: float | None = None,
    ) -> None:
        """Set the pace of the host of a URL."""
        host = parse(url).host
        if delay_s is not None:
            self._paced.add(host)
        self.throttle.pace(host, delay_s=delay_s, concurrency=concurrency, crawl_delay_s=crawl_delay_s)

    async def get(self, url: str, **options: Unpack[RequestOptions]) -> Response:
        """Fetch a URL; with validators, `not_modified` is true if the resource is unchanged."""
        return await self._persist(self._prepare("GET", url, options), self._read)

    async def request(self, method: str, url: str, **options: Unpack[RequestOptions]) -> Response:
        """Send a request with any method. It may be retried, so it must be safe to repeat."""
        return await self._persist(self._prepare(method, url, options), self._read)

    @asynccontextmanager
    async def stream(
        self, url: str, *, method: str = "GET", **options: Unpack[RequestOptions]
    ) -> AsyncIterator[Stream]:
        """Fetch a body that is too large for memory; the request is not retried after the body has begun."""
        request = self._prepare(method, url, options)
        answer = await self._persist(request, self._begin)
        if isinstance(answer, Response):
            body = answer.body

            async def whole() -> AsyncIterator[bytes]:
                if body:
                    yield body

            yield Stream(replace(answer, body=b""), whole())
            return
        with answer as exchange:
            pieces = exchange.pieces(request.limit_bytes)
            try:
                yield Stream(self._respond(exchange, b""), pieces)
            finally:
                await pieces.aclose()

    def _prepare(self, method: str, url: str, options: RequestOptions) -> Request:
        """Return a request with the caller's options, the settings' limits, and the credentials in the URL."""
        target, settings = parse(url), self._settings
        etag, modified = header(options.get("etag")), header(options.get("last_modified"))
        headers = dict(options.get("headers") or ())
        named = {"Accept": options.get("accept"), "If-None-Match": etag, "If-Modified-Since": modified}
        headers |= {name: value for name, value in named.items() if value}
        own = Credentials(target.origin, {"Authorization": target.login}) if target.login else None
        return Request(
            method.upper(),
            target,
            options.get("max_bytes") or settings.body_limit_bytes,
            options.get("limit_s") or settings.total_limit_s,
            options.get("tries") or settings.fetch_tries,
            headers,
            tuple(filter(None, (own, options.get("credentials")))),
            options.get("body"),
            bool(etag or modified),
            options.get("follow", True),
            options.get("idle_s"),
        )

    async def _persist(self, request: Request, attempt: Callable[[Request], Awaitable[T]]) -> T:
        """Retry until an attempt succeeds or retrying cannot help."""
        tried = 0
        while True:
            tried += 1
            try:
                result = await attempt(request)
            except FetchError as error:
                if not (error.retryable and self._may_retry(request, tried)):
                    raise
                wait_s, why = backoff_s(tried, self._random), type(error).__name__
            else:
                if not (isinstance(result, Response) and result.status in _RETRIED):
                    return result
                requested_s = await self._wait_s(result, tried)
                if requested_s is None or not self._may_retry(request, tried):
                    return result
                wait_s, why = requested_s, f"status {result.status}"
            await self._sleep(wait_s)
            _log.info("waited %.1f s to ask %s again after %s", wait_s, redact(request.target.url), why)

    def _may_retry(self, request: Request, tried: int) -> bool:
        return tried < request.tries and self.breakers.of(request.target.host).state() is not State.OPEN

    async def _wait_s(self, response: Response, tried: int) -> float | None:
        """Return the wait before the next try; None if the server requests a longer wait than the limit."""
        wait_s = response.retry_after_s
        if not wait_s:
            return backoff_s(tried, self._random)
        await self.throttle.hold(parse(response.url).host, wait_s)
        limit_s = self._settings.retry_after_limit_s
        if wait_s > limit_s:
            _log.warning(
                "gave up on %s: the server requested a wait of %.0f s; the limit (ROWEN_RETRY_AFTER_LIMIT_S) is %.0f s",
                redact(response.url),
                wait_s,
                limit_s,
            )
        return None if wait_s > limit_s else wait_s

    async def _read(self, request: Request) -> Response:
        with await self._arrive(request) as exchange:
            return self._respond(exchange, await exchange.read(request.limit_bytes))

    async def _begin(self, request: Request) -> Response | Exchange:
        """Return an open exchange; for an error status, the whole response."""
        exchange = await self._arrive(request)
        if exchange.status < 400:
            return exchange
        with exchange:
            return self._respond(exchange, await exchange.read(request.limit_bytes))

    def _respond(self, exchange: Exchange, body: bytes) -> Response:
        return respond(
            exchange.target.url,
            exchange.status,
            exchange.headers,
            body=body,
            redirects=exchange.hops,
            elapsed_s=self._clock() - exchange.started,
            now=self._now,
        )

    async def _arrive(self, request: Request) -> Exchange:
        """Follow all redirects, and return the exchange of the final answer."""
        hops: tuple[Hop, ...] = ()
        while True:
            exchange = await self._open(request, hops)
            location = exchange.headers.get("Location")
            if not request.follow or exchange.status not in _REDIRECTS or not location:
                return exchange
            with exchange:
                await exchange.drain()
                target = join(request.target, location)
                hops = (*hops, Hop(request.target.url, exchange.status, target.url, exchange.headers))
                start = redact(hops[0].url)
                if any(target.url == hop.url for hop in hops):
                    raise RedirectError(f"{start} redirects in a loop, back to {redact(target.url)}.")
                if len(hops) > _MOST_REDIRECTS:
                    raise RedirectError(f"{start} redirects more than {_MOST_REDIRECTS} times.")
            request = request.redirected(exchange.status, target, self._clock() - exchange.started)

    async def _open(self, request: Request, hops: tuple[Hop, ...]) -> Exchange:
        """Wait until the host may be requested, send one request, and wait for the head of the answer."""
        host = request.target.host
        breaker = self.breakers.of(host)
        breaker.admit()
        if self._spares_own and host not in self._paced:
            is_own_host = self._own.get(host)
            if is_own_host is None:
                is_own_host = self._own.put(host, is_own(host, self._settings))
            if is_own_host:
                self.throttle.pace(host, delay_s=0.0)
        permit = await self.throttle.enter(host)
        try:
            # While this request waited for its turn, others may have opened the circuit.
            ticket = breaker.admit()
            started = self._clock()
            answer = await self._send(request, breaker, ticket, permit)
        except BaseException:
            permit.release()
            raise
        self._meter.requests += 1
        exchange = Exchange(answer, request.target, permit, breaker, ticket, self._meter, hops, started)
        if exchange.status == 304 and request.conditional:
            self._meter.not_modified += 1
        elif exchange.status == 304:
            with exchange:
                raise BadAnswerError(f"{redact(request.target.url)} answered 304 to a request without validators.")
        return exchange

    async def _send(self, request: Request, breaker: Breaker, ticket: int, permit: Permit) -> aiohttp.ClientResponse:
        target = request.target
        try:
            with span(
                request.method, {"http.request.method": request.method, "server.address": target.host}, is_client=True
            ) as note:
                answer = await self._sessions.of(target).request(
                    request.method,
                    URL(target.url, encoded=True),
                    headers=request.wire_headers(),
                    data=request.body,
                    allow_redirects=False,
                    timeout=self._timeout(request.limit_s, request.idle_s),
                    trace_request_ctx=permit,
                )
                note({"http.response.status_code": answer.status})
                return answer
        except (*TRANSPORT_ERRORS, ValueError) as problem:
            error = translated(problem, target)
        if error.trips_circuit:
            breaker.fail(ticket)
        self._meter.requests += not isinstance(error, AddressRefusedError)
        raise error

    def _timeout(self, limit_s: float, idle_s: float | None) -> aiohttp.ClientTimeout:
        if limit_s == self._usual_timeout.total and idle_s is None:
            return self._usual_timeout
        return _timeout(self._settings, limit_s, idle_s)


def _timeout(settings: Settings, total_s: float, idle_s: float | None = None) -> aiohttp.ClientTimeout:
    idle_s = settings.idle_limit_s if idle_s is None else idle_s
    return aiohttp.ClientTimeout(total=total_s, sock_connect=settings.connect_limit_s, sock_read=idle_s)
