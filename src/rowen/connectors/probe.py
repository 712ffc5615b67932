"""Requests to an address whose kind of source is not known yet.

All kinds share the responses of one probe, and the number of requests is limited.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from rowen.errors import FetchError
from rowen.net.client import Client
from rowen.net.response import Response

# Time limit of one request: a user waits at the terminal, and there may be 13 requests.
LIMIT_S = 15.0
# One for the address itself, and one for each of the eleven kinds of catalogs, but two for SDMX.
MOST_REQUESTS = 13
# The beginning of a large answer is enough to recognise it.
ENOUGH_BYTES = 1 << 18


class _ProbeRequest(NamedTuple):
    url: str
    accept: str
    body: bytes | None


class Probe:
    """A probe of one address. `landed` is the URL after redirects; unless `may_ask`, no further requests are sent."""

    def __init__(self, client: Client, url: str) -> None:
        self.url = url
        self.page: Response | None = None
        self.status = 0
        self.landed = url
        self.may_ask = True
        self._client = client
        self._requests = 0
        self._answers: dict[_ProbeRequest, Response | None] = {}

    @property
    def base(self) -> str:
        """Return the address without query, fragment and trailing slash."""
        return self.url.partition("?")[0].partition("#")[0].rstrip("/")

    @property
    def origin(self) -> str:
        """Return the scheme and host of the address."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    async def begin(self) -> None:
        """Request the address itself; raise `FetchError` if there is no response."""
        request = _ProbeRequest(self.url, "*/*", None)
        answer = await self._send(request, None)
        self.status, self.landed = answer.status, answer.url
        self.page = self._answers[request] = answer if answer.ok else None

    async def get(
        self,
        url: str,
        *,
        accept: str = "application/json",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Response | None:
        """Return the beginning of a successful response from a URL; None if there is none."""
        request = _ProbeRequest(url, accept, body)
        if request not in self._answers:
            if not self.may_ask or self._requests >= MOST_REQUESTS:
                return None
            try:
                answer = await self._send(request, headers)
            except FetchError:
                self._answers[request] = None
            else:
                self._answers[request] = answer if answer.ok else None
        return self._answers[request]

    async def json(self, url: str, **request: Any) -> Any:
        """Return the JSON of a successful response from a URL; None if there is none or it is not JSON."""
        answer = await self.get(url, **request)
        try:
            return json.loads(answer.body) if answer is not None else None
        except (ValueError, RecursionError):
            return None

    async def _send(self, request: _ProbeRequest, headers: Mapping[str, str] | None) -> Response:
        self._requests += 1
        begin = b""
        async with self._client.stream(
            request.url,
            method="POST" if request.body is not None else "GET",
            accept=request.accept,
            body=request.body,
            headers=headers,
            limit_s=LIMIT_S,
            tries=1,
        ) as answer:
            async for piece in answer:
                begin += piece
                if len(begin) >= ENOUGH_BYTES:
                    break
        return replace(answer.head, body=begin)
