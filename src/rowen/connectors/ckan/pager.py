"""One page of a CKAN listing, whatever it takes: less at once of a portal that fails, in the end row by row.

A record over which the portal fails, or that cannot be read, costs only itself. It is told from a portal that is down
by a question that asks for no record: that also keeps the circuit closed over a portal that is well.
"""

import logging
from contextlib import suppress

from rowen.connectors.catalog.pages import LEAST_ROWS
from rowen.connectors.catalog.talk import TooMuchError
from rowen.connectors.ckan.api import Answer, Api
from rowen.connectors.ckan.rows import Unread, id_of
from rowen.errors import BodyTooLargeError, FetchTimeoutError, SourceError
from rowen.formats.errors import UnreadableError

__all__ = ["Pager"]

log = logging.getLogger(__name__)

MOST_LOST = 3
"""Rows in a row over which a portal may fail before it is taken for one that is out of order."""


class Pager:
    """Asks for the pages of one listing; those of more than `most_bytes` are made smaller."""

    def __init__(self, api: Api, *, since: str | None, ids: bool, most_bytes: int) -> None:
        self._api = api
        self._size = api.size
        self._since = since
        self._ids = ids
        self._most_bytes = most_bytes
        self._lost = 0

    @property
    def rows(self) -> int:
        """How many rows are asked for at present."""
        return self._size.rows

    async def page(self, position: int, *, overlap: bool) -> tuple[int, Answer]:
        """Where the page at a place begins, and what it is; with `overlap`, one row before if there are several."""
        failures, was_patient, patient = 0, False, False
        while True:
            rows = self._size.rows
            start = position - 1 if overlap and rows > 1 else position
            try:
                answer = await self._ask(start, rows, patient=patient)
            except TooMuchError as problem:
                failures += 1
                if self._size.shrink():
                    patient = False
                elif not was_patient:
                    was_patient = patient = True
                elif self._size.shrink(least=1):
                    patient = self._size.rows == 1
                else:
                    return start, await self._pass_over(start, problem)
                if failures > 1:
                    await self._count(problem)
            except (UnreadableError, BodyTooLargeError) as problem:
                if not self._size.shrink(least=1):
                    return start, await self._unread(start, problem)
            else:
                self._lost = 0
                self._learn(start, answer)
                self._size.grow()
                return start, answer

    async def _ask(self, start: int, rows: int, *, patient: bool) -> Answer:
        """A page; what a patient question does not get in all its tries is too much as well."""
        try:
            return await self._search(start, rows, ids=self._ids, could_be_less=not patient)
        except SourceError as problem:
            if patient and (type(problem) is SourceError or isinstance(problem, FetchTimeoutError)):
                raise TooMuchError(str(problem), hint=problem.hint) from problem
            raise

    async def _search(self, start: int, rows: int, *, ids: bool, could_be_less: bool = False) -> Answer:
        return await self._api.search(start=start, rows=rows, since=self._since, ids=ids, could_be_less=could_be_less)

    async def _count(self, problem: SourceError) -> Answer:
        """The answer to a question for no record; where even that fails, the portal does, and not over a record."""
        with suppress(SourceError):
            return await self._search(0, 0, ids=False)
        raise problem

    async def _pass_over(self, start: int, problem: SourceError) -> Answer:
        """A row over which the portal fails, unless it fails over one row after the other."""
        self._lost += 1
        if self._lost > MOST_LOST:
            raise problem
        log.warning("the portal fails over row %d, which was passed over: %s", start, problem)
        return await self._unread(start, problem)

    async def _unread(self, start: int, problem: SourceError) -> Answer:
        """The row of a record that cannot be received: its identifier alone may be."""
        self._size.forgive()
        try:
            answer = await self._search(start, 1, ids=True)
            names = [id_of(row) for row in answer.rows]
        except SourceError:
            answer = await self._count(problem)
            names = [""] if start < (answer.count or 0) else []
        return Answer(answer.count, [Unread(name, str(problem)) for name in names], answer.clock, 1)

    def _learn(self, start: int, answer: Answer) -> None:
        """Ask for no more at once than the portal gives, and than we care to hold."""
        received = len(answer.rows)
        if 0 < received <= answer.asked // 2 and start + received < (answer.count or 0):
            self._size.learn(received)
        if answer.size_bytes > self._most_bytes:
            fitting = received * self._most_bytes // answer.size_bytes
            self._size.learn(min(answer.asked, max(LEAST_ROWS, fitting)))
