"""Dataset records: their kinds, duplicates across portals, and pages of the published catalog.

Duplicates are detected by match keys called marks, which are hashes of 63 bits. Strong marks are positive: they come
from global identifiers. Weak marks are negative: they come from the landing page and the content, which different
datasets of one portal may share.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from rowen.errors import UsageError
from rowen.model.hashes import Hash
from rowen.model.items import Document
from rowen.model.url import canonical, is_link

DATASET = "application/vnd.rowen.dataset+json"
MOST_HOLDERS = 50
"""The maximum number of listings of one dataset: cities or ministries publish it, national and continental portals copy
it.
"""

MOST_OF_ONE = {True: 3, False: 1}
"""The maximum number of items in one source that may share a strong mark (True) or a weak mark (False). Editions of a
dataset share its DOI. A page or text that two records of one source share proves nothing.
"""

# The length of a sentence. Shorter texts ("No description.") occur in different datasets.
ENOUGH_CHARACTERS = 40
# A record has one or two identifiers of its own; a longer list contains identifiers of works that it cites.
MOST_STRONG = 10

# ArcGIS appends the number of a layer to the identifier of the item.
_UUID = re.compile(
    r"(?:.*[/=:#{])?([0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12})"
    r"(?:(?:_|&(?:sub)?layer=)(\d{1,4}))?\}?(?:@.*)?",
    re.IGNORECASE,
)
# Socrata publishes an asset under several addresses.
_ASSET = re.compile(
    r"https?://([^/]+)/(?:api/views|d|resource)/((?!\d{4}-\d{4})[a-z0-9]{4}-[a-z0-9]{4})", re.IGNORECASE
)
_DOI = re.compile(r"(?:doi:|https?://(?:dx\.|www\.)?doi\.org/)?(10\.\d{4,9}/\S+)", re.IGNORECASE)
_NAME = re.compile(r"(?:(urn:[a-z0-9-]+)|(oai:[a-z0-9.-]+)):(\S+)", re.IGNORECASE)
_WEB = re.compile(r"https?://", re.IGNORECASE)
# These identifiers belong to a series rather than to its parts.
_SERIES = ("urn:issn", "urn:isbn")

_IDENTIFIERS = frozenset(
    {
        *("@id", "identifier", "guid", "uri", "doi", "sameas", "fileidentifier", "alternate_identifier"),
        *("metadata_original_id", "original_id", "source_identifier"),
    }
)
_PAGES = frozenset({"url", "landingpage", "landing_page"})
_VALUES = ("@value", "@id", "value", "identifier", "notation", "#text")


@dataclass(frozen=True, slots=True)
class TwinItem:
    """The listing of a dataset in one source; `names` are the hosts to which its record points."""

    id: int
    source: str
    url: str
    title: str
    key: Hash
    host: str
    issued: str
    created_at: datetime
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class TwinGroup:
    """One dataset that several sources list; `copies` are all listings except the original, by source and URL."""

    original: TwinItem
    copies: tuple[TwinItem, ...]

    @property
    def name(self) -> str:
        """A short unique name of the group."""
        return self.original.key.hex()[:16]

    @property
    def members(self) -> tuple[TwinItem, ...]:
        """All listings, the original first."""
        return (self.original, *self.copies)


def marks(document: Document) -> tuple[int, ...] | None:
    """Return the marks of a document; None if the document is not a dataset."""
    if document.media_type != DATASET:
        return None
    return marks_of(document.record, url=document.url, text=document.text, content_hash=document.content_hash)


def written(document: Document) -> str | None:
    """Return the marks of a document in their stored form; None if the document is not a dataset."""
    numbers = marks(document)
    return None if numbers is None else as_array(numbers)


def as_array(numbers: tuple[int, ...]) -> str:
    """Return marks in the array notation of PostgreSQL."""
    return f"{{{','.join(map(str, numbers))}}}"


def marks_of(record: Mapping[str, Any], *, url: str, text: str, content_hash: Hash) -> tuple[int, ...]:
    """Return the marks of a dataset, computed from its URL, global identifiers, landing page and content."""
    page = _word(record.get("landing_page"))
    identifiers = [url, _word(record.get("identifier")), *sorted(_said(record.get("source"), _IDENTIFIERS))]
    identifiers += [page] if _DOI.fullmatch(page) else []
    strong = list(dict.fromkeys(name for identifier in identifiers for name in _global_names(identifier)))
    weak = [f"page {address}" for address in {_address(url), _address(page)} if address]
    if len(text) >= ENOUGH_CHARACTERS:
        weak.append(f"content {content_hash.hex()}")
    return tuple(sorted({*map(_number, strong[:MOST_STRONG]), *(-_number(name) for name in weak)}))


def page_mark(url: str) -> int | None:
    """Return the mark of a URL or landing page; None if `url` is not a web address with a path or query."""
    address = _address(url)
    return -_number(f"page {address}") if address else None


def named_hosts(record: Mapping[str, Any]) -> frozenset[str]:
    """Return the hosts of a record's identifier and landing page; a copied record names the host of the original."""
    identifiers = [_word(record.get("identifier")), _word(record.get("landing_page"))]
    identifiers += _said(record.get("source"), _IDENTIFIERS | _PAGES)
    return frozenset(host for identifier in identifiers if _WEB.match(identifier) and (host := host_of(identifier)))


def host_of(url: str) -> str:
    """Return the host of an address without `www.`, with its port unless the port is 80 or 443."""
    with suppress(ValueError):
        parts = urlsplit(url)
        host = (parts.hostname or "").removeprefix("www.")
        return host if parts.port in (None, 80, 443) else f"{host}:{parts.port}"
    return ""


def original(listings: Collection[TwinItem]) -> TwinItem:
    """Return the listing from which the others were copied.

    The original points to the host of no other listing, and most other listings point to its host. On a tie, return
    the listing that was issued first, else the one that was harvested first.
    """

    def rank(listing: TwinItem) -> tuple[bool, int, str, datetime, int]:
        others = [other for other in listings if other.host != listing.host]
        points_elsewhere = any(other.host in listing.names for other in others)
        pointed_at = sum(listing.host in other.names for other in others)
        return points_elsewhere, -pointed_at, listing.issued or "9999", listing.created_at, listing.id

    return min(listings, key=rank)


@dataclass(slots=True)
class Families:
    """Groups of items that share marks."""

    _parent: dict[int, int] = field(default_factory=dict)
    _source: dict[int, int] = field(default_factory=dict)

    def join(self, mark: int, holders: Collection[tuple[int, int]]) -> bool:
        """Join the `holders` of a mark (item, source); return False if the mark is too common to identify a dataset."""
        counts = Counter(source for _, source in holders)
        # A mark that occurs often in one source does not identify a dataset there.
        if len(counts) < 2 or len(holders) > MOST_HOLDERS or max(counts.values()) > MOST_OF_ONE[mark > 0]:
            return False
        first: int | None = None
        for item, source in holders:
            self._parent.setdefault(item, item)
            self._source[item] = source
            if first is None:
                first = self._root(item)
            else:
                self._parent[self._root(item)] = first
        return True

    def __iter__(self) -> Iterator[list[int]]:
        """Return the groups that have items of several sources, each sorted."""
        families: dict[int, list[int]] = {}
        for item in sorted(self._parent):
            families.setdefault(self._root(item), []).append(item)
        return (family for family in families.values() if len({self._source[item] for item in family}) > 1)

    def _root(self, item: int) -> int:
        while (parent := self._parent[item]) != item:
            self._parent[item] = item = self._parent[parent]
        return item


def _number(name: str) -> int:
    return int.from_bytes(blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()) >> 1 or 1


def _said(source: Any, names: frozenset[str]) -> Iterator[str]:
    """Yield the values of the fields `names` in a source's own record, in any vocabulary, including CKAN's extras."""
    if not isinstance(source, dict):
        return
    for name in source:
        if _local(name) in names:
            yield from _words(source[name])
    extras = source.get("extras")
    if isinstance(extras, dict):
        yield from _said({name: value for name, value in extras.items() if name != "extras"}, names)
    elif isinstance(extras, list):
        for extra in extras:
            if isinstance(extra, dict) and isinstance(name := extra.get("key"), str) and _local(name) in names:
                yield from _words(extra.get("value"))


@lru_cache(4096)
def _local(name: str) -> str:
    """Return the local part of a field name: `identifier` for `dct:identifier` and for its full IRI."""
    return re.split(r"[:/#]", name)[-1].lower()


def _words(value: Any, depth: int = 2) -> Iterator[str]:
    match value:
        case str():
            if text := _word(value):
                yield text
        case list() if depth:
            for inner in value[:MOST_STRONG]:
                yield from _words(inner, depth - 1)
        case dict() if depth:
            for name in _VALUES:
                yield from _words(value.get(name), depth - 1)


def _word(value: Any) -> str:
    return value.strip() if isinstance(value, str) and len(value) <= 1000 else ""


def _global_names(identifier: str) -> Iterator[str]:
    """Yield the normal forms of a global identifier; nothing if the identifier is valid in one portal only."""
    if "10." in identifier and (doi := _DOI.fullmatch(identifier)):
        yield f"doi {doi[1].lower()}"
        return
    if len(identifier) >= 32 and (uuid := _UUID.fullmatch(identifier)):
        bare = uuid[1].replace("-", "").lower()
        if len(set(bare)) > 2:
            yield f"uuid {bare} {uuid[2] or ''}"
    if asset := _ASSET.fullmatch(identifier):
        yield f"asset {asset[1].lower()} {asset[2].lower()}"
    if name := _NAME.fullmatch(identifier):
        prefix = (name[1] or name[2]).lower()
        if prefix not in _SERIES and prefix != "urn:uuid":
            yield f"{prefix}:{name[3]}"
    elif page := _address(identifier):
        yield f"iri {page}"


@lru_cache(16)
def _address(text: str) -> str:
    """Return an address without scheme and trailing slash; an empty text if the address is only a host."""
    if not _WEB.match(text):
        return ""
    bare, _, fragment = text.partition("#")
    with suppress(ValueError):
        page = canonical(bare).partition("://")[2].rstrip("/")
        return f"{page}#{fragment}" if fragment else page if "/" in page or "?" in page else ""
    return ""


RECORD_KINDS = ("dataset", "series", "service", "map", "application", "document", "other")
"""The kinds of records in catalogs. `series`: datasets that are described together (also called collections).
`service`: an interface to data. `map`: a picture of data. `application`: a program. `document`: a text. `other`:
everything else, and unknown kinds.
"""

USUAL = "dataset"
"""The kind of most records. It is not stored in records, so that records of older databases need not be rewritten."""


def record_kind_of(facts: Mapping[str, Any], media_type: str | None) -> str | None:
    """Return the kind of an item's record; None if the item does not come from a catalog."""
    if media_type != DATASET:
        return None
    kind = facts.get("record_kind")
    return kind if isinstance(kind, str) and kind else USUAL


def check_record_kinds(kinds: Sequence[str]) -> None:
    """Raise `UsageError` if a record kind is unknown."""
    for kind in kinds:
        if kind not in RECORD_KINDS:
            raise UsageError(f"Unknown record kind {kind!r}.", hint=f"There are: {', '.join(RECORD_KINDS)}.")


class CatalogPlace(NamedTuple):
    """The position after a page of the catalog: the source number and key of the page's last dataset."""

    source_id: int
    key: bytes

    def __str__(self) -> str:
        return f"{self.source_id}x{self.key.hex()}"

    @classmethod
    def parse(cls, text: str) -> "CatalogPlace":
        """Parse a position in an address; raise `ValueError` if it is invalid."""
        source_id, _, key = text.partition("x")
        # Source numbers have 64 bits.
        if not (source_id.isascii() and source_id.isdigit() and len(source_id) <= 18):
            raise ValueError(text)
        return cls(int(source_id), bytes.fromhex(key))


@dataclass(frozen=True, slots=True)
class ListedDataset:
    """One dataset in a list; `facts` has the fields that all catalogs share, without the portal's own record."""

    key: bytes
    source: str
    url: str
    title: str
    text: str
    tags: tuple[str, ...]
    language: str | None
    updated_at: datetime
    facts: Mapping[str, Any]

    def said(self, name: str) -> str | None:
        """Return a text field; None if it is absent."""
        value = self.facts.get(name)
        return value if isinstance(value, str) and value else None

    def link(self, name: str) -> str | None:
        """Return an address field if the address may be published as a link, else None."""
        value = self.said(name)
        return value if value is not None and is_link(value) else None

    def listed(self, name: str) -> list[Any]:
        """Return a list field; empty if it is absent."""
        value = self.facts.get(name)
        return value if isinstance(value, list) else []


@dataclass(frozen=True, slots=True)
class CatalogPage:
    """Datasets in the order of source and key, and the position of the next page; None if this page is the last."""

    datasets: tuple[ListedDataset, ...]
    next: CatalogPlace | None
