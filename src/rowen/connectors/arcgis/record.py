"""An item of ArcGIS becomes a dataset: a feature of Hub's search, or a result of a portal's."""

from collections.abc import Iterator, Mapping
from typing import Any

from rowen.connectors.catalog.dataset import Dataset, Resource, kind_named, place_of
from rowen.connectors.catalog.dates import iso
from rowen.connectors.catalog.records import Json, listed, objects, without
from rowen.connectors.catalog.resources import Column, columns_in, size_of, together
from rowen.connectors.catalog.text import code_of, plain, word, wordings
from rowen.model.url import segment

__all__ = ["dataset_of", "facts_of", "identifier_of", "steady"]

# They move whenever somebody looks or rates, or with the platform's own idea of a good record.
_VOLATILE = frozenset(
    {
        *("numViews", "avgRating", "numRatings", "numComments", "scoreCompleteness", "lastViewed", "usage"),
        *("hubScore", "searchScore", "score", "timeStamp"),
    }
)
_NO_LICENCE = frozenset({"", "none", "custom"})
_ONLINE = "https://www.arcgis.com"
_ITEM_PAGE = "/home/item.html?"
# Items that are a file, and what ArcGIS sends for them where that is always the same.
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
    """Return the properties of an item."""
    if not isinstance(record, Mapping):
        return {}
    inner = record.get("properties")
    return inner if isinstance(inner, Mapping) else record


def identifier_of(record: Any) -> str:
    """ArcGIS's name for an item; a layer has its number behind it."""
    own = word(record.get("id")) if isinstance(record, Mapping) else ""
    return own or word(facts_of(record).get("id"))


def steady(record: Json) -> Json:
    """Return a record without what moves by itself."""
    return without(record, _VOLATILE)


def dataset_of(record: Json, url: str, *, language: str | None = None) -> Dataset:
    """Return the dataset of a record; missing values stay empty."""
    facts, identifier = facts_of(record), identifier_of(record)
    said = wordings(facts.get("title"), facts.get("description") or facts.get("snippet"), preferred=language)
    return Dataset(
        url=url,
        identifier=identifier,
        title=said.title or word(facts.get("name")) or identifier,
        description=said.description or plain(word(facts.get("snippet"))),
        tags=tuple(_tags(facts)),
        publisher=_first(facts, "source", "orgTitle", "accessInformation", "owner"),
        licence=_licence(facts),
        languages=tuple(filter(None, [_language(word(facts.get("culture")))])),
        issued=iso(facts.get("created")),
        modified=iso(facts.get("modified")),
        spatial=_extent(facts.get("extent")) or place_of(record.get("geometry")),
        temporal=_period(record.get("time")) or _period(facts.get("timeInfo")),
        usual_page=url,
        resources=tuple(_resources(facts, url)),
        columns=_columns(facts),
        record_kind=kind_named([word(facts.get("type"))]) or ("other" if word(facts.get("type")) else None),
        texts=said.others,
        source=steady(record),
    )


def _columns(facts: Json) -> tuple[Column, ...]:
    """Return the fields of a layer, or of all layers of a service, where the listing has them."""
    layers = [facts, facts.get("layer"), *objects(facts.get("layers")), *objects(facts.get("tables"))]
    return together(one for layer in layers if isinstance(layer, Mapping) for one in columns_in(layer.get("fields")))


def _first(facts: Json, *names: str) -> str:
    return next((said for name in names if (said := plain(word(facts.get(name))))), "")


def _licence(facts: Json) -> str:
    for name in ("license", "licenseInfo"):
        said = plain(word(facts.get(name)))
        if said.casefold() not in _NO_LICENCE:
            return said
    return ""


def _tags(facts: Json) -> Iterator[str]:
    yield from filter(None, map(word, listed(facts.get("tags"))))
    for category in filter(None, map(word, listed(facts.get("categories")))):
        yield category.removeprefix("/Categories/").strip("/")


def _extent(value: Any) -> str:
    match value:
        case [[west, south], [east, north]] | {"coordinates": [[west, south], [east, north]]}:
            return ",".join(filter(None, map(word, (west, south, east, north))))
    return place_of(value)


def _language(culture: str) -> str:
    """Return a culture is a code, or the words of a portal for one, as in "english (united states)"."""
    return culture if "(" not in culture else code_of(culture.partition("(")[0]) or culture


def _period(value: Any) -> str:
    """Return the time of a record of OGC, which Hub's features are, or that of a layer."""
    match value:
        case {"interval": [start, end]} | {"timeExtent": [start, end]}:
            span = [_instant(start), _instant(end)]
            return "/".join(said or ".." for said in span) if any(span) else ""
        case {"date": day}:
            return _instant(day)
        case {"timestamp": at}:
            return _instant(at)
    return ""


def _instant(value: Any) -> str:
    return (iso(value) or word(value)).strip(".")


def _resources(facts: Json, page: str) -> Iterator[Resource]:
    kind = word(facts.get("type"))
    url = word(facts.get("url")) or (_data(word(facts.get("id")), page) if kind in _FILES else "")
    if url:
        yield Resource(url, format=kind, media_type=_FILES.get(kind, ""), size_bytes=size_of(facts.get("size")))


def _data(identifier: str, page: str) -> str:
    """Return where the file of an item is, in the portal of its page; the items of Hub are those of ArcGIS Online."""
    portal = page.partition(_ITEM_PAGE)[0] if _ITEM_PAGE in page else _ONLINE
    return f"{portal}/sharing/rest/content/items/{segment(identifier)}/data" if identifier else ""
