"""A record of DCAT-US, 1.1 or 3, becomes a dataset."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from rowen.connectors.catalog.columns import columns_of_schema
from rowen.connectors.catalog.dataset import Dataset, Resource, place_of
from rowen.connectors.catalog.dates import iso
from rowen.connectors.catalog.languages import codes_of, one_of, word, wordings
from rowen.connectors.catalog.record_kinds import kind_named
from rowen.connectors.catalog.resources import format_named, format_of, media_type_named, size_of
from rowen.connectors.catalog.text import plain
from rowen.model.hashes import body_hash, canonical_json
from rowen.model.url import canonical, quoted

__all__ = ["dataset_of", "item_url", "likeness", "members_of"]

_SCHEME = re.compile(r"https?://", re.IGNORECASE)
_LONGEST_PLACE = 2000  # letters: names, boxes and short polygons pass, outlines of countries (100 kB) do not
_MEMBERS = ("seriesMember", "first", "last", "prev", "servesDataset")
_LABELS = ("prefLabel", "label", "title", "name", "@value", "@id")


def dataset_of(record: Mapping[str, Any], document: str, *, language: str | None = None) -> Dataset:
    """What a record says; whatever it lacks is left out."""
    said = wordings(record.get("title"), record.get("description"), preferred=language)
    identifier = _identifier(record)
    return Dataset(
        url=item_url(record, document),
        identifier=identifier,
        title=said.title or identifier or word(record.get("landingPage")) or "Untitled",
        description=said.description,
        tags=tuple(_words(record.get("keyword"), record.get("theme"))),
        publisher=_name(record.get("publisher"), said.language),
        licence=_label(record.get("license"), said.language) or _shared_licence(record, said.language),
        languages=codes_of(_words(record.get("language"))) or tuple(filter(None, [said.language])),
        issued=iso(_bare(record.get("issued"))),
        modified=iso(_bare(record.get("modified"))),
        spatial=_place(record.get("spatial")),
        temporal=", ".join(_periods(record.get("temporal"))),
        landing_page=word(_bare(record.get("landingPage"))),
        resources=(
            *(_resource(one, said.language) for one in _objects(record.get("distribution"))),
            *_endpoints(record),
        ),
        record_kind=kind_named(_words(record.get("@type"))),
        texts=said.others,
        source=record,
    )


def item_url(record: Mapping[str, Any], document: str) -> str:
    """Under which URL a record is known: its identifier if that is an address, else a route of the document.

    It is the same for http and https: portals change from one to the other, and back. A record without an identifier
    is known by its page or file together with title and publisher; it becomes another one when these change.
    """
    identifier = _identifier(record)
    if _SCHEME.match(identifier) and "#" not in identifier:
        with suppress(ValueError):
            return canonical(identifier)
    base = document.partition("#")[0]
    if identifier:
        return f"{base}#/{quoted(_SCHEME.sub('', identifier, count=1))}"
    return f"{base}#/unnamed/{body_hash(canonical_json(likeness(record))).hex()[:32]}"


def _identifier(record: Mapping[str, Any]) -> str:
    for name in ("identifier", "@id"):
        value = record.get(name)
        if isinstance(value, list) and value:
            value = value[0]
        if isinstance(value, Mapping):
            value = value.get("@id") or value.get("identifier") or value.get("notation")
        if said := word(value):
            return said
    return ""


def likeness(record: Mapping[str, Any]) -> list[str]:
    """What a record is about, whatever it is called: its page or first file, its title and its publisher."""
    files = (
        word(one.get(name)) for one in _objects(record.get("distribution")) for name in ("accessURL", "downloadURL")
    )
    place = word(record.get("landingPage")) or next(filter(None, files), "")
    return [_SCHEME.sub("", place, count=1), one_of(record.get("title"), None), _name(record.get("publisher"), None)]


def _resource(one: Mapping[str, Any], language: str | None) -> Resource:
    url = word(_bare(one.get("downloadURL"))) or word(_bare(one.get("accessURL")))
    media_type = media_type_named(_label(one.get("mediaType"), language))
    return Resource(
        url=url,
        name=one_of(one.get("title"), language),
        description=plain(one_of(one.get("description"), language)),
        format=format_named(_label(one.get("format"), language)) or format_of(media_type, url),
        media_type=media_type,
        size_bytes=size_of(_bare(one.get("byteSize"))),
        columns=columns_of_schema(one, language),
    )


def _endpoints(record: Mapping[str, Any]) -> Iterator[Resource]:
    """Where a service of DCAT-US 3 is found."""
    for field, name in (("endpointURL", "Endpoint"), ("endpointDescription", "Description of the endpoint")):
        for one in _list(record.get(field)):
            if url := word(_bare(one)):
                yield Resource(url=url, name=name)


def members_of(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The datasets that a series or a service holds whole, each once; mere names are none."""
    found = [one for name in _MEMBERS for one in _objects(record.get(name)) if one.get("title")]
    return list({canonical_json(one): one for one in found}.values())


def _bare(value: Any) -> Any:
    """A value that DCAT-US 3 may wrap with its type, or an address that it may wrap as a node."""
    if isinstance(value, Mapping):
        return value.get("@value") or value.get("@id")
    return value


def _label(value: Any, language: str | None) -> str:
    """What something is called that is given by a text, in several languages, or as an object with a name."""
    if isinstance(value, Mapping):
        said = (one_of(value.get(name), language) for name in _LABELS)
        return next(filter(None, said), "") or ("" if "@type" in value else one_of(value, language))
    return word(value)


def _name(value: Any, language: str | None) -> str:
    names = [one.get("name") if isinstance(one, Mapping) and "name" in one else one for one in _list(value)]
    return next((said for name in names if (said := one_of(name, language))), "")


def _shared_licence(record: Mapping[str, Any], language: str | None) -> str:
    """DCAT-US 3 puts the licence to the files: that of the dataset is theirs if they have the same."""
    licences = {_label(one.get("license"), language) for one in _objects(record.get("distribution"))}
    return licences.pop() if len(licences) == 1 else ""


def _words(*values: Any) -> Iterator[str]:
    for value in values:
        for one in _list(value):
            if said := _label(one, None):
                yield said


def _place(value: Any) -> str:
    """A place in words or numbers; a whole geometry stays in the source's record."""
    said = place_of(value)
    return said if len(said) <= _LONGEST_PLACE else ""


def _periods(value: Any) -> Iterator[str]:
    for one in _list(value):
        if isinstance(one, Mapping):
            start, end = _bare(one.get("startDate")), _bare(one.get("endDate"))
            if start or end:
                yield f"{iso(start) or word(start)}/{iso(end) or word(end)}"
        elif said := word(one):
            yield said


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in _list(value) if isinstance(one, Mapping)]


def _list(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    return [] if value is None or value == "" else [value]
