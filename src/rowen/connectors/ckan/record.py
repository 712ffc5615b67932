"""A CKAN package becomes a dataset."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from rowen.connectors.catalog.dataset import Dataset, Resource
from rowen.connectors.catalog.dates import iso
from rowen.connectors.catalog.languages import one_of, word, wordings
from rowen.connectors.catalog.text import plain
from rowen.connectors.ckan.address import Address

__all__ = ["dataset_of"]

# They move when other records do, or when somebody looks at this one.
_VOLATILE = frozenset(
    {"tracking_summary", "num_followers", "package_count", "followers", "views_total", "views_recent", "score"}
)
_NESTED = ("organization", "groups", "resources")


def dataset_of(record: Mapping[str, Any], address: Address, *, language: str | None = None) -> Dataset:
    """What a package says; whatever it lacks is left out."""
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
        spatial=_place(record.get("spatial") or extras.get("spatial"), said.language),
        temporal=_period(record, extras),
        landing_page=f"{address.site}/dataset/{name or identifier}",
        resources=tuple(_resource(one, said.language) for one in _objects(record.get("resources"))),
        texts=said.others,
        source=_steady(record),
    )


def _resource(one: Mapping[str, Any], language: str | None) -> Resource:
    size = one.get("size") or one.get("byte_size")
    digits = word(size)
    return Resource(
        url=word(one.get("url")),
        name=one_of(one.get("name"), language) or one_of(one.get("title"), language),
        description=plain(one_of(one.get("description"), language)),
        format=one_of(one.get("format"), language),
        media_type=word(one.get("mimetype") or one.get("media_type")),
        size_bytes=int(digits) if digits.isdecimal() and len(digits) < 19 and digits != "0" else None,
    )


def _tags(record: Mapping[str, Any], language: str | None) -> Iterable[str]:
    for tag in _list(record.get("tags")):
        name = one_of(tag.get("display_name") or tag.get("name"), language) if isinstance(tag, Mapping) else word(tag)
        if name:
            yield name
    keywords = record.get("keywords")
    for words in keywords.values() if isinstance(keywords, Mapping) else [keywords]:
        yield from filter(None, map(word, _list(words)))


def _publisher(record: Mapping[str, Any], extras: Mapping[str, Any], language: str | None) -> str:
    publisher, organization = record.get("publisher"), record.get("organization")
    if isinstance(publisher, Mapping):
        publisher = publisher.get("name")
    named = one_of(publisher, language) or one_of(extras.get("publisher_name"), language)
    if named or not isinstance(organization, Mapping):
        return named or one_of(record.get("author"), language)
    return one_of(organization.get("title"), language) or word(organization.get("name"))


def _licence(record: Mapping[str, Any], language: str | None) -> str:
    for name in ("license_title", "license_id", "license_url", "license"):
        if said := one_of(record.get(name), language):
            return said
    rights = {word(one.get("license") or one.get("rights")) for one in _objects(record.get("resources"))}
    return rights.pop() if len(rights) == 1 else ""


def _languages(value: Any, main: str | None, others: Iterable[str]) -> tuple[str, ...]:
    told = [code for one in _list(value) if (code := word(one))]
    return tuple(dict.fromkeys(told or ([main, *sorted(others)] if main else [])))


def _place(value: Any, language: str | None) -> str:
    said = one_of(value, language)
    return said or (
        json.dumps(value, ensure_ascii=False, sort_keys=True) if isinstance(value, Mapping) and value else ""
    )


def _period(record: Mapping[str, Any], extras: Mapping[str, Any]) -> str:
    both: dict[str, Any] = {**extras, **record}
    spans = [one for one in _list(both.get("temporals")) if isinstance(one, Mapping)]
    pairs = [(both.get("temporal_start"), both.get("temporal_end"))]
    pairs += [(span.get("start_date"), span.get("end_date")) for span in spans]
    told = [f"{iso(start) or word(start)}/{iso(end) or word(end)}" for start, end in pairs if start or end]
    return ", ".join(told) or word(both.get("temporal_coverage") or both.get("temporal"))


def _extras(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    return {str(one.get("key")): one.get("value") for one in _objects(value)}


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in _list(value) if isinstance(one, Mapping)]


def _list(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    return [] if value is None or value == "" else [value]


def _steady(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record without what moves by itself."""
    kept = {name: value for name, value in record.items() if name not in _VOLATILE}
    for name in _NESTED:
        match kept.get(name):
            case dict() as one:
                kept[name] = _without(one)
            case list() as several:
                kept[name] = [_without(one) if isinstance(one, dict) else one for one in several]
    return kept


def _without(one: dict[str, Any]) -> dict[str, Any]:
    if _VOLATILE.isdisjoint(one):
        return one
    return {name: value for name, value in one.items() if name not in _VOLATILE}
