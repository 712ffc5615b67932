"""Limit event streams: how many may be open, and how long."""

import asyncio
import logging
from collections import Counter
from typing import NoReturn

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rowen.errors import OverloadedError, StoreError, TooManyRequestsError
from rowen.interfaces.rest.problems import response_of
from rowen.model.access import Credential
from rowen.operations import Rowen
from rowen.server.admission import caller_of
from rowen.server.requests import headers_of

log = logging.getLogger(__name__)

# How long a stream may outlive its token. A check is one statement for all streams.
_CHECK_S = 5.0
_RETRY_S = 5.0
_EVENTS = b"text/event-stream"
# The only MCP method with an endless stream. The header has to match the body.
_LISTEN = ("POST", "subscriptions/listen")


class Streams:
    """The layer that limits event streams, and ends streams whose token was revoked or has expired."""

    def __init__(self, app: ASGIApp, rowen: Rowen) -> None:
        self._app = app
        self._rowen = rowen
        self._at_once = rowen.settings.streams_at_once
        self._per_caller = rowen.settings.streams_per_caller
        self._open: dict[_Stream, None] = {}
        self._of_caller: Counter[str] = Counter()
        self._checking: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; if the answer is an event stream, count it until it ends."""
        # Only answers to these requests may be endless streams; event streams of tool calls end by themselves.
        if scope["type"] != "http" or not (
            scope["method"] in ("GET", "HEAD") or (scope["method"], headers_of(scope).get("mcp-method")) == _LISTEN
        ):
            return await self._app(scope, receive, send)
        stream = _Stream(scope)

        async def sending(message: Message) -> None:
            is_stream = message["type"] == "http.response.start" and any(
                name.lower() == b"content-type" and value.startswith(_EVENTS) for name, value in message["headers"]
            )
            if is_stream and scope["method"] == "HEAD":
                await send(message)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                await stream.end_here()
            elif is_stream:
                try:
                    self._add(stream)
                except TooManyRequestsError as problem:
                    await response_of(problem)(scope, receive, send)
                    await stream.end_here()
            await send(message)

        try:
            async with stream.lifetime:
                await self._app(scope, receive, sending)
        except TimeoutError:
            if not stream.lifetime.expired():
                raise
        finally:
            is_open = stream in self._open
            if is_open:
                del self._open[stream]
                self._of_caller[stream.caller] -= 1
                if not self._of_caller[stream.caller]:
                    del self._of_caller[stream.caller]
        if is_open and stream.lifetime.expired():
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        return None

    def _add(self, stream: "_Stream") -> None:
        if self._of_caller[stream.caller] >= self._per_caller:
            raise TooManyRequestsError(
                f"{self._per_caller} streams of this caller are open. Nothing was done.",
                retry_in_s=_RETRY_S,
                hint="Close one of them. ROWEN_STREAMS_PER_CALLER sets the limit.",
            )
        if len(self._open) >= self._at_once:
            raise OverloadedError(
                f"The server has {self._at_once} streams open. Nothing was done.",
                retry_in_s=_RETRY_S,
                hint="ROWEN_STREAMS_AT_ONCE sets the limit.",
            )
        self._open[stream] = None
        self._of_caller[stream.caller] += 1
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(self._check())

    async def _check(self) -> None:
        """End streams whose credentials are no longer valid."""
        while self._open:
            await asyncio.sleep(_CHECK_S)
            credentials = {stream.credential for stream in self._open if stream.credential is not None}
            if not credentials:
                continue
            try:
                ended = credentials - await self._rowen.access.valid_credentials(credentials)
            except StoreError as problem:
                log.warning("could not check the credentials of streams: %s", problem)
                continue
            for stream in self._open:
                if stream.credential in ended:
                    stream.end()


class _Stream:
    """An answer that may be a stream."""

    def __init__(self, scope: Scope) -> None:
        principal = scope["state"]["principal"]
        self.caller = caller_of(scope)
        self.credential: Credential | None = principal.credential if principal else None
        self.lifetime = asyncio.timeout(None)

    def end(self) -> None:
        """Cancel the answer from another task."""
        self.lifetime.reschedule(asyncio.get_running_loop().time())

    async def end_here(self) -> NoReturn:
        """Cancel the answer from within its own task."""
        self.end()
        while True:
            await asyncio.Event().wait()
