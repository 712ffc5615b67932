"""The datasets of a CKAN portal without a search, read from its package lists or one by one.

`current_package_list_with_resources` returns whole records, many at a time. If it does not work, `package_list`
returns the names of all datasets, and each dataset is requested by `package_show`. Neither shows which datasets were
modified, so each run reads all of them; unchanged records are not parsed.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import msgspec

from rowen.connectors.catalog.portal_client import (
    MOST_UNREAD,
    UNRECEIVED,
    PageRequest,
    PortalClient,
    SourceBusyError,
    SourceRefusedError,
    TooMuchError,
)
from rowen.connectors.catalog.text import word
from rowen.errors import FetchError, SourceError, SourceGoneError
from rowen.formats import UnreadableError
from rowen.formats.json import read_json
from rowen.model.url import quoted
from rowen.net.response import Response

# The number of individually requested datasets in a page. An interrupted run requests at most so many again; with
# fewer, writing the place would take most of the transactions.
SHOWN_AT_ONCE = 20


class Unshown(NamedTuple):
    """A dataset that is listed by name but cannot be received."""

    name: str
    error: SourceError


class ListPage(NamedTuple):
    """Some records, each as JSON or `Unshown`; `missing` counts listed names whose dataset is not available."""

    records: Sequence[msgspec.Raw | Unshown]
    place: Any
    declared: int | None
    clock: datetime
    missing: int = 0


class _Result(msgspec.Struct):
    result: list[msgspec.Raw]


class _Shown(msgspec.Struct):
    result: msgspec.Raw


def is_disabled(problem: SourceError) -> bool:
    """Return whether an error means that the portal has no search; False if it is slow, unreachable or broken."""
    return not isinstance(problem, FetchError | SourceBusyError | TooMuchError | UnreadableError)


class PackageLists:
    """The package lists of one portal."""

    def __init__(self, portal: PortalClient, action: str) -> None:
        self._portal = portal
        self._action = action
        self._unshown = 0

    async def names(self) -> list[str]:
        """Return the names of all datasets, sorted."""
        response = await self._portal.request(f"{self._action}/package_list")
        answer = read_json(response.body, self._action)
        result = answer.get("result") if isinstance(answer, dict) else answer
        if not isinstance(result, list):
            raise UnreadableError(f"{self._action}/package_list answered with JSON that is no list of names.")
        return sorted({name for value in result if (name := word(value))})

    async def read_pages(self, place: Any = None) -> AsyncGenerator[ListPage]:
        """Yield all records from a place on; raise an error if the portal has no package lists."""
        names = await self.names()
        if place is None:
            try:
                has_records = bool((await self._records(0, 1))[1]) or not names
            except SourceError as problem:
                if isinstance(problem, FetchError | SourceBusyError):
                    raise
                has_records = False
            place = {"offset": 0} if has_records else {"after": ""}
        by_offset = "offset" in place
        parts = self._read_lists(place["offset"], len(names)) if by_offset else self._read_one_by_one(place, names)
        async with aclosing(parts) as pages:
            async for page in pages:
                yield page

    async def is_shown(self, name: str) -> bool:
        """Request a dataset once; return False only if it exists and still cannot be received."""
        try:
            await self._portal.request(self._url_of(name), once=True)
        except (SourceGoneError, SourceRefusedError):
            return True
        except UNRECEIVED:
            return False
        return True

    async def _read_lists(self, offset: int, declared: int) -> AsyncGenerator[ListPage]:
        """Yield pages by offset, until a page is empty or all declared records were received.

        Most portals list the newest records first: an edit during the walk may hide a record, and the count then
        reveals it.
        """
        while True:
            wanted, records, response = await self._portal.request_page(
                partial(self._records, offset), alive=self.names
            )
            offset += len(records)
            # A portal that ignores the limit returns all records at once.
            is_end = not records or offset >= declared or len(records) > wanted
            place = None if is_end else {"offset": offset}
            yield ListPage(records, place, declared, self._portal.clock(response))
            if is_end:
                return

    async def _records(self, offset: int, rows: int) -> tuple[int, list[msgspec.Raw], Response]:
        """Return the number of requested records, the records, and the response."""
        url = f"{self._action}/current_package_list_with_resources?limit={rows}&offset={offset}"
        response = await self._portal.request(url, could_be_less=rows > 1)
        try:
            return rows, msgspec.json.decode(response.body, type=_Result).result, response
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise UnreadableError(f"{url} answered with JSON that is no list of datasets.") from None

    async def _read_one_by_one(self, place: Any, names: list[str]) -> AsyncGenerator[ListPage]:
        """Request the datasets one by one and yield them in pages; prefetch as many as the host allows."""
        left = [name for name in names if name > str(place["after"])]
        async with self._portal.ahead() as ahead:
            for begin in range(0, max(len(left), 1), SHOWN_AT_ONCE):
                batch = left[begin : begin + SHOWN_AT_ONCE]
                records: list[msgspec.Raw | Unshown] = []
                clock: datetime | None = None
                for number, name in enumerate(batch, begin):
                    ahead.want([PageRequest(self._url_of(next_)) for next_ in left[number : number + ahead.most]])
                    try:
                        response = await self._portal.request(self._url_of(name), could_be_less=True)
                        records.append(msgspec.json.decode(response.body, type=_Shown).result)
                    except (SourceGoneError, SourceRefusedError):
                        # The portal does not have this dataset or does not show it.
                        continue
                    except UNRECEIVED as problem:
                        records.append(self._passed(name, problem))
                        continue
                    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                        broken = UnreadableError(f"{self._url_of(name)} shows no dataset.")
                        records.append(self._passed(name, broken))
                        continue
                    self._unshown = 0
                    clock = clock or self._portal.clock(response)
                is_end = begin + SHOWN_AT_ONCE >= len(left)
                yield ListPage(
                    records,
                    None if is_end else {"after": batch[-1]},
                    len(names),
                    clock or self._portal.now(),
                    missing=len(batch) - len(records),
                )

    def _passed(self, name: str, problem: SourceError) -> Unshown:
        self._unshown += 1
        if self._unshown > MOST_UNREAD:
            raise problem
        return Unshown(name, problem)

    def _url_of(self, name: str) -> str:
        return f"{self._action}/package_show?id={quoted(name)}"
