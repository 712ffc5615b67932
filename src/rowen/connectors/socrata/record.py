"""A result of Socrata's Discovery API becomes a dataset."""

import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

from rowen.connectors.catalog.columns import Column, columns_in
from rowen.connectors.catalog.dataset import Dataset, Resource
from rowen.connectors.catalog.dates import iso
from rowen.connectors.catalog.languages import word, wordings
from rowen.connectors.catalog.record_kinds import kind_named
from rowen.connectors.catalog.resources import format_of
from rowen.connectors.catalog.rows import Json, listed, objects, without
from rowen.connectors.socrata.address import item
from rowen.model.url import SEGMENT, segment

__all__ = ["dataset_of", "identifier_of", "modified_of", "steady"]

# They move whenever somebody looks.
_VOLATILE = frozenset({"page_views", "download_count", "view_count", "score"})
_PLACES = ("spatial", "geographic", "geospatial")
_PUBLISHERS = ("publisher", "agency", "department", "organi")
_NO_NAME = re.compile(r"@|://|\b(?:e-?mail|url|link|website|type|contact|phone|id|code|address)\b", re.IGNORECASE)
_PERIODS = ("temporal", "time-period", "time period")


def identifier_of(record: Any) -> str:
    """Socrata's name for an asset: twice four letters or digits."""
    return word(_part(record, "resource").get("id"))


def modified_of(record: Any) -> Any:
    """When an asset, its data or its description was last changed."""
    return _part(record, "resource").get("updatedAt")


def steady(record: Json) -> Json:
    """A record without what moves by itself."""
    return without(record, _VOLATILE)


def dataset_of(record: Json, site: str, *, language: str | None = None) -> Dataset:
    """What a record says; whatever it lacks is left out."""
    resource, classes = _part(record, "resource"), _part(record, "classification")
    identifier = identifier_of(record)
    said = wordings(resource.get("name"), resource.get("description"), preferred=language)
    told = {word(one.get("key")).casefold(): word(one.get("value")) for one in objects(classes.get("domain_metadata"))}
    tags = [*listed(classes.get("domain_tags")), *listed(classes.get("tags")), classes.get("domain_category")]
    return Dataset(
        url=item(site, identifier),
        identifier=identifier,
        title=said.title or identifier,
        description=said.description,
        tags=tuple(filter(None, map(word, [*tags, *listed(classes.get("categories"))]))),
        publisher=word(resource.get("attribution"))
        or _publisher(told)
        or word(_part(record, "metadata").get("domain")),
        licence=word(_part(record, "metadata").get("license")),
        languages=tuple(filter(None, [said.language, *sorted(said.others)])),
        issued=iso(resource.get("publication_date")) or iso(resource.get("createdAt")),
        modified=iso(modified_of(record)),
        spatial=_told(told, _PLACES),
        temporal=_told(told, _PERIODS),
        landing_page=word(record.get("link")) or word(record.get("permalink")),
        usual_page=item(site, identifier),
        resources=tuple(_resources(resource, site, identifier)),
        columns=_columns(resource),
        record_kind=kind_named([word(resource.get("type"))]),
        texts=said.others,
        source=steady(record),
    )


def _part(record: Any, name: str) -> Json:
    match record:
        case {**parts} if isinstance(found := parts.get(name), Mapping):
            return found
    return {}


def _told(told: Mapping[str, str], names: tuple[str, ...]) -> str:
    """What a portal's own fields say, whatever group it put them into."""
    return next((value for key, value in sorted(told.items()) if any(name in key for name in names)), "")


def _publisher(told: Mapping[str, str]) -> str:
    """Who publishes an asset, as a portal's own fields say: the account that owns it is mostly a person's."""
    fields = sorted((key.rpartition("_")[2].replace("-", " "), value) for key, value in told.items())
    named = [(field, value) for field, value in fields if not _NO_NAME.search(field) and not _NO_NAME.search(value)]
    return next((value for name in _PUBLISHERS for field, value in named if name in field and value), "")


def _columns(resource: Json) -> tuple[Column, ...]:
    """The columns, told in lists side by side; those that Socrata computes itself are of no portal's own."""
    told = (listed(resource.get(f"columns_{part}")) for part in ("field_name", "name", "datatype"))
    rows = zip_longest(*(map(word, part) for part in told), fillvalue="")
    fields = [{"name": name, "label": label, "type": kind} for name, label, kind in rows]
    return columns_in([one for one in fields if not one["name"].startswith(":")])


def _resources(resource: Json, site: str, identifier: str) -> Iterator[Resource]:
    name = segment(identifier, safe=SEGMENT)
    match word(resource.get("type")):
        case "dataset":
            rows = f"{site}/api/views/{name}/rows"
            yield Resource(f"{rows}.csv?accessType=DOWNLOAD", format="CSV", media_type="text/csv")
            yield Resource(f"{rows}.json?accessType=DOWNLOAD", format="JSON", media_type="application/json")
        case "map":
            url = f"{site}/api/geospatial/{name}?method=export&format=GeoJSON"
            yield Resource(url, format="GeoJSON", media_type="application/geo+json")
        case "file":
            media_type = word(resource.get("blob_mime_type"))
            yield Resource(f"{site}/download/{name}", format=format_of(media_type), media_type=media_type)
