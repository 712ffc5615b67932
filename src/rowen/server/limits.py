"""How much a client may ask for: requests a minute, and bytes in one."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rowen.api.problems import response_of
from rowen.errors import RequestTooLargeError, RowenError, TooManyRequestsError, UsageError
from rowen.server.requests import SAFE, headers_of

__all__ = ["BODY_S", "BodyLimit", "Buckets"]

# Some hundred kB of memory; whoever is forgotten begins with a full bucket, as a new client does.
_MOST_CLIENTS = 10_000
BODY_S = 30.0
"""How long a body may take: a phone on a train sends 5 MB in less; who needs longer keeps a place for nothing."""
_MINUTE_S = 60.0


class Buckets:
    """A bucket of tokens for each client: a minute's worth at once, and then as many as flow in."""

    def __init__(self, *, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = float(per_minute)
        self._rate = per_minute / _MINUTE_S
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> None:
        """Count a request; raises `TooManyRequestsError` if there were too many."""
        self.check(client)
        self.count(client)

    def check(self, client: str) -> None:
        """Raise if there were too many, and count nothing."""
        left = self._level(client)
        if left < 1:
            wait_s = (1 - left) / self._rate
            raise TooManyRequestsError(
                f"More than {self._most:g} requests in a minute. Nothing was done.",
                retry_in_s=wait_s,
                hint="Retry-After says when to go on.",
            )

    def count(self, client: str) -> None:
        """Count one."""
        self._left[client] = (self._level(client) - 1, self._clock())
        self._left.move_to_end(client)
        if len(self._left) > _MOST_CLIENTS:
            self._left.popitem(last=False)

    def _level(self, client: str) -> float:
        left, at = self._left.get(client, (self._most, self._clock()))
        return min(self._most, left + (self._clock() - at) * self._rate)


class BodyLimit:
    """The layer that reads a body whole before anybody looks at it, as far as it is not too large."""

    def __init__(self, app: ASGIApp, *, most_bytes: int) -> None:
        self._app = app
        self._most = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body, and hand it on in one piece."""
        if scope["type"] != "http" or scope["method"] in SAFE:
            return await self._app(scope, receive, send)
        try:
            async with asyncio.timeout(BODY_S):
                body = await self._read(scope, receive)
        except TimeoutError:
            slow = UsageError("The body did not arrive in time. Nothing was done.")
            return await response_of(slow, status=408)(scope, receive, send)
        except RowenError as problem:
            return await response_of(problem)(scope, receive, send)
        if body is None:
            return None
        scope.setdefault("state", {})["body"] = body
        return await self._app(scope, _again(body, receive), send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes | None:
        """The body; None if the client has gone."""
        announced = headers_of(scope).get("content-length", "0")
        self._check(int(announced) if announced.isascii() and announced.isdigit() else 0)
        pieces: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            self._check(size)
            if not message.get("more_body", False):
                return b"".join(pieces)

    def _check(self, size: int) -> None:
        if size > self._most:
            raise RequestTooLargeError(
                f"The body has more than {self._most:,} bytes. Nothing was done.",
                hint="ROWEN_REQUEST_LIMIT_BYTES sets the limit.",
            )


def _again(body: bytes, receive: Receive) -> Receive:
    """The body once more, and then what else comes."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def given() -> Message:
        return first.pop() if first else await receive()

    return given
