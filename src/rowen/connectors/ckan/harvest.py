"""What a run does with a CKAN portal: walk it whole, or read what changed and count the rest.

Deletions are in no listing, but in the count: if the portal has as many datasets as we hold, and we have read what
it modified, nothing is missing. If the count differs, a roll call reads identifiers only; it costs a hundredth of a
walk, and proves what is gone. The same roll call ends a walk that an earlier run began: the flow knows
only what this run saw, so that the identifiers of the part before must be seen again before anything is deleted.
"""

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from rowen.connectors.base import Known
from rowen.connectors.catalog.bounds import Bounds, EndlessError
from rowen.connectors.catalog.dates import moment
from rowen.connectors.catalog.memory import stamp
from rowen.connectors.ckan.address import Address
from rowen.connectors.ckan.api import Api
from rowen.connectors.ckan.cursor import Memory, Place
from rowen.connectors.ckan.options import CkanOptions
from rowen.connectors.ckan.reading import Reading
from rowen.connectors.ckan.rows import id_of
from rowen.connectors.ckan.walk import Walk
from rowen.model.item import Checkpoint, Complete, FellBack, Incomplete, Observation, Unchanged, Whole

__all__ = ["Harvest"]

FAR_PAST, FAR_FUTURE = "1900-01-01T00:00:00Z", "9999-01-01T00:00:00Z"
MOST_MISSING = 200
"""More datasets than this are not asked for one by one."""
LEAST_NEW, NEW_SHARE = 3, 0.5
"""Of so many new records at once, some may be items of ours under other identifiers."""
_LIED = "The portal ignores the modified filter."
_PROBE_SHARE = 0.9
_LIE_SHARE = 0.5
_TOLERANCE = timedelta(seconds=1)

log = logging.getLogger(__name__)


class Harvest:
    """One run over one portal."""

    def __init__(
        self, api: Api, address: Address, options: CkanOptions, known: Known, now: Callable[[], datetime]
    ) -> None:
        self._api = api
        self._address = address
        self._options = options
        self._known = known
        self._now = now
        self._memory = Memory.of(known.cursor)
        self._reading = Reading(address, known, language=options.language, unheld=self._memory.unheld)
        self._bounds = Bounds(options, known.count if self._memory.walked else None)
        self._walks: list[Walk] = []

    async def pull(self) -> AsyncGenerator[Observation]:
        """What this run sees."""
        memory, days = self._memory, self._options.reconcile_days
        if memory.place is not None:
            parts = self._go_on(memory.place)
        elif (
            memory.modified is None
            or memory.filters is False
            or self._known.unsettled
            or memory.is_due(self._now(), days)
        ):
            if memory.filters is False:
                yield FellBack(_LIED)
            parts = self._full()
        else:
            parts = self._catch_up(proving=not memory.proved)
        try:
            async with aclosing(parts) as observations:
                async for observation in observations:
                    yield observation
        except EndlessError as problem:
            # From where it is now the next run would go on for as long again.
            yield Checkpoint(replace(self._memory, place=None).to_cursor())
            yield Incomplete(str(problem))

    async def _full(self) -> AsyncGenerator[Observation]:
        """All records, from the first one on."""
        yield Whole()
        self._reading.unheld.clear()
        walk = self._walk()
        async for observation in self._read(walk, counting=False):
            yield observation
        if why := self._doubt(walk):
            yield Incomplete(why)
            return
        if why := await self._strangers(walk):
            # The next walk will meet the same ones, and is believed.
            unheld = frozenset(self._reading.unheld)
            yield Checkpoint(replace(self._memory, nameless=walk.nameless, unheld=unheld, place=None).to_cursor())
            yield Incomplete(why)
            return
        self._memory = replace(self._memory, nameless=walk.nameless or None)
        if walk.accounted < (walk.declared or 0):
            async for observation in self._call_roll(walk, whole=True):
                yield observation
        else:
            await self._probe(walk)
            self._memory = replace(self._memory, proved=True, repeats=self._repeats(walk))
            yield Checkpoint(self._settled(walk, whole=True))
            yield Complete(expected=walk.unique - len(self._reading.unheld))

    async def _go_on(self, place: Place) -> AsyncGenerator[Observation]:
        """The rest of a walk that was interrupted, then what changed since it began, where the portal can tell."""
        log.info("went on with an interrupted walk at row %d", place.position)
        if place.since is None and self._memory.walked:
            # Not in a first walk: all that is held then was shown by its earlier part.
            yield Whole()
        self._reading.newest = moment(place.newest)
        walk = self._walk(since=place.since, position=place.position, after=place.after)
        walk.clock = moment(place.clock)
        async for observation in self._read(walk, counting=True):
            yield observation
        if walk.replaced:
            async for observation in self._full():
                yield observation
            return
        if walk.repeated:
            yield Incomplete(self._shortfall(walk))
            return
        whole = place.since is None
        if whole:
            # What follows was seen before: were it stored together with this, new identifiers would stand out less.
            yield Checkpoint(self._interrupted(walk))
        self._memory = self._settled_memory(walk, whole=whole)
        if whole:
            await self._probe(walk)
        if whole and self._memory.filters is False:
            rest = self._call_roll(walk, whole=True)
        else:
            rest = self._catch_up(proving=whole or not self._memory.proved)
        async with aclosing(rest) as observations:
            async for observation in observations:
                yield observation

    async def _catch_up(self, *, proving: bool = False) -> AsyncGenerator[Observation]:
        """What was modified since the cursor; then the count tells whether anything else is missing."""
        since = self._since()
        walk = self._walk(since=since)
        async for observation in self._read(walk, counting=True):
            yield observation
        if walk.replaced:
            async for observation in self._full():
                yield observation
            return
        if since is not None and not await self._was_obeyed(walk):
            yield FellBack(_LIED)
            self._memory = replace(self._memory, filters=False, probed=stamp(self._now()))
            async for observation in self._full():
                yield observation
            return
        if walk.accounted < (walk.declared or 0):
            yield Incomplete(self._shortfall(walk))
            return
        async for observation in self._compare_counts(walk, proving=proving):
            yield observation

    async def _compare_counts(self, walk: Walk, *, proving: bool) -> AsyncGenerator[Observation]:
        declared = await self._api.count()
        if declared == 0 and self._known.count:
            yield Incomplete(self._empty())
        elif proving or declared != self._expected():
            async for observation in self._call_roll(walk, whole=False):
                yield observation
        elif (cursor := self._settled(walk, whole=False)) != self._known.cursor:
            yield Checkpoint(cursor)

    async def _call_roll(self, walked: Walk, *, whole: bool) -> AsyncGenerator[Observation]:
        """Identifiers only: those we hold are unchanged, those we lack are read, the rest is gone."""
        log.info("called the roll: the count is not what was expected, or a walk had been interrupted")
        # However large the records are, identifiers are small.
        self._api.size.learn(self._options.page_size)
        roll = Walk(self._api, self._bounds, ids=True)
        listed: set[str] = set()
        missing: list[str] = []
        async with aclosing(roll.pages()) as pages:
            async for page in pages:
                names = [name for row in page if (name := id_of(row))]
                listed.update(self._reading.unheld.intersection(names))
                asked = {self._address.item(name): name for name in names if self._is_unseen(name)}
                held = await self._known.look_up(list(asked))
                missing += [name for url, name in asked.items() if url not in held]
                for url in held:
                    yield Unchanged(url)
        if why := await self._strangers(roll):
            async for observation in self._look_closer(why, whole=whole):
                yield observation
            return
        if len(missing) > MOST_MISSING and not whole:
            yield FellBack(f"{len(missing)} datasets are listed that are not held, although they are not new.")
            async for observation in self._full():
                yield observation
            return
        for name in missing[:MOST_MISSING]:
            yield await self._fetch(name)
        if why := self._doubt(roll):
            yield Incomplete(why)
            return
        self._reading.unheld &= {*listed, *missing, *(self._nameless() if roll.nameless else ())}
        await self._probe(walked)
        proved = roll.accounted >= (roll.declared or 0) and len(missing) <= MOST_MISSING
        # If they are more than before, every item came all the same: they are none of ours.
        nameless = max(self._memory.nameless or 0, roll.nameless) or None
        repeats = self._repeats(roll) if proved else None
        self._memory = replace(self._memory, proved=proved, repeats=repeats, nameless=nameless)
        yield Checkpoint(self._settled(walked, whole=whole))
        if not proved:
            yield Incomplete(self._shortfall(roll))
        else:
            unheld = self._reading.unheld - self._nameless()
            yield Complete(expected=roll.named - len(unheld))

    async def _look_closer(self, why: str, *, whole: bool) -> AsyncGenerator[Observation]:
        """What to do about strangers in a roll call: records may show a name where the list of names has none."""
        if whole:
            yield Checkpoint(replace(self._memory, place=None).to_cursor())
            yield Incomplete(why)
            return
        yield FellBack(why)
        async for observation in self._full():
            yield observation

    def _is_unseen(self, name: str) -> bool:
        return name not in self._reading.unheld and not any(walk.has(name) for walk in self._walks)

    async def _fetch(self, name: str) -> Observation:
        record = await self._api.show(name)
        if id_of(record) != name:
            return self._reading.missing(name)
        [observation] = await self._reading.observe([record], counting=True)
        return observation

    def _walk(self, *, since: str | None = None, position: int = 0, after: str | None = None) -> Walk:
        walk = Walk(self._api, self._bounds, since=since, position=position, after=after)
        self._walks.append(walk)
        return walk

    async def _read(self, walk: Walk, *, counting: bool) -> AsyncGenerator[Observation]:
        """The records of a walk, with a checkpoint after each page but the last."""
        async with aclosing(walk.pages()) as pages:
            async for page in pages:
                seen = await self._reading.observe(page, counting=counting)
                if walk.since and await self._is_replaced(len(page)):
                    walk.replaced = True
                    walk.forget()
                    return
                for observation in (*seen, *self._reading.observe_again(walk.again)):
                    yield observation
                if walk.since and _is_older(page, walk.since):
                    walk.disobeyed = True
                    return
                if not walk.at_end:
                    yield Checkpoint(self._interrupted(walk))

    async def _is_replaced(self, rows: int) -> bool:
        """Whether something went where so much came: then these may be our items under other identifiers."""
        new = self._reading.new
        if new < LEAST_NEW or new < NEW_SHARE * rows or await self._api.count() >= self._expected():
            return False
        log.info("many datasets are new, but the portal is no larger for it: it is walked whole")
        return True

    async def _was_obeyed(self, walk: Walk) -> bool:
        """Whether the filter was minded: the newest dataset we hold should always be among what it lets through."""
        if walk.unique or walk.disobeyed:
            return not walk.disobeyed
        return self._known.count == 0 or await self._api.count(FAR_PAST) > 0

    async def _probe(self, walk: Walk) -> None:
        """Try the filter: all datasets are newer than the far past, none than the far future."""
        declared = walk.declared or 0
        if not (declared and self._reading.newest) or walk.since:
            return
        if not self._memory.should_probe(self._now(), self._options.reconcile_days):
            return
        past = await self._api.count(FAR_PAST)
        obeys = past >= declared * _PROBE_SHARE and await self._api.count(FAR_FUTURE) < declared
        if not obeys:
            log.warning("the portal does not mind the modified filter: every run will walk it whole")
        self._memory = replace(self._memory, filters=obeys, probed=stamp(self._now()))

    def _since(self) -> str | None:
        newest = moment(self._memory.modified)
        return stamp(newest - timedelta(hours=self._options.overlap_h)) if newest else None

    def _doubt(self, walk: Walk) -> str | None:
        if walk.declared is None:
            return "The portal does not tell how many datasets it has."
        return self._empty() if walk.unique == 0 and self._known.count else None

    async def _strangers(self, walk: Walk) -> str | None:
        """Why records without an identifier keep a walk from proving anything: one may be an item that did not come."""
        before = self._memory.nameless or 0
        # A list of identifiers does not tell what the records look like.
        are_known = walk.ids or walk.strangers <= self._memory.unheld
        if not self._known.count or (are_known and walk.nameless <= before) or not await self._misses(walk):
            return None
        return (
            f"{walk.nameless} records have no identifier, {before} before, and an item that is held did not come: "
            "one of them may be that item. Nothing was deleted."
        )

    async def _misses(self, walk: Walk) -> bool:
        missed = False
        async for batch in self._known.everything():
            missed = missed or not all(walk.has(self._address.identifier(held.url)) for held in batch)
        return missed

    def _nameless(self) -> set[str]:
        return {mark for mark in self._reading.unheld if mark[0] == "?"}

    def _repeats(self, walk: Walk) -> int | None:
        """How many rows the portal declares beyond the different ones."""
        return max(0, (walk.declared or 0) - walk.named - len(self._nameless())) or None

    def _expected(self) -> int:
        """How many datasets the portal declares if nothing happened behind our back."""
        return self._reading.held + len(self._reading.unheld) + (self._memory.repeats or 0)

    def _empty(self) -> str:
        return f"The portal lists no dataset, although {self._known.count} are held. Nothing was deleted."

    def _shortfall(self, walk: Walk) -> str:
        how = "a page came twice" if walk.repeated else f"it lists {walk.accounted}"
        return f"The portal declares {walk.declared} datasets, but {how}. Nothing was deleted."

    def _interrupted(self, walk: Walk) -> dict[str, Any]:
        newest = self._reading.newest
        place = Place(walk.since, walk.position, walk.after, self._clock(walk), stamp(newest) if newest else None)
        return replace(self._memory, unheld=frozenset(self._reading.unheld), place=place).to_cursor()

    def _settled(self, walk: Walk, *, whole: bool) -> dict[str, Any]:
        return self._settled_memory(walk, whole=whole).to_cursor()

    def _settled_memory(self, walk: Walk, *, whole: bool) -> Memory:
        """The cursor after a walk: never beyond the beginning of this run, or of the walk that it went on with.

        What was edited later may have been passed already, and the flow takes a record only once a run. That also
        keeps a record dated in the future from hiding all that comes until then.
        """
        newest, memory = self._reading.newest, self._memory
        clocks = [one.clock for one in (walk, *self._walks) if one.clock is not None]
        modified = stamp(min(newest, *clocks)) if newest else None
        return replace(
            memory,
            modified=modified if whole else max(filter(None, (modified, memory.modified)), default=None),
            walked=stamp(self._now()) if whole else memory.walked,
            unheld=frozenset(self._reading.unheld),
            place=None,
        )

    def _clock(self, walk: Walk) -> str:
        return stamp(walk.clock or self._now())


def _is_older(page: list[Any], since: str) -> bool:
    """Whether so many rows of a page are older than what was asked for that the filter cannot have been minded."""
    limit = moment(since)
    dates = [at for row in page if isinstance(row, dict) and (at := moment(row.get("metadata_modified")))]
    if limit is None or not dates:
        return False
    return sum(at < limit - _TOLERANCE for at in dates) >= _LIE_SHARE * len(dates)
