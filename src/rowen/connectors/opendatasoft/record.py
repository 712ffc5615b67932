"""A dataset of OpenDataSoft becomes a dataset of ours."""

from collections.abc import Iterator, Mapping
from typing import Any

from rowen.connectors.catalog.columns import columns_in
from rowen.connectors.catalog.dataset import Dataset, Resource, place_of
from rowen.connectors.catalog.dates import iso
from rowen.connectors.catalog.languages import codes_of, one_of, word, wordings
from rowen.connectors.catalog.resources import format_of
from rowen.connectors.catalog.rows import Json, listed, objects, without
from rowen.connectors.catalog.text import plain
from rowen.connectors.opendatasoft.address import OpenDataSoftAddress

__all__ = ["dataset_of", "identifier_of", "metas_of", "steady", "unwrapped"]

# They move with the data, or when somebody looks at it, and say nothing about the dataset.
_VOLATILE = frozenset(
    {
        *("records_count", "records_size", "data_processed", "metadata_processed", "popularity_score", "reuse_count"),
        *("download_count", "api_call_count", "attachment_download_count", "file_fields_download_count"),
    }
)
_FORMATS = {"csv": "text/csv", "json": "application/json"}


def unwrapped(record: Any) -> Any:
    """The dataset itself, which v2.0 wraps together with links."""
    match record:
        case {"dataset": Mapping() as inner}:
            return inner
    return record


def identifier_of(record: Any) -> str:
    """What a portal knows a dataset by."""
    return word(record.get("dataset_id")) or word(record.get("dataset_uid")) if isinstance(record, Mapping) else ""


def metas_of(record: Any, template: str = "default") -> Json:
    """The metadata of a dataset under one template."""
    match record:
        case {"metas": {**templates}} if isinstance(found := templates.get(template), Mapping):
            return found
    return {}


def steady(record: Json) -> Json:
    """A record without what moves by itself."""
    return without(record, _VOLATILE)


def dataset_of(record: Json, address: OpenDataSoftAddress, *, language: str | None = None) -> Dataset:
    """What a record says; whatever it lacks is left out."""
    identifier = identifier_of(record)
    metas, dcat = metas_of(record), metas_of(record, "dcat")
    said = wordings(metas.get("title"), metas.get("description"), preferred=language)
    told = listed(metas.get("metadata_languages")) or listed(metas.get("language"))
    return Dataset(
        url=address.item(identifier),
        identifier=identifier,
        title=said.title or identifier,
        description=said.description,
        tags=tuple(_words(said.language, metas.get("keyword"), metas.get("theme"))),
        publisher=one_of(metas.get("publisher"), said.language) or one_of(dcat.get("creator"), said.language),
        licence=one_of(metas.get("license"), said.language) or word(metas.get("license_url")),
        languages=codes_of(filter(None, [*map(word, told), said.language, *sorted(said.others)])),
        issued=iso(dcat.get("issued")) or iso(dcat.get("created")),
        modified=iso(metas.get("modified")),
        spatial=_place(metas, dcat, said.language),
        temporal=_period(dcat),
        usual_page=address.item(identifier),
        resources=tuple(_resources(record, address, identifier)),
        columns=columns_in(record.get("fields"), said.language),
        texts=said.others,
        source=steady(record),
    )


def _words(language: str | None, *values: Any) -> Iterator[str]:
    for value in values:
        yield from filter(None, (one_of(one, language) for one in listed(value)))


def _place(metas: Json, dcat: Json, language: str | None) -> str:
    """In words if there are any, else the box around the data."""
    territory = ", ".join(_words(language, metas.get("territory")))
    return place_of(dcat.get("spatial"), language) or territory or place_of(metas.get("bbox"), language)


def _period(dcat: Json) -> str:
    start, end = dcat.get("temporal_coverage_start"), dcat.get("temporal_coverage_end")
    if start or end:
        return f"{iso(start) or word(start)}/{iso(end) or word(end)}"
    return word(dcat.get("temporal"))


def _resources(record: Json, address: OpenDataSoftAddress, identifier: str) -> Iterator[Resource]:
    if record.get("has_records"):
        for form, media_type in _FORMATS.items():
            url = address.part(identifier, "exports", form)
            yield Resource(url, format=form.upper(), media_type=media_type)
    for kind in ("attachments", "alternative_exports"):
        for one in objects(record.get(kind)):
            name, media_type = word(one.get("id")), word(one.get("mimetype"))
            url = address.part(identifier, kind, name) if name else word(one.get("url"))
            yield Resource(
                url=url,
                name=word(one.get("title")) or name,
                description=plain(word(one.get("description"))),
                format=format_of(media_type, word(one.get("url")) or url),
                media_type=media_type,
            )
