"""Map records of a catalogue service to datasets, from ISO 19115 (either encoding), DCAT in RDF/XML or Dublin Core."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any
from xml.etree.ElementTree import tostring

from rowen.connectors.catalog.dataset import Dataset, Resource, kind_named
from rowen.connectors.catalog.dates import iso, moment
from rowen.connectors.catalog.dcat import ITEMS
from rowen.connectors.catalog.dcat import dataset_of as rdf_dataset
from rowen.connectors.catalog.options import page_of_geonetwork
from rowen.connectors.catalog.resources import format_of
from rowen.connectors.catalog.text import code_of, plain, wordings
from rowen.connectors.csw import iso19115
from rowen.connectors.csw.protocol import item_url
from rowen.errors import SourceError
from rowen.formats.rdf.graph import Iri, Node
from rowen.formats.rdf.syntax import RdfBody, read_graph
from rowen.formats.xml import Element, local, plain_tree, said
from rowen.model.hashes import body_hash, canonical_json

_RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
_DCAT = "{http://www.w3.org/ns/dcat#}"
_NOWHERE = "urn:record"  # the described dataset does not depend on the address of the record
_MOST_TRIPLES = 100_000  # one record has a few hundred; a keyword list with a whole thesaurus has a few thousand


def _is_dcat(record: Element) -> bool:
    """Return whether a record is an RDF document or a DCAT node."""
    return record.tag == f"{_RDF}RDF" or (record.tag.startswith(_DCAT) and local(record.tag) != "Record")


def _dcat_dataset(record: Element, base: str = _NOWHERE, language: str | None = None) -> Dataset | None:
    """Return the dataset in a DCAT record; None if there is none."""
    root = record
    if record.tag != f"{_RDF}RDF":
        root = Element(f"{_RDF}RDF")
        root.append(record)
    return _read_rdf(tostring(root, encoding="unicode").encode("utf-8", "replace"), base, language)


# A record is read three times: for its identifier, for its date and for its dataset.
@lru_cache(4)
def _read_rdf(body: bytes, base: str, language: str | None) -> Dataset | None:
    try:
        parsed = read_graph(RdfBody(body, base), option="rdfxml", most_triples=_MOST_TRIPLES)
    except SourceError as problem:
        raise ValueError(f"it is no RDF: {problem}") from None
    if parsed.broken:
        raise ValueError(f"it is no RDF: {parsed.broken[0].why}")
    graph = parsed.graph

    def rank(node: Node) -> tuple[bool, bool, str]:
        """Return a sort key: nodes with a title first, and datasets before services and series."""
        is_titled = graph.says(node, "dct:title")
        return not is_titled, "dcat:Dataset" not in graph.types(node), str(node) if isinstance(node, Iri) else "~"

    node = min((node for node in graph if ITEMS & graph.types(node)), key=rank, default=None)
    return rdf_dataset(graph, node, base, language=language) if node is not None else None


_PARTS = "cat cit dqc fcc gcx gex lan lis mac mas mcc mco mda mdb mds mdt mex mmi mpc mrc mrd mri mrl mrs msr"
_PREFIXES = {
    "http://www.isotc211.org/2005/gmd": "gmd",
    "http://www.isotc211.org/2005/gco": "gco",
    "http://www.isotc211.org/2005/gmi": "gmi",
    "http://www.isotc211.org/2005/gmx": "gmx",
    "http://www.isotc211.org/2005/gts": "gts",
    "http://www.isotc211.org/2005/srv": "srv",
    "http://standards.iso.org/iso/19115/-3/gco/1.0": "gco",
    "http://standards.iso.org/iso/19115/-3/srv/2.0": "srv",
    "http://standards.iso.org/iso/19115/-3/srv/2.1": "srv",
    "http://www.opengis.net/gml": "gml",
    "http://www.opengis.net/gml/3.2": "gml",
    "http://www.opengis.net/ows": "ows",
    "http://www.opengis.net/ows/2.0": "ows",
    "http://www.opengis.net/cat/csw/2.0.2": "csw",
    "http://www.opengis.net/cat/csw/3.0": "csw",
    "http://purl.org/dc/elements/1.1/": "dc",
    "http://purl.org/dc/terms/": "dct",
    "http://www.w3.org/1999/xlink": "xlink",
    **{f"http://standards.iso.org/iso/19115/-3/{part}/{n}.0": part for part in _PARTS.split() for n in (1, 2)},
}
_PARTIES = ("publisher", "creator", "contributor")  # GeoNetwork gives the organisation only as the contributor
_LATITUDE_FIRST = re.compile(r"urn:(?:x-)?ogc:def:crs:EPSG:[^:]{0,20}:4326", re.IGNORECASE)
_MOST_LATITUDE = 90.0  # degrees; longitudes reach twice this value
# Generated element identifiers differ in each answer, and schema locations are no content.
_PASSING = re.compile(r"\{http://www\.opengis\.net/gml(/3\.2)?\}id|\{http://www\.w3\.org/2001/XMLSchema-instance\}.*")


def dataset_of(record: Element, base: str, *, language: str | None = None) -> Dataset:
    """Return the dataset of a record; missing values stay empty."""
    identifier = identifier_of(record)
    for tree in record.iter():
        for name in [name for name in tree.attrib if _PASSING.fullmatch(name)]:
            del tree.attrib[name]
    whole = plain_tree(record, _PREFIXES)
    source: Mapping[str, Any] = whole if isinstance(whole, dict) else {}
    bare = Dataset(url_of(record, base), identifier, title="", source=source)
    dataset = _of_schema(bare, record, base, language)
    title = plain(dataset.title) or identifier or "Untitled"
    return replace(dataset, title=title, usual_page=page_of_geonetwork(base, identifier))


def _of_schema(bare: Dataset, record: Element, base: str, language: str | None) -> Dataset:
    if iso19115.is_iso(record):
        return iso19115.dataset(bare, record, language)
    if _is_dcat(record):
        dataset = _dcat_dataset(record, base, language)
        return replace(dataset, url=bare.url, identifier=bare.identifier, source=bare.source) if dataset else bare
    return _of_dublin_core(bare, record, language)


def identifier_of(record: Element) -> str:
    """Return the identifier of a record; empty if it has none."""
    if iso19115.is_iso(record):
        return iso19115.identifier(record)
    if _is_dcat(record):
        dataset = _dcat_dataset(record)
        return dataset.identifier if dataset else ""
    return next((words for element in record.findall("{*}identifier") if (words := said(element))), "")


def url_of(record: Element, base: str) -> str:
    """Return the URL of a record's item.

    A record without an identifier is identified by its title and organisation, so a change of either yields another
    item.
    """
    if identifier := identifier_of(record):
        return item_url(base, identifier)
    alike = _of_schema(Dataset("", "", title=""), record, base, None)
    return f"{base}#/unnamed/{body_hash(canonical_json([alike.title, alike.publisher])).hex()[:32]}"


def stamp_of(record: Element) -> datetime | None:
    """Return the modification date of a record; None if it has none."""
    if iso19115.is_iso(record):
        return moment(iso19115.stamp(record))
    if _is_dcat(record):
        dataset = _dcat_dataset(record)
        return moment(dataset.modified) if dataset else None
    return moment(said(record.find("{*}modified"))) or moment(said(record.find("{*}date")))


def _of_dublin_core(bare: Dataset, record: Element, language: str | None) -> Dataset:
    texts = list(dict.fromkeys([*_words(record, "abstract"), *_words(record, "description")]))
    wording = wordings(next(iter(_words(record, "title")), ""), "\n\n".join(texts), preferred=language)
    resources: list[Resource] = []
    for element in record:
        url = said(element)
        if local(element.tag) in ("URI", "references") and url.startswith(("http://", "https://", "ftp://")):
            protocol = element.get("protocol") or element.get("scheme") or ""
            media_type = protocol if "/" in protocol and ":" not in protocol else ""
            form = format_of(media_type, url) if media_type or not protocol else ""
            resource = Resource(
                url,
                name=element.get("name", ""),
                description=element.get("description", ""),
                format=form or iso19115.form_of(protocol),
                media_type=media_type,
            )
            resources.append(resource)
    boxes = [_box(box) for name in ("BoundingBox", "WGS84BoundingBox") for box in record.findall(f"{{*}}{name}")]
    return replace(
        bare,
        title=wording.title,
        description=wording.description,
        tags=tuple(_words(record, "subject")),
        publisher=next((words for name in _PARTIES for words in _words(record, name)), ""),
        licence=next(
            iter([*_words(record, "license"), *_words(record, "rights"), *_words(record, "accessRights")]), ""
        ),
        languages=tuple(code_of(words) or words for words in _words(record, "language")),
        issued=next((date for name in ("issued", "created") if (date := iso(said(record.find(f"{{*}}{name}"))))), None),
        modified=iso(said(record.find("{*}modified"))) or iso(said(record.find("{*}date"))),
        spatial="; ".join([*_words(record, "spatial"), *_words(record, "coverage"), *boxes]),
        temporal=", ".join(_words(record, "temporal")),
        landing_page=next((resource.url for resource in resources if resource.format == "WWW:LINK"), ""),
        resources=tuple(resources),
        record_kind=kind_named(_words(record, "type")),
    )


def _box(box: Element) -> str:
    """Return a bounding box from west to east and from south to north.

    If a URN names the reference system, latitude comes first, otherwise longitude. But the numbers take precedence: no
    latitude is beyond 90. GeoNetwork writes the eastern corner before the western one; of the two boxes between two
    meridians, the narrower one is meant.
    """
    corners = [said(corner) for corner in box]
    try:
        (a, b), (c, d) = (map(float, corner.split()) for corner in corners)
    except ValueError:
        return " ".join(corners).strip()
    first, second = max(abs(a), abs(c)), max(abs(b), abs(d))
    if max(first, second) > 2 * _MOST_LATITUDE:
        return " ".join(corners)
    is_latitude_first = first <= _MOST_LATITUDE and _LATITUDE_FIRST.fullmatch(box.get("crs", ""))
    west, south, east, north = (b, a, d, c) if second > _MOST_LATITUDE or is_latitude_first else (a, b, c, d)
    if 0 < west - east < 2 * _MOST_LATITUDE:
        west, east = east, west
    return " ".join(f"{value:.10g}" for value in (west, south, east, north))


def _words(record: Element, name: str) -> list[str]:
    texts = ("".join(element.itertext()).strip() for element in record.findall(f"{{*}}{name}"))
    return list(dict.fromkeys("\n".join(map(str.strip, text.splitlines())) for text in texts if text))
