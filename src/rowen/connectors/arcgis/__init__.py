"""ArcGIS Hub sites and searches of ArcGIS portals: walked whole once, then read for changes."""

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from rowen.connectors.arcgis.record import dataset_of, facts_of, identifier_of, steady
from rowen.connectors.base import Known, unread_url
from rowen.connectors.catalog.chronology import DatedAnswer, DatedQuestion, chronology, retried
from rowen.connectors.catalog.connector import SingleRecords
from rowen.connectors.catalog.dates import moment
from rowen.connectors.catalog.listing import FAR_FUTURE, Listing, ListingPage, Row, Tokens
from rowen.connectors.catalog.options import CatalogOptions, web_url
from rowen.connectors.catalog.portal_client import MOST_UNREAD, PortalClient, TooMuchError
from rowen.connectors.catalog.records import objects, one_by_one, row_of, unreceived
from rowen.connectors.plain_options import option
from rowen.connectors.probe import Probe
from rowen.errors import BodyTooLargeError, SourceError, SourceGoneError
from rowen.formats import UnreadableError
from rowen.formats.json import read_json
from rowen.model.items import Failed
from rowen.model.url import SEGMENT, quoted, segment
from rowen.net.client import Client
from rowen.net.response import Response
from rowen.net.target import redact

if TYPE_CHECKING:
    from rowen.connectors.base import Options

__all__ = ["ArcGis", "Hub"]

_PREFIX = "arcgis:"
_SEARCH = re.compile(r"(?P<base>https?://[^/]+(?:/.*)?/sharing/rest)/search", re.IGNORECASE)
_HUB = re.compile(r"https?://[^/]+\.(?:hub|opendata)\.arcgis\.com(?:[/:].*)?|.*/api/search/v1(?s:/.*)?", re.IGNORECASE)


def recognise(address: str) -> str | None:
    """Return the source of `arcgis:https://…`, of a host of ArcGIS Hub, or of an address of either search."""
    bare = address.partition("?")[0].rstrip("/")
    is_known = address.startswith(_PREFIX) or _HUB.fullmatch(bare) or _SEARCH.fullmatch(bare)
    return accept(address) if is_known else None


def accept(address: str) -> str | None:
    """Return the source at any web address that a user says to have one: a search with its words, or a site."""
    url = web_url(address, "arcgis")
    if url is None:
        return None
    parts = urlsplit(url)
    if search := _SEARCH.fullmatch(f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"):
        words = parse_qs(parts.query).get("q", [""])[0].strip()
        return f"{search['base']}/search?{urlencode({'q': words})}" if words else None
    return f"{parts.scheme}://{parts.netloc}"


def is_search(url: str) -> bool:
    """Return whether a source URL is a search of a portal rather than a site."""
    return bool(_SEARCH.fullmatch(url.partition("?")[0]))


class ArcGisOptions(CatalogOptions):
    """Options of kind `arcgis`."""

    secret_neutral: ClassVar[frozenset[str]] = CatalogOptions.secret_neutral | {"collection"}

    collection: Literal["all", "appAndMap", "dataset", "document"] = option(
        default="dataset", description="which collection of a site"
    )
    # The most that ArcGIS gives at once.
    page_size: int = option(default=100, ge=1, le=100)


CLAMP = 10_000
"""A count of this much may stand for any larger one: the index behind ArcGIS stops counting there."""

_REFUSED = frozenset({401, 403, 498, 499})


class Found(NamedTuple):
    """One page: its records, the total if it is declared, and whether there are more."""

    records: list[Any]
    total: int | None
    more: bool


class SearchDialect(Protocol):
    """A search API: its requests and its answers."""

    url: str

    def ask(self, after: datetime | None, *, skip: int, rows: int) -> str:
        """Return the question for a page, oldest first."""
        ...

    def understand(self, data: Any) -> Found:
        """Return the records of an answer."""
        ...

    def ask_for(self, identifier: str) -> str:
        """Return the question for one item."""
        ...

    def understand_one(self, data: Any) -> list[Any]:
        """Return the records in an answer to that."""
        ...

    def item(self, identifier: str) -> str:
        """Return the URL of an item."""
        ...

    def identifier(self, url: str) -> str:
        """Return the identifier in the URL of an item."""
        ...

    async def check(self, portal: PortalClient) -> None:
        """Make sure that the answers are about this source."""
        ...


class Hub:
    """The search of a site of ArcGIS Hub."""

    def __init__(self, site: str, collection: str) -> None:
        self.url = f"{site}/api/search/v1/collections/{collection}/items"
        self._site = site

    def ask(self, after: datetime | None, *, skip: int, rows: int) -> str:
        """Return the question for a page, oldest first."""
        wanted: dict[str, str | int] = {"limit": rows, "startindex": skip + 1, "sortBy": "properties.modified"}
        if after is not None:
            wanted["filter"] = f"modified >= {_milliseconds(after)}"
        return f"{self.url}?{urlencode(wanted)}"

    def understand(self, data: Any) -> Found:
        """Return the records of an answer; the last page names no next one."""
        match data:
            case {"features": list(records), **rest}:
                more = any(link.get("rel") == "next" for link in objects(rest.get("links")))
                return Found(records, _total(rest.get("numberMatched")), more)
        raise UnreadableError(f"{self.url} answered with JSON that is no list of items.")

    def ask_for(self, identifier: str) -> str:
        """Return the question for one item."""
        return f"{self.url}/{segment(identifier, safe=SEGMENT)}"

    def understand_one(self, data: Any) -> list[Any]:
        """Return the item in an answer to that, alone or as the only one of a list."""
        match data:
            case {"features": list(records)}:
                return records
        return [data]

    def item(self, identifier: str) -> str:
        """Return the page of an item on this site."""
        return f"{self._site}/datasets/{quoted(identifier, safe=SEGMENT)}"

    def identifier(self, url: str) -> str:
        """Return the identifier in the URL of such a page."""
        return unquote(url.rpartition("/datasets/")[2], errors="surrogatepass")

    async def check(self, portal: PortalClient) -> None:
        """Refuse a site whose catalog has no scope: it would answer with all of ArcGIS."""
        where = f"{self._site}/api/search/v1/catalog"
        try:
            response = await portal.get(where)
        except SourceGoneError:
            return
        filters = _scope(read(response.body, where))
        if filters is not None and not any(
            isinstance(filter_, dict) and filter_.get("predicates") for filter_ in filters
        ):
            raise SourceError(
                f"The catalog of {self._site} has no scope: its search answers with all items of ArcGIS.",
                hint="Name the site that holds the catalog, or a search of its portal.",
            )


class Portal:
    """The search of an ArcGIS portal, by its own words."""

    def __init__(self, url: str) -> None:
        self.url, _, query = url.partition("?")
        self._words = parse_qs(query)["q"][0]
        parts = urlsplit(self.url)
        self._home = f"{parts.scheme}://{parts.netloc}{parts.path.removesuffix('/sharing/rest/search')}"

    def ask(self, after: datetime | None, *, skip: int, rows: int) -> str:
        """Return the question for a page, oldest first."""
        dated = f" AND modified:[{_milliseconds(after):019} TO {'9' * 19}]" if after is not None else ""
        wanted = {"q": f"({self._words}){dated}" if dated else self._words, "num": rows, "start": skip + 1}
        return f"{self.url}?{urlencode({**wanted, 'sortField': 'modified', 'sortOrder': 'asc', 'f': 'json'})}"

    def understand(self, data: Any) -> Found:
        """Return the records of an answer; the next start is -1 on the last page."""
        match data:
            case {"results": list(records), "nextStart": int(following), **rest}:
                return Found(records, _total(rest.get("total")), following > 0)
        raise UnreadableError(f"{self.url} answered with JSON that is no list of items.")

    def ask_for(self, identifier: str) -> str:
        """Return the question for one item, by the same words."""
        escaped = identifier.replace("\\", "\\\\").replace('"', '\\"')
        wanted = {"q": f'({self._words}) AND id:"{escaped}"', "num": 1, "start": 1, "f": "json"}
        return f"{self.url}?{urlencode(wanted, errors='surrogatepass')}"

    def understand_one(self, data: Any) -> list[Any]:
        """Return the item in an answer to that."""
        return self.understand(data).records

    def item(self, identifier: str) -> str:
        """Return the page of an item in this portal."""
        return f"{self._home}/home/item.html?id={quoted(identifier)}"

    def identifier(self, url: str) -> str:
        """Return the identifier in the URL of such a page."""
        return unquote(url.rpartition("?id=")[2], errors="surrogatepass")

    async def check(self, portal: PortalClient) -> None:
        """Return no condition: the search has its own."""


def read(body: bytes, where: str) -> Any:
    """Return the value of a body; ArcGIS reports errors with status 200 as well."""
    data = read_json(body, where)
    match data:
        case {"error": {"message": str(said), **rest}}:
            is_refused = rest.get("code") in (401, 403, 498, 499)
            hint = "Name a token in the option headers, as env:NAME." if is_refused else None
            raise SourceError(f"{where} reports an error: {said}", hint=hint)
        case {"error": said, **rest} if said and not {"features", "results"} & rest.keys():
            raise SourceError(f"{where} reports an error: {said}")
    return data


def _scope(data: Any) -> list[Any] | None:
    """Return the filters of a site's catalog, wherever in the answer that stands; None if it says nothing of them."""
    waiting = [data]
    while waiting:
        match waiting.pop():
            case {"scopes": {"item": {"filters": list(filters)}}}:
                return filters
            case {**parts}:
                waiting.extend(parts.values())
    return None


def _milliseconds(at: datetime) -> int:
    return max(0, int(at.timestamp() * 1000))


def _total(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value < CLAMP else None


WINDOW = 9_900
"""ArcGIS refuses what lies further on than 10,000 items; a page of a hundred still fits in."""


class ArcGisListing(Listing):
    """The items of a site or a search."""

    version = ArcGisOptions.record_version
    dated = True
    rising = True

    def __init__(self, portal: PortalClient, dialect: SearchDialect, options: ArcGisOptions) -> None:
        self._portal = portal
        self._dialect = dialect
        self._options = options

    async def pages(
        self, *, since: datetime | None = None, place: Any = None, tokens: Tokens | None = None
    ) -> AsyncGenerator[ListingPage]:
        """Yield the items, oldest first; check whose they are before believing all of them, or many changes."""
        checked = since is None
        if checked:
            await self._dialect.check(self._portal)
        walk = chronology(self._ask, window=WINDOW, undated_kept=False, since=since, place=place)
        async with aclosing(walk) as pages:
            async for page in pages:
                if not checked and page.place is not None:
                    await self._dialect.check(self._portal)
                    checked = True
                yield page

    async def count(self, since: datetime | None = None) -> int | None:
        """Return how many items there are; None if there are more than ArcGIS counts."""
        response = await self._portal.get(self._dialect.ask(since, skip=0, rows=1))
        return self._found(response).total

    async def record(self, url: str, handle: str | None = None) -> Row | None:
        """Return one item by its URL, as this search returns it."""
        identifier = self._dialect.identifier(url)
        if self._dialect.item(identifier) != url:
            return None
        try:
            response = await self._portal.get(self._dialect.ask_for(identifier), once=True)
            records = self._dialect.understand_one(read(response.body, redact(response.url)))
        except SourceGoneError:
            records = []
        record = next((record for record in records if identifier_of(record) == identifier), None)
        if record is None:
            return Row(Failed(url, "ArcGIS does not show this item."), absent=not records)
        return self._row(record)

    async def _ask(self, question: DatedQuestion) -> DatedAnswer:
        try:
            return await self._portal.page(
                lambda rows: self._page(question, rows), alive=partial(self._be_there, question)
            )
        except (UnreadableError, BodyTooLargeError, TooMuchError) as problem:
            if self._portal.unread >= MOST_UNREAD:
                raise
            return self._unread_answer(question, problem)

    async def _be_there(self, question: DatedQuestion) -> None:
        """Request what no item can obstruct: a date filter, or where dates are not used, the first item."""
        try:
            await self._portal.get(self._dialect.ask(FAR_FUTURE, skip=0, rows=1))
        except SourceError:
            if question.after is not None:
                raise
            await self.count()

    def _unread_answer(self, question: DatedQuestion, problem: SourceError) -> DatedAnswer:
        """Return the place of an item that cannot be received, and may be any item."""
        second = int(question.after.timestamp()) if question.after else 0
        url = unread_url(self._dialect.url, second, question.skip)
        return DatedAnswer([unreceived(url, problem)], None, None, True)

    async def retry(self, place: Any) -> Any | None:
        """Request the item at one position by itself."""
        return await retried(place, partial(self._page, once=True))

    async def _page(self, question: DatedQuestion, rows: int, *, once: bool = False) -> DatedAnswer:
        url = self._dialect.ask(question.after, skip=question.skip, rows=rows)
        response = await self._portal.get(url, could_be_less=rows > 1, once=once)
        answer = self._found(response)
        found_rows = await one_by_one(self._row, answer.records)
        full = len(found_rows) >= rows
        return DatedAnswer(found_rows, answer.total, self._portal.clock(response), answer.more, full=full)

    def _found(self, response: Response) -> Found:
        return self._dialect.understand(read(response.body, redact(response.url)))

    def _row(self, record: Any) -> Row:
        identifier = identifier_of(record)
        url = self._dialect.item(identifier) if identifier else None
        return row_of(
            record,
            lambda one: dataset_of(one, url or "", language=self._options.language),
            site=self._dialect.url,
            steady=steady,
            url=url,
            modified=moment(facts_of(record).get("modified")),
            language=self._options.language,
            landing_page=self._options.landing_page,
        )


class ArcGis(SingleRecords):
    """Connector for ArcGIS Hub sites and searches of ArcGIS portals."""

    kind: ClassVar[str] = "arcgis"
    Options: "ClassVar[type[Options]]" = ArcGisOptions
    recognise = staticmethod(recognise)
    accept = staticmethod(accept)

    @classmethod
    async def probe(cls, probe: Probe) -> str | None:
        """Return the site at an address, if Hub's search answers there."""
        match await probe.json(f"{probe.origin}/api/search/v1/collections/dataset/items?limit=1"):
            case {"type": "FeatureCollection", "features": list(), "numberMatched": int()}:
                return probe.origin
        return None

    def _listing(self, client: Client, known: Known) -> Listing:
        dialect = Portal(self._url) if is_search(self._url) else Hub(self._url, self._options.collection)
        portal = PortalClient(client, self._url, self._options, now=self._tools.now)
        return ArcGisListing(portal, dialect, self._options)
