"""One exchange on the wire: limits, decoding, and errors in our own classes."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Self

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
from rowen.net import guard
from rowen.net.breaker import Breaker
from rowen.net.encoding import decoder
from rowen.net.politeness import Permit
from rowen.net.response import Hop, RequestMeter
from rowen.net.target import Target, redact
from rowen.net.tls import aiohttp

__all__ = ["TRANSPORT_ERRORS", "Exchange", "translated"]

TRANSPORT_ERRORS = (aiohttp.ClientError, OSError, asyncio.TimeoutError)
_BODILESS = frozenset({204, 304})
# To read so much of a body that nobody wants is cheaper than to open another connection.
_DRAIN_BYTES = 1 << 16


class Exchange:
    """A response whose body is still to be read. Leaving it releases the host's permit and reports to its circuit."""

    __slots__ = (
        "_answer",
        "_breaker",
        "_meter",
        "_permit",
        "_ticket",
        "headers",
        "hops",
        "started",
        "status",
        "target",
    )

    def __init__(
        self,
        answer: aiohttp.ClientResponse,
        target: Target,
        *,
        permit: Permit,
        breaker: Breaker,
        ticket: int,
        meter: RequestMeter,
        hops: tuple[Hop, ...],
        started: float,
    ) -> None:
        self._answer = answer
        self._permit = permit
        self._breaker = breaker
        self._ticket = ticket
        self._meter = meter
        self.target = target
        self.hops = hops
        self.started = started
        self.status = answer.status
        self.headers = answer.headers

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._answer.release()
        self._permit.release()
        if error is None or isinstance(error, FetchError):
            _report(self._breaker, self._ticket, error, self.status)

    async def read(self, limit_bytes: int) -> bytes:
        """The whole body, unpacked. That of an error page is cut rather than refused."""
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
        """Read a body that nobody wants, if it is small, so that the connection can be used again."""
        try:
            async for _ in self.pieces(_DRAIN_BYTES):
                pass
        except FetchError:
            return

    async def pieces(self, limit_bytes: int) -> AsyncGenerator[bytes, None]:
        """The body, unpacked, as it comes in; never more than `limit_bytes` of it."""
        if self._answer.method == "HEAD" or self.status in _BODILESS:
            return
        packed = self.headers.get("Content-Encoding")
        unpack = decoder(packed) if packed else None
        if unpack is None and (self._answer.content_length or 0) > limit_bytes:
            raise self._too_large(limit_bytes)
        wire_bytes = size_bytes = 0
        try:
            async for data in self._answer.content.iter_any():
                wire_bytes += len(data)
                self._meter.bytes += len(data)
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
            hint="ROWEN_BODY_LIMIT_BYTES sets the largest body that is read.",
        )


def _report(breaker: Breaker, ticket: int, error: FetchError | None, status: int) -> None:
    """Report to the circuit. Any answer is a success, except 429 and server errors."""
    if error.trips_circuit if error else (status >= 500 or status == 429):
        breaker.fail(ticket, rate_limited=status == 429)
    else:
        breaker.succeed(ticket)


def translated(problem: Exception, target: Target) -> FetchError:
    """Translate an error of the client library. Its text is left out, since it may carry secrets."""
    url = redact(target.url)
    match problem:
        case aiohttp.ClientConnectorCertificateError():
            return _untrusted(problem, target.host)
        case ssl.SSLError() | aiohttp.ClientSSLError():
            reason = str(getattr(problem, "reason", "") or "handshake failed").replace("_", " ").lower()
            return TlsError(f"No encrypted connection to {target.host}: {reason}.")
        case aiohttp.ConnectionTimeoutError():
            return FetchTimeoutError(f"{target.host} could not be reached in time.")
        case aiohttp.SocketTimeoutError():
            return FetchTimeoutError(f"{target.host} fell silent while answering for {url}.")
        case asyncio.TimeoutError():
            return FetchTimeoutError(f"The answer for {url} was not complete in time.")
        case aiohttp.ClientProxyConnectionError() if problem.os_error.errno == guard.REFUSED:
            return guard.address_refused("The proxy", problem.os_error.strerror or "")
        case aiohttp.ClientConnectorError() if problem.os_error.errno == guard.REFUSED:
            return guard.address_refused(target.host, problem.os_error.strerror or "")
        case aiohttp.ClientConnectorDNSError():
            return ConnectError(f"The name {target.host} could not be resolved.")
        case aiohttp.ClientProxyConnectionError() | aiohttp.ClientHttpProxyError():
            return ConnectError(f"The proxy did not connect to {target.host}.", hint="Check ROWEN_PROXY, or --proxy.")
        case aiohttp.ClientPayloadError():
            return TruncatedError(f"The body of {url} ended before it was whole.")
        case aiohttp.InvalidURL() | ValueError():
            return BadUrlError(f"{url} cannot be requested.")
        case aiohttp.ClientResponseError():
            return BadAnswerError(f"The answer for {url} is not valid HTTP.")
        case OSError():
            return ConnectError(f"No connection to {target.host}: {problem.strerror or 'it was closed'}.")
        case _:
            return ConnectError(f"{target.host} closed the connection without an answer for {url}.")


def _untrusted(problem: aiohttp.ClientConnectorCertificateError, host: str) -> TlsError:
    reason = getattr(problem.certificate_error, "verify_message", "") or "it is not valid"
    return TlsError(
        f"The certificate of {host} cannot be trusted: {reason}.",
        hint="If it is signed by an authority of yours, name that authority's file in SSL_CERT_FILE.",
    )
