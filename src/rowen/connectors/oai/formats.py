"""Map records in DataCite, MARC 21 and MODS to datasets."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from rowen.connectors.catalog.dataset import Dataset, Resource, kind_named
from rowen.connectors.catalog.dates import iso
from rowen.connectors.catalog.resources import format_of, size_of
from rowen.connectors.catalog.text import Wording, code_of, codes_of, plain, wordings
from rowen.formats.xml import Element, local, said

__all__ = ["described", "is_datacite", "is_marc", "is_mods", "of_datacite", "of_marc", "of_mods", "worded"]

_LANG = "{http://www.w3.org/XML/1998/namespace}lang"


def worded(titles: Sequence[Element], texts: Sequence[Element], *, preferred: str | None) -> Wording:
    """Title and description, in all languages that they are marked with."""
    named = {code: plain(words[0]) for code, words in _by_language(titles).items()}
    text_of = {code: "\n\n".join(words) for code, words in _by_language(texts).items()}
    return wordings(named, text_of, preferred=preferred)


def described(wording: Wording, titles: Iterable[Element], texts: Iterable[Element], people: Sequence[str]) -> str:
    """Return the description with further titles before it, other texts and the authors after it."""
    shown = [wording.title, *(title for title, _ in wording.others.values())]
    further = [title for one in titles if (title := plain(said(one))) and title not in shown]
    told = "\n".join([wording.description, *(text for _, text in wording.others.values())])
    rest = [text for text in dict.fromkeys(map(_lines, texts)) if plain(text) not in told]
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
    """Return whether an element is the resource of a DataCite record, of any version."""
    return local(tree.tag) == "resource" and "datacite.org/schema/kernel" in tree.tag


def of_datacite(bare: Dataset, tree: Element, language: str | None) -> Dataset:
    """Return the dataset of the record; missing dates are those of the repository."""
    titles, texts = tree.findall("{*}titles/{*}title"), tree.findall("{*}descriptions/{*}description")
    main = [title for title in titles if title.get("titleType") is None] or titles
    spoken = said(tree.find("{*}language"))
    wording = worded(main, texts, preferred=language or code_of(spoken))
    kind = tree.find("{*}resourceType")
    people = [_person_name(one) for one in tree.findall("{*}creators/{*}creator")]
    return replace(
        bare,
        title=wording.title,
        description=described(wording, titles, texts, [name for name in people if name]),
        tags=tuple(map(said, tree.findall("{*}subjects/{*}subject"))),
        publisher=said(tree.find("{*}publisher")),
        licence=_rights(tree),
        languages=codes_of([spoken]) if spoken else tuple(filter(None, [wording.language])),
        issued=_date_issued(tree),
        modified=max(_dates(tree, "Updated"), default=bare.modified),
        spatial="; ".join(_places(tree)),
        temporal=", ".join(_of_type(tree, "Coverage")),
        landing_page=_landing_page(tree),
        resources=tuple(_resources(tree)),
        record_kind=kind_named([kind.get("resourceTypeGeneral", "") if kind is not None else "", said(kind)])
        or bare.record_kind,
        texts=wording.others,
    )


def _person_name(person: Element) -> str:
    return said(person.find("{*}creatorName"))


def _rights(tree: Element) -> str:
    """Return the first right with an address, else the first one in words."""
    rights = tree.findall("{*}rightsList/{*}rights") or tree.findall("{*}rights")
    named = [uri for right in rights if (uri := right.get("rightsURI")) and "info:eu-repo" not in uri]
    return next(iter(named), next(filter(None, map(said, rights)), ""))


def _date_issued(tree: Element) -> str | None:
    for kind in _ISSUED_DATES:
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
            if (element := place.find(f"{{*}}{shape}")) is not None:
                # Until version 4 the numbers stood in one text.
                yield " ".join(said(element.find(f"{{*}}{name}")) for name in names).strip() or said(element)


def _landing_page(tree: Element) -> str:
    identifier = tree.find("{*}identifier")
    words = said(identifier)
    match (identifier.get("identifierType", "") if identifier is not None else "").upper():
        case "DOI" if words:
            return f"https://doi.org/{words.removeprefix('https://doi.org/').removeprefix('doi:')}"
        case "HANDLE" if words and not words.startswith("http"):
            return f"https://hdl.handle.net/{words}"
    others = [words, *(said(one) for one in tree.findall("{*}alternateIdentifiers/{*}alternateIdentifier"))]
    return next((other for other in others if other.startswith(("http://", "https://"))), "")


def _resources(tree: Element) -> Iterator[Resource]:
    """Yield the parts of the thing that have addresses; a thing of one file and one format tells them for it."""
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
    """Return a size with a unit: without one it may count pages as well."""
    return size_of(text) if text[-1:].isalpha() else None


_NAMES = ("100", "110", "111", "700", "710", "711")
_PUBLISHED = ("264", "260")
_YEAR = re.compile(r"(?<!\d)(1[0-9]{3}|20[0-9]{2})(?!\d)")
_LANGUAGE = slice(35, 38)  # field 008: three letters, as in the list of MARC
_ENTERED = slice(7, 11)  # field 008: the first year
_TYPE = slice(6, 7)  # of the leader: what is described
_KINDS = {"a": "document", "t": "document", "e": "map", "f": "map"}  # language material, cartographic material
_AT_ITS_END = " /:;,=."


def is_marc(tree: Element) -> bool:
    """Return whether an element is a MARC record: one with fields by numbers."""
    return local(tree.tag) == "record" and tree.find("{*}datafield") is not None


def of_marc(bare: Dataset, tree: Element, language: str | None) -> Dataset:
    """Return the dataset of the record."""
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
    """The fields of a record by their numbers."""

    def __init__(self, tree: Element) -> None:
        self._tree = tree

    def words(self, tag: str, codes: str) -> list[str]:
        """Return the text of subfields without the punctuation that separates them."""
        return [words for text in self.texts(tag, codes) if (words := text.rstrip(_AT_ITS_END))]

    def texts(self, tag: str, codes: str) -> list[str]:
        """Return the texts of subfields."""
        parts = (part for field in self._fields(tag) for part in field.findall("{*}subfield"))
        return [words for part in parts if part.get("code", "") in codes and (words := said(part))]

    def links(self) -> Iterator[Resource]:
        """Yield where the thing is found; a DOI where no link is given."""
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
        """Return the languages of the text, three letters each, which may be written in a row."""
        codes = [words[at : at + 3] for words in self.words("041", "a") for at in range(0, len(words), 3)]
        coded = self._control("008")[_LANGUAGE].strip()
        return list(dict.fromkeys(codes or ([coded] if coded.isalpha() else [])))

    def leader(self) -> str:
        """Return the fixed part before all fields, in which positions count."""
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
        # The positions count: nothing is stripped.
        return next(("".join(field.itertext()) for field in fields), "")


_HREF = "{http://www.w3.org/1999/xlink}href"
_TITLE = ("nonSort", "title", "subTitle", "partNumber", "partName")
_ISSUED = ("dateIssued", "copyrightDate", "dateCreated", "dateOther")


def is_mods(tree: Element) -> bool:
    """Return whether an element is a MODS record; a collection of them holds one here."""
    return local(tree.tag) == "mods"


def of_mods(bare: Dataset, tree: Element, language: str | None) -> Dataset:
    """Return the dataset of the record itself, without related ones."""
    titles, texts = list(_titles(tree)), tree.findall("{*}abstract") + tree.findall("{*}tableOfContents")
    wording = worded(titles[:1], texts, preferred=language)
    people = [name for one in tree.findall("{*}name") if (name := _name(one))]
    addresses = list(_addresses(tree))
    return replace(
        bare,
        title=wording.title,
        description=described(wording, titles, texts, people),
        tags=tuple(_told(tree, "{*}subject/{*}topic", "{*}genre", "{*}subject/{*}name/{*}namePart")),
        publisher=next(_told(tree, "{*}originInfo/{*}publisher", "{*}originInfo/{*}agent/{*}namePart"), ""),
        licence=_licence(tree),
        languages=codes_of(_told(tree, "{*}language/{*}languageTerm")),
        issued=_issued(tree),
        modified=max(filter(None, map(iso, _told(tree, "{*}originInfo/{*}dateModified"))), default=bare.modified),
        spatial="; ".join(
            dict.fromkeys(_told(tree, "{*}subject/{*}geographic", "{*}subject/{*}cartographics/{*}coordinates"))
        ),
        temporal=", ".join(_told(tree, "{*}subject/{*}temporal")),
        landing_page=next(iter(addresses), ""),
        resources=tuple(_files(tree)),
        record_kind=kind_named(_told(tree, "{*}genre", "{*}typeOfResource")) or bare.record_kind,
        texts=wording.others,
    )


def _told(tree: Element, *paths: str) -> Iterator[str]:
    yield from dict.fromkeys(words for path in paths for one in tree.findall(path) if (words := said(one)))


def _titles(tree: Element) -> Iterator[Element]:
    """Yield the titles, each put together from its parts; the one without a type is the main one."""
    for info in sorted(tree.findall("{*}titleInfo"), key=lambda one: one.get("type") is not None):
        parts = [words for name in _TITLE for one in info.findall(f"{{*}}{name}") if (words := said(one))]
        title = Element(info.tag, dict(info.attrib))
        title.text = " ".join(parts)
        if parts:
            yield title


def _name(one: Element) -> str:
    """Return a name as it is shown, else its parts: the family's before the given one."""
    if shown := said(one.find("{*}displayForm")):
        return shown
    parts = {part.get("type", ""): said(part) for part in reversed(one.findall("{*}namePart"))}
    if "family" in parts:
        return ", ".join(filter(None, (parts["family"], parts.get("given", ""))))
    return parts.get("", "") or parts.get("given", "")


def _licence(tree: Element) -> str:
    conditions = tree.findall("{*}accessCondition")
    linked = (condition.get(_HREF, "") for condition in conditions)
    return next(filter(None, linked), "") or next(_told(tree, "{*}accessCondition"), "")


def _issued(tree: Element) -> str | None:
    for name in _ISSUED:
        dates = tree.findall(f"{{*}}originInfo/{{*}}{name}")
        # One of several is marked as the one to sort by; an end is no date of issue.
        dates = sorted(
            (date for date in dates if date.get("point") != "end"), key=lambda one: one.get("keyDate") is None
        )
        if date := next(filter(None, (iso(said(date)) for date in dates)), None):
            return date
    return None


def _addresses(tree: Element) -> Iterator[str]:
    """Yield where the thing is found: its page before others, then its identifiers."""
    urls = [one for one in tree.findall("{*}location/{*}url") if one.get("access") != "preview"]
    for url in sorted(urls, key=lambda one: ("primary" not in one.get("usage", ""), one.get("access") == "raw object")):
        if said(url).startswith(("http://", "https://")):
            yield said(url)
    for one in tree.findall("{*}identifier"):
        words = said(one)
        if words.startswith(("http://", "https://")):
            yield words
        elif one.get("type", "").lower() == "doi" and words:
            yield f"https://doi.org/{words.removeprefix('doi:')}"
        elif one.get("type", "").lower() in ("hdl", "handle") and words:
            yield f"https://hdl.handle.net/{words.removeprefix('hdl:')}"


def _files(tree: Element) -> Iterator[Resource]:
    forms = list(_told(tree, "{*}physicalDescription/{*}internetMediaType"))
    urls = [one for one in tree.findall("{*}location/{*}url") if one.get("access") == "raw object"]
    form = forms[0] if len(forms) == len(urls) == 1 else ""
    for url in urls:
        yield Resource(said(url), name=url.get("displayLabel", ""), format=format_of(form, said(url)), media_type=form)
