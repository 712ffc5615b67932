"""Small ASGI layers: base path, HEAD, body limit, idempotency keys and problem pages."""

import asyncio
from hashlib import sha256

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rowen.errors import RequestTooLargeError, RowenError, UsageError
from rowen.interfaces import web
from rowen.interfaces.rest.problems import MEDIA_TYPE_PROBLEM, response_of
from rowen.model.access import Principal, RepeatedAnswer
from rowen.operations import Rowen
from rowen.server.requests import SAFE, headers_of, path_of


class BasePath:
    """The layer for a server under a base path, which it adds to `Location` and `Link` headers."""

    def __init__(self, app: ASGIApp, base: str) -> None:
        self._app = app
        self._base = base

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request with or without the base path, which a proxy may remove."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        path = str(scope["path"])
        if path != self._base and not path.startswith(f"{self._base}/"):
            scope["path"] = self._base + path
        scope["root_path"] = self._base

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, opening in (("location", ""), ("link", "<")):
                    value = headers.get(name)
                    if value is not None and value.startswith(f"{opening}/"):
                        address = value.removeprefix(opening)
                        below = address if address.startswith(f"{self._base}/") else self._base + address
                        headers[name] = opening + below
            await send(message)

        return await self._app(scope, receive, sending)


# Event streams have no end, and the export would be discarded.
_NOT_FOR_HEAD = ("/events", "/mcp", "/api/v1/exports/")


class Heads:
    """The layer that answers HEAD like GET, without the body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer HEAD as GET; pass on other methods."""
        is_head = scope["type"] == "http" and scope["method"] == "HEAD"
        if not is_head or any(part in path_of(scope) for part in _NOT_FOR_HEAD):
            return await self._app(scope, receive, send)

        async def without_body(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        return await self._app({**scope, "method": "GET"}, receive, without_body)


BODY_S = 30.0
"""The time limit for a body: a phone on a train sends 5 MB in less."""


class BodyLimit:
    """The layer that reads the whole body before other layers do, and refuses large bodies."""

    def __init__(self, app: ASGIApp, *, most_bytes: int) -> None:
        self._app = app
        self._most = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body and pass it on in one piece."""
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
        first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return first.pop() if first else await receive()

        return await self._app(scope, replay, send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes | None:
        """Return the body; None if the client has disconnected."""
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


_HEADER = "idempotency-key"
# Answers to writes are small; larger ones are not stored.
_MOST_BYTES = 1_000_000
# The answer contains a secret, which must not be stored.
_NEVER_REPLAYED = "/api/v1/tokens"
_REPLAYED_HEADERS = frozenset({"content-type", "location", "link", "cache-control"})
# Temporary errors, after which a repeated request may succeed.
_TEMPORARY = frozenset({401, 403, 408, 409, 429})


class Repeats:
    """The layer for `Idempotency-Key`: it replays the stored answer to a repeated request."""

    def __init__(self, app: ASGIApp, rowen: Rowen) -> None:
        self._app = app
        self._rowen = rowen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Replay a stored answer, or store the answer to a new request."""
        key = headers_of(scope).get(_HEADER) if scope["type"] == "http" and scope["method"] == "POST" else None
        path = path_of(scope) if key is not None else ""
        if key is None or not path.startswith("/api/") or path == _NEVER_REPLAYED:
            return await self._app(scope, receive, send)
        principal: Principal = scope["state"]["principal"]
        request = b"\0".join([path.encode(), scope.get("query_string", b""), scope["state"].get("body", b"")])
        try:
            stored = await self._rowen.access.claim_answer(principal.name, key, sha256(request).digest())
        except RowenError as problem:
            return await response_of(problem)(scope, receive, send)
        if stored is not None:
            replayed = Response(stored.body, stored.status, {**stored.headers, "Idempotent-Replayed": "true"})
            return await replayed(scope, receive, send)
        answer = _RecordedAnswer(send)
        try:
            await self._app(scope, receive, answer)
        finally:
            await self._rowen.access.store_answer(principal.name, key, answer.replayable)
        return None


class _RecordedAnswer:
    """Sends an answer and records it."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._status = 0
        self._headers: dict[str, str] = {}
        self._pieces: list[bytes] = []
        self._is_whole = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in message["headers"]}
            self._headers = {name: value for name, value in headers.items() if name.lower() in _REPLAYED_HEADERS}
        elif message["type"] == "http.response.body":
            self._pieces.append(message.get("body", b""))
            self._is_whole = not message.get("more_body", False)
        await self._send(message)

    @property
    def replayable(self) -> RepeatedAnswer | None:
        """The answer that a repeated request gets; None for temporary errors and answers that are too large."""
        body = b"".join(self._pieces)
        is_temporary = self._status >= 500 or self._status in _TEMPORARY
        if not self._is_whole or is_temporary or len(body) > _MOST_BYTES:
            return None
        return RepeatedAnswer(self._status, self._headers, body)


# Paths for programs, whatever they accept.
_FOR_PROGRAMS = ("/api/", "/mcp", "/push/", "/static/")
_PROBLEM_HEADERS = frozenset({b"allow", b"retry-after"})


def wants_page(scope: Scope) -> bool:
    """Return whether a browser requests a page for a person."""
    headers = headers_of(scope)
    if "text/html" not in headers.get("accept", "") or "authorization" in headers:
        return False
    return not path_of(scope).startswith(_FOR_PROGRAMS)


class ProblemPages:
    """The layer that answers browsers with a page instead of a problem document."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass an answer on, or replace a problem by a page with the same content."""
        if scope["type"] != "http" or not wants_page(scope):
            return await self._app(scope, receive, send)
        start: Message | None = None
        body = b""

        async def sending(message: Message) -> None:
            nonlocal start, body
            problem = (b"content-type", MEDIA_TYPE_PROBLEM.encode())
            if message["type"] == "http.response.start" and problem in message["headers"]:
                start = message
            elif start is None:
                await send(message)
            else:
                body += message.get("body", b"")

        try:
            await self._app(scope, receive, sending)
        finally:
            # An unexpected exception is answered, and then raised for the log.
            if start is not None:
                page = web.problem_page(Request(scope), body)
                page.raw_headers.extend(header for header in start["headers"] if header[0].lower() in _PROBLEM_HEADERS)
                await page(scope, receive, send)
        return None
