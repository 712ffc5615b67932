"""One shape for the records of every kind of catalog."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rowen.connectors.catalog.columns import Column, column_text, together
from rowen.connectors.catalog.landing_pages import filled
from rowen.connectors.catalog.languages import code_of, one_of, word
from rowen.connectors.catalog.licences import licence_in
from rowen.connectors.catalog.resource_text import Resource, resource_text
from rowen.connectors.catalog.text import one_line
from rowen.model.item import Document, Validators
from rowen.model.record_kinds import USUAL
from rowen.model.twins import DATASET

__all__ = ["Column", "Dataset", "Resource", "place_of"]

_SHAPES = frozenset({"coordinates", "geometries", "geometry", "features", "bbox"})
_NAMES = ("prefLabel", "label", "title", "name", "text", "geographicName")
_PARTS = ("geometry", "geom", "bbox", "centroid", "@value", "@id", "uri")


@dataclass(frozen=True, slots=True)
class Dataset:
    """What a catalog says about one dataset.

    `url` is built from the portal's own identifier, so that a renamed dataset stays itself; `name` is its short name
    there. `landing_page` is where the portal sends people, `usual_page` where such portals have a page for it. `texts`
    holds title and description in further languages. `source` is the complete record as the portal gave it, without
    what moves by itself (views, followers, counts of neighbours). `record_kind` is what the record describes, a dataset
    where nothing else is told. `columns` are those of a table that has several forms.
    """

    url: str
    identifier: str
    title: str
    description: str = ""
    tags: tuple[str, ...] = ()
    publisher: str = ""
    licence: str = ""
    languages: tuple[str, ...] = ()
    issued: str | None = None
    modified: str | None = None
    spatial: str = ""
    temporal: str = ""
    landing_page: str = ""
    usual_page: str = ""
    name: str = ""
    resources: tuple[Resource, ...] = ()
    columns: tuple[Column, ...] = ()
    record_kind: str | None = None
    texts: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict)

    def document(
        self,
        *,
        validators: Validators | None = None,
        language: str | None = None,
        landing_page: str | None = None,
        remarks: tuple[str, ...] = (),
    ) -> Document:
        """The dataset as it is stored: description and resources as text, all the rest in the record.

        `landing_page` is the template of a page for people, for a record that names none.
        """
        return Document(
            url=self.url,
            title=self.title or self.identifier,
            text=self._text(),
            tags=self.tags,
            record=self._record(landing_page),
            language=language or (code_of(self.languages[0]) if len(self.languages) == 1 else None),
            media_type=DATASET,
            validators=validators or Validators(),
            remarks=remarks,
        )

    def _text(self) -> str:
        parts = [self.description]
        parts += [f"## {title} ({code})\n\n{text}".strip() for code, (title, text) in sorted(self.texts.items())]
        parts.append(resource_text(self.resources))
        parts.append(column_text(together([*self.columns, *(one for file in self.resources for one in file.columns)])))
        return "\n\n".join(part for part in parts if part)

    def _record(self, template: str | None) -> dict[str, Any]:
        made = filled(template, identifier=self.identifier, name=self.name) if template else ""
        facts = {
            "identifier": self.identifier,
            "publisher": one_line(self.publisher),
            "licence": licence_in(self.licence),
            "languages": list(self.languages),
            "issued": self.issued,
            "modified": self.modified,
            "spatial": self.spatial,
            "temporal": self.temporal,
            "landing_page": self.landing_page or made or self.usual_page,
            "record_kind": self.record_kind if self.record_kind != USUAL else None,
            "resources": [resource.written() for resource in self.resources],
            "columns": [column.written() for column in self.columns],
        }
        return {**{name: value for name, value in facts.items() if value}, "source": self.source}


def place_of(value: Any, language: str | None = None) -> str:
    """A place as text, whatever a record gives there: words, a box, an object with a name, a geometry of GeoJSON.

    A geometry is kept as its JSON: it is no map of languages, though it is an object of texts as well.
    """
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list):
        return _of_list(value, language)
    if not isinstance(value, Mapping) or not value:
        return word(value)
    if "type" in value and not _SHAPES.isdisjoint(value):
        return _as_json(value)
    return _of_object(value, language)


def _of_list(places: list[Any], language: str | None) -> str:
    """Numbers in a row are one box or point; all else is a place each."""
    if places and all(map(_is_number, places)):
        return ",".join(map(word, places))
    if any(isinstance(one, list) for one in places):
        return _as_json(places)
    return "; ".join(dict.fromkeys(filter(None, (place_of(one, language) for one in places))))


def _of_object(value: Mapping[str, Any], language: str | None) -> str:
    """What a place is called, else its shape or address; else it is said in languages, and its keys are their codes."""
    said = (place_of(value.get(name), language) for name in (*_NAMES, *_PARTS))
    named = next(filter(None, said), "")
    return named or (one_of(value, language) if all(map(code_of, value)) else _as_json(value))


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
