"""How large a request may be, and how slow."""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rowen.errors import RequestTooLargeError, RowenError, UsageError
from rowen.interfaces.rest.problems import response_of
from rowen.server.requests import SAFE, headers_of

__all__ = ["BODY_S", "BodyLimit"]

BODY_S = 30.0
"""How long a body may take: a phone on a train sends 5 MB in less; who needs longer keeps a place for nothing."""


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
