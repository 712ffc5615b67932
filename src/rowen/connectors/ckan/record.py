"""A CKAN package becomes a dataset."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from rowen.connectors.catalog.dataset import Dataset, Resource, kind_named, place_of
from rowen.connectors.catalog.dates import iso
from rowen.connectors.catalog.resources import columns_of_schema, format_of, size_of
from rowen.connectors.catalog.text import codes_of, one_of, plain, word, wordings
from rowen.connectors.ckan.address import CkanAddress

__all__ = ["dataset_of", "steady"]

# They change with other records, or when the record is viewed.
_VOLATILE = frozenset(
    {"tracking_summary", "num_followers", "package_count", "followers", "views_total", "views_recent", "score"}
)
_NESTED = ("organization", "groups", "resources")
# DKAN calls its extras by their labels.
_DKAN_PLACE = "spatial / geographical coverage"
# CKAN has no fields of its own for coverage: these are those of its extensions, and of data.gov.au and Zürich.
_PLACES = ("spatial", "spatial_coverage", "spatialRelationship", *(f"{_DKAN_PLACE} {n}" for n in ("area", "location")))
_PERIODS = (
    ("temporal_start", "temporal_end"),
    ("temporal_coverage_from", "temporal_coverage_to"),
    ("temporal-extent-begin", "temporal-extent-end"),
)
# Of ISO 19115 as ckanext-spatial keeps it, of DCAT as ckanext-dcat does, and the type of the package itself.
_KINDS = ("resource-type", "hierarchy_level", "dcat_type", "type")
_TIMES = ("temporal_coverage", "temporal", "timeRange", "temporal coverage")


def dataset_of(record: Mapping[str, Any], address: CkanAddress, *, language: str | None = None) -> Dataset:
    """Return the dataset of a package; missing values stay empty."""
    identifier = word(record.get("id"))
    extras = _extras(record.get("extras"))
    notes = record.get("notes") or record.get("description")
    said = wordings(record.get("title"), notes, preferred=language)
    name = word(record.get("name"))
    return Dataset(
        url=address.item(identifier),
        identifier=identifier,
        title=said.title or name,
        description=said.description,
        tags=tuple(_tags(record, said.language)),
        publisher=_publisher(record, extras, said.language),
        licence=_licence(record, said.language),
        languages=_languages(record.get("language") or extras.get("language"), said.language, said.others),
        issued=iso(record.get("issued") or extras.get("issued")) or iso(record.get("metadata_created")),
        modified=iso(record.get("modified") or extras.get("modified")) or iso(record.get("metadata_modified")),
        spatial=_place(record, extras, said.language),
        temporal=_period(record, extras),
        usual_page=address.item(name or identifier),
        name=name,
        resources=tuple(_resource(object_, said.language) for object_ in _objects(record.get("resources"))),
        record_kind=_record_kind(record, extras),
        texts=said.others,
        source=steady(record),
    )


def _resource(one: Mapping[str, Any], language: str | None) -> Resource:
    url, media_type = word(one.get("url")), word(one.get("mimetype") or one.get("media_type"))
    return Resource(
        url=url,
        name=one_of(one.get("name"), language) or one_of(one.get("title"), language),
        description=plain(one_of(one.get("description"), language)),
        format=one_of(one.get("format"), language) or format_of(media_type, url),
        media_type=media_type,
        size_bytes=size_of(one.get("size") or one.get("byte_size")),
        columns=columns_of_schema(one, language),
    )


def _record_kind(record: Mapping[str, Any], extras: Mapping[str, Any]) -> str | None:
    """Return the record kind of a package: from harvested metadata, an extension's package type, or data.gov's mark."""
    if word(_either(record, extras, "collection_metadata")).casefold() == "true":
        return "series"
    return kind_named(word(_either(record, extras, name)) for name in _KINDS)


def _tags(record: Mapping[str, Any], language: str | None) -> Iterable[str]:
    for tag in _list(record.get("tags")):
        name = one_of(tag.get("display_name") or tag.get("name"), language) if isinstance(tag, Mapping) else word(tag)
        if name:
            yield name
    keywords = record.get("keywords")
    for words in keywords.values() if isinstance(keywords, Mapping) else [keywords]:
        yield from filter(None, map(word, _list(words)))

    if not _is_dkan(record):
        yield from _group_names(record, language)


def _group_names(record: Mapping[str, Any], language: str | None) -> Iterator[str]:
    for group in _list(record.get("groups")):
        names = (
            (group.get(name) for name in ("display_name", "title", "name")) if isinstance(group, Mapping) else [group]
        )
        if said := _first(one_of(name, language) for name in names):
            yield said


def _is_dkan(record: Mapping[str, Any]) -> bool:
    """Return whether a record is DKAN's, which has no organisations: a group is the publisher."""
    return "organization" not in record and "owner_org" not in record


def _publisher(record: Mapping[str, Any], extras: Mapping[str, Any], language: str | None) -> str:
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


def _licence(record: Mapping[str, Any], language: str | None) -> str:
    for name in ("license_title", "license_id", "license_url", "license"):
        if said := one_of(record.get(name), language):
            return said
    rights = {word(object_.get("license") or object_.get("rights")) for object_ in _objects(record.get("resources"))}
    return rights.pop() if len(rights) == 1 else ""


def _languages(value: Any, main: str | None, others: Iterable[str]) -> tuple[str, ...]:
    if isinstance(value, str) and value.startswith("["):
        value = _unpacked(value)
    codes = codes_of(code for one in _list(value) if (code := word(one)))
    return codes or tuple(dict.fromkeys([main, *sorted(others)] if main else []))


def _unpacked(text: str) -> Any:
    """Return an extra holds texts only: a list in it is written as JSON."""
    with suppress(ValueError, RecursionError):
        return json.loads(text)
    return text


def _place(record: Mapping[str, Any], extras: Mapping[str, Any], language: str | None) -> str:
    for name in _PLACES:
        value = _either(record, extras, name)
        if value and (said := place_of(value, language)):
            return said
    return ""


def _period(record: Mapping[str, Any], extras: Mapping[str, Any]) -> str:
    pairs = [(_either(record, extras, first), _either(record, extras, last)) for first, last in _PERIODS]
    for name in ("temporals", "temporal_coverage"):
        spans = _objects(_either(record, extras, name))
        pairs += [
            (span.get("start_date") or span.get("start"), span.get("end_date") or span.get("end")) for span in spans
        ]
    periods = [f"{iso(start) or word(start)}/{iso(end) or word(end)}" for start, end in pairs if start or end]
    return ", ".join(dict.fromkeys(periods)) or _first(word(_either(record, extras, name)) for name in _TIMES)


def _first(texts: Iterable[str]) -> str:
    return next(filter(None, texts), "")


def _either(record: Mapping[str, Any], extras: Mapping[str, Any], name: str) -> Any:
    return record.get(name) or extras.get(name)


def _extras(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    extras = {str(object_.get("key")): object_.get("value") for object_ in _objects(value)}
    return {**{name.casefold(): value for name, value in extras.items()}, **extras}


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in _list(value) if isinstance(one, Mapping)]


def _list(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    return [] if value is None or value == "" else [value]


def steady(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record without what moves by itself."""
    steadied = {name: value for name, value in record.items() if name not in _VOLATILE}
    for name in _NESTED:
        match steadied.get(name):
            case dict() as one:
                steadied[name] = _without(one)
            case list() as several:
                steadied[name] = [_without(one) if isinstance(one, dict) else one for one in several]
    return steadied


def _without(one: dict[str, Any]) -> dict[str, Any]:
    if _VOLATILE.isdisjoint(one):
        return one
    return {name: value for name, value in one.items() if name not in _VOLATILE}
