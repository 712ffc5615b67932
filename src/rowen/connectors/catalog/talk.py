"""Asking a catalog: patient with one that is busy, and for less where it is too slow for so much."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from rowen.connectors.catalog.answers import UnreadableError
from rowen.connectors.catalog.listing import Tokens
from rowen.connectors.catalog.options import CatalogOptions
from rowen.connectors.catalog.pages import PageSize
from rowen.errors import BodyTooLargeError, FetchError, FetchTimeoutError, SourceError, SourceGoneError
from rowen.fetch.client import Client
from rowen.fetch.credentials import Credentials
from rowen.fetch.response import Response, Stream

__all__ = ["SourceRefusedError", "Talk", "TooMuchError"]

_OVERTAXED = frozenset({500, 502, 504})
_REFUSED = frozenset({401, 403})

T = TypeVar("T")


class SourceRefusedError(SourceError):
    """The catalog does not let us in."""


class TooMuchError(SourceError):
    """The catalog could not answer for so many records in time."""


class Talk:
    """The questions to one catalog. Credentials go to the origin of `url` alone.

    Answers of an `explained` status are given as they are: protocols that say in words what is wrong do so in these.
    `key_option` is the option that a user would name a key in.
    """

    def __init__(
        self,
        client: Client,
        url: str,
        options: CatalogOptions,
        *,
        now: Callable[[], datetime],
        secrets: Mapping[str, str] | None = None,
        explained: frozenset[int] = frozenset(),
        key_option: str = "headers",
    ) -> None:
        client.pace(url, delay_s=options.delay_s)
        self.size = PageSize(options.page_size)
        self.idle_s: float | None = None
        self._client = client
        self._url = url
        self._now = now
        self._explained = explained
        self._key_option = key_option
        headers = {**options.headers, **(secrets or {})}
        self._credentials = Credentials.of(url, headers) if headers else None

    async def get(
        self,
        url: str,
        *,
        accept: str = "application/json",
        could_be_less: bool = False,
        tokens: Tokens | None = None,
        limit_s: float | None = None,
    ) -> Response:
        """The answer of a URL, if it is a good one; with tokens of it, also that it is still the same.

        What `could_be_less` is not asked a second time if the catalog is too slow for it: that is a `TooMuchError`.
        """
        return await self._ask("GET", url, accept, could_be_less=could_be_less, tokens=tokens, limit_s=limit_s)

    async def post(
        self, url: str, body: bytes, *, media_type: str, accept: str, could_be_less: bool = False
    ) -> Response:
        """The same for a question that is sent in a body."""
        return await self._ask("POST", url, accept, could_be_less=could_be_less, body=body, media_type=media_type)

    def stream(self, url: str, *, accept: str, max_bytes: int) -> AbstractAsyncContextManager[Stream]:
        """An answer that is too large to be held, whatever its status."""
        return self._client.stream(
            url, accept=accept, credentials=self._credentials, max_bytes=max_bytes, limit_s=self.size.limit_s
        )

    async def page(self, ask: Callable[[int], Awaitable[T]]) -> T:
        """What is answered for a page of some size, made smaller as long as the catalog fails over it.

        Raises what went wrong with a single record, or with as few as a slow catalog is asked for.
        """
        while True:
            try:
                answer = await ask(self.size.rows)
            except TooMuchError:
                if not self.size.shrink():
                    raise
            except (UnreadableError, BodyTooLargeError):
                if not self.size.shrink(least=1):
                    self.size.grow()
                    raise
            else:
                self.size.grow()
                return answer

    def clock(self, response: Response) -> datetime:
        """The catalog's own time, where it tells it."""
        try:
            sent = parsedate_to_datetime(response.headers.get("Date", ""))
        except (ValueError, TypeError, IndexError, OverflowError):
            return self._now()
        return sent if sent.tzinfo else self._now()

    async def _ask(
        self,
        method: str,
        url: str,
        accept: str,
        *,
        could_be_less: bool,
        body: bytes | None = None,
        media_type: str | None = None,
        tokens: Tokens | None = None,
        limit_s: float | None = None,
    ) -> Response:
        async def once(tries: int | None) -> Response:
            return await self._client.request(
                method,
                url,
                body=body,
                accept=accept,
                etag=tokens.etag if tokens else None,
                last_modified=tokens.last_modified if tokens else None,
                headers={"Content-Type": media_type} if media_type else None,
                credentials=self._credentials,
                limit_s=limit_s or self.size.limit_s,
                idle_s=self.idle_s,
                tries=tries,
            )

        return self._checked(await self._patiently(once, could_be_less=could_be_less))

    async def _patiently(self, once: Callable[[int | None], Awaitable[Response]], *, could_be_less: bool) -> Response:
        if not could_be_less:
            return await once(None)
        try:
            response = await once(1)
        except FetchTimeoutError as problem:
            raise TooMuchError(str(problem), hint=problem.hint) from problem
        except FetchError as problem:
            if not problem.retryable:
                raise
            return await once(None)
        if self._is_answer(response):
            return response
        if response.status in _OVERTAXED:
            raise TooMuchError(f"{self._url} answered with status {response.status}.", hint="Nothing was deleted.")
        return await once(None)

    def _is_answer(self, response: Response) -> bool:
        return response.ok or response.not_modified or response.status in self._explained

    def _checked(self, response: Response) -> Response:
        if self._is_answer(response):
            return response
        if response.status in _REFUSED:
            raise SourceRefusedError(
                f"{self._url} refused the request (status {response.status}).",
                hint=f"If it wants a key, say where that is in the option {self._key_option}: env:NAME or file:/path.",
            )
        kind = SourceGoneError if response.status in (404, 410) else SourceError
        raise kind(f"{self._url} answered with status {response.status}.", hint="Nothing was deleted.")
