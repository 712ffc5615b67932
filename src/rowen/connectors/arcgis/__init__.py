"""ArcGIS Hub sites and searches of ArcGIS portals: a whole walk first, then only changes."""

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from datetime import datetime
from typing import Any, ClassVar, Literal, NamedTuple
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from rowen.connectors.base import Known
from rowen.connectors.catalog.chronology import DatedAnswer, DatedQuestion, chronology
from rowen.connectors.catalog.connector import SingleRecords
from rowen.connectors.catalog.dataset import Dataset, Resource, kind_named, place_of
from rowen.connectors.catalog.dates import iso
from rowen.connectors.catalog.listing import FAR_FUTURE, Listing, ListingPage, Tokens
from rowen.connectors.catalog.options import CatalogOptions, web_url
from rowen.connectors.catalog.portal_client import PortalClient
from rowen.connectors.catalog.records import Json, listed, objects, one_by_one, without
from rowen.connectors.catalog.resources import columns_in, size_of, together
from rowen.connectors.catalog.search import DatedSearch
from rowen.connectors.catalog.text import code_of, plain, word, wordings
from rowen.connectors.plain_options import option
from rowen.connectors.probe import Probe
from rowen.errors import SourceError, SourceGoneError
from rowen.formats import UnreadableError
from rowen.formats.json import read_json
from rowen.model.url import SEGMENT, quoted, segment
from rowen.net.client import Client
from rowen.net.target import redact

# These values change when an item is viewed or rated, or with the platform's quality score.
_VOLATILE = frozenset(
    {
        *("numViews", "avgRating", "numRatings", "numComments", "scoreCompleteness", "lastViewed", "usage"),
        *("hubScore", "searchScore", "score", "timeStamp"),
    }
)
_NO_LICENCE = frozenset({"", "none", "custom"})
_ONLINE = "https://www.arcgis.com"
_ITEM_PAGE = "/home/item.html?"
# The types of items that are a file, with their media type if ArcGIS always sends the same one.
_FILES = {
    "CSV": "text/csv",
    "File Geodatabase": "application/zip",
    "GeoJson": "application/geo+json",
    "GeoPackage": "application/geopackage+sqlite3",
    "Image": "",
    "KML": "",
    "Microsoft Excel": "",
    "Microsoft Word": "",
    "PDF": "application/pdf",
    "Shapefile": "application/zip",
}


def facts_of(record: Any) -> Json:
    """Return the properties of an item; empty if the record is no object."""
    if not isinstance(record, Mapping):
        return {}
    inner = record.get("properties")
    return inner if isinstance(inner, Mapping) else record


def identifier_of(record: Any) -> str:
    """Return the identifier of an item; the identifier of a layer ends with the layer's number."""
    own = word(record.get("id")) if isinstance(record, Mapping) else ""
    return own or word(facts_of(record).get("id"))


def steady(record: Json) -> Json:
    """Return a record without volatile values."""
    return without(record, _VOLATILE)


def dataset_of(record: Json, url: str, *, language: str | None = None) -> Dataset:
    """Return the dataset of a record; missing values stay empty."""
    facts, identifier = facts_of(record), identifier_of(record)
    wording = wordings(facts.get("title"), facts.get("description") or facts.get("snippet"), preferred=language)
    names = (plain(word(facts.get(name))) for name in ("source", "orgTitle", "accessInformation", "owner"))
    licences = (plain(word(facts.get(name))) for name in ("license", "licenseInfo"))
    # A culture is a language code, or the name of a language, such as "english (united states)".
    culture = word(facts.get("culture"))
    language_code = culture if "(" not in culture else code_of(culture.partition("(")[0]) or culture
    categories = filter(None, map(word, listed(facts.get("categories"))))
    layers = [facts, facts.get("layer"), *objects(facts.get("layers")), *objects(facts.get("tables"))]
    fields = (layer.get("fields") for layer in layers if isinstance(layer, Mapping))
    kind = word(facts.get("type"))
    data_url = word(facts.get("url"))
    if not data_url and kind in _FILES and (name := word(facts.get("id"))):
        # The file of an item is in the portal of its page; the items of Hub are in ArcGIS Online.
        portal = url.partition(_ITEM_PAGE)[0] if _ITEM_PAGE in url else _ONLINE
        data_url = f"{portal}/sharing/rest/content/items/{segment(name)}/data"
    file = Resource(data_url, format=kind, media_type=_FILES.get(kind, ""), size_bytes=size_of(facts.get("size")))
    return Dataset(
        url=url,
        identifier=identifier,
        title=wording.title or word(facts.get("name")) or identifier,
        description=wording.description or plain(word(facts.get("snippet"))),
        tags=(
            *filter(None, map(word, listed(facts.get("tags")))),
            *(category.removeprefix("/Categories/").strip("/") for category in categories),
        ),
        publisher=next(filter(None, names), ""),
        licence=next((licence for licence in licences if licence.casefold() not in _NO_LICENCE), ""),
        languages=tuple(filter(None, [language_code])),
        issued=iso(facts.get("created")),
        modified=iso(facts.get("modified")),
        spatial=_extent(facts.get("extent")) or place_of(record.get("geometry")),
        temporal=_period(record.get("time")) or _period(facts.get("timeInfo")),
        usual_page=url,
        resources=(file,) if data_url else (),
        columns=together(column for layer in fields for column in columns_in(layer)),
        record_kind=kind_named([kind]) or ("other" if kind else None),
        texts=wording.others,
        source=steady(record),
    )


def _extent(value: Any) -> str:
    match value:
        case [[west, south], [east, north]] | {"coordinates": [[west, south], [east, north]]}:
            return ",".join(filter(None, map(word, (west, south, east, north))))
    return place_of(value)


def _period(value: Any) -> str:
    """Return the period of a record in the form of OGC, as Hub uses it, or of a layer's `timeInfo`."""
    match value:
        case {"interval": [start, end]} | {"timeExtent": [start, end]}:
            span = [_instant(start), _instant(end)]
            return "/".join(said or ".." for said in span) if any(span) else ""
        case {"date": at} | {"timestamp": at}:
            return _instant(at)
    return ""


def _instant(value: Any) -> str:
    return (iso(value) or word(value)).strip(".")


_SEARCH = re.compile(r"(?P<base>https?://[^/]+(?:/.*)?/sharing/rest)/search", re.IGNORECASE)
_HUB = re.compile(r"https?://[^/]+\.(?:hub|opendata)\.arcgis\.com(?:[/:].*)?|.*/api/search/v1(?s:/.*)?", re.IGNORECASE)


def accept(address: str) -> str | None:
    """Return the source URL of any web address: a search, or a site; None for an empty search and for other text."""
    url = web_url(address, "arcgis")
    if url is None:
        return None
    parts = urlsplit(url)
    if search := _SEARCH.fullmatch(f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"):
        words = parse_qs(parts.query).get("q", [""])[0].strip()
        return f"{search['base']}/search?{urlencode({'q': words})}" if words else None
    return f"{parts.scheme}://{parts.netloc}"


class ArcGisOptions(CatalogOptions):
    """Options of kind `arcgis`."""

    secret_neutral: ClassVar[frozenset[str]] = CatalogOptions.secret_neutral | {"collection"}

    collection: Literal["all", "appAndMap", "dataset", "document"] = option(
        default="dataset", description="which collection of a site"
    )
    # The maximum of ArcGIS.
    page_size: int = option(default=100, ge=1, le=100)


# The index of ArcGIS stops counting at this number, so it may stand for any larger count.
CLAMP = 10_000
_REFUSED = (401, 403, 498, 499)


class Found(NamedTuple):
    """One page: its records, their declared total, and whether more pages follow."""

    records: list[Any]
    total: int | None
    more: bool


# ArcGIS rejects a start plus page size above 10,000; a page of a hundred still fits below it.
WINDOW = 9_900


class ArcGisListing(DatedSearch):
    """The listing of the items of a site or a search."""

    version = ArcGisOptions.record_version

    def __init__(self, portal: PortalClient, url: str, options: ArcGisOptions) -> None:
        super().__init__(portal, url, options, steady=steady)

    async def read_pages(
        self, *, since: datetime | None = None, place: Any = None, tokens: Tokens | None = None
    ) -> AsyncGenerator[ListingPage]:
        """Yield the items, oldest first; before a whole walk or a second page of changes, check the scope."""
        checked = since is None
        if checked:
            await self._check_scope()
        walk = chronology(self._read_page, window=WINDOW, undated_kept=False, since=since, place=place)
        async with aclosing(walk) as pages:
            async for page in pages:
                if not checked and page.place is not None:
                    await self._check_scope()
                    checked = True
                yield page

    async def count(self, since: datetime | None = None) -> int | None:
        """Return the number of items; with `since`, count only modified items.

        Return None if the number reaches `CLAMP`, at which ArcGIS stops counting.
        """
        response = await self._portal.request(self._page_url(since, skip=0, rows=1))
        return self._parse(read(response.body, redact(response.url))).total

    async def _request(self, question: DatedQuestion, rows: int, *, once: bool = False) -> DatedAnswer:
        url = self._page_url(question.after, skip=question.skip, rows=rows)
        response = await self._portal.request(url, could_be_less=rows > 1, once=once)
        answer = self._parse(read(response.body, redact(response.url)))
        items = await one_by_one(self._row, answer.records)
        full = len(items) >= rows
        return DatedAnswer(items, answer.total, self._portal.clock(response), answer.more, full=full)

    async def _check(self, question: DatedQuestion) -> None:
        """Check that the portal still answers: filter by a far future date, else count."""
        try:
            await self._portal.request(self._page_url(FAR_FUTURE, skip=0, rows=1))
        except SourceError:
            if question.after is not None:
                raise
            await self.count()

    async def _find(self, identifier: str) -> list[Any]:
        try:
            response = await self._portal.request(self.record_url(identifier), once=True)
        except SourceGoneError:
            return []
        return self._parse_single(read(response.body, redact(response.url)))

    def _identify(self, record: Any) -> str:
        return identifier_of(record)

    def _date(self, record: Any) -> Any:
        return facts_of(record).get("modified")

    def _map(self, record: Json, url: str) -> Dataset:
        return dataset_of(record, url, language=self._options.language)

    async def _check_scope(self) -> None:
        """Check that the items belong to this source. A search needs no check, since its query limits the items."""

    def _page_url(self, after: datetime | None, *, skip: int, rows: int) -> str:
        """Return the URL of a page of `rows` items, oldest first, without the first `skip`."""
        raise NotImplementedError

    def record_url(self, identifier: str) -> str:
        """Return the URL of the request for one item."""
        raise NotImplementedError

    def _parse(self, data: Any) -> Found:
        """Return the page in an answer."""
        raise NotImplementedError

    def _parse_single(self, data: Any) -> list[Any]:
        return self._parse(data).records


class HubListing(ArcGisListing):
    """The listing of the items of an ArcGIS Hub site."""

    def __init__(self, portal: PortalClient, url: str, options: ArcGisOptions) -> None:
        super().__init__(portal, f"{url}/api/search/v1/collections/{options.collection}/items", options)
        self._hub = url

    def _page_url(self, after: datetime | None, *, skip: int, rows: int) -> str:
        arguments: dict[str, str | int] = {"limit": rows, "startindex": skip + 1, "sortBy": "properties.modified"}
        if after is not None:
            arguments["filter"] = f"modified >= {_milliseconds(after)}"
        return f"{self._site}?{urlencode(arguments)}"

    def record_url(self, identifier: str) -> str:
        """Return the URL of the request for one item."""
        return f"{self._site}/{segment(identifier, safe=SEGMENT)}"

    def _parse(self, data: Any) -> Found:
        match data:
            case {"features": list(records), **rest}:
                more = any(link.get("rel") == "next" for link in objects(rest.get("links")))
                return Found(records, _total(rest.get("numberMatched")), more)
        raise UnreadableError(f"{self._site} answered with JSON that is no list of items.")

    def _parse_single(self, data: Any) -> list[Any]:
        match data:
            case {"features": list(records)}:
                return records
        return [data]

    def _build_url(self, identifier: str) -> str:
        return f"{self._hub}/datasets/{quoted(identifier, safe=SEGMENT)}"

    def _parse_url(self, url: str) -> str:
        return unquote(url.rpartition("/datasets/")[2], errors="surrogatepass")

    async def _check_scope(self) -> None:
        """Raise an error if the site's catalog has no scope: it would return all items of ArcGIS."""
        catalog = f"{self._hub}/api/search/v1/catalog"
        try:
            response = await self._portal.request(catalog)
        except SourceGoneError:
            return
        # The filters may be anywhere in the answer; if there are none, the scope is unknown.
        waiting = [read(response.body, catalog)]
        while waiting:
            match waiting.pop():
                case {"scopes": {"item": {"filters": list(filters)}}}:
                    if any(isinstance(filter_, dict) and filter_.get("predicates") for filter_ in filters):
                        return
                    raise SourceError(
                        f"The catalog of {self._hub} has no scope: its search answers with all items of ArcGIS.",
                        hint="Name the site that holds the catalog, or a search of its portal.",
                    )
                case {**parts}:
                    waiting.extend(parts.values())


class PortalListing(ArcGisListing):
    """The listing of the items of an ArcGIS portal that match a search query."""

    def __init__(self, portal: PortalClient, url: str, options: ArcGisOptions) -> None:
        site, _, query = url.partition("?")
        super().__init__(portal, site, options)
        self._words = parse_qs(query)["q"][0]
        parts = urlsplit(site)
        self._home = f"{parts.scheme}://{parts.netloc}{parts.path.removesuffix('/sharing/rest/search')}"

    def _page_url(self, after: datetime | None, *, skip: int, rows: int) -> str:
        dated = f" AND modified:[{_milliseconds(after):019} TO {'9' * 19}]" if after is not None else ""
        arguments = {"q": f"({self._words}){dated}" if dated else self._words, "num": rows, "start": skip + 1}
        return f"{self._site}?{urlencode({**arguments, 'sortField': 'modified', 'sortOrder': 'asc', 'f': 'json'})}"

    def record_url(self, identifier: str) -> str:
        """Return the URL of a search for one item, restricted by the search query of the source."""
        escaped = identifier.replace("\\", "\\\\").replace('"', '\\"')
        arguments = {"q": f'({self._words}) AND id:"{escaped}"', "num": 1, "start": 1, "f": "json"}
        return f"{self._site}?{urlencode(arguments, errors='surrogatepass')}"

    def _parse(self, data: Any) -> Found:
        match data:
            # The next start is -1 on the last page.
            case {"results": list(records), "nextStart": int(following), **rest}:
                return Found(records, _total(rest.get("total")), following > 0)
        raise UnreadableError(f"{self._site} answered with JSON that is no list of items.")

    def _build_url(self, identifier: str) -> str:
        return f"{self._home}/home/item.html?id={quoted(identifier)}"

    def _parse_url(self, url: str) -> str:
        return unquote(url.rpartition("?id=")[2], errors="surrogatepass")


def read(body: bytes, where: str) -> Any:
    """Return the JSON value of a body; raise the error in it, because ArcGIS also uses status 200 for errors."""
    data = read_json(body, where)
    match data:
        case {"error": {"message": str(said), **rest}}:
            hint = "Name a token in the option headers, as env:NAME." if rest.get("code") in _REFUSED else None
            raise SourceError(f"{where} reports an error: {said}", hint=hint)
        case {"error": said, **rest} if said and not {"features", "results"} & rest.keys():
            raise SourceError(f"{where} reports an error: {said}")
    return data


def _milliseconds(at: datetime) -> int:
    return max(0, int(at.timestamp() * 1000))


def _total(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value < CLAMP else None


class ArcGis(SingleRecords):
    """Connector for ArcGIS Hub sites and searches of ArcGIS portals."""

    kind = "arcgis"
    Options = ArcGisOptions
    accept = staticmethod(accept)

    @staticmethod
    def is_typical(address: str) -> bool:
        """Return whether the address alone identifies ArcGIS Hub, by its host, or a search of ArcGIS."""
        bare = address.partition("?")[0].rstrip("/")
        return bool(_HUB.fullmatch(bare) or _SEARCH.fullmatch(bare))

    @classmethod
    async def probe(cls, probe: Probe) -> str | None:
        """Return the site at an address if Hub's search answers there; None otherwise."""
        match await probe.json(f"{probe.origin}/api/search/v1/collections/dataset/items?limit=1"):
            case {"type": "FeatureCollection", "features": list(), "numberMatched": int()}:
                return probe.origin
        return None

    def _open_listing(self, client: Client, known: Known) -> Listing:
        portal = PortalClient(client, self._url, self._options, now=self._tools.now)
        kind = PortalListing if _SEARCH.fullmatch(self._url.partition("?")[0]) else HubListing
        return kind(portal, self._url, self._options)
