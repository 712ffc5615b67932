"""A roll call: identifiers only, which tell what is gone and what was never read."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from rowen.connectors.base import is_unread
from rowen.connectors.catalog.completeness import lacks_one
from rowen.connectors.catalog.hash_sets import UrlSet
from rowen.connectors.catalog.listing import Names, RollCall
from rowen.connectors.catalog.progress import Progress, mark_of
from rowen.connectors.catalog.retries import ask_for
from rowen.model.item import Failed, Observation, Unchanged

__all__ = ["MOST_MISSING", "Roll"]

MOST_MISSING = 200
"""More records than this are not asked for one by one: a walk gives hundreds for each of these requests."""


@dataclass(slots=True)
class Roll:
    """One roll call. `received` counts names, `unnamed` records without one; `missing` are items to be read."""

    run: Progress
    call: RollCall
    declared: int | None = None
    received: int = 0
    unnamed: int = 0
    named: UrlSet = field(default_factory=UrlSet)
    listed: set[str] = field(default_factory=set)
    missing: list[str] = field(default_factory=list)

    async def names(self, *, proves: bool) -> AsyncGenerator[Observation]:
        """Call all names. Where the dates of the source prove that what is held is unchanged, that is said of it."""
        async with aclosing(self.call.names()) as pages:
            async for page in pages:
                unseen = await self._take(page)
                held = await self.run.known.look_up(self._trusted(unseen)) if proves and unseen else {}
                self.missing += [url for url in unseen if url not in held]
                for url in held:
                    self.run.seen.add(url)
                    yield Unchanged(url)
                self.run.endless = self.run.bounds.exceeded(self.received, self.declared)
                if self.run.endless:
                    return

    def _trusted(self, urls: list[str]) -> list[str]:
        """Those whose copy is the latest version that was shown to us, if there is a copy."""
        return [url for url in urls if url not in self.run.quarantined] if self.run.quarantined else urls

    async def _take(self, page: Names) -> list[str]:
        """The items of a page that neither this run has seen nor an earlier one passed over."""
        self.declared = page.declared
        self.received += len(page.urls)
        self.unnamed += page.urls.count(None)
        fresh = [url for url in page.urls if url is not None and self.named.add(url)]
        passed = {url: mark for url in fresh if (mark := mark_of(url)) in self.run.passed} if self.run.passed else {}
        self.listed.update(passed.values())
        if unseen := [url for url in passed if url not in self.run.seen]:
            # One that is held all the same was read by a run that did not come to write its cursor, or its deletion is
            # held back: only the source knows which.
            self.missing += await self.run.known.look_up(unseen)
        return [url for url in fresh if url not in self.run.seen and url not in passed]

    async def read_missing(self) -> AsyncGenerator[Observation]:
        """The records of the missing items, one by one."""
        for url in self.missing[:MOST_MISSING]:
            row = await ask_for(self.run, url)
            self.listed.add(mark_of(url))
            if row is not None:
                yield row.observed

    def failed_again(self) -> list[Failed]:
        """What was asked for by itself, could not be read, and is there."""
        return [one for one in self.run.failed_again if one.url in self.named]

    async def is_too_little(self) -> str | None:
        """Why names do not suffice: one without may be an item that did not come, or too much was never read."""
        before = sum(is_unread(one.url) for one in self.run.known.failed)
        if self.unnamed > max(before, len(self.run.cursor.unidentified or ())) and await lacks_one(self.run):
            return f"{self.unnamed} records have no identifier, and an item that is held did not come."
        if len(self.missing) > MOST_MISSING:
            return f"{len(self.missing)} records are listed that are not held, although they are not new."
        return None

    @property
    def kept(self) -> int:
        """How many of the names are items."""
        return len(self.named) - len(self.run.passed & self.listed)

    def is_settled(self) -> bool:
        """Whether no more came than is declared: some went while we looked, which a walk can tell, or it is a habit."""
        excess = min(0, (self.declared or 0) - self.received) or None
        before = self.run.cursor.short or 0
        if excess is not None or before < 0:
            self.run.cursor = replace(self.run.cursor, short=excess)
        return excess is None or excess == before

    def doubt(self) -> str | None:
        """Why the roll call proves nothing."""
        if not self.received and self.run.known.count:
            return f"The catalog lists nothing, although {self.run.known.count} are held."
        if self.declared is None:
            return "The catalog does not tell how many records it has."
        if self.received < self.declared:
            return f"The catalog declares {self.declared} records, but it lists {self.received}."
        if len(self.missing) > MOST_MISSING:
            return f"{len(self.missing)} records are listed that were not shown."
        return None
