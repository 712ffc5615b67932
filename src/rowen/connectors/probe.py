"""A probe of an address: which kind of source is behind it?

Kinds are asked in turn, first what they see in the address's own answer, then whether they find more. They share what
was fetched, and there is an end to it: many kinds together cost few requests.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from rowen.errors import FetchError
from rowen.net.client import Client
from rowen.net.response import Response

__all__ = ["Probe"]

# For one request: somebody waits at the terminal, and there may be twelve of them.
LIMIT_S = 15.0
# The address itself, and one question of each of the eleven kinds of catalogs; SDMX has two versions of its question.
MOST_REQUESTS = 13
ENOUGH_BYTES = 1 << 18
"""So much of an answer is looked at: the beginning of a large one tells what it is."""


class _ProbeRequest(NamedTuple):
    url: str
    accept: str
    body: bytes | None


class Probe:
    """What some URLs at an address answer. `page` is what the address itself answers, if it does; `status` its status,
    `landed` where it led.

    Unless it `may_ask`, only what is known already is answered.
    """

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
        """The address without query, fragment and final slash."""
        return self.url.partition("?")[0].partition("#")[0].rstrip("/")

    @property
    def origin(self) -> str:
        """The address's scheme and host."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    async def begin(self) -> None:
        """Fetch the address itself; raises where nobody answers."""
        question = _ProbeRequest(self.url, "*/*", None)
        answer = await self._ask(question, None)
        self.status, self.landed = answer.status, answer.url
        self.page = self._answers[question] = answer if answer.ok else None

    async def get(
        self,
        url: str,
        *,
        accept: str = "application/json",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Response | None:
        """The beginning of a good answer of a URL; None if there is none."""
        question = _ProbeRequest(url, accept, body)
        if question not in self._answers:
            if not self.may_ask or self._requests >= MOST_REQUESTS:
                return None
            self._answers[question] = await self._good(question, headers)
        return self._answers[question]

    async def json(self, url: str, **question: Any) -> Any:
        """The JSON that a URL answers with; None if it answers with nothing, or with something else."""
        answer = await self.get(url, **question)
        try:
            return json.loads(answer.body) if answer is not None else None
        except (ValueError, RecursionError):
            return None

    async def _good(self, question: _ProbeRequest, headers: Mapping[str, str] | None) -> Response | None:
        try:
            answer = await self._ask(question, headers)
        except FetchError:
            return None
        return answer if answer.ok else None

    async def _ask(self, question: _ProbeRequest, headers: Mapping[str, str] | None) -> Response:
        self._requests += 1
        begun = b""
        async with self._client.stream(
            question.url,
            method="POST" if question.body is not None else "GET",
            accept=question.accept,
            body=question.body,
            headers=headers,
            limit_s=LIMIT_S,
            tries=1,
        ) as answer:
            async for piece in answer:
                begun += piece
                if len(begun) >= ENOUGH_BYTES:
                    break
        return replace(answer.head, body=begun)
