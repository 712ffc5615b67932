"""The base classes of catalog connectors, which combine a client, a listing and a `Refresh`."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, ClassVar

from rowen.connectors.base import Known, Tools
from rowen.connectors.catalog.listing import Listing, Row
from rowen.connectors.catalog.portal_client import MOST_UNREAD, NOT_THERE, TooMuchError
from rowen.connectors.catalog.refresh import Refresh
from rowen.errors import FetchError, SourceError
from rowen.model.items import Failed, Gone, Observation
from rowen.net.client import Client

if TYPE_CHECKING:
    from rowen.connectors.base import Options


class CatalogConnector:
    """A connector that reads the listing of its kind by means of a `Refresh`."""

    kind: ClassVar[str]
    Options: "ClassVar[type[Options]]"

    def __init__(self, url: str, options: Any, tools: Tools) -> None:
        self._url = url
        self._options = options
        self._tools = tools

    @classmethod
    def recognise(cls, address: str) -> str | None:
        """Return the source URL of `KIND:https://…` or of an address typical of this kind; None for other addresses."""
        is_named = address.startswith(f"{cls.kind}:")
        return cls.accept(address) if is_named or cls.is_typical(address) else None

    @staticmethod
    def accept(address: str) -> str | None:
        """Return the source URL of any web address, when the user named this kind; None for any other text."""
        raise NotImplementedError

    @staticmethod
    def is_typical(address: str) -> bool:
        """Return whether the address alone identifies this kind."""
        raise NotImplementedError

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        """Yield the observations of one run, which reads the whole catalog or its changes."""
        async with self._tools.client() as client, aclosing(self._observe(client, known)) as observations:
            async for observation in observations:
                yield observation

    def _observe(self, client: Client, known: Known) -> AsyncGenerator[Observation]:
        return self._refresh(self._open_listing(client, known), known)

    def _refresh(self, listing: Listing, known: Known) -> AsyncGenerator[Observation]:
        return Refresh(listing, known, self._options.as_catalog(), now=self._tools.now).pull()

    def _open_listing(self, client: Client, known: Known) -> Listing:
        raise NotImplementedError


class SingleRecords(CatalogConnector):
    """A connector that can also request single records by the URLs of their items."""

    async def look(self, known: Known, urls: Sequence[str]) -> AsyncGenerator[Observation]:
        """Yield observations of some items; skip an item that cannot be requested individually.

        If the catalog does not return a record, its item is reported as deleted, even if the listing still contains
        it. The deletion guard still applies, and the next complete run restores a listed item. Raises an error that no
        record caused, and the last error after `MOST_UNREAD` consecutive requests without an answer.
        """
        unanswered = 0
        async with self._tools.client() as client:
            listing = self._open_listing(client, known)
            for url in urls:
                try:
                    row = await listing.read_record(url)
                    unanswered = 0
                except SourceError as problem:
                    unanswered += isinstance(problem, TooMuchError | FetchError)
                    if isinstance(problem, NOT_THERE) or unanswered >= MOST_UNREAD:
                        raise
                    row = Row(Failed(url, str(problem), problem.hint))
                if row is not None:
                    yield Gone(url, "the catalog has no such record") if row.absent else row.observed
