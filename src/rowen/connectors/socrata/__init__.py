"""Socrata portals, read by the Discovery API: a whole walk first, then only the latest assets."""

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise, zip_longest
from typing import Any, ClassVar, Literal, NamedTuple
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from rowen.connectors.base import Known, unread_url
from rowen.connectors.catalog.connector import SingleRecords
from rowen.connectors.catalog.dataset import Dataset, Resource, kind_named
from rowen.connectors.catalog.dates import iso
from rowen.connectors.catalog.listing import FAR_FUTURE, FAR_PAST, Listing, ListingPage, Row, Tokens
from rowen.connectors.catalog.options import CatalogOptions, web_url
from rowen.connectors.catalog.portal_client import MOST_UNREAD, UNRECEIVED, PortalClient
from rowen.connectors.catalog.records import Json, listed, objects, one_by_one, unreceived, without
from rowen.connectors.catalog.resources import columns_in, format_of
from rowen.connectors.catalog.search import SearchListing
from rowen.connectors.catalog.text import word, wordings
from rowen.connectors.plain_options import option
from rowen.connectors.probe import Probe
from rowen.errors import FetchTimeoutError, SourceError
from rowen.formats import UnreadableError
from rowen.formats.json import read_json
from rowen.model.url import SEGMENT, quoted, segment
from rowen.net.client import Client
from rowen.net.target import redact

_API = "/api/catalog/v1"
_CENTRAL = re.compile(r"api\.(?:us|eu)\.socrata\.com", re.IGNORECASE)
_TELLING = re.compile(r"https?://[^/]+(?:\.socrata\.com(?:[/:].*)?|/api/catalog/v1/?)", re.IGNORECASE)


def accept(address: str) -> str | None:
    """Return the portal URL of any web address; None for the shared API without the domain of one portal."""
    url = web_url(address, "socrata")
    if url is None:
        return None
    parts = urlsplit(url)
    if not _CENTRAL.fullmatch(parts.hostname or ""):
        return f"{parts.scheme}://{parts.netloc}"
    domains = parse_qs(parts.query).get("domains", [""])[0].split(",")
    return f"https://{domains[0]}" if len(domains) == 1 and re.fullmatch(r"[\w.-]+", domains[0]) else None


def domain_of(site: str) -> str:
    """Return the domain by which the API identifies a portal."""
    return urlsplit(site).hostname or ""


def item(site: str, identifier: str) -> str:
    """Return the URL of a dataset, which does not change with its title."""
    return f"{site}/d/{quoted(identifier, safe=SEGMENT)}"


Sort = Literal["calendars", "charts", "datasets", "files", "filters", "forms", "links", "maps", "stories"]


class SocrataOptions(CatalogOptions):
    """Options of kind `socrata`."""

    secret_neutral: ClassVar[frozenset[str]] = CatalogOptions.secret_neutral | {"only"}

    app_token: str | None = option(
        default=None, pattern=r"^(env|file):\S+$", description="where the token is: env:NAME"
    )
    only: tuple[Sort, ...] = option(default=("datasets", "maps"), description="which sorts of assets; empty for all")
    # A record has a few kB, so a page has 1 to 2 MB.
    page_size: int = option(default=500, ge=1, le=10_000)


# These values change whenever the asset is viewed.
_VOLATILE = frozenset({"page_views", "download_count", "view_count", "score"})
_PLACES = ("spatial", "geographic", "geospatial")
_PUBLISHERS = ("publisher", "agency", "department", "organi")
_NO_NAME = re.compile(r"@|://|\b(?:e-?mail|url|link|website|type|contact|phone|id|code|address)\b", re.IGNORECASE)
_PERIODS = ("temporal", "time-period", "time period")


def identifier_of(record: Any) -> str:
    """Return the identifier of an asset; empty if it has none."""
    return word(_part(record, "resource").get("id"))


def steady(record: Json) -> Json:
    """Return a record without volatile values."""
    return without(record, _VOLATILE)


def dataset_of(record: Json, site: str, *, language: str | None = None) -> Dataset:
    """Return the dataset of a record; missing values stay empty."""
    resource, classes = _part(record, "resource"), _part(record, "classification")
    identifier = identifier_of(record)
    wording = wordings(resource.get("name"), resource.get("description"), preferred=language)
    fields = {
        word(field.get("key")).casefold(): word(field.get("value")) for field in objects(classes.get("domain_metadata"))
    }
    # The columns are parallel lists; Socrata computes the columns whose names begin with a colon.
    lists = (listed(resource.get(f"columns_{part}")) for part in ("field_name", "name", "datatype"))
    rows = zip_longest(*(map(word, part) for part in lists), fillvalue="")
    columns = [{"name": name, "label": label, "type": kind} for name, label, kind in rows if not name.startswith(":")]
    # The account that owns an asset usually belongs to a person; the portal's own fields name the publisher.
    parties = sorted((key.rpartition("_")[2].replace("-", " "), value) for key, value in fields.items() if value)
    parties = [(field, value) for field, value in parties if not _NO_NAME.search(field) and not _NO_NAME.search(value)]
    publisher = next((value for name in _PUBLISHERS for field, value in parties if name in field), "")
    name, form = segment(identifier, safe=SEGMENT), word(resource.get("type"))
    files: list[Resource] = []
    if form == "dataset":
        export = f"{site}/api/views/{name}/rows"
        files.append(Resource(f"{export}.csv?accessType=DOWNLOAD", format="CSV", media_type="text/csv"))
        files.append(Resource(f"{export}.json?accessType=DOWNLOAD", format="JSON", media_type="application/json"))
    elif form == "map":
        url = f"{site}/api/geospatial/{name}?method=export&format=GeoJSON"
        files.append(Resource(url, format="GeoJSON", media_type="application/geo+json"))
    elif form == "file":
        media_type = word(resource.get("blob_mime_type"))
        files.append(Resource(f"{site}/download/{name}", format=format_of(media_type), media_type=media_type))
    tags = [*listed(classes.get("domain_tags")), *listed(classes.get("tags")), classes.get("domain_category")]
    return Dataset(
        url=item(site, identifier),
        identifier=identifier,
        title=wording.title or identifier,
        description=wording.description,
        tags=tuple(filter(None, map(word, [*tags, *listed(classes.get("categories"))]))),
        publisher=word(resource.get("attribution")) or publisher or word(_part(record, "metadata").get("domain")),
        licence=word(_part(record, "metadata").get("license")),
        languages=tuple(filter(None, [wording.language, *sorted(wording.others)])),
        issued=iso(resource.get("publication_date")) or iso(resource.get("createdAt")),
        modified=iso(resource.get("updatedAt")),
        spatial=_field(fields, _PLACES),
        temporal=_field(fields, _PERIODS),
        landing_page=word(record.get("link")) or word(record.get("permalink")),
        usual_page=item(site, identifier),
        resources=tuple(files),
        columns=columns_in(columns),
        record_kind=kind_named([form]),
        texts=wording.others,
        source=steady(record),
    )


def _part(record: Any, name: str) -> Json:
    match record:
        case {**parts} if isinstance(part := parts.get(name), Mapping):
            return part
    return {}


def _field(fields: Mapping[str, str], names: tuple[str, ...]) -> str:
    """Return the value of the first field, in alphabetical order, with one of these names in its key; else empty."""
    return next((value for key, value in sorted(fields.items()) if any(name in key for name in names)), "")


# The API rejects a larger `offset + limit`.
WINDOW = 10_000
# The number of latest assets to request first: usually nothing has changed.
FIRST_ROWS = 10


class _Assets(NamedTuple):
    records: list[Any]
    rows: list[Row]
    total: int | None
    clock: datetime | None

    @property
    def names(self) -> list[str]:
        return [*map(identifier_of, self.records)]


class SocrataListing(SearchListing):
    """The listing of a portal's assets."""

    version = SocrataOptions.record_version

    def __init__(self, portal: PortalClient, site: str, options: SocrataOptions) -> None:
        super().__init__(portal, site, options, steady=steady)
        only = {"only": ",".join(options.only)} if options.only else {}
        self._arguments = {"domains": domain_of(site), **only}
        self._url = f"{site}/api/catalog/v1"
        self._total: int | None = None

    def read_pages(
        self, *, since: datetime | None = None, place: Any = None, tokens: Tokens | None = None
    ) -> AsyncGenerator[ListingPage]:
        """Yield all assets; with `since`, only modified assets."""
        return self._scroll(place) if since is None else self._read_latest(since)

    async def count(self, since: datetime | None = None) -> int | None:
        """Return the number of assets; None for assets modified since a date, which cannot be counted.

        For a date in the far past or far future the result is known: all assets, or none.
        """
        if since is not None and since >= FAR_FUTURE:
            return 0
        if since is not None and since > FAR_PAST:
            return None
        total, self._total = self._total, None
        return total if total is not None else (await self._page(0)).total

    async def _scroll(self, place: Any) -> AsyncGenerator[ListingPage]:
        """Yield all assets; each page begins after the last identifier, so that changes do not shift the others."""
        after, seen, by_number = (place["after"], place["seen"], place["by_number"]) if place else ("", 0, False)
        while True:
            arguments = {"offset": seen, "order": "createdAt ASC"} if by_number else {"scroll_id": after}
            try:
                answer = await self._ask(**arguments)
            except UNRECEIVED as problem:
                if not by_number:
                    answer = await self._pass(after, seen, problem)
                elif self._portal.unread >= MOST_UNREAD:
                    raise
                else:
                    answer = _Assets([], [self._unread(str(seen), problem, {"offset": seen})], None, None)
            if not by_number and not _is_rising([after, *answer.names]):
                # The portal ignores the identifier after which the page should begin.
                seen, by_number = 0, True
                continue
            answer = _placed(answer, after, seen, by_number=by_number)
            seen += len(answer.rows)
            after = answer.names[-1] if answer.names else after
            closed = by_number and seen >= WINDOW
            # An unreceived asset is not requested again, even if it is the last one.
            ended = not answer.rows or (not by_number and not answer.names)
            place = {"after": after, "seen": seen, "by_number": by_number}
            yield ListingPage(
                answer.rows,
                place=None if ended or closed else place,
                declared=answer.total if by_number or seen == len(answer.rows) else None,
                clock=answer.clock,
                doubt=f"The catalog shows no more than {WINDOW} records." if closed else None,
            )
            if closed or ended:
                return

    async def _pass(self, after: str, seen: int, problem: SourceError) -> _Assets:
        """Return a failed row for an asset that cannot be received, and the next asset, from which to continue.

        The next asset is requested by its position in the order of identifiers. This requires that the previous asset
        has the expected position.
        """
        if seen + MOST_UNREAD > WINDOW:
            raise problem
        if seen and (await self._page(1, offset=seen - 1, order="dataset_id ASC")).names != [after]:
            raise problem
        failed = [self._unread(f"after/{after}", problem, {"after": after, "skip": 0})]
        for number in range(seen + 1, seen + MOST_UNREAD):
            try:
                answer = await self._page(1, offset=number, order="dataset_id ASC")
            except (*UNRECEIVED, FetchTimeoutError) as another:
                place = {"after": after, "skip": number - seen}
                failed.append(self._unread(f"after/{after}/{number - seen}", another, place))
                continue
            if answer.names and answer.names[0] <= after:
                raise problem
            return answer._replace(rows=[*failed, *answer.rows])
        raise problem

    def _unread(self, name: str, problem: SourceError, place: dict[str, Any]) -> Row:
        return unreceived(unread_url(self._site, name), problem, place)

    async def retry(self, place: Any) -> Any | None:
        """Request the asset at a place again, together with the assets between it and the last identified asset."""
        if "offset" in place:
            answer = await self._page(1, once=True, offset=place["offset"], order="createdAt ASC")
        else:
            answer = await self._page(place["skip"] + 1, once=True, scroll_id=place["after"])
        return place if any(not row.named for row in answer.rows) else None

    async def _read_latest(self, since: datetime) -> AsyncGenerator[ListingPage]:
        """Yield the assets, latest first, until they are older than requested."""
        offset, most = 0, FIRST_ROWS
        while True:
            try:
                answer = await self._ask(most=most, offset=offset, order="updatedAt DESC")
            except UNRECEIVED as problem:
                if self._portal.unread >= MOST_UNREAD:
                    yield ListingPage([], doubt=f"One of the latest assets cannot be received: {problem}")
                    return
                offset += 1
                yield ListingPage([], place={"offset": offset}, unreceived=1)
                continue
            self._total = answer.total
            dates = [row.modified for row in answer.rows if row.modified is not None]
            older = any(at < since for at in dates)
            offset += len(answer.rows)
            doubt = None
            if not offset:
                doubt = "The catalog lists nothing in the order of dates."
            elif any(earlier < later for earlier, later in pairwise(dates)):
                doubt = "The catalog ignores the order of dates."
            elif offset >= WINDOW and not older:
                doubt = "More was modified than the catalog shows at once."
            ended = older or not answer.rows or doubt is not None
            yield ListingPage(
                [row for row in answer.rows if row.modified is None or row.modified >= since],
                place=None if ended else {"offset": offset},
                clock=answer.clock,
                doubt=doubt,
            )
            if ended:
                return
            most *= 4

    async def _ask(self, *, most: int = WINDOW, offset: int = 0, **arguments: str) -> _Assets:
        most = min(most, WINDOW - offset)
        more = {**arguments, "offset": offset} if offset else arguments
        return await self._portal.request_page(
            lambda rows: self._page(rows, **more), most=most, alive=lambda: self._page(0, once=False, **arguments)
        )

    async def _page(self, limit: int, *, once: bool = False, **arguments: str | int) -> _Assets:
        query = urlencode({**self._arguments, "limit": limit, **arguments}, errors="surrogatepass")
        url = f"{self._url}?{query}"
        response = await self._portal.request(url, could_be_less=limit > 1, once=once)
        match read_json(response.body, redact(url)):
            case {"error": error, **rest} if "results" not in rest:
                raise SourceError(f"{self._url} reports an error: {error}.")
            case {"results": list(records), "resultSetSize": int(total)}:
                return _Assets(records, await one_by_one(self._row, records), total, self._portal.clock(response))
        raise UnreadableError(f"{redact(url)} answered with JSON that is no list of assets.")

    async def _find(self, identifier: str) -> list[Any]:
        return (await self._page(1, ids=identifier, once=True)).records

    def _build_url(self, identifier: str) -> str:
        return item(self._site, identifier)

    def _parse_url(self, url: str) -> str:
        return unquote(url.rpartition("/d/")[2], errors="surrogatepass")

    def _identify(self, record: Any) -> str:
        return identifier_of(record)

    def _date(self, record: Any) -> Any:
        return _part(record, "resource").get("updatedAt")

    def _map(self, record: Json, url: str) -> Dataset:
        return dataset_of(record, self._site, language=self._options.language)


def _placed(answer: _Assets, after: str, seen: int, *, by_number: bool) -> _Assets:
    """Return the assets; unidentified assets get a place: the previous asset, and the distance from it."""
    if all(row.named or row.place is not None for row in answer.rows):
        return answer
    rows: list[Row] = []
    skip = 0
    for number, (row, name) in enumerate(zip(answer.rows, answer.names, strict=True)):
        place = {"offset": seen + number} if by_number else {"after": after, "skip": skip}
        rows.append(row if row.named else row._replace(place=place))
        after, skip = (name, 0) if name else (after, skip + 1)
    return answer._replace(rows=rows)


def _is_rising(names: Sequence[str]) -> bool:
    named = [name for name in names if name]
    in_order = all(former <= latter for former, latter in pairwise(named))
    return in_order and (len(named) < 2 or not names[0] or named[0] < named[1])


class Socrata(SingleRecords):
    """Connector for Socrata portals."""

    kind = "socrata"
    Options = SocrataOptions
    accept = staticmethod(accept)

    @staticmethod
    def is_typical(address: str) -> bool:
        """Return whether the address alone identifies Socrata, by its host or its API path."""
        return _TELLING.fullmatch(address.partition("?")[0]) is not None

    @classmethod
    async def probe(cls, probe: Probe) -> str | None:
        """Return the portal at an address if the catalog API answers there; None otherwise."""
        match await probe.json(f"{probe.origin}/api/catalog/v1?domains={domain_of(probe.origin)}&limit=0"):
            case {"results": list(), "resultSetSize": int()}:
                return probe.origin
        return None

    def _open_listing(self, client: Client, known: Known) -> Listing:
        token = self._options.app_token
        secrets = {"X-App-Token": token} if token else None
        portal = PortalClient(
            client, self._url, self._options, now=self._tools.now, secrets=secrets, key_option="app_token"
        )
        return SocrataListing(portal, self._url, self._options)
