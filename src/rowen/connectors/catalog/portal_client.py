"""Requests to a portal: pages are smaller where it is slow, and prefetched where their addresses are known.

The number of prefetched pages is limited by the host's concurrency. Pages are taken in order and processed one after
the other, so a walk sees the same pages as without prefetching.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, TypeVar

from rowen.concurrency import end
from rowen.connectors.catalog.listing import Tokens
from rowen.connectors.catalog.options import CatalogOptions
from rowen.errors import (
    BodyTooLargeError,
    CircuitOpenError,
    ConnectError,
    FetchError,
    FetchTimeoutError,
    SourceError,
    SourceGoneError,
    TlsError,
)
from rowen.formats import UnreadableError
from rowen.model.dates import http_date
from rowen.net.client import Client
from rowen.net.credentials import Credentials
from rowen.net.response import Response, Stream
from rowen.net.target import redact

# A portal that fails on so few rows fails because of one of them, or always: a cheap request shows which.
LEAST_ROWS = 10
# For a page: many proxies in front of portals give up after 60 s (nginx does), and waiting longer is useless.
FIRST_LIMIT_S = 60.0
# A judgement: about three doublings of the first limit. If a page takes longer, smaller pages are requested.
LONGEST_LIMIT_S = 300.0
_FIRST_PATIENCE = 4  # good pages before a failed size is tried again: at 2, a failure would cost every third page
_MOST_PATIENCE = 256  # a portal that recovers is noticed within so many pages
_QUICK_SHARE = 0.25  # of the limit: an answer within this time fits into half of the limit as well


@dataclass(slots=True)
class PageSize:
    """The number of rows of the next page, and its time limit.

    A size that `failed` is not requested again for `patience` good pages; the patience doubles if the size fails
    again. Otherwise a portal that never returns more than some number of rows would fail on every other page. `fine`
    is the last size that succeeded, and `good` counts good pages since the last failure.
    """

    wanted: int
    rows: int = 0
    limit_s: float = 0.0
    failed: int | None = None
    fine: int = 0
    good: int = 0
    patience: int = _FIRST_PATIENCE // 2

    def __post_init__(self) -> None:
        self.rows = self.rows or self.wanted
        self.limit_s = self.limit_s or FIRST_LIMIT_S

    def shrink(self, *, least: int = LEAST_ROWS) -> bool:
        """Reduce the size to a quarter, or to a size that succeeded; return False if it is already minimal."""
        if self.rows <= least:
            return False
        if self.good or self.failed is None:
            self.patience = min(self.patience * 2, _MOST_PATIENCE)
        self.failed, self.good = self.rows, 0
        quarter = max(least, self.rows // 4)
        self.rows, self.fine = self.fine if quarter < self.fine < self.rows else quarter, 0
        self.wait_longer()
        return True

    def wait_longer(self) -> None:
        """Double the time limit of the next answer."""
        self.limit_s = min(self.limit_s * 2, max(LONGEST_LIMIT_S, self.limit_s))

    def grow(self, took_s: float | None = None) -> None:
        """After a good page, double the size up to `wanted`, or halve the distance to a failed size."""
        self.good += 1
        self.fine = self.rows
        if self.good >= self.patience:
            self.failed = None
        larger = self.rows * 2
        if self.failed is not None:
            larger = min(larger, (self.rows + self.failed) // 2)
        self.rows = min(max(larger, self.rows), self.wanted)
        if took_s is not None and took_s <= _QUICK_SHARE * self.limit_s:
            self.limit_s = max(self.limit_s / 2, min(self.limit_s, FIRST_LIMIT_S))

    def forgive(self) -> None:
        """Reset the failed size, because a single record caused the failure."""
        self.failed, self.patience, self.good = None, _FIRST_PATIENCE // 2, 0
        self.rows = min(self.rows * 2, self.wanted)

    def learn(self, received: int) -> None:
        """Limit the size to `received`, the largest number of rows that the portal returns."""
        self.wanted = self.rows = max(received, 1)


class PageRequest(NamedTuple):
    """The request for a page: its address, and a body if the request is a POST."""

    url: str
    body: bytes | None = None


class Ahead:
    """The prefetched pages of one walk.

    Prefetching ends for the rest of the walk if an answer is an error or was not needed: a portal that is overloaded,
    or whose pages are not at the expected addresses, is read page by page.
    """

    def __init__(
        self,
        ask: Callable[[PageRequest], Coroutine[Any, Any, Response]],
        *,
        is_good: Callable[[Response], bool],
        most: int,
    ) -> None:
        self._ask = ask
        self._is_good = is_good
        self._pending: dict[PageRequest, asyncio.Task[Response]] = {}
        self._cancelled: list[asyncio.Task[Response]] = []
        self.most = most

    def want(self, pages: Sequence[PageRequest]) -> None:
        """Prefetch the next pages; the walk needs the first page of `pages` next."""
        if not self.most or (self._pending and [*pages[:1]] != [next(iter(self._pending))]):
            self._give_up()
            return
        for page in pages[: self.most]:
            if page not in self._pending:
                self._pending[page] = asyncio.create_task(self._ask(page))

    async def take(self, page: PageRequest) -> Response | None:
        """Return the response for a prefetched page; None if the page must be requested now."""
        task = self._pending.pop(page, None)
        if task is None:
            if self._pending:
                self._give_up()
            return None
        try:
            response = await task
        except FetchError:
            response = None
        if response is None or not self._is_good(response):
            self._give_up()
            return None
        return response

    async def close(self) -> None:
        """Cancel all pending requests."""
        self._give_up()
        await end(self._cancelled)

    def _give_up(self) -> None:
        self.most = 0
        for task in self._pending.values():
            task.cancel()
        self._cancelled += self._pending.values()
        self._pending.clear()


# After so many consecutive records that cannot be received, the catalog is the cause, not the records. A judgement:
# each costs several requests, and broken records are rarely adjacent.
MOST_UNREAD = 3
_OVERTAXED = frozenset({500, 502, 504})
_REFUSED = frozenset({401, 403})
_BUSY = frozenset({425, 429, 503})
T = TypeVar("T")
Question = Callable[[], Awaitable[object]]


class SourceRefusedError(SourceError):
    """The source refused access."""


class SourceBusyError(SourceError):
    """The source is busy, and asks to retry later."""


class TooMuchError(SourceError):
    """The source could not answer for so many records, or not in time."""


# Errors that a single record may cause.
UNRECEIVED = (UnreadableError, BodyTooLargeError, TooMuchError)
# Errors that no record causes: the source cannot be reached, or is too busy.
NOT_THERE = (SourceBusyError, CircuitOpenError, ConnectError, TlsError)


class PortalClient:
    """The HTTP client of one catalog. Credentials are sent only to the origin of `url`.

    Responses with an `explained` status are returned, since some protocols report errors in their bodies. `key_option`
    is the option that contains a key. `idle_s` is how long a catalog may send nothing, by default the time limit of
    the request, since many catalogs are silent while they compute. `unread` counts consecutive single records that
    could not be received.
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
        self.unread = 0
        self._client = client
        self._url = url
        self._now = now
        self._explained = explained
        self._key_option = key_option
        self._is_patient = False
        self._took_s: float | None = None
        self._ahead: Ahead | None = None
        self._credentials = Credentials.of(url, {**options.headers, **(secrets or {})})

    async def request(
        self,
        url: str,
        *,
        accept: str = "application/json",
        body: bytes | None = None,
        media_type: str | None = None,
        tokens: Tokens | None = None,
        could_be_less: bool = False,
        once: bool = False,
    ) -> Response:
        """Return the successful response for a URL; with `tokens`, the response may also be "not modified".

        A request with a `body` is a POST. If a request `could_be_less` (a smaller page is possible) and the catalog is
        too slow for it, it is not retried but raises `TooMuchError`. A request `once` is never retried, and has the
        time limit of a first page.
        """
        limit_s = min(self.size.limit_s, FIRST_LIMIT_S) if once else self.size.limit_s
        idle_s = limit_s if once else None
        send = partial(
            self._send, url, accept, body=body, media_type=media_type, tokens=tokens, limit_s=limit_s, idle_s=idle_s
        )
        response = await self._ahead.take(PageRequest(url, body)) if self._ahead and could_be_less else None
        if response is None and (once or (could_be_less and not self._is_patient)):
            # The request is not retried if it may be too large for the source, or if `once` is set.
            try:
                response = await send(tries=1)
            except FetchTimeoutError as problem:
                raise TooMuchError(str(problem), hint=problem.hint) from problem
            except FetchError as problem:
                if once or not problem.retryable:
                    raise
            if response and not (once or self._is_answer(response) or response.status in _OVERTAXED):
                response = None
        response = response or await send(tries=None)
        self._took_s = response.elapsed_s
        if self._is_answer(response):
            return response
        if response.status in _REFUSED:
            raise SourceRefusedError(
                f"{self._url} refused the request (status {response.status}).",
                hint=f"If it wants a key, say where that is in the option {self._key_option}: env:NAME or file:/path.",
            )
        kind: type[SourceError] = SourceGoneError if response.status in (404, 410) else SourceError
        if response.status in _OVERTAXED:
            kind = TooMuchError
        elif response.status in _BUSY:
            kind = SourceBusyError
        raise kind(f"{redact(url)} answered with status {response.status}.")

    async def _send(
        self,
        url: str,
        accept: str,
        *,
        limit_s: float,
        tries: int | None,
        idle_s: float | None = None,
        body: bytes | None = None,
        media_type: str | None = None,
        tokens: Tokens | None = None,
    ) -> Response:
        return await self._client.request(
            "GET" if body is None else "POST",
            url,
            body=body,
            accept=accept,
            etag=tokens.etag if tokens else None,
            last_modified=tokens.last_modified if tokens else None,
            headers={"Content-Type": media_type} if media_type and body is not None else None,
            credentials=self._credentials,
            limit_s=limit_s,
            idle_s=idle_s or self.idle_s or limit_s,
            tries=tries,
        )

    def _is_answer(self, response: Response) -> bool:
        return response.ok or response.not_modified or response.status in self._explained

    @asynccontextmanager
    async def ahead(self, *, accept: str = "application/json", media_type: str | None = None) -> AsyncIterator[Ahead]:
        """Prefetch the pages of a walk, as many at a time as the host's concurrency allows."""

        async def ask(page: PageRequest) -> Response:
            limit_s = self.size.limit_s
            return await self._send(page.url, accept, body=page.body, media_type=media_type, limit_s=limit_s, tries=1)

        most = self._client.settings.host_concurrency
        ahead = self._ahead = Ahead(ask, is_good=self._is_answer, most=most if most > 1 else 0)
        try:
            yield ahead
        finally:
            # Another walk may have begun before this one was closed.
            if self._ahead is ahead:
                self._ahead = None
            await ahead.close()

    def stream(self, url: str, *, accept: str, max_bytes: int) -> AbstractAsyncContextManager[Stream]:
        """Stream a response that is too large for memory, whatever its status."""
        return self._client.stream(
            url,
            accept=accept,
            credentials=self._credentials,
            max_bytes=max_bytes,
            limit_s=self.size.limit_s,
            idle_s=self.idle_s or self.size.limit_s,
        )

    async def request_page(
        self, ask: Callable[[int], Awaitable[T]], *, most: int | None = None, alive: Question | None = None
    ) -> T:
        """Return the result of `ask` for a page; reduce the page size as long as the catalog fails.

        Raises the error if a single record causes it. `alive` is a cheap request that a catalog answers even if its
        records make it fail. Without `alive`, no fewer than `LEAST_ROWS` rows are requested.
        """
        self._is_patient = False
        while True:
            rows = min(self.size.rows, most or self.size.rows)
            try:
                answer = await ask(rows)
            except (TooMuchError, FetchTimeoutError) as problem:
                self.size.rows = rows
                await self._relent(problem, alive)
            except (UnreadableError, BodyTooLargeError):
                self.size.rows = rows
                if not self.size.shrink(least=1):
                    self._blame_record()
                    raise
            else:
                self.unread = 0
                if rows == self.size.rows:
                    self.size.grow(self._took_s)
                return answer

    async def _relent(self, problem: SourceError, alive: Question | None) -> None:
        """Prepare a smaller page or one retry of the smallest page; raise `problem` if both were tried.

        Between two failures, `alive` checks whether the catalog answers at all. If it does not, no more pages are
        requested. If it does, consecutive failures do not open the catalog's circuit.
        """
        size, was_patient = self.size, self._is_patient
        self._is_patient = False
        is_few = size.rows <= LEAST_ROWS
        is_lasting = was_patient or size.rows == 1 or (size.failed is not None and size.failed <= LEAST_ROWS)
        is_over = is_few and is_lasting and (alive is None or size.rows == 1)
        if is_few and not is_lasting:
            self._is_patient = True
            size.wait_longer()
        elif not is_over:
            size.shrink(least=1 if is_few else LEAST_ROWS)
        # `alive` uses the longer limit, because a slow catalog needs it for any request.
        if alive is not None:
            try:
                await alive()
            except (*UNRECEIVED, FetchTimeoutError) as error:
                raise SourceError(str(error), hint=error.hint) from error
        if is_over:
            if size.rows == 1:
                self._blame_record()
            raise TooMuchError(str(problem), hint=problem.hint) from problem

    def _blame_record(self) -> None:
        self.unread += 1
        self.size.forgive()

    def now(self) -> datetime:
        """Return the current time by our own clock."""
        return self._now()

    def clock(self, response: Response) -> datetime:
        """Return the source's time from the `Date` header of its response, else our own time."""
        return http_date(response.headers.get("Date")) or self._now()
