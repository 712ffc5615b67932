"""A record in the schema of DataCite becomes a dataset."""

from collections.abc import Iterator
from dataclasses import replace

from rowen.connectors.catalog.dataset import Dataset, Resource
from rowen.connectors.catalog.dates import iso
from rowen.connectors.catalog.languages import code_of, codes_of
from rowen.connectors.catalog.record_kinds import kind_named
from rowen.connectors.catalog.resources import format_of, size_of
from rowen.connectors.oai.wording import described, worded
from rowen.formats.xml import Element, local, said

__all__ = ["is_datacite", "of_datacite"]

_ISSUED = ("Issued", "Available", "Created", "Submitted")
_BOX = ("westBoundLongitude", "southBoundLatitude", "eastBoundLongitude", "northBoundLatitude")
_POINT = ("pointLongitude", "pointLatitude")


def is_datacite(tree: Element) -> bool:
    """Whether an element is the resource of a DataCite record, of any version."""
    return local(tree.tag) == "resource" and "datacite.org/schema/kernel" in tree.tag


def of_datacite(bare: Dataset, tree: Element, language: str | None) -> Dataset:
    """What the record says; dates that it lacks are those of the repository."""
    titles, texts = tree.findall("{*}titles/{*}title"), tree.findall("{*}descriptions/{*}description")
    main = [title for title in titles if title.get("titleType") is None] or titles
    spoken = said(tree.find("{*}language"))
    wording = worded(main, texts, preferred=language or code_of(spoken))
    kind = tree.find("{*}resourceType")
    people = [_name(one) for one in tree.findall("{*}creators/{*}creator")]
    return replace(
        bare,
        title=wording.title,
        description=described(wording, titles, texts, [name for name in people if name]),
        tags=tuple(map(said, tree.findall("{*}subjects/{*}subject"))),
        publisher=said(tree.find("{*}publisher")),
        licence=_licence(tree),
        languages=codes_of([spoken]) if spoken else tuple(filter(None, [wording.language])),
        issued=_issued(tree),
        modified=max(_dates(tree, "Updated"), default=bare.modified),
        spatial="; ".join(_places(tree)),
        temporal=", ".join(_of_type(tree, "Coverage")),
        landing_page=_landing_page(tree),
        resources=tuple(_resources(tree)),
        record_kind=kind_named([kind.get("resourceTypeGeneral", "") if kind is not None else "", said(kind)])
        or bare.record_kind,
        texts=wording.others,
    )


def _name(person: Element) -> str:
    return said(person.find("{*}creatorName"))


def _licence(tree: Element) -> str:
    """The first right with an address, else the first one in words."""
    rights = tree.findall("{*}rightsList/{*}rights") or tree.findall("{*}rights")
    named = [uri for right in rights if (uri := right.get("rightsURI")) and "info:eu-repo" not in uri]
    return next(iter(named), next(filter(None, map(said, rights)), ""))


def _issued(tree: Element) -> str | None:
    for kind in _ISSUED:
        for date in _dates(tree, kind):
            return date
    return iso(said(tree.find("{*}publicationYear")))


def _dates(tree: Element, kind: str) -> list[str]:
    return [date for words in _of_type(tree, kind) if (date := iso(words.partition("/")[0]))]


def _of_type(tree: Element, kind: str) -> list[str]:
    dates = tree.findall("{*}dates/{*}date")
    return [words for date in dates if date.get("dateType") == kind and (words := said(date))]


def _places(tree: Element) -> Iterator[str]:
    for place in tree.findall("{*}geoLocations/{*}geoLocation"):
        if words := said(place.find("{*}geoLocationPlace")):
            yield words
        for shape, names in (("geoLocationBox", _BOX), ("geoLocationPoint", _POINT)):
            if (found := place.find(f"{{*}}{shape}")) is not None:
                # Until version 4 the numbers stood in one text.
                yield " ".join(said(found.find(f"{{*}}{name}")) for name in names).strip() or said(found)


def _landing_page(tree: Element) -> str:
    identifier = tree.find("{*}identifier")
    words = said(identifier)
    match (identifier.get("identifierType", "") if identifier is not None else "").upper():
        case "DOI" if words:
            return f"https://doi.org/{words.removeprefix('https://doi.org/').removeprefix('doi:')}"
        case "HANDLE" if words and not words.startswith("http"):
            return f"https://hdl.handle.net/{words}"
    others = [words, *(said(one) for one in tree.findall("{*}alternateIdentifiers/{*}alternateIdentifier"))]
    return next((one for one in others if one.startswith(("http://", "https://"))), "")


def _resources(tree: Element) -> Iterator[Resource]:
    """The parts of the thing that have addresses; a thing of one file and one format tells them for it."""
    forms = list(filter(None, map(said, tree.findall("{*}formats/{*}format"))))
    sizes = [size for one in tree.findall("{*}sizes/{*}size") if (size := _size(said(one)))]
    parts = [
        one
        for one in tree.findall("{*}relatedIdentifiers/{*}relatedIdentifier")
        if one.get("relationType") == "HasPart" and one.get("relatedIdentifierType", "").upper() == "URL"
    ]
    form = forms[0] if len(parts) == len(forms) == 1 else ""
    for part in parts:
        yield Resource(
            said(part),
            name=said(part).rpartition("/")[2],
            format=format_of(form, said(part)) if "/" in form or not form else form,
            media_type=form if "/" in form else "",
            size_bytes=sizes[0] if len(parts) == len(sizes) == 1 else None,
        )


def _size(text: str) -> int | None:
    """A size with a unit: without one it may count pages as well."""
    return size_of(text) if text[-1:].isalpha() else None
