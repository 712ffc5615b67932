"""Geographic metadata by ISO 19115: in the writing of ISO 19139 (gmd), and in that of ISO 19115-3 (mdb).

Both are alike but for namespaces and some names, so that one reading by local names does for both.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from rowen.connectors.catalog.dataset import Dataset, Resource, address_of_licence, kind_named
from rowen.connectors.catalog.dates import iso
from rowen.connectors.catalog.resources import format_of
from rowen.connectors.catalog.text import code_of, plain, wordings
from rowen.formats.xml import Element, local, said

__all__ = ["dataset", "form_of", "identifier", "is_iso", "stamp"]

_HREF = "{http://www.w3.org/1999/xlink}href"
_BOX = ("westBoundLongitude", "southBoundLatitude", "eastBoundLongitude", "northBoundLatitude")
_ROLES = ("publisher", "owner", "resourceProvider", "custodian", "pointOfContact")
_PARTIES = "{*}pointOfContact/*", "{*}citation/{*}CI_Citation/{*}citedResponsibleParty/*"
_PROTOCOL = re.compile(r"(OGC:[A-Z0-9]+|ESRI:[A-Za-z0-9]+|WWW:[A-Z]+)")
_MOST_MB = 1e9  # a petabyte: what is said to be larger was given in bytes, or is a mistake


def is_iso(record: Element) -> bool:
    """Return whether a record is one of ISO 19115, in whichever writing."""
    return local(record.tag) in ("MD_Metadata", "MI_Metadata")


def identifier(record: Element) -> str:
    """Return the identifier of the metadata."""
    return _words(record.find("{*}fileIdentifier")) or _words(
        record.find("{*}metadataIdentifier/{*}MD_Identifier/{*}code")
    )


def stamp(record: Element) -> str:
    """Return the date of the metadata, as it is written."""
    if old := _words(record.find("{*}dateStamp")):
        return old
    dates = _dates(record.findall("{*}dateInfo/{*}CI_Date"))
    return dates.get("revision") or dates.get("creation") or next(iter(dates.values()), "")


def dataset(bare: Dataset, record: Element, language: str | None) -> Dataset:
    """Return the dataset that the metadata describes."""
    about = record.find("{*}identificationInfo/*")
    if about is None:
        return replace(bare, modified=iso(stamp(record)))
    locales, main = _locales(record), _main_language(record)
    cited = about.find("{*}citation/{*}CI_Citation")
    titled = _texts(None if cited is None else cited.find("{*}title"), locales, main)
    told = _texts(about.find("{*}abstract"), locales, main)
    wording = wordings(titled, told, preferred=language or main)
    dates = _dates(cited.findall("{*}date/{*}CI_Date")) if cited is not None else {}
    resources = tuple(_resources(record))
    return replace(
        bare,
        title=wording.title,
        description=wording.description,
        tags=tuple(_tags(about)),
        publisher=_publisher(record, about),
        licence=_licence(about),
        languages=tuple(dict.fromkeys([*_languages(about), *filter(None, [main]), *wording.others])),
        issued=iso(dates.get("publication")) or iso(dates.get("creation")),
        modified=iso(dates.get("revision")) or iso(stamp(record)),
        spatial="; ".join(dict.fromkeys(_places(about))),
        temporal=", ".join(dict.fromkeys(_periods(about))),
        landing_page=_landing_page(record, resources),
        resources=resources,
        record_kind=_record_kind(record, about),
        texts=wording.others,
    )


def _record_kind(record: Element, about: Element) -> str | None:
    """Return the scope of the metadata; without one, a dataset, as in the standard, unless it describes a service."""
    scopes = record.findall("{*}hierarchyLevel") + record.findall(
        "{*}metadataScope/{*}MD_MetadataScope/{*}resourceScope"
    )
    codes = [code for one in scopes for scope in one if (code := scope.get("codeListValue") or said(scope))]
    if not codes:
        return "service" if local(about.tag) == "SV_ServiceIdentification" else None
    return kind_named(codes) or "other"


def form_of(protocol: str) -> str:
    """Return the service or kind of link that a protocol stands for, without the version of either."""
    match = _PROTOCOL.match(protocol)
    return match[1] if match else protocol


def _words(tree: Element | None) -> str:
    """Return the text of a property in the main language; of a code, its value."""
    for one in tree if tree is not None else ():
        if local(one.tag) != "PT_FreeText":
            return "\n".join(line.strip() for line in "".join(one.itertext()).strip().splitlines()) or one.get(
                "codeListValue", ""
            )
    return ""


def _texts(tree: Element | None, locales: Mapping[str, str], main: str | None) -> dict[str, str]:
    """Return the texts of a property by language."""
    texts = {main or "": _words(tree)}
    for one in tree.findall("{*}PT_FreeText/{*}textGroup/{*}LocalisedCharacterString") if tree is not None else ():
        name = one.get("locale", "").lstrip("#")
        code = locales.get(name) or code_of(name) or name.lower()
        texts.setdefault(code, "".join(one.itertext()).strip())
    return {code: text for code, text in texts.items() if text}


def _locales(record: Element) -> dict[str, str]:
    locales = {}
    for one in record.findall("{*}locale/{*}PT_Locale") + record.findall("{*}otherLocale/{*}PT_Locale"):
        code = _language(one.find("{*}languageCode")) or _language(one.find("{*}language"))
        locales[one.get("id", "")] = code
    return locales


def _main_language(record: Element) -> str | None:
    language = _language(record.find("{*}language")) or _language(
        record.find("{*}defaultLocale/{*}PT_Locale/{*}language")
    )
    return language or None


def _languages(about: Element) -> list[str]:
    properties = about.findall("{*}language") + about.findall("{*}defaultLocale/{*}PT_Locale/{*}language")
    return [code for one in properties if (code := _language(one))]


def _language(tree: Element | None) -> str:
    if tree is None:
        return ""
    coded = next((one.get("codeListValue", "") for one in tree), "")
    words = coded or _words(tree)
    return code_of(words) or words.lower()


def _tags(about: Element) -> Iterator[str]:
    for one in about.findall("{*}descriptiveKeywords/{*}MD_Keywords/{*}keyword"):
        if words := _words(one):
            yield words
    for one in about.findall("{*}topicCategory"):
        yield _words(one)


def _publisher(record: Element, about: Element) -> str:
    """Return the organisation whose role is the nearest to publishing."""
    parties = [party for path in _PARTIES for party in about.findall(path)] + record.findall("{*}contact/*")
    named = [(_words(party.find("{*}role")), _organisation(party)) for party in parties]
    for role in _ROLES:
        for played, name in named:
            if played == role and name:
                return name
    return next((name for _, name in named if name), "")


def _organisation(party: Element) -> str:
    return _words(party.find("{*}organisationName")) or _words(party.find("{*}party/{*}CI_Organisation/{*}name"))


def _licence(about: Element) -> str:
    """Return the constraints of use: the address of a licence if there is one, else text."""
    blocks = about.findall("{*}resourceConstraints/*")
    blocks.sort(key=lambda block: block.find("{*}useConstraints") is None)
    licences = [words for block in blocks for words in _constraints(block) if words]
    return next(filter(None, map(address_of_licence, licences)), "") or next(iter(licences), "")


def _constraints(block: Element) -> Iterator[str]:
    """Return the texts and links of a block; a licence may be cited as a document."""
    for one in block:
        if local(one.tag) in ("otherConstraints", "useLimitation"):
            anchor = one.find("{*}Anchor")
            if address := address_of_licence(anchor.get(_HREF, "") if anchor is not None else ""):
                yield address
            yield _words(one)
    for cited in block.findall("{*}reference/{*}CI_Citation"):
        for linkage in cited.findall("{*}onlineResource/{*}CI_OnlineResource/{*}linkage"):
            yield address_of_licence(_words(linkage))
        yield _words(cited.find("{*}title"))


def _dates(dates: list[Element]) -> dict[str, str]:
    """Return the first date of each type."""
    found: dict[str, str] = {}
    for one in dates:
        found.setdefault(_words(one.find("{*}dateType")), _words(one.find("{*}date")))
    return {kind: date for kind, date in found.items() if date}


def _places(about: Element) -> Iterator[str]:
    for extent in about.findall("{*}extent/{*}EX_Extent"):
        if words := _words(extent.find("{*}description")):
            yield words
        for named in extent.findall(".//{*}EX_GeographicDescription/{*}geographicIdentifier/*/{*}code"):
            yield _words(named)
        for box in extent.findall(".//{*}EX_GeographicBoundingBox"):
            yield " ".join(_words(box.find(f"{{*}}{name}")) for name in _BOX)


def _periods(about: Element) -> Iterator[str]:
    for period in about.findall(".//{*}EX_TemporalExtent/{*}extent/{*}TimePeriod"):
        begin = said(period.find("{*}beginPosition")) or said(period.find("{*}begin"))
        end = said(period.find("{*}endPosition")) or said(period.find("{*}end"))
        if begin or end:
            yield f"{iso(begin) or begin}/{iso(end) or end}"
    for instant in about.findall(".//{*}EX_TemporalExtent/{*}extent/{*}TimeInstant/{*}timePosition"):
        if at := said(instant):
            yield iso(at) or at


def _landing_page(record: Element, resources: tuple[Resource, ...]) -> str:
    address = _words(record.find("{*}dataSetURI"))
    links = [resource.url for resource in resources if resource.format == "WWW:LINK"]
    return next((url for url in (address, *links) if url.startswith(("http://", "https://"))), "")


def _resources(record: Element) -> Iterator[Resource]:
    seen = set()
    forms = [_words(one) for one in record.findall("{*}distributionInfo//{*}MD_Format/{*}name")]
    forms += [_words(one) for one in record.findall("{*}distributionInfo//{*}formatSpecificationCitation/*/{*}title")]
    known = [form for form in dict.fromkeys(forms) if form]
    for options in record.findall("{*}distributionInfo//{*}MD_DigitalTransferOptions"):
        links = options.findall("{*}onLine/{*}CI_OnlineResource")
        size_bytes = _size_bytes(options) if len(links) == 1 else None
        for link in links:
            resource = _resource(link, known[0] if len(known) == 1 else "", size_bytes)
            if resource.url and resource.url not in seen:
                seen.add(resource.url)
                yield resource
    for link in record.findall("{*}identificationInfo//{*}connectPoint/{*}CI_OnlineResource"):
        resource = _resource(link, "", None)
        if resource.url and resource.url not in seen:
            seen.add(resource.url)
            yield resource


def _resource(link: Element, form: str, size_bytes: int | None) -> Resource:
    protocol = _words(link.find("{*}protocol"))
    is_type = "/" in protocol and ":" not in protocol
    url = _words(link.find("{*}linkage"))
    name = form_of(protocol) if protocol and not is_type else form
    return Resource(
        url=url,
        name=_words(link.find("{*}name")),
        description=plain(_words(link.find("{*}description"))),
        format=name or format_of(protocol if is_type else "", url),
        media_type=protocol if is_type else "",
        size_bytes=size_bytes,
    )


def _size_bytes(options: Element) -> int | None:
    """Return the transfer size, which is given in megabytes."""
    try:
        size = float(_words(options.find("{*}transferSize")))
    except ValueError:
        return None
    return int(size * 1_000_000) if 0 < size < _MOST_MB else None
