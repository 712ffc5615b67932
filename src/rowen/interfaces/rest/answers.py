"""Responses: JSON with a validator, pages of lists, event streams, and files of temporary folders."""

import asyncio
import json
import re
import tempfile
from collections.abc import AsyncGenerator, Mapping
from datetime import datetime
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Any, Self

from fastapi import Request
from starlette.datastructures import URL
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from rowen.model.changes import Publication
from rowen.operations.facts import fact
from rowen.operations.feeds import until
from rowen.operations.paging import Page


def encoded(value: Any) -> bytes:
    """Return a value as JSON without white space."""
    # A record may contain half of a surrogate pair, which is sent as a replacement character.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain).encode("utf-8", "replace")


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return value.isoformat()
        case PurePath():
            return str(value)
        case frozenset() | set():
            return sorted(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


JSON = "application/json"
# A quarter of the largest page.
DEFAULT_LIMIT = 50
_ETAG_CHARS = 32  # 128 bits: two answers never have the same digest by chance
_TAGS = re.compile(r'(?:W/)?("[^"]*")')


def told(request: Request, thing: Any, *, headers: Mapping[str, str] | None = None) -> Response:
    """Return a fact, or plain values, as JSON; only status 304 if the client has the current version."""
    return validated(request, encoded(thing if isinstance(thing, dict) else fact(thing)), JSON, headers=headers)


def listed(request: Request, things: Any) -> Response:
    """Return a whole list as JSON."""
    return told(request, {"items": [fact(thing) for thing in things]})


def page(request: Request, things: Page[Any]) -> Response:
    """Return a page of a list as JSON, with the address of the next page."""
    headers = {} if things.next is None else {"Link": f'<{next_address(request, things.next)}>; rel="next"'}
    return told(request, {"items": [fact(thing) for thing in things], "next": things.next}, headers=headers)


def next_address(request: Request, cursor: str) -> URL:
    """Return the address of the next page; it is relative, so that it is valid behind any proxy."""
    return request.url.include_query_params(after=cursor).replace(scheme="", netloc="")


def made(thing: Any, location: str, *, status: int = 201) -> Response:
    """Return a new thing, with its address in the header `Location`."""
    values = thing if isinstance(thing, dict) else fact(thing)
    return Response(encoded(values), status, {"Location": location, "Cache-Control": "no-store"}, JSON)


def published(request: Request, document: Publication) -> Response:
    """Return a document with its own validator; an immutable document may be cached for a year."""
    caching = {"Cache-Control": "max-age=31536000, immutable" if document.immutable else "no-cache"}
    return validated(request, document.body, document.media_type, etag=document.etag, headers=caching)


def validated(
    request: Request,
    body: bytes,
    media_type: str,
    *,
    etag: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return a body with its validator, or status 304 without a body."""
    etag = etag or f'"{sha256(body).hexdigest()[:_ETAG_CHARS]}"'
    # Answers depend on the caller, so caches must not send the answer for one caller to another.
    sent = {"ETag": etag, "Cache-Control": "private, no-cache", "Vary": "Accept, Authorization, Cookie"}
    sent |= headers or {}
    # Compared weakly, as RFC 9110 requires for GET.
    known = request.headers.get("if-none-match")
    if known is not None and (known.strip() == "*" or etag in _TAGS.findall(known)):
        return Response(status_code=304, headers=sent)
    return Response(body, headers=sent, media_type=media_type)


MEDIA_TYPE_EVENTS = "text/event-stream"
# Ask proxies not to buffer the stream.
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def events(request: Request, stream: AsyncGenerator[bytes]) -> StreamingResponse:
    """Return a stream of events as a response."""
    closing: asyncio.Event = request.app.state.closing
    return StreamingResponse(until(closing, stream), media_type=MEDIA_TYPE_EVENTS, headers=_HEADERS)


def event(name: str, data: object) -> bytes:
    """Return one event, with its data as JSON on one line."""
    return f"event: {name}\ndata: ".encode() + encoded(data) + b"\n\n"


class TemporaryFolder:
    """A folder that is removed after its response was sent or abandoned, or after an error."""

    def __init__(self, purpose: str) -> None:
        self._around = tempfile.TemporaryDirectory(prefix=f"rowen-{purpose}-")
        self.path = Path(self._around.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self.remove()

    def sent_as(self, response: Response) -> Response:
        """Return the response, changed so that it removes the folder at its end."""
        return _RemovingResponse(response, self)

    def remove(self) -> None:
        """Remove the folder with all its files."""
        self._around.cleanup()


class _RemovingResponse(Response):
    # A background task of the response would not run if the client has disconnected, or its Range header is malformed.

    def __init__(self, response: Response, folder: TemporaryFolder) -> None:
        self._response, self._folder = response, folder
        self.status_code, self.raw_headers, self.background = response.status_code, response.raw_headers, None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._response(scope, receive, send)
        finally:
            self._folder.remove()
