"""Two ways to ask ArcGIS for its items: the search of a Hub site, and that of a portal."""

from datetime import datetime
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from rowen.connectors.catalog.portal_client import PortalClient
from rowen.connectors.catalog.rows import objects
from rowen.errors import SourceError, SourceGoneError
from rowen.formats.errors import UnreadableError
from rowen.formats.json import read_json
from rowen.model.url import SEGMENT, quoted, segment

__all__ = ["Found", "Hub", "Portal", "SearchDialect", "read"]

CLAMP = 10_000
"""A count of this much may stand for any larger one: the index behind ArcGIS stops counting there."""

_REFUSED = frozenset({401, 403, 498, 499})


class Found(NamedTuple):
    """One page: its records, how many there are in all if that is told, and whether there are more."""

    records: list[Any]
    total: int | None
    more: bool


class SearchDialect(Protocol):
    """How to ask, and how to understand."""

    url: str

    def ask(self, after: datetime | None, *, skip: int, rows: int) -> str:
        """The question for a page, oldest first."""
        ...

    def understand(self, data: Any) -> Found:
        """What an answer says."""
        ...

    def ask_for(self, identifier: str) -> str:
        """The question for one item."""
        ...

    def understand_one(self, data: Any) -> list[Any]:
        """The records in an answer to that."""
        ...

    def item(self, identifier: str) -> str:
        """The URL of an item."""
        ...

    def identifier(self, url: str) -> str:
        """The identifier in the URL of an item."""
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
        """The question for a page, oldest first."""
        wanted: dict[str, str | int] = {"limit": rows, "startindex": skip + 1, "sortBy": "properties.modified"}
        if after is not None:
            wanted["filter"] = f"modified >= {_milliseconds(after)}"
        return f"{self.url}?{urlencode(wanted)}"

    def understand(self, data: Any) -> Found:
        """What an answer says; the end is where no next page is named."""
        match data:
            case {"features": list(records), **rest}:
                more = any(link.get("rel") == "next" for link in objects(rest.get("links")))
                return Found(records, _total(rest.get("numberMatched")), more)
        raise UnreadableError(f"{self.url} answered with JSON that is no list of items.")

    def ask_for(self, identifier: str) -> str:
        """The question for one item."""
        return f"{self.url}/{segment(identifier, safe=SEGMENT)}"

    def understand_one(self, data: Any) -> list[Any]:
        """The item in an answer to that, alone or as the only one of a list."""
        match data:
            case {"features": list(records)}:
                return records
        return [data]

    def item(self, identifier: str) -> str:
        """The page of an item on this site."""
        return f"{self._site}/datasets/{quoted(identifier, safe=SEGMENT)}"

    def identifier(self, url: str) -> str:
        """The identifier in the URL of such a page."""
        return unquote(url.rpartition("/datasets/")[2], errors="surrogatepass")

    async def check(self, portal: PortalClient) -> None:
        """Refuse a site whose catalog has no scope: it would answer with all of ArcGIS."""
        where = f"{self._site}/api/search/v1/catalog"
        try:
            response = await portal.get(where)
        except SourceGoneError:
            return
        filters = _scope(read(response.body, where))
        if filters is not None and not any(isinstance(one, dict) and one.get("predicates") for one in filters):
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
        """The question for a page, oldest first."""
        dated = f" AND modified:[{_milliseconds(after):019} TO {'9' * 19}]" if after is not None else ""
        wanted = {"q": f"({self._words}){dated}" if dated else self._words, "num": rows, "start": skip + 1}
        return f"{self.url}?{urlencode({**wanted, 'sortField': 'modified', 'sortOrder': 'asc', 'f': 'json'})}"

    def understand(self, data: Any) -> Found:
        """What an answer says; the next start is -1 at the end."""
        match data:
            case {"results": list(records), "nextStart": int(following), **rest}:
                return Found(records, _total(rest.get("total")), following > 0)
        raise UnreadableError(f"{self.url} answered with JSON that is no list of items.")

    def ask_for(self, identifier: str) -> str:
        """The question for one item, by the same words."""
        escaped = identifier.replace("\\", "\\\\").replace('"', '\\"')
        wanted = {"q": f'({self._words}) AND id:"{escaped}"', "num": 1, "start": 1, "f": "json"}
        return f"{self.url}?{urlencode(wanted, errors='surrogatepass')}"

    def understand_one(self, data: Any) -> list[Any]:
        """The item in an answer to that."""
        return self.understand(data).records

    def item(self, identifier: str) -> str:
        """The page of an item in this portal."""
        return f"{self._home}/home/item.html?id={quoted(identifier)}"

    def identifier(self, url: str) -> str:
        """The identifier in the URL of such a page."""
        return unquote(url.rpartition("?id=")[2], errors="surrogatepass")

    async def check(self, portal: PortalClient) -> None:
        """A search says itself what it is about."""


def read(body: bytes, where: str) -> Any:
    """The value of a body; ArcGIS reports errors with status 200 as well."""
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
    """The filters of a site's catalog, wherever in the answer that stands; None if it says nothing of them."""
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
