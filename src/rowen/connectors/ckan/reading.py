"""What the records of a CKAN portal amount to, and what that means for the count of what we hold."""

import asyncio
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rowen.connectors.base import Known
from rowen.connectors.catalog.dates import moment
from rowen.connectors.catalog.marks import Marks
from rowen.connectors.ckan.address import Address
from rowen.connectors.ckan.record import dataset_of
from rowen.connectors.ckan.rows import Unread, id_of, mark_of
from rowen.formats.json import payload_of
from rowen.model.item import Failed, Fetched, Gone, Observation
from rowen.model.outside import attempt

__all__ = ["Reading"]

ROWS_AT_A_TIME = 10
"""So many rows are read without a pause: the store answers meanwhile, and must not wait for its next statement."""

_BARE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}")


class Reading:
    """Turns rows into observations.

    `held` is how many items there will be when they are stored, `unheld` which rows have none, and `newest` the
    latest date of modification among all that were read. `new` is how many of the last rows will be new items.
    """

    def __init__(self, address: Address, known: Known, *, language: str | None, unheld: frozenset[str]) -> None:
        self.held = known.count
        self.new = 0
        self._arrived = Marks()
        self.unheld = set(unheld)
        self.newest: datetime | None = None
        self._address = address
        self._known = known
        self._language = language
        self._newest_said = ""

    async def observe(self, rows: Sequence[Any], *, counting: bool) -> list[Observation]:
        """What each row is; without `counting`, only what concerns `unheld` is looked up."""
        seen: list[Fetched | Gone | Failed] = []
        for number, row in enumerate(rows):
            if number % ROWS_AT_A_TIME == 0:
                await asyncio.sleep(0)
            seen.append(self._judge(row))
        asked = [one.url for one in seen if not isinstance(one, Fetched)]
        if counting:
            asked += [one.item.url for one in seen if isinstance(one, Fetched)]
        held = await self._known.look_up(asked) if asked and self._known.count else {}
        self.new = 0
        for row, one in zip(rows, seen, strict=True):
            self._count(mark_of(row), one, held, counting=counting)
        return [*seen]

    def observe_again(self, rows: Sequence[Any]) -> list[Observation]:
        """Rows that repeat one: the flow keeps the first, and counts them."""
        seen = [self._judge(row) for row in rows if mark_of(row) not in self.unheld]
        return [one for one in seen if isinstance(one, Fetched)]

    def missing(self, name: str) -> Failed:
        """A dataset that is listed but cannot be seen."""
        self.unheld.add(name)
        return Failed(self._address.item(name), "The portal lists this dataset, but does not show it.")

    def _count(self, mark: str, one: Fetched | Gone | Failed, held: Any, *, counting: bool) -> None:
        match one:
            case Fetched(item):
                # What an earlier walk of this run read may not be stored yet.
                is_new = counting and item.url not in held and self._arrived.add(mark)
                self.held += is_new
                self.new += is_new
                self.unheld.discard(mark)
            case Gone(url):
                self.held -= url in held
                self.unheld.add(mark)
            case Failed(url) if url not in held:
                self.unheld.add(mark)

    def _judge(self, row: Any) -> Fetched | Gone | Failed:
        name = id_of(row)
        url = self._address.item(name) if name else f"{self._address.site}/dataset/#/nameless/{mark_of(row)[1:]}"
        if isinstance(row, Unread):
            return Failed(url, row.error)
        if not name:
            return Failed(url, "The record has no identifier.", payload=payload_of(row))
        if row.get("state") == "deleted":
            return Gone(url, "The portal says that it is deleted.")
        if row.get("type") == "harvest":
            return Gone(url, "It describes a harvest, not a dataset.")
        self._note(row)
        return attempt(
            lambda: Fetched(dataset_of(row, self._address, language=self._language).document(language=self._language)),
            lambda why: Failed(url, f"The record cannot be read: {why}.", payload=payload_of(row)),
        )

    def _note(self, row: dict[str, Any]) -> None:
        said = row.get("metadata_modified")
        if self._newest_said and _is_earlier(said, self._newest_said):
            return
        at = moment(said)
        if at is not None and (self.newest is None or at > self.newest):
            self.newest = at
            self._newest_said = said if isinstance(said, str) and _BARE.fullmatch(said) else ""


def _is_earlier(said: Any, than: str) -> bool:
    """Whether a date that is written like another one is not later, as their letters tell."""
    return isinstance(said, str) and said <= than and _BARE.fullmatch(said) is not None
