"""Single records of a catalog, asked for one by one because somebody named them."""

from collections.abc import AsyncGenerator, Sequence

from rowen.connectors.catalog.listing import Listing, Row
from rowen.connectors.catalog.portal_client import MOST_UNREAD, SourceBusyError, TooMuchError
from rowen.errors import CircuitOpenError, ConnectError, FetchError, SourceError, TlsError
from rowen.model.item import Failed, Gone, Observation

__all__ = ["NOT_THERE", "records"]

NOT_THERE = (SourceBusyError, CircuitOpenError, ConnectError, TlsError)
"""What is no fault of a record: the source cannot be reached, or is too busy."""


async def records(listing: Listing, urls: Sequence[str]) -> AsyncGenerator[Observation]:
    """What the catalog shows of some items; nothing is said of one that cannot be asked for by itself.

    What the catalog has no record of is gone, whatever its listing says: the guard decides, and what is listed after
    all comes back with the next run, which counts. Raises what is no fault of a record, also where one after the other
    is given no answer for.
    """
    unanswered = 0
    for url in urls:
        try:
            row = await listing.record(url)
            unanswered = 0
        except SourceError as problem:
            unanswered += isinstance(problem, TooMuchError | FetchError)
            if isinstance(problem, NOT_THERE) or unanswered >= MOST_UNREAD:
                raise
            row = Row(Failed(url, str(problem), problem.hint))
        if row is not None:
            yield Gone(url, "the catalog has no such record") if row.absent else row.observed
