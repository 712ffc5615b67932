"""Manage connections, direct or through a proxy, and single exchanges on them: limits, decoding, errors.

aiohttp is imported here for the whole program, without the machine's certificate authorities, which are read before
the first handshake. When aiohttp is imported, it creates two contexts and reads the authorities for each: 30 ms
apiece, a sixth of a sync without changes, and wasted if a source is read over plain HTTP.
"""

import asyncio
import ssl
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace, TracebackType
from typing import TYPE_CHECKING, Any, Self

from multidict import CIMultiDictProxy
from yarl import URL

from rowen.errors import (
    BadAnswerError,
    BadUrlError,
    BodyTooLargeError,
    ConnectError,
    FetchError,
    FetchTimeoutError,
    TlsError,
    TruncatedError,
)
from rowen.net.circuits import Breaker
from rowen.net.politeness import Permit
from rowen.net.response import ACCEPT_ENCODING, Hop, RequestMeter, decoder
from rowen.net.target import REFUSED, AddressGuard, Target, address_refused, redact
from rowen.settings import Settings
from rowen.version import __version__

if TYPE_CHECKING:
    from aiohttp.abc import AbstractResolver

__all__ = ["TRANSPORT_ERRORS", "USER_AGENT", "Exchange", "Sessions", "aiohttp", "translated"]


class _LateAuthorities(ssl.SSLContext):
    """A context that reads the certificate authorities on first use, and is an ordinary context from then on."""

    def wrap_bio(self, *arguments: Any, **named: Any) -> ssl.SSLObject:
        return self._read().wrap_bio(*arguments, **named)

    def wrap_socket(self, *arguments: Any, **named: Any) -> ssl.SSLSocket:
        return self._read().wrap_socket(*arguments, **named)

    def _read(self) -> ssl.SSLContext:
        self.__class__ = ssl.SSLContext  # type: ignore[assignment] # the same layout, without these methods
        self.set_default_verify_paths()
        return self


@contextmanager
def _authorities_put_off() -> Iterator[None]:
    """Let contexts created inside the block, in this thread, read their certificate authorities late."""
    read, thread = ssl.SSLContext.set_default_verify_paths, threading.get_ident()

    def put_off(context: ssl.SSLContext) -> None:
        if threading.get_ident() == thread:
            context.__class__ = _LateAuthorities
        else:
            read(context)

    ssl.SSLContext.set_default_verify_paths = put_off  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        del ssl.SSLContext.set_default_verify_paths


with _authorities_put_off():
    import aiohttp


USER_AGENT = f"Rowen/{__version__}"

# Sites with long security policies send header lines beyond aiohttp's 8 kB.
_HEADER_BYTES = 1 << 16
# Longer than the longest pause between two pages of a walk, apart from crawl delays; servers close idle connections
# after 5 to 75 s, and a closed connection costs one more try.
_KEEPALIVE_S = 30.0
# Names are resolved again after ten seconds, so more entries than the hosts of ten seconds would be useless.
_NAMES_KEPT = 1_000


async def _report_sent(_: aiohttp.ClientSession, context: SimpleNamespace, __: object) -> None:
    """Report to a permit that its request was sent: connecting may take long after the permit was issued.

    aiohttp calls this before it writes the head in this iteration of the loop, or head and body in the next iteration.
    A starved process may lose its processor in between for longer than the gap, so the permit is informed after both.
    """
    loop, permit = asyncio.get_running_loop(), context.trace_request_ctx
    loop.call_soon(loop.call_soon, permit.sent)


class Sessions:
    """The connections of one client, kept alive between requests."""

    def __init__(
        self,
        settings: Settings,
        *,
        proxy: str | None = None,
        resolver: "AbstractResolver | None" = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._settings = settings
        self._guard = AddressGuard(settings.allow_addresses)
        self._tls: ssl.SSLContext | bool = tls or True
        self._direct = self._session(guarded=True, resolver=resolver)
        self._proxied = None
        if proxy is not None:
            # A caller may choose it for one page, so it is guarded like any other address.
            self._proxied = self._session(guarded=True, proxy=URL(proxy))
        elif settings.proxy is not None:
            self._proxied = self._session(guarded=False, proxy=URL(settings.proxy.get_secret_value()))

    def of(self, target: Target) -> aiohttp.ClientSession:
        """Return the session for a target; raise `AddressRefusedError` if a proxy must not be asked for the target."""
        host = target.host
        name = host if host.startswith("[") else host.partition(":")[0]
        is_bypassed = any(
            rule == "*" or name == (domain := rule.lstrip("*.")) or name.endswith(f".{domain}")
            for rule in self._settings.no_proxy
        )
        if self._proxied is None or is_bypassed:
            return self._direct
        self._guard.check_name(target.host)
        return self._proxied

    async def close(self) -> None:
        """Close every connection."""
        await self._direct.close()
        if self._proxied is not None:
            await self._proxied.close()

    def _session(
        self, *, guarded: bool, resolver: "AbstractResolver | None" = None, proxy: URL | None = None
    ) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            limit=0,
            resolver=resolver,
            ssl=self._tls,
            dns_cache_max_size=_NAMES_KEPT,
            keepalive_timeout=_KEEPALIVE_S,
            socket_factory=self._guard.open_socket if guarded else None,
        )
        tracing = aiohttp.TraceConfig()
        tracing.on_request_headers_sent.append(_report_sent)
        return aiohttp.ClientSession(
            connector=connector,
            proxy=proxy,
            headers={"User-Agent": self._settings.user_agent or USER_AGENT, "Accept-Encoding": ACCEPT_ENCODING},
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trace_configs=[tracing],
            max_line_size=_HEADER_BYTES,
            max_field_size=_HEADER_BYTES,
        )


TRANSPORT_ERRORS = (aiohttp.ClientError, OSError, asyncio.TimeoutError)
_BODILESS = frozenset({204, 304})
# Reading this much of an unwanted body is cheaper than opening another connection.
_DRAIN_BYTES = 1 << 16


@dataclass(slots=True, eq=False)
class Exchange:
    """An answer whose body is still to be read; its end releases the host's permit and reports to its circuit."""

    answer: aiohttp.ClientResponse
    target: Target
    permit: Permit
    breaker: Breaker
    ticket: int
    meter: RequestMeter
    hops: tuple[Hop, ...]
    started: float

    @property
    def status(self) -> int:
        """The status of the answer."""
        return self.answer.status

    @property
    def headers(self) -> CIMultiDictProxy[str]:
        """The headers of the answer."""
        return self.answer.headers

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.answer.release()
        self.permit.release()
        if error is None or isinstance(error, FetchError):
            # Any answer is a success, except 429 and server errors.
            if error.trips_circuit if error else (self.status >= 500 or self.status == 429):
                self.breaker.fail(self.ticket, rate_limited=self.status == 429)
            else:
                self.breaker.succeed(self.ticket)

    async def read(self, limit_bytes: int) -> bytes:
        """Return the whole decoded body; the body of an error page is truncated at the limit instead of refused."""
        if self.status in _BODILESS:
            return b""
        body = bytearray()
        try:
            async for piece in self.pieces(limit_bytes):
                body += piece
        except FetchError:
            if self.status < 400:
                raise
        return bytes(body)

    async def drain(self) -> None:
        """Read a small unwanted body, so that the connection can be reused."""
        try:
            async for _ in self.pieces(_DRAIN_BYTES):
                pass
        except FetchError:
            return

    async def pieces(self, limit_bytes: int) -> AsyncGenerator[bytes, None]:
        """Yield the decoded body as it arrives, at most `limit_bytes` of it."""
        if self.answer.method == "HEAD" or self.status in _BODILESS:
            return
        packed = self.headers.get("Content-Encoding")
        unpack = decoder(packed) if packed else None
        if unpack is None and (self.answer.content_length or 0) > limit_bytes:
            raise self._too_large(limit_bytes)
        wire_bytes = size_bytes = 0
        try:
            async for data in self.answer.content.iter_any():
                wire_bytes += len(data)
                self.meter.bytes += len(data)
                for piece in unpack.feed(data) if unpack else (data,):
                    size_bytes += len(piece)
                    if size_bytes > limit_bytes:
                        raise self._too_large(limit_bytes)
                    yield piece
                if wire_bytes > limit_bytes:
                    raise self._too_large(limit_bytes)
            if unpack is not None:
                unpack.finish()
        except TRANSPORT_ERRORS as problem:
            raise translated(problem, self.target) from None
        except BadAnswerError as problem:
            raise BadAnswerError(f"{redact(self.target.url)}: {problem}") from None

    def _too_large(self, limit_bytes: int) -> BodyTooLargeError:
        return BodyTooLargeError(
            f"The body of {redact(self.target.url)} is larger than {limit_bytes:,} bytes; it was not kept.",
            hint="ROWEN_BODY_LIMIT_BYTES sets the maximum size of a body.",
        )


def translated(problem: Exception, target: Target) -> FetchError:
    """Return the `FetchError` for an error of the client library; leave out its text, which may contain secrets."""
    url = redact(target.url)
    match problem:
        case aiohttp.ClientConnectorCertificateError():
            reason = getattr(problem.certificate_error, "verify_message", "") or "it is not valid"
            return TlsError(
                f"The certificate of {target.host} cannot be trusted: {reason}.",
                hint="If your own authority signed it, set SSL_CERT_FILE to that authority's file.",
            )
        case ssl.SSLError() | aiohttp.ClientSSLError():
            reason = str(getattr(problem, "reason", "") or "handshake failed").replace("_", " ").lower()
            return TlsError(f"No encrypted connection to {target.host}: {reason}.")
        case aiohttp.ConnectionTimeoutError():
            return FetchTimeoutError(f"{target.host} could not be reached in time.")
        case aiohttp.SocketTimeoutError():
            return FetchTimeoutError(f"{target.host} stopped responding during the answer for {url}.")
        case asyncio.TimeoutError():
            return FetchTimeoutError(f"The answer for {url} was not complete in time.")
        case aiohttp.ClientProxyConnectionError() if problem.os_error.errno == REFUSED:
            return address_refused("The proxy", problem.os_error.strerror or "")
        case aiohttp.ClientConnectorError() if problem.os_error.errno == REFUSED:
            return address_refused(target.host, problem.os_error.strerror or "")
        case aiohttp.ClientConnectorDNSError():
            return ConnectError(f"The name {target.host} could not be resolved.")
        case aiohttp.ClientProxyConnectionError() | aiohttp.ClientHttpProxyError():
            return ConnectError(f"The proxy did not connect to {target.host}.", hint="Check ROWEN_PROXY, or --proxy.")
        case aiohttp.ClientPayloadError():
            return TruncatedError(f"The body of {url} ended early.")
        case aiohttp.InvalidURL() | ValueError():
            return BadUrlError(f"{url} cannot be requested.")
        case aiohttp.ClientResponseError():
            return BadAnswerError(f"The answer for {url} is not valid HTTP.")
        case OSError():
            return ConnectError(f"No connection to {target.host}: {problem.strerror or 'it was closed'}.")
        case _:
            return ConnectError(f"{target.host} closed the connection without an answer for {url}.")
