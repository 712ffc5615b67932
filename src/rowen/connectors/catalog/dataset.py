"""The common form of the records of all catalogs, and the document made from it."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rowen.connectors.catalog.options import filled
from rowen.connectors.catalog.resources import Column, column_text, together
from rowen.connectors.catalog.text import code_of, has_markup, one_line, one_of, word
from rowen.model.datasets import DATASET, USUAL
from rowen.model.items import Document, Validators

_ADDRESS = re.compile(r"https?://[^\s\"'<>]{1,500}", re.IGNORECASE)
_LICENCE = re.compile(r"licen[cs]e|creativecommons|opendata|/dl-de|etalab", re.IGNORECASE)
_PICTURE = re.compile(r"\.(?:png|gif|jpe?g|svg|webp)$", re.IGNORECASE)
_AT_ITS_END = ',;.)"'


def licence_in(text: str) -> str:
    """Return the licence named in a text; in a text with markup, prefer the address of a licence."""
    if not has_markup(text):
        return one_line(text)
    if licence := address_of_licence(text):
        return licence
    addresses = _addresses(text)
    is_address = bool(addresses) and text.lstrip().startswith(addresses[0])
    return addresses[0] if is_address else one_line(text) or next(iter(addresses), "")


def address_of_licence(text: str) -> str:
    """Return the first address in a text that looks like the address of a licence; empty if there is none."""
    return next((address for address in _addresses(text) if _LICENCE.search(address)), "")


def _addresses(text: str) -> list[str]:
    addresses = (address.rstrip(_AT_ITS_END) for address in _ADDRESS.findall(text))
    return [address for address in addresses if not _PICTURE.search(address)]


_LETTERS = re.compile(r"[^a-z0-9]+")
_WORDS = {
    "dataset": """dataset datasets nongeographicdataset tile cddb1
        file filter href federatedhref
        featureservice featurelayer featurecollection table csv csvcollection shapefile filegeodatabase geodatabase
        geojson geopackage kml microsoftexcel imagecollection rasterlayer layerpackage""",
    "series": "series datasetseries collection productionseries sensorseries platformseries",
    "service": "service services dataservice webservice api wms wfs wmts wcs ogcfeatureserver",
    "map": "map maps webmap webscene mappackage mobilemappackage mapdocument cartographic c12cd",
    "application": """application app showcase software tool workflow interactiveresource computationalnotebook c5ce6
        chart visualization datalens calendar form measure dashboard
        storymap webmappingapplication webexperience hubsiteapplication hubpage desktopapplication notebook
        codesample insightsworkbook""",
    "document": """document text article book bookpart bookchapter report technicalreport researchpaper thesis
        bachelorthesis masterthesis doctoralthesis dissertation conferenceobject conferencepaper conferenceproceeding
        preprint workingpaper lecture presentation review peerreview patent journal journalarticle datapaper periodical
        manuscript standard outputmanagementplan languagematerial technicaldocumentation story
        pdf microsoftword microsoftpowerpoint documentlink
        c18cf c6501 c46ec cdb06 cbdcc c7a1f c2f33 c3248 c93fc c5794 c8042 c816b""",
    "other": """image stillimage movingimage video audiovisual sound event physicalobject model feature featuretype
        attribute attributetype propertytype fieldsession collectionhardware collectionsession dimensiongroup""",
}
_KINDS = {word: kind for kind, words in _WORDS.items() for word in words.split()}
# The endings of ArcGIS type names for services, such as "Map Service".
_SERVICES = ("service", "server")


def kind_named(words: Iterable[str]) -> str | None:
    """Return the record kind of the first known word; for a word that is an address, use its last segment."""
    for text in words:
        name = _LETTERS.sub("", re.split(r"[/#:]", text.strip().rstrip("/"))[-1].casefold())
        if kind := _KINDS.get(name):
            return kind
        if name.endswith(_SERVICES):
            return "service"
    return None


# A passage has up to 1,500 characters, and no cut leaves fewer than 200 before it: a text of at most this length stays
# in one passage, even after a short description.
MOST_CHARS = 1_200
_LONGEST_LINE = 240  # characters: five such lines fill the passage, and the first sentence is enough to describe a file
_MOST_FORMATS = 6  # a portal's own list of formats has three or four; more are other spellings of the same formats
_HEAD = "## Resources\n\n"
_NUMBER = re.compile(r"\d+")


class Resource(NamedTuple):
    """One file or service of a dataset; `columns` is set for a table whose columns the portal describes."""

    url: str
    name: str = ""
    description: str = ""
    format: str = ""
    media_type: str = ""
    size_bytes: int | None = None
    columns: tuple[Column, ...] = ()

    def written(self) -> dict[str, Any]:
        """Return the resource as it is stored, without empty columns."""
        facts = self._asdict()
        columns = facts.pop("columns")
        return {**facts, "columns": [column.written() for column in columns]} if columns else facts


def resource_text(resources: Sequence[Resource]) -> str:
    """Return the named resources, one per line; in a long list, group names that differ only in digits."""
    described = [resource for resource in resources if resource.name or resource.description]
    if not described:
        return ""
    if sum(len(resource.description) for resource in described) <= MOST_CHARS:
        whole = _HEAD + "\n".join(map(_line, described))
        if len(whole) <= MOST_CHARS:
            return whole
    # The number of each format, the most frequent first.
    forms = [resource.format for resource in described if 0 < len(resource.format) <= _LONGEST_LINE // _MOST_FORMATS]
    ranked = sorted(Counter(forms).items(), key=lambda pair: (-pair[1], pair[0]))[:_MOST_FORMATS]
    formats = ", ".join(f"{count:,} {' '.join(name.split())}" for name, count in ranked)
    text = f"{_HEAD}{len(described):,} in all{f': {formats}' if formats else ''}.\n"
    alike: dict[str, list[Resource]] = {}
    for resource in described:
        pattern = _NUMBER.sub("0", resource.name or resource.description).casefold()
        alike.setdefault(pattern, []).append(resource)
    for resources_alike in alike.values():
        line, count = _line(resources_alike[0]), len(resources_alike)
        more = f" (and {count - 1:,} more like it)" if count > 1 else ""
        most = _LONGEST_LINE - len(more)
        line = "\n" + (line if len(line) <= most else line[: most - 1].rstrip() + "…") + more
        if len(text) + len(line) > MOST_CHARS:
            break
        text += line
    return text


def _line(resource: Resource) -> str:
    form = f" ({resource.format})" if resource.format else ""
    words = f": {resource.description}" if resource.description else ""
    return f"- {resource.name or resource.url}{form}{words}".replace("\n", " ")


_SHAPES = frozenset({"coordinates", "geometries", "geometry", "features", "bbox"})
_NAMES = ("prefLabel", "label", "title", "name", "text", "geographicName")
_PARTS = ("geometry", "geom", "bbox", "centroid", "@value", "@id", "uri")


@dataclass(frozen=True, slots=True)
class Dataset:
    """The description of one dataset by a catalog.

    `url` is built from the portal's own identifier, so that a renamed dataset stays the same item; `name` is the short
    name in the portal. `landing_page` is the page named by the record, `usual_page` the page that such portals have by
    convention. `texts` contains the title and description in further languages. `source` is the complete record
    without volatile values (views, followers, counts of neighbours). `record_kind` is the kind of the described
    resource, a dataset by default. `columns` contains the columns of a table that is offered in several formats.
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
        """Return the dataset as a document: description and resources are its text, all other values its record.

        `landing_page` is a template for the web page of a record that names no page.
        """
        parts = [self.description]
        parts += [f"## {title} ({code})\n\n{text}".strip() for code, (title, text) in sorted(self.texts.items())]
        columns = together([*self.columns, *(column for file in self.resources for column in file.columns)])
        parts += [resource_text(self.resources), column_text(columns)]
        page = filled(landing_page, identifier=self.identifier, name=self.name) if landing_page else ""
        facts = {
            "identifier": self.identifier,
            "publisher": one_line(self.publisher),
            "licence": licence_in(self.licence),
            "languages": list(self.languages),
            "issued": self.issued,
            "modified": self.modified,
            "spatial": self.spatial,
            "temporal": self.temporal,
            "landing_page": self.landing_page or page or self.usual_page,
            "record_kind": self.record_kind if self.record_kind != USUAL else None,
            "resources": [resource.written() for resource in self.resources],
            "columns": [column.written() for column in self.columns],
        }
        return Document(
            url=self.url,
            title=self.title or self.identifier,
            text="\n\n".join(filter(None, parts)),
            tags=self.tags,
            record={**{name: value for name, value in facts.items() if value}, "source": self.source},
            language=language or (code_of(self.languages[0]) if len(self.languages) == 1 else None),
            media_type=DATASET,
            validators=validators or Validators(),
            remarks=remarks,
        )


def place_of(value: Any, language: str | None = None) -> str:
    """Return a place as text; accept words, a bounding box, an object with a name, or a GeoJSON geometry.

    A geometry is returned as JSON. It is not a map of languages, although it is also an object with text values.
    """
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list):
        if value and all(isinstance(part, int | float) and not isinstance(part, bool) for part in value):
            return ",".join(map(word, value))
        if any(isinstance(place, list) for place in value):
            return _as_json(value)
        return "; ".join(dict.fromkeys(filter(None, (place_of(place, language) for place in value))))
    if not isinstance(value, Mapping) or not value:
        return word(value)
    if "type" in value and not _SHAPES.isdisjoint(value):
        return _as_json(value)
    named = next(filter(None, (place_of(value.get(name), language) for name in (*_NAMES, *_PARTS))), "")
    return named or (one_of(value, language) if all(map(code_of, value)) else _as_json(value))


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
