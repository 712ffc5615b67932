"""An item of ArcGIS becomes a dataset: a feature of Hub's search, or a result of a portal's."""

from collections.abc import Iterator, Mapping
from typing import Any

from rowen.connectors.catalog.dataset import Dataset, Resource
from rowen.connectors.catalog.dates import iso
from rowen.connectors.catalog.languages import word, wordings
from rowen.connectors.catalog.rows import Json, listed, without
from rowen.connectors.catalog.text import plain

__all__ = ["dataset_of", "facts_of", "identifier_of"]

# They move whenever somebody looks or rates, or with the platform's own idea of a good record.
_VOLATILE = frozenset(
    {
        *("numViews", "avgRating", "numRatings", "numComments", "scoreCompleteness", "lastViewed", "usage"),
        *("hubScore", "searchScore", "score", "timeStamp"),
    }
)
_NO_LICENCE = frozenset({"", "none", "custom"})


def facts_of(record: Any) -> Json:
    """What a record says of its item, which a feature has in its properties."""
    if not isinstance(record, Mapping):
        return {}
    inner = record.get("properties")
    return inner if isinstance(inner, Mapping) else record


def identifier_of(record: Any) -> str:
    """ArcGIS's name for an item; a layer has its number behind it."""
    own = word(record.get("id")) if isinstance(record, Mapping) else ""
    return own or word(facts_of(record).get("id"))


def dataset_of(record: Json, url: str, *, language: str | None = None) -> Dataset:
    """What a record says; whatever it lacks is left out."""
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
        languages=tuple(filter(None, [word(facts.get("culture"))])),
        issued=iso(facts.get("created")),
        modified=iso(facts.get("modified")),
        spatial=_extent(facts.get("extent")),
        landing_page=url,
        resources=tuple(_resources(facts)),
        texts=said.others,
        source=without(record, _VOLATILE),
    )


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
    return ""


def _resources(facts: Json) -> Iterator[Resource]:
    if url := word(facts.get("url")):
        size = facts.get("size")
        known = isinstance(size, int) and not isinstance(size, bool) and size > 0
        yield Resource(url, format=word(facts.get("type")), size_bytes=size if known else None)
