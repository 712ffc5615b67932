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

# More records than this are not requested one by one: a walk returns hundreds for each of these requests.
MOST_MISSING = 200
# Counts are wrong by one, or by one in a hundred where an index lags; a listing that falls shorter was cut off.
_SHORT_SHARE = 0.01


async def shortfall_of(run: RunState, walk: Walk) -> int:
    """Return how many records fewer came than are declared; count again first, since both may have changed."""
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
    """Return whether a second look may find more records.

    Records that come twice, and counts that are wrong by one, are the same the second time. Where records went during
    the walk, others may have slipped past a page's border. With an identifier listing every shortfall is checked,
    unless repeats explain it.
    """
    if walk.doubt or walk.repeated:
        return False
    is_worth_it = run.listing.identifiers is not None or _is_little(short, walk.declared or 0)
    is_new = short > 0 and short != run.cursor.short and not _is_explained(run, walk)
    return walk.shrank or (is_new and is_worth_it)


def doubt(run: RunState, walk: Walk, short: int) -> str | None:
    """Return why the walk alone proves nothing."""
    if not len(run.seen) and run.known.count:
        return f"The catalog lists nothing, although {run.known.count} items are stored."
    if walk.doubt:
        return walk.doubt
    is_cut = walk.repeated or walk.restarted
    if is_cut and walk.declared is None:
        return "The listing does not end: pages came again."
    if walk.stumbled and short > 0 and walk.received > (walk.declared or 0):
        # Its positions mean nothing, so the failed record cannot be named.
        return f"{shortfall(run, walk)} More came than are declared, some of them again, and pages failed."
    is_little = _is_little(short, walk.declared or 0) or _is_explained(run, walk) or short <= walk.unshown
    return shortfall(run, walk) if short > 0 and (is_cut or not is_little) else None


async def misses(run: RunState, walk: Walk, short: int) -> str | None:
    """Return why a shortfall is more than a wrong count: a stored item may be among the records that were not shown.

    Where as many records came as are declared, and the same ones twice, some are listed more than once.
    """
    is_repeated = walk.received >= (walk.declared or 0) and not walk.unshown
    if short <= 0 or short == run.cursor.short or is_repeated:
        return None
    return shortfall(run, walk) if await lacking(run) else None


async def mistakable(run: RunState) -> str | None:
    """Return why an unidentified record may be an item that did not come, if it was not there before."""
    unidentified = run.shown.unidentified
    if unidentified.are_known(run.cursor.unidentified) or not await lacking(run):
        return None
    return (
        f"{len(unidentified)} records cannot be identified, not all of which were there before, "
        "and a stored item did not come: one of them may be that item."
    )


async def unreceived(run: RunState) -> str | None:
    """Return why unreceived records leave open what is gone: each of them may be an item that did not come.

    Those that failed before as well are no reason where every stored item came, or is known to be gone.
    """
    unreceived = run.shown.unreceived
    if unreceived.keys() <= run.quarantined and not (unreceived and await lacking(run, absent=run.shown.absent)):
        return None
    error = next(iter(unreceived.values()))
    return f"{count(len(unreceived), 'record')} could not be received and may be stored items: {error}"


async def lacking(run: RunState, *, absent: Container[str] = ()) -> int:
    """Return how many stored items were not shown, without those that are known to be absent."""
    lacks = 0
    async for batch in run.known.everything():
        lacks += sum(item.url not in run.seen and item.url not in absent for item in batch)
    return lacks


def shortfall(run: RunState, walk: Walk) -> str:
    """Return the message for a listing that does not return as many records as it declares."""
    reason = "pages came again" if walk.repeated or walk.restarted else f"it lists {len(run.seen)}"
    return f"The catalog declares {walk.declared} records, but {reason}."


def _is_explained(run: RunState, walk: Walk) -> bool:
    """Return whether repeats explain a shortfall: with identifiers, overlapping pages cause no repeats."""
    return run.listing.identifiers is not None and walk.received >= (walk.declared or 0)


def _is_little(short: int, declared: int) -> bool:
    return short <= max(1, _SHORT_SHARE * declared)


@dataclass(slots=True)
class IdentifierCheck:
    """A comparison of all identifiers of a source with the stored items: what is gone, and what was never read.

    `received` counts identifiers, `unnamed` records without one. `missing` are the URLs of records to be read, `listed`
    the hashes of listed records that are no items.
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
        """Read all identifiers; if the dates of the source prove that stored items are unchanged, report them so."""
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
                    # A stored item among them was read by a run that did not write its cursor, or its deletion is
                    # pending: only the source knows which.
                    self.missing += await run.known.look_up(unproved)
                # Neither seen in this run, nor found to be no items by a run before.
                unseen = [url for url in fresh if url not in run.seen and url not in passed]
                # In quarantine, the stored copy may not be the latest version.
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
        """Request the missing records one by one."""
        for url in self.missing[:MOST_MISSING]:
            row = await ask_for(self.run, url)
            self.listed.add(mark_of(url))
            if row is not None:
                yield row.observed

    def failed_again(self) -> list[Failed]:
        """Return the failures of records that were requested alone and exist."""
        return [failure for failure in self.run.failed_again if failure.url in self.named]

    async def needs_walk(self) -> str | None:
        """Return why identifiers do not suffice: one is missing from a record, or too many items were never read."""
        run = self.run
        before = sum(is_unread(failure.url) for failure in run.known.failed)
        if self.unnamed > max(before, len(run.cursor.unidentified or ())) and await lacking(run):
            return f"{self.unnamed} records have no identifier, and a stored item did not come."
        if len(self.missing) > MOST_MISSING:
            return f"{len(self.missing)} records are listed that are not stored, although they are not new."
        return None

    @property
    def kept(self) -> int:
        """Return how many of the identifiers are items."""
        return len(self.named) - len(self.run.passed & self.listed)

    def is_settled(self) -> bool:
        """Return whether no more came than is declared, or as many too many as before.

        Otherwise some went during the request, and only a walk shows which.
        """
        excess = min(0, (self.declared or 0) - self.received) or None
        before = self.run.cursor.short or 0
        if excess is not None or before < 0:
            self.run.cursor = replace(self.run.cursor, short=excess)
        return excess is None or excess == before

    def doubt(self) -> str | None:
        """Return why the identifiers prove nothing."""
        if not self.received and self.run.known.count:
            return f"The catalog lists nothing, although {self.run.known.count} items are stored."
        if self.declared is None:
            return "The catalog does not declare how many records it has."
        if self.received < self.declared:
            return f"The catalog declares {self.declared} records, but it lists {self.received}."
        if len(self.missing) > MOST_MISSING:
            return f"{len(self.missing)} records are listed that were not shown."
        return None
