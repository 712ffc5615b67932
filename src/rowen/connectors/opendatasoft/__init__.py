"""OpenDataSoft portals, read by their Explore API: a whole walk first, then only changes."""

import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar
from urllib.parse import unquote, urlencode

from rowen.connectors.base import Known
from rowen.connectors.catalog.chronology import DatedAnswer, DatedQuestion, chronology
from rowen.connectors.catalog.connector import SingleRecords
from rowen.connectors.catalog.dataset import Dataset, Resource, place_of
from rowen.connectors.catalog.dates import iso
from rowen.connectors.catalog.listing import Listing, ListingPage, Row, Tokens
from rowen.connectors.catalog.options import CatalogOptions, web_url
from rowen.connectors.catalog.portal_client import MOST_UNREAD, PortalClient, TooMuchError
from rowen.connectors.catalog.records import Json, listed, objects, one_by_one, without
from rowen.connectors.catalog.resources import columns_in, format_of
from rowen.connectors.catalog.search import DatedSearch
from rowen.connectors.catalog.text import codes_of, one_of, plain, word, wordings
from rowen.connectors.plain_options import option
from rowen.connectors.probe import Probe
from rowen.errors import FetchTimeoutError, SourceError, SourceGoneError
from rowen.formats import UnreadableError
from rowen.formats.json import read_json
from rowen.model.items import Failed
from rowen.model.url import quoted, segment
from rowen.net.client import Client
from rowen.net.response import Response
from rowen.net.target import redact

_API = re.compile(r"(?P<site>https?://[^/]+(?:/.*?)?)/api(?P<version>/explore/v2\.\d|/v2)(?s:/.*)?", re.IGNORECASE)
_TELLING = re.compile(
    r"https?://[^/]+\.opendatasoft\.com(?:[/:?#].*)?|.*/api/explore/v2\.\d(?s:/.*)?|.*/api/v2/catalog(?s:/.*)?"
    r"|.*/api/(?:datasets|records)/1\.0(?s:/.*)?",
    re.IGNORECASE,
)
# Version 1 of the API has a different list; portals with version 1 support the latest version as well.
_FIRST = re.compile(r"/api/(?:datasets|records)/1\.0(?s:/.*)?$", re.IGNORECASE)
_LINKS = re.compile(rb'"href"\s*:\s*"[^"]{1,300}/api/(?:explore/v2\.\d|v2)/catalog[/"]')
_PAGE = re.compile(r"/(?:explore|pages|map|chart)(?s:/.*)?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class OpenDataSoftAddress:
    """The address of a portal: its base URL or, if the API is not version 2.1, the URL of the API."""

    api: str
    site: str

    @classmethod
    def of(cls, url: str) -> "OpenDataSoftAddress":
        """Parse a source URL into the address of a portal."""
        bare = url.rstrip("/")
        match = _API.fullmatch(bare)
        return cls(bare, match["site"]) if match else cls(f"{bare}/api/explore/v2.1", bare)

    @property
    def datasets(self) -> str:
        """Return the URL of the list of datasets."""
        return f"{self.api}/catalog/datasets"

    def item(self, identifier: str) -> str:
        """Return the URL of a dataset, which is its page in the portal."""
        return f"{self.site}/explore/dataset/{quoted(identifier, safe='@')}/"

    @staticmethod
    def identifier(url: str) -> str:
        """Return the identifier in the URL of a dataset."""
        return unquote(url.rpartition("/explore/dataset/")[2].removesuffix("/"), errors="surrogatepass")

    def part(self, identifier: str, *path: str) -> str:
        """Return the URL of a dataset in the API, or of one of its parts."""
        return "/".join([self.datasets, *(segment(part, safe="@") for part in (identifier, *path))])


def accept(address: str) -> str | None:
    """Return the source URL of any web address, without the path of an API or a page; None for other text."""
    typed = web_url(address, "opendatasoft")
    if typed is None:
        return None
    url = typed.partition("?")[0].rstrip("/")
    match = _API.fullmatch(url)
    if match is None:
        return _PAGE.sub("", _FIRST.sub("", url))
    version = match["version"].lower()
    return match["site"] if version == "/explore/v2.1" else f"{match['site']}/api{version}"


def is_root(body: bytes) -> bool:
    """Return whether a body looks like the root of the API: JSON with a link to the catalog."""
    return body.lstrip()[:1] == b"{" and _LINKS.search(body) is not None


class OpenDataSoftOptions(CatalogOptions):
    """Options of kind `opendatasoft`."""

    secret_neutral: ClassVar[frozenset[str]] = CatalogOptions.secret_neutral | {"filter"}

    api_key: str | None = option(default=None, pattern=r"^(env|file):\S+$", description="where the key is: env:NAME")
    filter: str | None = option(default=None, min_length=1, description="a condition in ODSQL")
    # The maximum of the Explore API.
    page_size: int = option(default=100, ge=1, le=100)


# These values change with the data or with its use, and do not describe the dataset.
_VOLATILE = frozenset(
    {
        *("records_count", "records_size", "data_processed", "metadata_processed", "popularity_score", "reuse_count"),
        *("download_count", "api_call_count", "attachment_download_count", "file_fields_download_count"),
    }
)
_FORMATS = {"csv": "text/csv", "json": "application/json"}


def unwrapped(record: Any) -> Any:
    """Return the dataset without the object in which v2.0 wraps it together with links."""
    match record:
        case {"dataset": Mapping() as inner}:
            return inner
    return record


def identifier_of(record: Any) -> str:
    """Return the identifier of a dataset."""
    return word(record.get("dataset_id")) or word(record.get("dataset_uid")) if isinstance(record, Mapping) else ""


def metas_of(record: Any, template: str = "default") -> Json:
    """Return the metadata of a dataset under one template; empty if there is none."""
    match record:
        case {"metas": {**templates}} if isinstance(metas := templates.get(template), Mapping):
            return metas
    return {}


def steady(record: Json) -> Json:
    """Return a record without volatile values."""
    return without(record, _VOLATILE)


def dataset_of(record: Json, address: OpenDataSoftAddress, *, language: str | None = None) -> Dataset:
    """Return the dataset of a record; missing values stay empty."""
    identifier = identifier_of(record)
    metas, dcat = metas_of(record), metas_of(record, "dcat")
    wording = wordings(metas.get("title"), metas.get("description"), preferred=language)
    codes = listed(metas.get("metadata_languages")) or listed(metas.get("language"))
    # The coverage as a name, else the bounding box of the data.
    territory = ", ".join(_words(wording.language, metas.get("territory")))
    places = (place_of(dcat.get("spatial"), wording.language), territory, place_of(metas.get("bbox"), wording.language))
    start, end = dcat.get("temporal_coverage_start"), dcat.get("temporal_coverage_end")
    period = f"{iso(start) or word(start)}/{iso(end) or word(end)}" if start or end else word(dcat.get("temporal"))
    resources: list[Resource] = []
    if record.get("has_records"):
        for form, media_type in _FORMATS.items():
            url = address.part(identifier, "exports", form)
            resources.append(Resource(url, format=form.upper(), media_type=media_type))
    for kind in ("attachments", "alternative_exports"):
        for file in objects(record.get(kind)):
            name, media_type = word(file.get("id")), word(file.get("mimetype"))
            url = address.part(identifier, kind, name) if name else word(file.get("url"))
            resource = Resource(
                url=url,
                name=word(file.get("title")) or name,
                description=plain(word(file.get("description"))),
                format=format_of(media_type, word(file.get("url")) or url),
                media_type=media_type,
            )
            resources.append(resource)
    return Dataset(
        url=address.item(identifier),
        identifier=identifier,
        title=wording.title or identifier,
        description=wording.description,
        tags=tuple(_words(wording.language, metas.get("keyword"), metas.get("theme"))),
        publisher=one_of(metas.get("publisher"), wording.language) or one_of(dcat.get("creator"), wording.language),
        licence=one_of(metas.get("license"), wording.language) or word(metas.get("license_url")),
        languages=codes_of(filter(None, [*map(word, codes), wording.language, *sorted(wording.others)])),
        issued=iso(dcat.get("issued")) or iso(dcat.get("created")),
        modified=iso(metas.get("modified")),
        spatial=next(filter(None, places), ""),
        temporal=period,
        usual_page=address.item(identifier),
        resources=tuple(resources),
        columns=columns_in(record.get("fields"), wording.language),
        texts=wording.others,
        source=steady(record),
    )


def _words(language: str | None, *values: Any) -> Iterator[str]:
    return filter(None, (one_of(part, language) for value in values for part in listed(value)))


# A portal rejects an offset plus limit above 10,000; a page of a hundred still fits below it.
WINDOW = 9_900


class OpenDataSoftListing(DatedSearch):
    """The listing of a portal's datasets.

    Every answer includes the datasets without a date, because no filter by date returns them.
    """

    version = OpenDataSoftOptions.record_version

    def __init__(self, portal: PortalClient, address: OpenDataSoftAddress, options: OpenDataSoftOptions) -> None:
        super().__init__(portal, address.site, options, steady=steady)
        self._address = address
        self._filter = options.filter

    def read_pages(
        self, *, since: datetime | None = None, place: Any = None, tokens: Tokens | None = None
    ) -> AsyncGenerator[ListingPage]:
        """Yield the datasets, oldest first."""
        return chronology(self._read_page, window=WINDOW, undated_kept=True, confirmed=True, since=since, place=place)

    async def count(self, since: datetime | None = None) -> int | None:
        """Return the number of datasets; with `since`, count only modified datasets.

        Return None if the portal declares no count.
        """
        return _total(self._read(await self._portal.request(self._url(_from(since), limit=0)), "a count"))

    async def _find(self, identifier: str) -> list[Any]:
        """Request one dataset by its identifier; if the option `filter` is set, search for it with that filter."""
        escaped = identifier.replace("\\", "\\\\").replace('"', '\\"')
        searched = self._url(f'dataset_id="{escaped}"', limit=1)
        url = searched if self._filter else self._address.part(identifier)
        try:
            response = await self._portal.request(url, once=True)
        except SourceGoneError:
            return []
        record = self._read(response, "a dataset")
        if self._filter:
            match record:
                case {"results": [record, *_]} | {"datasets": [record, *_]}:
                    return [unwrapped(record)]
            return []
        return [] if record is None else [unwrapped(record)]

    async def _request(self, question: DatedQuestion, rows: int, *, once: bool = False) -> DatedAnswer:
        url = self._question_url(question, rows)
        answer = await self._parse(await self._portal.request(url, could_be_less=rows > 1, once=once), question)
        return answer._replace(full=len(answer.rows) >= rows)

    async def _pass(self, question: DatedQuestion, problem: SourceError) -> DatedAnswer:
        """Return a failed row for a record that cannot be received; try to receive its identifier alone.

        If the identifier cannot be received either, the row may stand for any dataset.
        """
        if not isinstance(problem, TooMuchError) or self._portal.unread < MOST_UNREAD:
            try:
                response = await self._portal.request(self._question_url(question, 1, select="dataset_id"))
                return await self._parse(response, question, problem)
            except (UnreadableError, TooMuchError, FetchTimeoutError):
                if self._portal.unread < MOST_UNREAD and await self.count() is None:
                    raise
        return await super()._pass(question, problem)

    async def _parse(
        self, response: Response, question: DatedQuestion, problem: SourceError | None = None
    ) -> DatedAnswer:
        """Return the rows of an answer; with `problem`, the answer has identifiers of records that failed."""

        def row(record: Any) -> Row:
            dataset = unwrapped(record)
            if problem is not None and (identifier := identifier_of(dataset)):
                return Row(Failed(self._build_url(identifier), str(problem)))
            return self._row(dataset)

        data = self._read(response, "a list of datasets")
        match data:
            case {"results": list(records)} | {"datasets": list(records)}:
                rows = await one_by_one(row, records)
            case _:
                raise UnreadableError(f"{redact(response.url)} answered with JSON that is no list of datasets.")
        total = _total(data)
        more = total is None or question.skip + len(rows) < total
        return DatedAnswer(rows, total, self._portal.clock(response), more)

    def _build_url(self, identifier: str) -> str:
        return self._address.item(identifier)

    def _parse_url(self, url: str) -> str:
        return self._address.identifier(url)

    def _identify(self, record: Any) -> str:
        return identifier_of(record)

    def _date(self, record: Any) -> Any:
        return metas_of(record).get("modified")

    def _map(self, record: Json, url: str) -> Dataset:
        return dataset_of(record, self._address, language=self._options.language)

    def _question_url(self, question: DatedQuestion, rows: int, **more: str) -> str:
        dated = _from(question.after)
        where = f"({dated} or modified is null)" if dated else None
        return self._url(where, limit=rows, offset=question.skip, order_by="modified", **more)

    def _url(self, where: str | None, **arguments: str | int) -> str:
        own = f"({self._filter})" if self._filter else None
        conditions = " and ".join(filter(None, (where, own)))
        query = {"limit": arguments.pop("limit"), **({"where": conditions} if conditions else {}), **arguments}
        return f"{self._address.datasets}?{urlencode(query)}"

    def _read(self, response: Response, what: str) -> Any:
        data = read_json(response.body, redact(response.url))
        if isinstance(data, dict) and "error_code" in data:
            error = data.get("message") or data["error_code"]
            raise SourceError(f"{self._address.datasets} reports an error instead of {what}: {error}.")
        return data


def _from(since: datetime | None) -> str | None:
    return f"modified >= date'{since:%Y-%m-%dT%H:%M:%SZ}'" if since else None


def _total(data: Any) -> int | None:
    match data:
        case {"total_count": int(total)} if not isinstance(total, bool):
            return total
    return None


class OpenDataSoft(SingleRecords):
    """Connector for OpenDataSoft portals."""

    kind = "opendatasoft"
    Options = OpenDataSoftOptions
    accept = staticmethod(accept)

    @staticmethod
    def is_typical(address: str) -> bool:
        """Return whether the address alone identifies OpenDataSoft, by its host or its API path."""
        return _TELLING.fullmatch(address.partition("?")[0]) is not None

    @classmethod
    async def probe(cls, probe: Probe) -> str | None:
        """Return the portal at an address if the address is its API root or if its API answers; None otherwise."""
        if probe.page is not None and is_root(probe.page.body):
            return accept(probe.url)
        match await probe.json(f"{OpenDataSoftAddress.of(probe.origin).datasets}?limit=0"):
            case {"total_count": int(), "results": list()}:
                return probe.origin
        return None

    def _open_listing(self, client: Client, known: Known) -> Listing:
        address, key = OpenDataSoftAddress.of(self._url), self._options.api_key
        secrets = {"Authorization": f"Apikey {key}"} if key else None
        portal = PortalClient(
            client, address.api, self._options, now=self._tools.now, secrets=secrets, key_option="api_key"
        )
        return OpenDataSoftListing(portal, address, self._options)
