"""Asking CKAN's action API, and reading what comes back under that name."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from rowen.connectors.catalog.talk import SourceRefusedError, Talk
from rowen.connectors.ckan.options import CkanOptions
from rowen.errors import SourceError, SourceGoneError
from rowen.fetch.response import Response
from rowen.formats.errors import UnreadableError
from rowen.formats.json import read_json
from rowen.model.url import quoted

__all__ = ["Answer", "Api"]


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

    def __init__(self, talk: Talk, action: str, options: CkanOptions) -> None:
        self._talk = talk
        self.size = talk.size
        self._action = action
        self._options = options

    async def search(
        self, *, start: int = 0, rows: int, since: str | None = None, ids: bool = False, could_be_less: bool = False
    ) -> Answer:
        """One page in the order of identifiers; with `ids`, of nothing but these.

        What `could_be_less` is asked only once if the portal fails over it: that is a `TooMuchError`.
        """
        wanted: dict[str, str | int] = {"rows": rows, "start": start, "sort": "id asc"}
        if fq := self._filter(since):
            wanted["fq"] = fq
        if ids:
            wanted["fl"] = "id"
        if self._options.include_private:
            wanted["include_private"] = "true"
        url = f"{self._action}/package_search?{urlencode(wanted)}"
        try:
            return self._answer(await self._talk.get(url, could_be_less=could_be_less), rows)
        except SourceError as problem:
            problem.args = (f"{problem} The page was start={start}, rows={rows}.",)
            raise

    async def count(self, since: str | None = None) -> int:
        """How many datasets there are, or were modified since."""
        answer = await self.search(rows=0, since=since)
        if answer.count is None:
            raise SourceError(f"{self._action} does not tell how many datasets it has.")
        return answer.count

    async def show(self, identifier: str) -> Any:
        """One record; None if there is none that may be read."""
        try:
            return self._result(await self._talk.get(f"{self._action}/package_show?id={quoted(identifier)}"))
        except (SourceGoneError, SourceRefusedError):
            return None

    def _filter(self, since: str | None) -> str | None:
        dated = f"metadata_modified:[{since} TO *]" if since else None
        own = self._options.filter
        return f"+{dated} +({own})" if dated and own else dated or own

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
                return Answer(count, rows, self._talk.clock(response), asked, len(response.body))
            case {"results": list(rows)}:
                return Answer(None, rows, self._talk.clock(response), asked, len(response.body))
            case {"count": int(), "results": None}:
                return Answer(0, [], self._talk.clock(response), asked)
        raise UnreadableError(f"{self._action} answered with JSON that is no list of datasets.")
