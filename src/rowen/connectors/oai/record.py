"""Map records of a repository to datasets: Dublin Core, DataCite, MODS, MARC, or schemas with equal element names."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rowen.connectors.catalog.dataset import Dataset, Resource, kind_named
from rowen.connectors.catalog.dates import iso
from rowen.connectors.catalog.resources import format_of, size_of
from rowen.connectors.catalog.text import Wording, code_of, codes_of, plain, wordings
from rowen.formats.xml import Element, local, plain_tree, said

_LANG = "{http://www.w3.org/XML/1998/namespace}lang"


def worded(titles: Sequence[Element], texts: Sequence[Element], *, preferred: str | None) -> Wording:
    """Return the title and description in all languages that the elements state."""
    named = {code: plain(words[0]) for code, words in _by_language(titles).items()}
    text_of = {code: "\n\n".join(words) for code, words in _by_language(texts).items()}
    return wordings(named, text_of, preferred=preferred)


def described(wording: Wording, titles: Iterable[Element], texts: Iterable[Element], people: Sequence[str]) -> str:
    """Return the description: further titles, the main description, other texts, and the authors."""
    shown = [wording.title, *(title for title, _ in wording.others.values())]
    further = [title for title in (plain(said(tree)) for tree in titles) if title and title not in shown]
    included = "\n".join([wording.description, *(text for _, text in wording.others.values())])
    rest = [text for text in dict.fromkeys(map(_lines, texts)) if plain(text) not in included]
    makers = f"By {'; '.join(dict.fromkeys(people))}." if people else ""
    return "\n\n".join(
        part for part in (*dict.fromkeys(further), wording.description, *map(plain, rest), makers) if part
    )


def _by_language(trees: Iterable[Element]) -> dict[str, list[str]]:
    texts: dict[str, list[str]] = {}
    for tree in trees:
        words = texts.setdefault(code_of(tree.get(_LANG, "")) or "", [])
        if (text := _lines(tree)) and text not in words:
            words.append(text)
    return {code: words for code, words in texts.items() if words}


def _lines(tree: Element) -> str:
    return "\n".join(line.strip() for line in "".join(tree.itertext()).strip().splitlines())


_ISSUED_DATES = ("Issued", "Available", "Created", "Submitted")
_BOX = ("westBoundLongitude", "southBoundLatitude", "eastBoundLongitude", "northBoundLatitude")
_POINT = ("pointLongitude", "pointLatitude")


def is_datacite(tree: Element) -> bool:
    """Return whether an element is a DataCite resource of any version."""
    return local(tree.tag) == "resource" and "datacite.org/schema/kernel" in tree.tag


def of_datacite(bare: Dataset, tree: Element, language: str | None) -> Dataset:
    """Return the dataset of a DataCite resource; without an update date, keep the date of the repository."""
    titles, texts = tree.findall("{*}titles/{*}title"), tree.findall("{*}descriptions/{*}description")
    main = [title for title in titles if title.get("titleType") is None] or titles
    spoken = said(tree.find("{*}language"))
    wording = worded(main, texts, preferred=language or code_of(spoken))
    kind = tree.find("{*}resourceType")
    people = [said(creator.find("{*}creatorName")) for creator in tree.findall("{*}creators/{*}creator")]
    rights = tree.findall("{*}rightsList/{*}rights") or tree.findall("{*}rights")
    licences = [uri for right in rights if (uri := right.get("rightsURI")) and "info:eu-repo" not in uri]
    issued = next((date for name in _ISSUED_DATES for date in _dates(tree, name)), None)
    places: list[str] = []
    for place in tree.findall("{*}geoLocations/{*}geoLocation"):
        places += filter(None, [said(place.find("{*}geoLocationPlace"))])
        for shape, names in (("geoLocationBox", _BOX), ("geoLocationPoint", _POINT)):
            if (element := place.find(f"{{*}}{shape}")) is not None:
                # Before version 4 all numbers were in one text.
                places.append(" ".join(said(element.find(f"{{*}}{name}")) for name in names).strip() or said(element))
    return replace(
        bare,
        title=wording.title,
        description=described(wording, titles, texts, [name for name in people if name]),
        tags=tuple(map(said, tree.findall("{*}subjects/{*}subject"))),
        publisher=said(tree.find("{*}publisher")),
        licence=next(iter(licences), next(filter(None, map(said, rights)), "")),
        languages=codes_of([spoken]) if spoken else tuple(filter(None, [wording.language])),
        issued=issued or iso(said(tree.find("{*}publicationYear"))),
        modified=max(_dates(tree, "Updated"), default=bare.modified),
        spatial="; ".join(places),
        temporal=", ".join(_of_type(tree, "Coverage")),
        landing_page=_landing_page(tree),
        resources=tuple(_resources(tree)),
        record_kind=kind_named([kind.get("resourceTypeGeneral", "") if kind is not None else "", said(kind)])
        or bare.record_kind,
        texts=wording.others,
    )


def _dates(tree: Element, kind: str) -> list[str]:
    return [date for words in _of_type(tree, kind) if (date := iso(words.partition("/")[0]))]


def _of_type(tree: Element, kind: str) -> list[str]:
    dates = tree.findall("{*}dates/{*}date")
    return [words for date in dates if date.get("dateType") == kind and (words := said(date))]


def _landing_page(tree: Element) -> str:
    identifier = tree.find("{*}identifier")
    words = said(identifier)
    match (identifier.get("identifierType", "") if identifier is not None else "").upper():
        case "DOI" if words:
            return f"https://doi.org/{words.removeprefix('https://doi.org/').removeprefix('doi:')}"
        case "HANDLE" if words and not words.startswith("http"):
            return f"https://hdl.handle.net/{words}"
    others = [words, *map(said, tree.findall("{*}alternateIdentifiers/{*}alternateIdentifier"))]
    return next((other for other in others if other.startswith(("http://", "https://"))), "")


def _resources(tree: Element) -> Iterator[Resource]:
    """Yield the parts of the resource that have addresses; a single part gets the record's format and size."""
    forms = list(filter(None, map(said, tree.findall("{*}formats/{*}format"))))
    # A size without a unit may be a number of pages.
    texts = (text for text in map(said, tree.findall("{*}sizes/{*}size")) if text[-1:].isalpha())
    sizes = list(filter(None, map(size_of, texts)))
    parts = [
        part
        for part in tree.findall("{*}relatedIdentifiers/{*}relatedIdentifier")
        if part.get("relationType") == "HasPart" and part.get("relatedIdentifierType", "").upper() == "URL"
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


_NAMES = ("100", "110", "111", "700", "710", "711")
_PUBLISHED = ("264", "260")
_YEAR = re.compile(r"(?<!\d)(1[0-9]{3}|20[0-9]{2})(?!\d)")
_LANGUAGE = slice(35, 38)  # field 008: a three-letter code of MARC's language list
_ENTERED = slice(7, 11)  # field 008: the first year
_TYPE = slice(6, 7)  # of the leader: the type of the described resource
_KINDS = {"a": "document", "t": "document", "e": "map", "f": "map"}  # language material, cartographic material
_AT_ITS_END = " /:;,=."


def is_marc(tree: Element) -> bool:
    """Return whether an element is a MARC record, which has numbered fields."""
    return local(tree.tag) == "record" and tree.find("{*}datafield") is not None


def of_marc(bare: Dataset, tree: Element, language: str | None) -> Dataset:
    """Return the dataset of a MARC record."""
    fields = _Fields(tree)
    title = " ".join(fields.words("245", "a")[:1] + fields.words("245", "b") + fields.words("245", "np"))
    people = list(dict.fromkeys(word for tag in _NAMES for word in fields.words(tag, "a")))
    texts = fields.texts("520", "a") or fields.texts("500", "a")
    makers = f"By {'; '.join(people)}." if people else ""
    wording = wordings(title, "\n\n".join(filter(None, [*texts, makers])), preferred=language)
    links = list(fields.links())
    return replace(
        bare,
        title=wording.title,
        description=wording.description,
        tags=tuple(word for tag in ("650", "653", "655") for word in fields.words(tag, "a")),
        publisher=next((word for tag in _PUBLISHED for word in fields.words(tag, "b")), ""),
        licence=next(iter(fields.texts("540", "u") + fields.texts("540", "a")), ""),
        languages=codes_of(fields.languages()),
        issued=fields.issued(),
        spatial="; ".join(dict.fromkeys(fields.words("651", "a"))),
        temporal=", ".join(dict.fromkeys(fields.words("648", "a"))),
        landing_page=next((link.url for link in links), ""),
        resources=tuple(links),
        record_kind=_KINDS.get(fields.leader()[_TYPE], bare.record_kind),
    )


class _Fields:
    """The fields of a MARC record, by their numbers."""

    def __init__(self, tree: Element) -> None:
        self._tree = tree

    def words(self, tag: str, codes: str) -> list[str]:
        """Return the texts of subfields without their final punctuation."""
        return [words for text in self.texts(tag, codes) if (words := text.rstrip(_AT_ITS_END))]

    def texts(self, tag: str, codes: str) -> list[str]:
        """Return the texts of subfields."""
        parts = (part for field in self._fields(tag) for part in field.findall("{*}subfield"))
        return [words for part in parts if part.get("code", "") in codes and (words := said(part))]

    def links(self) -> Iterator[Resource]:
        """Yield the addresses of the resource; if the record has no links, its DOI."""
        linked = False
        for field in self._fields("856"):
            parts = {part.get("code", ""): said(part) for part in reversed(field.findall("{*}subfield"))}
            if url := parts.get("u", ""):
                linked = True
                media_type = parts.get("q", "") if "/" in parts.get("q", "") else ""
                name = parts.get("y") or parts.get("3") or parts.get("z") or ""
                yield Resource(url, name=name, format=format_of(media_type, url), media_type=media_type)
        for field in self._fields("024") if not linked else ():
            parts = {part.get("code", ""): said(part) for part in field.findall("{*}subfield")}
            if parts.get("2", "").lower() == "doi" and parts.get("a"):
                yield Resource(f"https://doi.org/{parts['a'].removeprefix('doi:')}")

    def languages(self) -> list[str]:
        """Return the languages of the text as three-letter codes, which a field may contain without separators."""
        codes = [words[at : at + 3] for words in self.words("041", "a") for at in range(0, len(words), 3)]
        coded = self._control("008")[_LANGUAGE].strip()
        return list(dict.fromkeys(codes or ([coded] if coded.isalpha() else [])))

    def leader(self) -> str:
        """Return the leader, a fixed-length part before all fields."""
        leader = self._tree.find("{*}leader")
        return "".join(leader.itertext()) if leader is not None else ""

    def issued(self) -> str | None:
        """Return the year of publication."""
        texts = [*(word for tag in _PUBLISHED for word in self.words(tag, "c")), self._control("008")[_ENTERED]]
        years = (_YEAR.search(words) for words in texts)
        return next((iso(year[1]) for year in years if year), None)

    def _fields(self, tag: str) -> Iterator[Element]:
        return (field for field in self._tree.findall("{*}datafield") if field.get("tag") == tag)

    def _control(self, tag: str) -> str:
        fields = (field for field in self._tree.findall("{*}controlfield") if field.get("tag") == tag)
        # Positions in the field have meanings, so nothing is stripped.
        return next(("".join(field.itertext()) for field in fields), "")


_HREF = "{http://www.w3.org/1999/xlink}href"
_TITLE = ("nonSort", "title", "subTitle", "partNumber", "partName")
_ISSUED = ("dateIssued", "copyrightDate", "dateCreated", "dateOther")


def is_mods(tree: Element) -> bool:
    """Return whether an element is a MODS record; False for a collection of MODS records."""
    return local(tree.tag) == "mods"


def of_mods(bare: Dataset, tree: Element, language: str | None) -> Dataset:
    """Return the dataset of a MODS record, without its related items."""
    # Each title is joined from its parts; the title without a type is the main title.
    titles: list[Element] = []
    for info in sorted(tree.findall("{*}titleInfo"), key=lambda info: info.get("type") is not None):
        parts = [words for name in _TITLE for words in map(said, info.findall(f"{{*}}{name}")) if words]
        title = Element(info.tag, dict(info.attrib))
        title.text = " ".join(parts)
        titles += [title] if parts else []
    texts = tree.findall("{*}abstract") + tree.findall("{*}tableOfContents")
    wording = worded(titles[:1], texts, preferred=language)
    people = [name for name in map(_name, tree.findall("{*}name")) if name]
    addresses = list(_addresses(tree))
    links = (condition.get(_HREF, "") for condition in tree.findall("{*}accessCondition"))
    places = _texts(tree, "{*}subject/{*}geographic", "{*}subject/{*}cartographics/{*}coordinates")
    forms = list(_texts(tree, "{*}physicalDescription/{*}internetMediaType"))
    files = [url for url in tree.findall("{*}location/{*}url") if url.get("access") == "raw object"]
    form = forms[0] if len(forms) == len(files) == 1 else ""
    return replace(
        bare,
        title=wording.title,
        description=described(wording, titles, texts, people),
        tags=tuple(_texts(tree, "{*}subject/{*}topic", "{*}genre", "{*}subject/{*}name/{*}namePart")),
        publisher=next(_texts(tree, "{*}originInfo/{*}publisher", "{*}originInfo/{*}agent/{*}namePart"), ""),
        licence=next(filter(None, links), "") or next(_texts(tree, "{*}accessCondition"), ""),
        languages=codes_of(_texts(tree, "{*}language/{*}languageTerm")),
        issued=_issued(tree),
        modified=max(filter(None, map(iso, _texts(tree, "{*}originInfo/{*}dateModified"))), default=bare.modified),
        spatial="; ".join(places),
        temporal=", ".join(_texts(tree, "{*}subject/{*}temporal")),
        landing_page=next(iter(addresses), ""),
        resources=tuple(
            Resource(said(url), name=url.get("displayLabel", ""), format=format_of(form, said(url)), media_type=form)
            for url in files
        ),
        record_kind=kind_named(_texts(tree, "{*}genre", "{*}typeOfResource")) or bare.record_kind,
        texts=wording.others,
    )


def _texts(tree: Element, *paths: str) -> Iterator[str]:
    """Yield the texts at some paths, without duplicates."""
    yield from dict.fromkeys(text for path in paths for text in map(said, tree.findall(path)) if text)


def _name(person: Element) -> str:
    """Return a person's display name, else the family name before the given name."""
    if shown := said(person.find("{*}displayForm")):
        return shown
    parts = {part.get("type", ""): said(part) for part in reversed(person.findall("{*}namePart"))}
    if "family" in parts:
        return ", ".join(filter(None, (parts["family"], parts.get("given", ""))))
    return parts.get("", "") or parts.get("given", "")


def _issued(tree: Element) -> str | None:
    for name in _ISSUED:
        dates = tree.findall(f"{{*}}originInfo/{{*}}{name}")
        # One of several dates may be marked as the key date; the end of a period is no date of issue.
        starts = [date for date in dates if date.get("point") != "end"]
        starts.sort(key=lambda date: date.get("keyDate") is None)
        if date := next(filter(None, map(iso, map(said, starts))), None):
            return date
    return None


def _addresses(tree: Element) -> Iterator[str]:
    """Yield the addresses of the resource: first its page, then other addresses, then its identifiers."""
    urls = [url for url in tree.findall("{*}location/{*}url") if url.get("access") != "preview"]
    urls.sort(key=lambda url: ("primary" not in url.get("usage", ""), url.get("access") == "raw object"))
    yield from (said(url) for url in urls if said(url).startswith(("http://", "https://")))
    for identifier in tree.findall("{*}identifier"):
        words, scheme = said(identifier), identifier.get("type", "").lower()
        if words.startswith(("http://", "https://")):
            yield words
        elif scheme == "doi" and words:
            yield f"https://doi.org/{words.removeprefix('doi:')}"
        elif scheme in ("hdl", "handle") and words:
            yield f"https://hdl.handle.net/{words.removeprefix('hdl:')}"


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
    """The texts in a record by the local names of their elements, in document order."""

    def __init__(self, metadata: Element | None) -> None:
        self._found: dict[str, list[Element]] = {}
        for tree in metadata.iter() if metadata is not None else ():
            if not len(tree) and said(tree):
                self._found.setdefault(local(tree.tag), []).append(tree)

    def trees(self, *names: str) -> list[Element]:
        """Return the elements with these names, in the order of the names."""
        return [tree for name in names for tree in self._found.get(name, ())]

    def words(self, *names: str) -> list[str]:
        """Return the texts of the elements with these names, without duplicates."""
        return list(dict.fromkeys(said(tree) for tree in self.trees(*names)))


def _of_dublin_core(bare: Dataset, leaves: _Leaves, language: str | None) -> Dataset:
    titles, texts = leaves.trees("title"), leaves.trees("abstract", "description")
    spoken = leaves.words("language")
    wording = worded(titles, texts, preferred=language or next(filter(None, map(code_of, spoken)), None))
    people = leaves.words("creator", "author", "authors")
    places = list(dict.fromkeys(_places(leaves.words("identifier", "doi", "URI"))))
    media = [form for form in leaves.words("format") if _MEDIA.fullmatch(form)]
    rights = leaves.words("license", "licence", "rights", "accessRights")
    files = [
        Resource(
            place,
            name=place.partition("?")[0].rpartition("/")[2],
            format=form.upper(),
            media_type=media[0] if len(media) == 1 else "",
        )
        for place in places
        if (form := _file_form(place))
    ]
    return replace(
        bare,
        title=wording.title,
        description=described(wording, titles, texts, people),
        tags=(*leaves.words("subject", "keyword", "topic"), *" ".join(leaves.words("categories")).split()),
        publisher=next(iter(leaves.words("publisher")), ""),
        # The address of the licence, if there is one among the rights.
        licence=next((right for right in rights if _URL.fullmatch(right)), next(iter(rights), "")),
        languages=codes_of(spoken) or tuple(filter(None, [wording.language])),
        issued=min(_iso_dates(leaves.words("issued", "dateIssued", "available", "created", "date")), default=None),
        modified=max(_iso_dates(leaves.words("modified", "updated")), default=bare.modified),
        spatial=", ".join(leaves.words("spatial", "coverage")),
        temporal=", ".join(leaves.words("temporal")),
        landing_page=next((place for place in places if not _file_form(place)), next(iter(places), "")),
        resources=tuple(files),
        record_kind=kind_named(leaves.words("type")) or bare.record_kind,
        texts=wording.others,
    )


def _source(record: Element) -> Mapping[str, Any]:
    """Return the whole record without schema locations, which are no content."""
    for tree in record.iter():
        for name in [name for name in tree.attrib if name.startswith(_INSTANCE)]:
            del tree.attrib[name]
    plain = plain_tree(record, _PREFIXES)
    return plain if isinstance(plain, dict) else {}


def _iso_dates(values: Iterable[str]) -> list[str]:
    return [date for value in values if (date := iso(value))]


def _places(values: Iterable[str]) -> Iterator[str]:
    """Yield the addresses of the resource from values that are web addresses or DOIs."""
    for value in values:
        if _URL.fullmatch(value):
            yield value
        elif match := _DOI.match(value):
            yield f"https://doi.org/{match[1]}"


def _file_form(place: str) -> str:
    """Return the file extension of an address; empty for a web page and for an address that is no file."""
    path = place.partition("://")[2].partition("/")[2]
    match = _FILE.search(path) if not place.startswith("https://doi.org/") else None
    return match[1].lower() if match and match[1].lower() not in _PAGES and not match[1].isdigit() else ""
