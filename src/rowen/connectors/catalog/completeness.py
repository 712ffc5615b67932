"""Decide whether a walk or an identifier listing proves that all records were seen."""

from collections.abc import AsyncGenerator, Container
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from rowen.connectors.base import is_unread
from rowen.connectors.catalog.listing import IdentifierListing
from rowen.connectors.catalog.records import UrlSet
from rowen.connectors.catalog.retries import ask_for
from rowen.connectors.catalog.state import RunState, mark_of
from rowen.connectors.catalog.walk import Walk
from rowen.model.items import Failed, Observation, Unchanged
from rowen.model.wording import count

# More records than this are not requested one by one: a walk returns hundreds of records per request.
MOST_MISSING = 200
# Declared counts may be wrong by one record, or by 1 % if an index lags; a larger shortfall means a truncated listing.
_SHORT_SHARE = 0.01


async def shortfall_of(run: RunState, walk: Walk) -> int:
    """Return the number of declared but missing records; if counts differ, request the declared count again."""
    if walk.declared is None:
        return 0
    is_explained = walk.declared - len(run.seen) in (0, run.cursor.short)
    if not (is_explained or walk.doubt or walk.repeated):
        declared = await run.listing.count()
        if declared is not None:
            walk.shrank = walk.shrank or declared < walk.declared
            walk.declared = declared
    return walk.declared - len(run.seen)


def is_second_look_wanted(run: RunState, walk: Walk, short: int) -> bool:
    """Return whether a second walk or the identifier listing may find more records.

    A second walk does not help if records are repeated or the count is wrong, because it gives the same result. If
    records were deleted during the walk, other records changed their positions, and the walk may have missed them.
    With an identifier listing every shortfall is checked, unless repeated records explain it.
    """
    if walk.doubt or walk.repeated:
        return False
    is_worth_it = run.listing.identifiers is not None or _is_little(short, walk.declared or 0)
    is_new = short > 0 and short != run.cursor.short and not _is_explained(run, walk)
    return walk.shrank or (is_new and is_worth_it)


def doubt(run: RunState, walk: Walk, short: int) -> str | None:
    """Return the reason why the walk alone proves nothing; None if there is no doubt."""
    if not len(run.seen) and run.known.count:
        return f"The catalog lists nothing, although {run.known.count} items are stored."
    if walk.doubt:
        return walk.doubt
    is_cut = walk.repeated or walk.restarted
    if is_cut and walk.declared is None:
        return "The listing does not end: pages came again."
    if walk.stumbled and short > 0 and walk.received > (walk.declared or 0):
        # The positions of this listing are unreliable, so the failed record cannot be identified.
        return f"{shortfall(run, walk)} More came than are declared, some of them again, and pages failed."
    is_little = _is_little(short, walk.declared or 0) or _is_explained(run, walk) or short <= walk.unshown
    return shortfall(run, walk) if short > 0 and (is_cut or not is_little) else None


async def misses(run: RunState, walk: Walk, short: int) -> str | None:
    """Return the reason why a shortfall may hide a stored item; None if only the declared count is wrong.

    If the number of received records equals the declared count, but some records came twice, the source lists records
    more than once.
    """
    is_repeated = walk.received >= (walk.declared or 0) and not walk.unshown
    if short <= 0 or short == run.cursor.short or is_repeated:
        return None
    return shortfall(run, walk) if await lacking(run) else None


async def mistakable(run: RunState) -> str | None:
    """Return the reason why a new unidentified record may be a missing item; None if no item can be missing."""
    unidentified = run.shown.unidentified
    if unidentified.are_known(run.cursor.unidentified) or not await lacking(run):
        return None
    return (
        f"{len(unidentified)} records cannot be identified, not all of which were there before, "
        "and a stored item did not come: one of them may be that item."
    )


async def unreceived(run: RunState) -> str | None:
    """Return the reason why unreceived records prevent deletions: each may be a missing item; None if none can be.

    Records that also failed in the previous run are no reason if every stored item came or is known to be deleted.
    """
    unreceived = run.shown.unreceived
    if unreceived.keys() <= run.quarantined and not (unreceived and await lacking(run, absent=run.shown.absent)):
        return None
    error = next(iter(unreceived.values()))
    return f"{count(len(unreceived), 'record')} could not be received and may be stored items: {error}"


async def lacking(run: RunState, *, absent: Container[str] = ()) -> int:
    """Return the number of stored items that the walk did not show, excluding the items in `absent`."""
    lacks = 0
    async for batch in run.known.everything():
        lacks += sum(item.url not in run.seen and item.url not in absent for item in batch)
    return lacks


def shortfall(run: RunState, walk: Walk) -> str:
    """Return the message for a listing with fewer records than it declares."""
    reason = "pages came again" if walk.repeated or walk.restarted else f"it lists {len(run.seen)}"
    return f"The catalog declares {walk.declared} records, but {reason}."


def _is_explained(run: RunState, walk: Walk) -> bool:
    """Return whether repeated records explain a shortfall; with identifiers, overlapping pages cause no repeats."""
    return run.listing.identifiers is not None and walk.received >= (walk.declared or 0)


def _is_little(short: int, declared: int) -> bool:
    return short <= max(1, _SHORT_SHARE * declared)


@dataclass(slots=True)
class IdentifierCheck:
    """A comparison of all identifiers of a source with the stored items: finds deleted and never-read items.

    `received` counts identifiers, and `unnamed` counts records without an identifier. `missing` contains the URLs of
    records that must be read, `listed` the hashes of listed records that are no items.
    """

    run: RunState
    identifiers: IdentifierListing
    declared: int | None = None
    received: int = 0
    unnamed: int = 0
    named: UrlSet = field(default_factory=UrlSet)
    listed: set[str] = field(default_factory=set)
    missing: list[str] = field(default_factory=list)

    async def compare(self, *, proves: bool) -> AsyncGenerator[Observation]:
        """Read all identifiers; `proves` is set if all changes were read, so that listed stored items are unchanged."""
        run = self.run
        async with aclosing(self.identifiers.read_identifiers()) as pages:
            async for page in pages:
                self.declared = page.declared
                self.received += len(page.urls)
                self.unnamed += page.urls.count(None)
                fresh = [url for url in page.urls if url is not None and self.named.add(url)]
                passed = {url: mark for url in fresh if (mark := mark_of(url)) in run.passed} if run.passed else {}
                self.listed.update(passed.values())
                if unproved := [url for url in passed if url not in run.seen]:
                    # A stored item among these records was read by a run that did not write its cursor, or its deletion
                    # is pending: only a request to the source shows which.
                    self.missing += await run.known.look_up(unproved)
                # Records that this run has not seen and that no earlier run found to be no items.
                unseen = [url for url in fresh if url not in run.seen and url not in passed]
                # The stored copy of a quarantined item may not be the latest version.
                trusted = [url for url in unseen if url not in run.quarantined]
                stored = await run.known.look_up(trusted) if proves and unseen else {}
                self.missing += [url for url in unseen if url not in stored]
                for url in stored:
                    run.seen.add(url)
                    yield Unchanged(url)
                run.endless = run.excess(self.received, self.declared)
                if run.endless:
                    return

    async def read_missing(self) -> AsyncGenerator[Observation]:
        """Request the missing records one by one, up to `MOST_MISSING`."""
        for url in self.missing[:MOST_MISSING]:
            row = await ask_for(self.run, url)
            self.listed.add(mark_of(url))
            if row is not None:
                yield row.observed

    def failed_again(self) -> list[Failed]:
        """Return the failures of records that exist but failed again when requested individually."""
        return [failure for failure in self.run.failed_again if failure.url in self.named]

    async def needs_walk(self) -> str | None:
        """Return the reason why only a whole walk suffices; None if the identifiers suffice."""
        run = self.run
        before = sum(is_unread(failure.url) for failure in run.known.failed)
        if self.unnamed > max(before, len(run.cursor.unidentified or ())) and await lacking(run):
            return f"{self.unnamed} records have no identifier, and a stored item did not come."
        if len(self.missing) > MOST_MISSING:
            return f"{len(self.missing)} records are listed that are not stored, although they are not new."
        return None

    @property
    def kept(self) -> int:
        """Return the number of identifiers that belong to items."""
        return len(self.named) - len(self.run.passed & self.listed)

    def is_settled(self) -> bool:
        """Return whether the number of identifiers is at most the declared count, or exceeds it as much as before.

        Otherwise records were deleted while the listing was read, and only a walk shows which records.
        """
        excess = min(0, (self.declared or 0) - self.received) or None
        before = self.run.cursor.short or 0
        if excess is not None or before < 0:
            self.run.cursor = replace(self.run.cursor, short=excess)
        return excess is None or excess == before

    def doubt(self) -> str | None:
        """Return the reason why the identifiers prove nothing; None if they are complete."""
        if not self.received and self.run.known.count:
            return f"The catalog lists nothing, although {self.run.known.count} items are stored."
        if self.declared is None:
            return "The catalog does not declare how many records it has."
        if self.received < self.declared:
            return f"The catalog declares {self.declared} records, but it lists {self.received}."
        if len(self.missing) > MOST_MISSING:
            return f"{len(self.missing)} records are listed that were not shown."
        return None
