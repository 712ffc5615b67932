"""Server-sent events: streams that last as long as their reader, and end when the server does."""

import asyncio
from collections.abc import AsyncGenerator

from fastapi import Request
from starlette.responses import StreamingResponse

from rowen.interfaces.rest.encoding import encoded
from rowen.operations.streams import until

__all__ = ["MEDIA_TYPE_EVENTS", "event", "events"]

MEDIA_TYPE_EVENTS = "text/event-stream"
# Proxies that collect an answer before they pass it on are asked not to.
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def events(request: Request, stream: AsyncGenerator[bytes]) -> StreamingResponse:
    """A stream of events as an answer."""
    closing: asyncio.Event = request.app.state.closing
    return StreamingResponse(until(closing, stream), media_type=MEDIA_TYPE_EVENTS, headers=_HEADERS)


def event(name: str, told: object, *, number: int | None = None) -> bytes:
    """One event, its facts as JSON on one line."""
    line = b"" if number is None else f"id: {number}\n".encode()
    return line + f"event: {name}\ndata: ".encode() + encoded(told) + b"\n\n"
