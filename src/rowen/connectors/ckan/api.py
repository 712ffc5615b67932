"""Asking CKAN's action API, and reading what comes back under that name."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlencode

from rowen.connectors.catalog.answers import UnreadableError, read_json
from rowen.connectors.ckan.options import CkanOptions
from rowen.errors import FetchError, FetchTimeoutError, SourceError, SourceGoneError
from rowen.fetch.client import Client
from rowen.fetch.credentials import Credentials
from rowen.fetch.response import Response

__all__ = ["Answer", "Api", "TooMuchError"]

_OVERTAXED = frozenset({500, 502, 504})
_REFUSED = frozenset({401, 403})


class TooMuchError(SourceError):
    """The portal could not answer for so many rows in time."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One page of `package_search`. `clock` is the portal's own time where it tells it, `asked` the rows wanted."""

    count: int | None
    rows: list[Any]
    clock: datetime
    asked: int
    size_bytes: int = 0


class Api:
    """The actions that a harvest needs."""

    def __init__(self, client: Client, action: str, options: CkanOptions, now: Callable[[], datetime]) -> None:
        self._client = client
        self._action = action
        self._options = options
        self._now = now
        key = options.api_key
        self._credentials = Credentials.of(action, {options.api_key_header: key}) if key else None

    async def search(
        self, *, start: int = 0, rows: int, since: str | None = None, ids: bool = False, limit_s: float | None = None
    ) -> Answer:
        """One page in the order of identifiers; with `ids`, of nothing but these."""
        wanted: dict[str, str | int] = {"rows": rows, "start": start, "sort": "id asc"}
        if fq := self._filter(since):
            wanted["fq"] = fq
        if ids:
            wanted["fl"] = "id"
        if self._options.include_private:
            wanted["include_private"] = "true"
        response = await self._ask("package_search", wanted, limit_s)
        return self._answer(response, rows)

    async def count(self, since: str | None = None) -> int:
        """How many datasets there are, or were modified since."""
        answer = await self.search(rows=0, since=since)
        if answer.count is None:
            raise SourceError(f"{self._action} does not tell how many datasets it has.")
        return answer.count

    async def show(self, identifier: str) -> Any:
        """One record; None if there is none that may be read."""
        response = await self._client.get(
            f"{self._action}/package_show?{urlencode({'id': identifier})}",
            credentials=self._credentials,
            accept="application/json",
        )
        if response.status == 404 or response.status in _REFUSED:
            return None
        return self._result(self._checked(response))

    def _filter(self, since: str | None) -> str | None:
        dated = f"metadata_modified:[{since} TO *]" if since else None
        own = self._options.filter
        return f"+{dated} +({own})" if dated and own else dated or own

    async def _ask(self, action: str, wanted: dict[str, str | int], limit_s: float | None) -> Response:
        """Be patient with a portal that is busy, but do not ask one that is too slow for so much again."""
        url = f"{self._action}/{action}?{urlencode(wanted)}"
        could_be_less = wanted["rows"] not in (0, 1)
        try:
            response = await self._get(url, tries=1 if could_be_less else None, limit_s=limit_s)
            again = not response.ok and response.status not in _OVERTAXED
        except FetchTimeoutError as problem:
            raise TooMuchError(str(problem), hint=problem.hint) from problem
        except FetchError as problem:
            again = problem.retryable
            if not again:
                raise
        if again and could_be_less:
            response = await self._get(url, limit_s=limit_s)
        if response.status in _OVERTAXED:
            raise TooMuchError(f"{self._action} answered with status {response.status} for {wanted['rows']} rows.")
        return self._checked(response)

    async def _get(self, url: str, *, tries: int | None = None, limit_s: float | None = None) -> Response:
        return await self._client.get(
            url, tries=tries, limit_s=limit_s, credentials=self._credentials, accept="application/json"
        )

    def _checked(self, response: Response) -> Response:
        if response.ok:
            return response
        if response.status in _REFUSED:
            raise SourceError(
                f"{self._action} refused the request (status {response.status}).",
                hint="If the portal wants a key, set the option api_key to env:NAME or file:/path.",
            )
        kind = SourceGoneError if response.status in (404, 410) else SourceError
        raise kind(f"{self._action} answered with status {response.status}.", hint="Nothing was deleted.")

    def _result(self, response: Response) -> Any:
        """What is inside the envelope, which some portals leave out."""
        data = read_json(response.body, self._action)
        if isinstance(data, dict) and data.get("success") is False:
            error = data.get("error")
            said = error.get("message") or error.get("__type") if isinstance(error, dict) else error
            raise SourceError(f"{self._action} reports an error: {said or 'it does not say which'}.")
        return data.get("result", data) if isinstance(data, dict) else data

    def _answer(self, response: Response, asked: int) -> Answer:
        match self._result(response):
            case {"count": int(count), "results": list(rows)} if not isinstance(count, bool):
                return Answer(count, rows, self._clock(response), asked, len(response.body))
            case {"results": list(rows)}:
                return Answer(None, rows, self._clock(response), asked, len(response.body))
            case {"count": int(), "results": None}:
                return Answer(0, [], self._clock(response), asked)
        raise UnreadableError(f"{self._action} answered with JSON that is no list of datasets.")

    def _clock(self, response: Response) -> datetime:
        try:
            sent = parsedate_to_datetime(response.headers.get("Date", ""))
        except (ValueError, TypeError, IndexError, OverflowError):
            return self._now()
        return sent if sent.tzinfo else self._now()
