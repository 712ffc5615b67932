"""Map CKAN packages to datasets."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from rowen.connectors.catalog.dataset import Dataset, Resource, kind_named, place_of
from rowen.connectors.catalog.dates import iso
from rowen.connectors.catalog.records import Json, listed, objects
from rowen.connectors.catalog.resources import columns_of_schema, format_of, size_of
from rowen.connectors.catalog.text import codes_of, one_of, plain, word, wordings
from rowen.connectors.ckan.address import CkanAddress

# These values change with other records, or when the record is viewed.
_VOLATILE = frozenset(
    {"tracking_summary", "num_followers", "package_count", "followers", "views_total", "views_recent", "score"}
)
_NESTED = ("organization", "groups", "resources")
# DKAN uses the labels of its extras as their keys.
_DKAN_PLACE = "spatial / geographical coverage"
# CKAN itself has no fields for coverage: these come from its extensions, and from data.gov.au and Zürich.
_PLACES = ("spatial", "spatial_coverage", "spatialRelationship", *(f"{_DKAN_PLACE} {n}" for n in ("area", "location")))
_PERIODS = (
    ("temporal_start", "temporal_end"),
    ("temporal_coverage_from", "temporal_coverage_to"),
    ("temporal-extent-begin", "temporal-extent-end"),
)
# The type by ISO 19115 (ckanext-spatial), by DCAT (ckanext-dcat), and the type of the package itself.
_KINDS = ("resource-type", "hierarchy_level", "dcat_type", "type")
_TIMES = ("temporal_coverage", "temporal", "timeRange", "temporal coverage")


def dataset_of(record: Json, address: CkanAddress, *, language: str | None = None) -> Dataset:
    """Return the dataset of a package; missing values stay empty."""
    identifier = word(record.get("id"))
    extras = record.get("extras")
    if not isinstance(extras, Mapping):
        named = {str(extra.get("key")): extra.get("value") for extra in objects(extras)}
        extras = {**{name.casefold(): value for name, value in named.items()}, **named}
    notes = record.get("notes") or record.get("description")
    wording = wordings(record.get("title"), notes, preferred=language)
    name = word(record.get("name"))
    places = (place_of(value, wording.language) for field in _PLACES if (value := _either(record, extras, field)))
    # A collection by the flag of data.gov; otherwise the type of harvested metadata or of the package.
    is_collection = word(_either(record, extras, "collection_metadata")).casefold() == "true"
    record_kind = "series" if is_collection else kind_named(word(_either(record, extras, name)) for name in _KINDS)
    languages = record.get("language") or extras.get("language")
    if isinstance(languages, str) and languages.startswith("["):
        # An extra can contain only text, so a list in it is written as JSON.
        with suppress(ValueError, RecursionError):
            languages = json.loads(languages)
    return Dataset(
        url=address.item(identifier),
        identifier=identifier,
        title=wording.title or name,
        description=wording.description,
        tags=tuple(_tags(record, wording.language)),
        publisher=_publisher(record, extras, wording.language),
        licence=_licence(record, wording.language),
        languages=codes_of(filter(None, map(word, listed(languages))))
        or tuple(dict.fromkeys([wording.language, *sorted(wording.others)] if wording.language else [])),
        issued=iso(record.get("issued") or extras.get("issued")) or iso(record.get("metadata_created")),
        modified=iso(record.get("modified") or extras.get("modified")) or iso(record.get("metadata_modified")),
        spatial=_first(places),
        temporal=_period(record, extras),
        usual_page=address.item(name or identifier),
        name=name,
        resources=tuple(_resource(resource, wording.language) for resource in objects(record.get("resources"))),
        record_kind=record_kind,
        texts=wording.others,
        source=steady(record),
    )


def _resource(resource: Json, language: str | None) -> Resource:
    url, media_type = word(resource.get("url")), word(resource.get("mimetype") or resource.get("media_type"))
    return Resource(
        url=url,
        name=one_of(resource.get("name"), language) or one_of(resource.get("title"), language),
        description=plain(one_of(resource.get("description"), language)),
        format=one_of(resource.get("format"), language) or format_of(media_type, url),
        media_type=media_type,
        size_bytes=size_of(resource.get("size") or resource.get("byte_size")),
        columns=columns_of_schema(resource, language),
    )


def _tags(record: Json, language: str | None) -> Iterable[str]:
    for tag in listed(record.get("tags")):
        name = one_of(tag.get("display_name") or tag.get("name"), language) if isinstance(tag, Mapping) else word(tag)
        if name:
            yield name
    keywords = record.get("keywords")
    for words in keywords.values() if isinstance(keywords, Mapping) else [keywords]:
        yield from filter(None, map(word, listed(words)))
    if not _is_dkan(record):
        yield from _group_names(record, language)


def _group_names(record: Json, language: str | None) -> Iterator[str]:
    for group in listed(record.get("groups")):
        fields = ("display_name", "title", "name")
        names = [group.get(field) for field in fields] if isinstance(group, Mapping) else [group]
        if said := _first(one_of(name, language) for name in names):
            yield said


def _is_dkan(record: Json) -> bool:
    """Return whether a record comes from DKAN, which has no organisations: a group is the publisher."""
    return "organization" not in record and "owner_org" not in record


def _publisher(record: Json, extras: Json, language: str | None) -> str:
    publisher, organization = record.get("publisher"), record.get("organization")
    if isinstance(publisher, list):
        publisher = publisher[0] if publisher else None
    if isinstance(publisher, Mapping):
        publisher = publisher.get("name")
    named = one_of(publisher, language) or one_of(extras.get("publisher_name"), language)
    if not named and _is_dkan(record):
        named = _first(_group_names(record, language))
    if named or not isinstance(organization, Mapping):
        return named or one_of(record.get("author"), language)
    return one_of(organization.get("title"), language) or word(organization.get("name"))


def _licence(record: Json, language: str | None) -> str:
    for name in ("license_title", "license_id", "license_url", "license"):
        if said := one_of(record.get(name), language):
            return said
    rights = {word(resource.get("license") or resource.get("rights")) for resource in objects(record.get("resources"))}
    return rights.pop() if len(rights) == 1 else ""


def _period(record: Json, extras: Json) -> str:
    pairs = [(_either(record, extras, first), _either(record, extras, last)) for first, last in _PERIODS]
    for name in ("temporals", "temporal_coverage"):
        spans = objects(_either(record, extras, name))
        pairs += [
            (span.get("start_date") or span.get("start"), span.get("end_date") or span.get("end")) for span in spans
        ]
    periods = [f"{iso(start) or word(start)}/{iso(end) or word(end)}" for start, end in pairs if start or end]
    return ", ".join(dict.fromkeys(periods)) or _first(word(_either(record, extras, name)) for name in _TIMES)


def _first(texts: Iterable[str]) -> str:
    return next(filter(None, texts), "")


def _either(record: Json, extras: Json, name: str) -> Any:
    return record.get(name) or extras.get(name)


def steady(record: Json) -> dict[str, Any]:
    """Return the record without volatile values."""

    def stripped(value: Any) -> Any:
        if not isinstance(value, dict) or _VOLATILE.isdisjoint(value):
            return value
        return {name: part for name, part in value.items() if name not in _VOLATILE}

    steadied = {name: value for name, value in record.items() if name not in _VOLATILE}
    for name in _NESTED:
        if name in steadied:
            value = steadied[name]
            steadied[name] = [*map(stripped, value)] if isinstance(value, list) else stripped(value)
    return steadied
