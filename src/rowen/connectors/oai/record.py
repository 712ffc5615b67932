"""A record of a repository becomes a dataset: Dublin Core, DataCite, MODS, MARC, or what has names like theirs."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from rowen.connectors.catalog.dataset import Dataset, Resource, kind_named
from rowen.connectors.catalog.dates import iso
from rowen.connectors.catalog.text import code_of, codes_of
from rowen.connectors.oai.formats import described, is_datacite, is_marc, is_mods, of_datacite, of_marc, of_mods, worded
from rowen.formats.xml import Element, local, plain_tree, said

__all__ = ["dataset_of"]

_URL = re.compile(r"https?://\S+", re.IGNORECASE)
_DOI = re.compile(r"(?:doi:\s*)?(10\.\d{4,9}/\S+)", re.IGNORECASE)
_FILE = re.compile(r"\.([a-z0-9]{2,5})(?:\?|$)", re.IGNORECASE)
_MEDIA = re.compile(r"[a-z]+/[\w.+-]+", re.IGNORECASE)
_PAGES = frozenset({"html", "htm", "php", "aspx", "jsp", "do"})
_PREFIXES = {
    "http://www.openarchives.org/OAI/2.0/": "",
    "http://www.openarchives.org/OAI/2.0/oai_dc/": "oai_dc",
    "http://purl.org/dc/elements/1.1/": "dc",
    "http://purl.org/dc/terms/": "dcterms",
    "http://datacite.org/schema/kernel-2.2": "datacite",
    "http://datacite.org/schema/kernel-3": "datacite",
    "http://datacite.org/schema/kernel-4": "datacite",
    "http://schema.datacite.org/oai/oai-1.0/": "oai_datacite",
    "http://schema.datacite.org/oai/oai-1.1/": "oai_datacite",
    "http://www.loc.gov/mods/v3": "mods",
    "http://www.loc.gov/MARC21/slim": "marc",
    "http://www.w3.org/1999/xlink": "xlink",
    "http://www.w3.org/XML/1998/namespace": "xml",
}
_SCHEMAS = ((is_datacite, of_datacite), (is_mods, of_mods), (is_marc, of_marc))
_INSTANCE = "{http://www.w3.org/2001/XMLSchema-instance}"


def dataset_of(record: Element, url: str, *, language: str | None = None) -> Dataset:
    """Return the dataset of a record; missing values stay empty."""
    identifier = said(record.find("{*}header/{*}identifier"))
    stamp = iso(said(record.find("{*}header/{*}datestamp")))
    bare = Dataset(url, identifier, title="", modified=stamp, record_kind="other", source=_source(record))
    metadata = record.find("{*}metadata")
    for tree in metadata.iter() if metadata is not None else ():
        for is_it, read in _SCHEMAS:
            if is_it(tree):
                return read(bare, tree, language)
    return _of_dublin_core(bare, _Leaves(metadata), language)


class _Leaves:
    """The texts in a record by their local names, in the order in which they stand."""

    def __init__(self, metadata: Element | None) -> None:
        self._found: dict[str, list[Element]] = {}
        for tree in metadata.iter() if metadata is not None else ():
            if not len(tree) and said(tree):
                self._found.setdefault(local(tree.tag), []).append(tree)

    def trees(self, *names: str) -> list[Element]:
        """Return the elements of these names, those of the first name first."""
        return [tree for name in names for tree in self._found.get(name, ())]

    def words(self, *names: str) -> list[str]:
        """Return their texts, each once."""
        return list(dict.fromkeys(said(tree) for tree in self.trees(*names)))


def _of_dublin_core(bare: Dataset, leaves: _Leaves, language: str | None) -> Dataset:
    titles, texts = leaves.trees("title"), leaves.trees("abstract", "description")
    spoken = leaves.words("language")
    wording = worded(titles, texts, preferred=language or next(filter(None, map(code_of, spoken)), None))
    people = leaves.words("creator", "author", "authors")
    places = list(dict.fromkeys(_places(leaves.words("identifier", "doi", "URI"))))
    formats = leaves.words("format")
    return replace(
        bare,
        title=wording.title,
        description=described(wording, titles, texts, people),
        tags=(*leaves.words("subject", "keyword", "topic"), *" ".join(leaves.words("categories")).split()),
        publisher=next(iter(leaves.words("publisher")), ""),
        licence=_licence(leaves.words("license", "licence", "rights", "accessRights")),
        languages=codes_of(spoken) or tuple(filter(None, [wording.language])),
        issued=min(_dates(leaves.words("issued", "dateIssued", "available", "created", "date")), default=None),
        modified=max(_dates(leaves.words("modified", "updated")), default=bare.modified),
        spatial=", ".join(leaves.words("spatial", "coverage")),
        temporal=", ".join(leaves.words("temporal")),
        landing_page=next((place for place in places if not _file_form(place)), next(iter(places), "")),
        resources=tuple(_files(places, formats)),
        record_kind=kind_named(leaves.words("type")) or bare.record_kind,
        texts=wording.others,
    )


def _source(record: Element) -> Mapping[str, Any]:
    """Return the whole record, without where its schemas lie, which is no part of what it says."""
    for tree in record.iter():
        for name in [name for name in tree.attrib if name.startswith(_INSTANCE)]:
            del tree.attrib[name]
    plain = plain_tree(record, _PREFIXES)
    return plain if isinstance(plain, dict) else {}


def _dates(values: Iterable[str]) -> list[str]:
    return [date for value in values if (date := iso(value))]


def _licence(values: list[str]) -> str:
    """Return the licence by its address, if it has one among what is said about rights."""
    return next((value for value in values if _URL.fullmatch(value)), next(iter(values), ""))


def _places(values: Iterable[str]) -> Iterator[str]:
    """Yield where the thing is found: web addresses, and those of DOIs."""
    for value in values:
        if _URL.fullmatch(value):
            yield value
        elif match := _DOI.match(value):
            yield f"https://doi.org/{match[1]}"


def _file_form(place: str) -> str:
    """Return the ending of an address that looks like a file's; a page is none."""
    path = place.partition("://")[2].partition("/")[2]
    match = _FILE.search(path) if not place.startswith("https://doi.org/") else None
    return match[1].lower() if match and match[1].lower() not in _PAGES and not match[1].isdigit() else ""


def _files(places: Iterable[str], formats: list[str]) -> Iterator[Resource]:
    media = [form for form in formats if _MEDIA.fullmatch(form)]
    for place in places:
        if form := _file_form(place):
            kind = media[0] if len(media) == 1 else ""
            yield Resource(place, name=place.partition("?")[0].rpartition("/")[2], format=form.upper(), media_type=kind)
