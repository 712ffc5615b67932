"""Answers: JSON with a validator, pages with the address of the next one, and what was only begun with its own."""

import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Annotated, Any, TypeVar

from fastapi import Query, Request
from starlette.datastructures import URL
from starlette.responses import Response

from rowen.interfaces.rest.encoding import encoded
from rowen.model.changes import Publication
from rowen.model.page import Page
from rowen.operations.facts import fact

__all__ = ["After", "Limit", "begun", "listed", "made", "page", "published", "told", "validated"]

T = TypeVar("T")

JSON = "application/json"
# A quarter of what a page of a large list may have at most.
DEFAULT_LIMIT = 50
MOST = 200
"""Of one page: of texts and records that is a megabyte; who wants all takes an export."""
_ETAG_CHARS = 32  # 128 bits: two answers that share them will not be met
_TAGS = re.compile(r'(?:W/)?("[^"]*")')

Limit = Annotated[int, Query(ge=1, le=MOST, description="at most so many")]
After = Annotated[str | None, Query(max_length=4000, description="the `next` of the page before")]


def told(request: Request, thing: Any, *, headers: Mapping[str, str] | None = None) -> Response:
    """A fact, or plain values, as JSON; nothing but its validator if the client has it already."""
    return validated(request, encoded(thing if isinstance(thing, dict) else fact(thing)), JSON, headers=headers)


def listed(request: Request, things: Any) -> Response:
    """A whole list."""
    return told(request, {"items": [fact(one) for one in things]})


def page(request: Request, found: Page[T], *, form: Callable[[T], dict[str, Any]] = fact) -> Response:
    """A part of a list, and the address of the next part."""
    headers = {} if found.next is None else {"Link": f'<{next_address(request, found.next)}>; rel="next"'}
    return told(request, {"items": [form(one) for one in found], "next": found.next}, headers=headers)


def next_address(request: Request, cursor: str) -> URL:
    """The address of the next part: the same question, after this one; relative, whatever proxies are in front."""
    asked = request.url.include_query_params(after=cursor)
    return asked.replace(scheme="", netloc="")


def made(thing: Any, location: str, *, status: int = 201) -> Response:
    """Something new, and where it is found."""
    told_of = thing if isinstance(thing, dict) else fact(thing)
    return Response(encoded(told_of), status, {"Location": location, "Cache-Control": "no-store"}, JSON)


def begun(thing: Any, location: str) -> Response:
    """Something that takes longer, and where it is told how far it is."""
    return made(thing, location, status=202)


def published(request: Request, document: Publication) -> Response:
    """A document for others, with its own validator; one that will never change may be kept for a year."""
    kept = "max-age=31536000, immutable" if document.immutable else "no-cache"
    return validated(request, document.body, document.media_type, etag=document.etag, headers={"Cache-Control": kept})


def validated(
    request: Request,
    body: bytes,
    media_type: str,
    *,
    etag: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A body with its validator, or status 304 without one."""
    etag = etag or f'"{sha256(body).hexdigest()[:_ETAG_CHARS]}"'
    # Answers differ by who asks: what hides something must not be given to who may see it.
    sent = {"ETag": etag, "Cache-Control": "private, no-cache", "Vary": "Accept, Authorization, Cookie"}
    sent |= headers or {}
    if _has(request.headers.get("if-none-match"), etag):
        return Response(status_code=304, headers=sent)
    return Response(body, headers=sent, media_type=media_type)


def _has(header: str | None, etag: str) -> bool:
    """Whether a client has it already; compared weakly, as RFC 9110 wants it for GET."""
    return header is not None and (header.strip() == "*" or etag in _TAGS.findall(header))
