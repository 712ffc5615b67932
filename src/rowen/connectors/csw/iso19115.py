"""Map geographic metadata by ISO 19115, encoded as ISO 19139 (gmd) or as ISO 19115-3 (mdb).

The encodings differ in namespaces and in some names, so one reader by local names covers both.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from rowen.connectors.catalog.dataset import Dataset, Resource, address_of_licence, kind_named
from rowen.connectors.catalog.dates import iso
from rowen.connectors.catalog.resources import format_of
from rowen.connectors.catalog.text import code_of, plain, wordings
from rowen.formats.xml import Element, local, said

_HREF = "{http://www.w3.org/1999/xlink}href"
_BOX = ("westBoundLongitude", "southBoundLatitude", "eastBoundLongitude", "northBoundLatitude")
_ROLES = ("publisher", "owner", "resourceProvider", "custodian", "pointOfContact")
_PARTIES = "{*}pointOfContact/*", "{*}citation/{*}CI_Citation/{*}citedResponsibleParty/*"
_PROTOCOL = re.compile(r"(OGC:[A-Z0-9]+|ESRI:[A-Za-z0-9]+|WWW:[A-Z]+)")
_MOST_MB = 1e9  # a petabyte: a larger value is in bytes, or is a mistake


def is_iso(record: Element) -> bool:
    """Return whether a record is ISO 19115, in either encoding."""
    return local(record.tag) in ("MD_Metadata", "MI_Metadata")


def identifier(record: Element) -> str:
    """Return the identifier of the metadata; empty if there is none."""
    return _words(record.find("{*}fileIdentifier")) or _words(
        record.find("{*}metadataIdentifier/{*}MD_Identifier/{*}code")
    )


def stamp(record: Element) -> str:
    """Return the date of the metadata in its original form."""
    if old := _words(record.find("{*}dateStamp")):
        return old
    dates = _dates(record.findall("{*}dateInfo/{*}CI_Date"))
    return dates.get("revision") or dates.get("creation") or next(iter(dates.values()), "")


def dataset(bare: Dataset, record: Element, language: str | None) -> Dataset:
    """Return the dataset that the metadata describes; `bare` has its URL and identifier."""
    about = record.find("{*}identificationInfo/*")
    if about is None:
        return replace(bare, modified=iso(stamp(record)))
    locales = {
        locale.get("id", ""): _language(locale.find("{*}languageCode")) or _language(locale.find("{*}language"))
        for path in ("{*}locale/{*}PT_Locale", "{*}otherLocale/{*}PT_Locale")
        for locale in record.findall(path)
    }
    # The main language of the metadata, and the languages of the data.
    of_locale = "{*}defaultLocale/{*}PT_Locale/{*}language"
    main = _language(record.find("{*}language")) or _language(record.find(of_locale)) or None
    languages = filter(None, map(_language, about.findall("{*}language") + about.findall(of_locale)))
    cited = about.find("{*}citation/{*}CI_Citation")
    titles = _texts(None if cited is None else cited.find("{*}title"), locales, main)
    abstracts = _texts(about.find("{*}abstract"), locales, main)
    wording = wordings(titles, abstracts, preferred=language or main)
    dates = _dates(cited.findall("{*}date/{*}CI_Date")) if cited is not None else {}
    resources = tuple(_resources(record))
    links = (resource.url for resource in resources if resource.format == "WWW:LINK")
    pages = (_words(record.find("{*}dataSetURI")), *links)
    keywords = about.findall("{*}descriptiveKeywords/{*}MD_Keywords/{*}keyword")
    scopes = record.findall("{*}hierarchyLevel")
    scopes += record.findall("{*}metadataScope/{*}MD_MetadataScope/{*}resourceScope")
    codes = [code for scope in scopes for value in scope if (code := value.get("codeListValue") or said(value))]
    # Without a scope the record describes a dataset, as in the standard, unless it identifies a service.
    default_kind = "service" if local(about.tag) == "SV_ServiceIdentification" else None
    return replace(
        bare,
        title=wording.title,
        description=wording.description,
        tags=(*filter(None, map(_words, keywords)), *map(_words, about.findall("{*}topicCategory"))),
        publisher=_publisher(record, about),
        licence=_licence(about),
        languages=tuple(dict.fromkeys([*languages, *filter(None, [main]), *wording.others])),
        issued=iso(dates.get("publication")) or iso(dates.get("creation")),
        modified=iso(dates.get("revision")) or iso(stamp(record)),
        spatial="; ".join(dict.fromkeys(_places(about))),
        temporal=", ".join(dict.fromkeys(_periods(about))),
        landing_page=next((url for url in pages if url.startswith(("http://", "https://"))), ""),
        resources=resources,
        record_kind=(kind_named(codes) or "other") if codes else default_kind,
        texts=wording.others,
    )


def form_of(protocol: str) -> str:
    """Return the type of service or link of a protocol, without the version."""
    match = _PROTOCOL.match(protocol)
    return match[1] if match else protocol


def _words(tree: Element | None) -> str:
    """Return the text of a property in the main language; if the property is a code, return its value."""
    for part in tree if tree is not None else ():
        if local(part.tag) != "PT_FreeText":
            return "\n".join(line.strip() for line in "".join(part.itertext()).strip().splitlines()) or part.get(
                "codeListValue", ""
            )
    return ""


def _texts(tree: Element | None, locales: Mapping[str, str], main: str | None) -> dict[str, str]:
    """Return the texts of a property by language."""
    texts = {main or "": _words(tree)}
    for part in tree.findall("{*}PT_FreeText/{*}textGroup/{*}LocalisedCharacterString") if tree is not None else ():
        name = part.get("locale", "").lstrip("#")
        code = locales.get(name) or code_of(name) or name.lower()
        texts.setdefault(code, "".join(part.itertext()).strip())
    return {code: text for code, text in texts.items() if text}


def _language(tree: Element | None) -> str:
    if tree is None:
        return ""
    coded = next((part.get("codeListValue", "") for part in tree), "")
    words = coded or _words(tree)
    return code_of(words) or words.lower()


def _publisher(record: Element, about: Element) -> str:
    """Return the organisation with the most suitable role: publisher first, then owner."""
    parties = [party for path in _PARTIES for party in about.findall(path)] + record.findall("{*}contact/*")
    names: list[tuple[str, str]] = []
    for party in parties:
        old = _words(party.find("{*}organisationName"))
        name = old or _words(party.find("{*}party/{*}CI_Organisation/{*}name"))
        names += [(_words(party.find("{*}role")), name)] if name else []
    by_role = (name for wanted in _ROLES for role, name in names if role == wanted)
    return next(by_role, names[0][1] if names else "")


def _licence(about: Element) -> str:
    """Return the constraints of use: the address of a licence if there is one, else the first text."""
    blocks = about.findall("{*}resourceConstraints/*")
    blocks.sort(key=lambda block: block.find("{*}useConstraints") is None)
    texts: list[str] = []
    for block in blocks:
        for part in block:
            if local(part.tag) in ("otherConstraints", "useLimitation"):
                anchor = part.find("{*}Anchor")
                texts += [address_of_licence(anchor.get(_HREF, "") if anchor is not None else ""), _words(part)]
        # A licence may be given as a cited document.
        for cited in block.findall("{*}reference/{*}CI_Citation"):
            linkages = cited.findall("{*}onlineResource/{*}CI_OnlineResource/{*}linkage")
            texts += [*(address_of_licence(_words(linkage)) for linkage in linkages), _words(cited.find("{*}title"))]
    licences = list(filter(None, texts))
    return next(filter(None, map(address_of_licence, licences)), "") or next(iter(licences), "")


def _dates(dates: list[Element]) -> dict[str, str]:
    """Return the first date of each type."""
    first: dict[str, str] = {}
    for date in dates:
        first.setdefault(_words(date.find("{*}dateType")), _words(date.find("{*}date")))
    return {kind: date for kind, date in first.items() if date}


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


def _resources(record: Element) -> list[Resource]:
    formats = record.findall("{*}distributionInfo//{*}MD_Format/{*}name")
    formats += record.findall("{*}distributionInfo//{*}formatSpecificationCitation/*/{*}title")
    known = {form for form in map(_words, formats) if form}
    resources: list[Resource] = []
    for options in record.findall("{*}distributionInfo//{*}MD_DigitalTransferOptions"):
        links = options.findall("{*}onLine/{*}CI_OnlineResource")
        size_bytes = _size_bytes(options) if len(links) == 1 else None
        resources += [_resource(link, min(known) if len(known) == 1 else "", size_bytes) for link in links]
    points = record.findall("{*}identificationInfo//{*}connectPoint/{*}CI_OnlineResource")
    resources += [_resource(link, "", None) for link in points]
    firsts: dict[str, Resource] = {}
    for resource in resources:
        firsts.setdefault(resource.url, resource)
    return [resource for url, resource in firsts.items() if url]


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
