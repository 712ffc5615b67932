"""What a request gives back."""

import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from multidict import CIMultiDictProxy

from rowen.formats import charset
from rowen.model.dates import http_date
from rowen.model.text import header
from rowen.net import media
from rowen.net.politeness import retry_after_s

__all__ = ["Hop", "RequestMeter", "Response", "Stream", "next_link", "respond"]

_NEXT = re.compile(r'\brel="?next"?', re.IGNORECASE)

_PERMANENT = frozenset({301, 308})


class RequestMeter(Protocol):
    """Counts what is spent; `bytes` are those of bodies as they came over the wire."""

    requests: int
    not_modified: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Hop:
    """One redirect that was followed; some servers tell in its headers what they redirect to."""

    url: str
    status: int
    to: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def permanent(self) -> bool:
        """Whether the origin says that the old address will not be used again."""
        return self.status in _PERMANENT


@dataclass(frozen=True, slots=True)
class Response:
    """An answer, whatever its status. `url` is where it came from in the end; the validators belong to that URL."""

    url: str
    status: int
    headers: CIMultiDictProxy[str] = field(repr=False)
    body: bytes = field(default=b"", repr=False)
    redirects: tuple[Hop, ...] = ()
    etag: str | None = None
    last_modified: str | None = None
    media_type: str | None = None
    charset: str | None = None
    not_modified: bool = False
    retry_after_s: float | None = None
    elapsed_s: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether the body is what was asked for."""
        return 200 <= self.status < 300

    @property
    def moved_to(self) -> str | None:
        """The address to ask from now on: as far as the redirects were permanent from the start."""
        moved = None
        for hop in self.redirects:
            if not hop.permanent:
                break
            moved = hop.to
        return moved


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer whose body is read piece by piece; `head` is all but its body."""

    head: Response
    pieces: AsyncIterator[bytes] = field(repr=False)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self.pieces


def respond(
    url: str,
    status: int,
    headers: CIMultiDictProxy[str],
    *,
    body: bytes,
    redirects: tuple[Hop, ...],
    elapsed_s: float,
    now: Callable[[], datetime],
) -> Response:
    """A response with what its headers and its first bytes tell."""
    etag, modified = header(headers.get("ETag")), header(headers.get("Last-Modified"))
    if status == 304:
        return Response(url, 304, headers, b"", redirects, etag, modified, not_modified=True, elapsed_s=elapsed_s)
    kind = headers.get("Content-Type")
    asked = headers.get("Retry-After")
    return Response(
        url,
        status,
        headers,
        body,
        redirects,
        etag,
        modified,
        media_type=media.media_type(kind, body),
        charset=charset.declared(kind, body) if body or kind else None,
        retry_after_s=retry_after_s(asked, _sent_at(headers, now())) if asked else None,
        elapsed_s=elapsed_s,
    )


def _sent_at(headers: CIMultiDictProxy[str], now: datetime) -> datetime:
    """The origin's own clock, where it tells it: a date in its answer is meant by that clock."""
    return http_date(headers.get("Date")) or now


def next_link(header: str) -> str | None:
    """The target of the first link in a `Link` header (RFC 8288) whose relation is `next`."""
    at = 0
    while (begin := header.find("<", at)) >= 0 and (end := header.find(">", begin)) >= 0:
        at = header.find(",", end)
        parameters = header[end + 1 : at if at >= 0 else None]
        if parameters.lstrip().startswith(";") and _NEXT.search(parameters):
            return header[begin + 1 : end] or None
        if at < 0:
            return None
    return None
