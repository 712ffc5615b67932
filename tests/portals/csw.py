"""A small catalogue service on loopback that changes, lies and fails."""

import re
from dataclasses import dataclass, replace
from datetime import datetime
from random import Random
from typing import Any
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from aiohttp import web

from tests.portals.catalogs import Changing, Portal, some_words
from tests.portals.site import WORDS

GMD = "http://www.isotc211.org/2005/gmd"
MDB = "http://standards.iso.org/iso/19115/-3/mdb/2.0"
CSW = {"2.0.2": "http://www.opengis.net/cat/csw/2.0.2", "3.0.0": "http://www.opengis.net/cat/csw/3.0"}
SPACES = (
    f'xmlns:gmd="{GMD}" xmlns:gco="http://www.isotc211.org/2005/gco" xmlns:gmx="http://www.isotc211.org/2005/gmx" '
    'xmlns:gml="http://www.opengis.net/gml" xmlns:xlink="http://www.w3.org/1999/xlink" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dct="http://purl.org/dc/terms/" '
    'xmlns:ows="http://www.opengis.net/ows" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
)
REPORT = (
    '<ows:ExceptionReport xmlns:ows="http://www.opengis.net/ows"><ows:Exception exceptionCode="{code}">'
    "<ows:ExceptionText>It does not work.</ows:ExceptionText></ows:Exception></ows:ExceptionReport>"
)


@dataclass(frozen=True)
class Entry:
    """One record; `extra` is XML in it that may be anything."""

    identifier: str
    title: str
    abstract: str
    at: datetime
    publisher: str = "The Farm"
    extra: str = ""
    stamp: str | None = None


@dataclass(frozen=True)
class Wish:
    """What was asked for, however it was asked."""

    kind: str
    schema: str
    version: str
    at: int
    size: int
    since: str | None
    sort: str | None
    brief: bool
    types: str = "csw:Record"
    method: str = "POST"
    last_first: bool = False


WISH = web.RequestKey("wish", Wish)
HEAD = f'<csw:GetRecordsResponse xmlns:csw="{CSW["2.0.2"]}"><csw:SearchStatus timestamp="x"/>'.encode()


class CswService(Portal):
    """Records by identifier."""

    filter_marks = ("PropertyIsGreaterThanOrEqualTo", "constraint=")

    no_listings = (
        HEAD + b'<csw:SearchResults numberOfRecordsMatched="0"/></csw:GetRecordsResponse>',
        HEAD + b'<csw:SearchResults numberOfRecordsMatched="21"/></csw:GetRecordsResponse>',
        HEAD + b"<csw:SearchResults/></csw:GetRecordsResponse>",
        HEAD + b"</csw:GetRecordsResponse>",
        HEAD + b'<csw:SearchResults numberOfRecordsMatched="21"><csw:Record>',
        b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><csw>&b;</csw>',
        b"<html><body>Maintenance</body></html>",
        b"<rss/>",
        b"{}",
    )
    pause_h = 200

    def __init__(self) -> None:
        super().__init__()
        self.base = f"{self.url}/csw"
        self.address = f"csw:{self.base}"
        self.records: dict[str, Entry] = {}
        self.version = "2.0.2"
        self.schemas = [GMD, CSW["2.0.2"]]
        self.told_schemas = True
        self.methods = ["Get", "Post"]
        self.binding = self.base
        self.sorts = {"dc:identifier", "apiso:Modified"}
        self.dates = {"apiso:Modified"}
        self.types = {"csw:Record", "gmd:MD_Metadata"}
        self.window = 10**9
        self.counts_to = 10**9
        self.following = "honest"
        self.poison: set[str] = set()
        self.unnameable: set[str] = set()
        self.omitted: set[str] = set()
        self.writes: dict[str, str] = {}
        self.leading = b""
        self.report_status = 200
        self.cut_bytes = 0

    def make(self, name: str, /, title: Any = None, *, tick_h: float = 26, **more: Any) -> None:
        """A record as it is from now on."""
        self.tick(tick_h)
        facts = {"title": title or f"Map {name}", "abstract": f"All about {name}.", "identifier": name, **more}
        self.records[name] = Entry(at=self.clock, **facts)

    def make_nested(self, name: str, depth: int) -> None:
        """A record with elements in elements in elements."""
        self.make(name, extra="<gmd:n><gmd:n/>" * depth + "</gmd:n>" * depth)

    def make_twin(self, name: str) -> None:
        """Another record of the same identifier."""
        self.make("twin", identifier=name)

    def spoil(self, name: str) -> None:
        self.make(name, extra="<gmd:broken>")

    def went_on(self, behind: int) -> bool:
        return self.wishes()[0].at == behind + 1

    def wishes(self) -> list[Wish]:
        return [asked.headers["wish"] for asked in self.log if "wish" in asked.headers]  # type: ignore[misc]

    def _noted(self, request: web.Request) -> dict[str, Any]:
        return {"wish": request[WISH]} if WISH in request else {}

    async def _search(self, request: web.Request) -> web.Response:
        if request.path != "/csw":
            return web.Response(status=404, text="Not found")
        query = {name.lower(): value for name, value in request.query.items()}
        if query.get("request") == "GetCapabilities":
            asked = query.get("version", self.version)
            return (
                self._told(self._capabilities()) if asked == self.version else self._report("VersionNegotiationFailed")
            )
        if query.get("request") == "GetRecordById":
            return self._by_identifier(query["id"], query["outputschema"])
        method = request.method.title()
        if method not in self.methods:
            return web.Response(status=405, text="Not allowed")
        wish = _posted(await request.read()) if method == "Post" else _queried(query)
        request[WISH] = wish
        return await self._records(wish)

    async def _records(self, wish: Wish) -> web.Response:
        if self.body is not None and wish.kind == "results":
            return web.Response(body=self.body, content_type="application/xml")
        if refused := await self.burden(wish.size):
            return refused
        if wish.schema not in self.schemas or wish.types not in self.types or wish.version != self.version:
            return self._report("InvalidParameterValue")
        if wish.sort is not None and wish.sort not in self.sorts:
            return self._report("InvalidParameterValue")
        prop = wish.since.partition(" ")[0] if wish.since else None
        if prop is not None and prop not in self.dates:
            return self._report("NoApplicableCode")
        return self._page(wish)

    def _page(self, wish: Wish) -> web.Response:
        found = self._found(wish)
        start = 0 if "start" in self.ignores else wish.at - 1
        size = min(wish.size, self.page_max) if wish.kind == "results" else 0
        if size and (start + size > self.window or (start >= len(found) and start)):
            return self._report("InvalidParameterValue" if start < self.window else "NoApplicableCode")
        page = found[start : start + size]
        spoiled = self.unnameable if wish.brief else self.poison
        if spoiled & {entry.identifier for entry in page}:
            return self._report("NoApplicableCode")
        matched = min(max(0, len(found) + self.miscount), self.counts_to)
        following = {"honest": start + size + 1 if start + size < matched else 0, "lies": 85}.get(self.following, 0)
        records = "".join(self._record(one, wish) for one in page if one.identifier not in self.omitted)
        response = self._told(
            f'<csw:GetRecordsResponse xmlns:csw="{CSW[self.version]}" {SPACES} xsi:schemaLocation="a b">'
            f'<csw:SearchStatus timestamp="{self.clock:%Y-%m-%dT%H:%M:%S}"/><csw:SearchResults '
            f'numberOfRecordsMatched="{matched}" numberOfRecordsReturned="{len(page)}" nextRecord="{following}" '
            f'elementSet="full">{records}</csw:SearchResults></csw:GetRecordsResponse>'
        )
        if size:
            self.turn(start)
        return response

    def _by_identifier(self, identifier: str, schema: str) -> web.Response:
        if self.poison & {identifier}:
            return self._report("NoApplicableCode")
        wish = Wish("results", schema, self.version, 1, 1, None, None, brief=False, method="GET")
        named = [entry for entry in self.records.values() if entry.identifier == identifier]
        records = "".join(self._record(entry, wish) for entry in named[:1])
        return self._told(
            f'<csw:GetRecordByIdResponse xmlns:csw="{CSW[self.version]}" {SPACES}>{records}</csw:GetRecordByIdResponse>'
        )

    def _found(self, wish: Wish) -> list[Entry]:
        found = sorted(self.records.items())
        if "order" in self.ignores or wish.sort is None:
            Random(len(self.log)).shuffle(found)
        elif wish.sort == "apiso:Modified":
            found.sort(key=lambda one: one[1].at)
        entries = [entry for _, entry in (found[::-1] if wish.last_first else found)]
        if wish.since is None or "filter" in self.ignores:
            return entries
        since = wish.since.rpartition(" ")[2]
        return [] if self.empty_when_filtered else [one for one in entries if f"{one.at:%Y-%m-%dT%H:%M:%S}" >= since]

    def _told(self, text: str) -> web.Response:
        body = self.leading + b'<?xml version="1.0" encoding="UTF-8"?>\n' + text.encode("utf-8", "surrogatepass")
        return web.Response(body=body[: len(body) - self.cut_bytes], content_type="application/xml")

    def _report(self, code: str) -> web.Response:
        return web.Response(text=REPORT.format(code=code), content_type="application/xml", status=self.report_status)

    def _capabilities(self) -> str:
        ways = "".join(f'<ows:{one} xlink:href="{self.binding}"/>' for one in self.methods)
        values = "".join(f"<ows:Value>{one}</ows:Value>" for one in self.schemas) if self.told_schemas else ""
        names = "".join(f"<ows:Value>{one}</ows:Value>" for one in sorted(self.dates))
        return (
            f'<csw:Capabilities xmlns:csw="{CSW[self.version]}" {SPACES} version="{self.version}">'
            f"<ows:ServiceIdentification><ows:ServiceTypeVersion>{self.version}</ows:ServiceTypeVersion>"
            '</ows:ServiceIdentification><ows:OperationsMetadata><ows:Operation name="GetRecords"><ows:DCP><ows:HTTP>'
            f'{ways}</ows:HTTP></ows:DCP><ows:Parameter name="outputSchema">{values}</ows:Parameter>'
            f'<ows:Constraint name="SupportedISOQueryables">{names}</ows:Constraint></ows:Operation>'
            "</ows:OperationsMetadata></csw:Capabilities>"
        )

    def _record(self, entry: Entry, wish: Wish) -> str:
        if wish.schema in self.writes and not wish.brief:
            return self.writes[wish.schema]
        if wish.brief or wish.schema not in (GMD, MDB):
            return dublin_core(entry, brief=wish.brief)
        return iso_19139(entry)


def _posted(body: bytes) -> Wish:
    tree = ET.fromstring(body)
    query = tree.find("{*}Query")
    assert query is not None
    condition = query.find(".//{*}PropertyIsGreaterThanOrEqualTo")
    order = query.find(".//{*}SortProperty")
    size = int(tree.get("maxRecords", 10))
    hits = tree.get("resultType") == "hits" or size == 0
    return Wish(
        "hits" if hits else "results",
        tree.get("outputSchema", ""),
        tree.get("version", ""),
        int(tree.get("startPosition", 1)),
        size,
        " >= ".join(part.text or "" for part in condition) if condition is not None else None,
        order[0].text if order is not None else None,
        query.findtext("{*}ElementSetName") == "brief",
        query.get("typeNames", ""),
        last_first=order is not None and order.findtext("{*}SortOrder") == "DESC",
    )


def _queried(query: dict[str, str]) -> Wish:
    order = query.get("sortby")
    return Wish(
        query.get("resulttype", "results"),
        query["outputschema"],
        query["version"],
        int(query["startposition"]),
        int(query["maxrecords"]),
        re.sub("'", "", query["constraint"]) if "constraint" in query else None,
        order.rpartition(":")[0] if order else None,
        query["elementsetname"] == "brief",
        query["typenames"],
        "GET",
        last_first=bool(order and order.endswith(":D")),
    )


def _text(name: str, words: str) -> str:
    return f"<gmd:{name}><gco:CharacterString>{escape(words)}</gco:CharacterString></gmd:{name}>"


def _code(name: str, kind: str, value: str) -> str:
    return f'<gmd:{name}><gmd:{kind} codeList="x#{kind}" codeListValue="{value}"/></gmd:{name}>'


def iso_19139(entry: Entry) -> str:
    """The record in the writing of ISO 19139, with a number that is another one in each answer."""
    stamp = f"{entry.at:%Y-%m-%dT%H:%M:%S}" if entry.stamp is None else entry.stamp
    name = _text("fileIdentifier", entry.identifier) if not entry.identifier.startswith("?") else ""
    party = (
        f"<gmd:CI_ResponsibleParty>{_text('organisationName', entry.publisher)}{_code('role', 'CI_RoleCode', 'owner')}"
        "</gmd:CI_ResponsibleParty>"
    )
    return (
        f"<gmd:MD_Metadata>{name}{_code('language', 'LanguageCode', 'eng')}"
        f"<gmd:dateStamp><gco:DateTime>{stamp}</gco:DateTime></gmd:dateStamp>"
        f'<gmd:locale><gmd:PT_Locale id="DE">{_code("languageCode", "LanguageCode", "ger")}</gmd:PT_Locale>'
        "</gmd:locale>"
        "<gmd:identificationInfo><gmd:MD_DataIdentification><gmd:citation><gmd:CI_Citation><gmd:title>"
        f"<gco:CharacterString>{escape(entry.title)}</gco:CharacterString><gmd:PT_FreeText><gmd:textGroup>"
        f'<gmd:LocalisedCharacterString locale="#DE">Karte {escape(entry.identifier)}</gmd:LocalisedCharacterString>'
        "</gmd:textGroup></gmd:PT_FreeText></gmd:title><gmd:date><gmd:CI_Date><gmd:date><gco:Date>2020-05-01</gco:Date>"
        f"</gmd:date>{_code('dateType', 'CI_DateTypeCode', 'publication')}</gmd:CI_Date></gmd:date></gmd:CI_Citation>"
        f"</gmd:citation>{_text('abstract', entry.abstract)}<gmd:pointOfContact>{party}</gmd:pointOfContact>"
        f"<gmd:descriptiveKeywords><gmd:MD_Keywords>{_text('keyword', 'hay')}{_text('keyword', 'clover')}"
        "</gmd:MD_Keywords></gmd:descriptiveKeywords><gmd:resourceConstraints><gmd:MD_LegalConstraints>"
        f"{_code('useConstraints', 'MD_RestrictionCode', 'otherRestrictions')}<gmd:otherConstraints><gmx:Anchor "
        'xlink:href="https://creativecommons.org/licenses/by/4.0/">CC BY</gmx:Anchor></gmd:otherConstraints>'
        "</gmd:MD_LegalConstraints></gmd:resourceConstraints><gmd:extent><gmd:EX_Extent>"
        f"{_text('description', 'The meadow')}<gmd:geographicElement><gmd:EX_GeographicBoundingBox>"
        "<gmd:westBoundLongitude><gco:Decimal>1</gco:Decimal></gmd:westBoundLongitude>"
        "<gmd:eastBoundLongitude><gco:Decimal>3</gco:Decimal></gmd:eastBoundLongitude>"
        "<gmd:southBoundLatitude><gco:Decimal>2</gco:Decimal></gmd:southBoundLatitude>"
        "<gmd:northBoundLatitude><gco:Decimal>4</gco:Decimal></gmd:northBoundLatitude>"
        "</gmd:EX_GeographicBoundingBox></gmd:geographicElement><gmd:temporalElement><gmd:EX_TemporalExtent><gmd:extent>"
        f'<gml:TimePeriod gml:id="t{Random().randrange(10**9)}"><gml:beginPosition>2001</gml:beginPosition>'
        "<gml:endPosition>2002</gml:endPosition></gml:TimePeriod></gmd:extent></gmd:EX_TemporalExtent>"
        "</gmd:temporalElement></gmd:EX_Extent></gmd:extent></gmd:MD_DataIdentification></gmd:identificationInfo>"
        "<gmd:distributionInfo><gmd:MD_Distribution><gmd:transferOptions><gmd:MD_DigitalTransferOptions>"
        "<gmd:transferSize><gco:Real>1.5</gco:Real></gmd:transferSize><gmd:onLine><gmd:CI_OnlineResource><gmd:linkage>"
        f"<gmd:URL>https://maps.example/wms?layers={escape(entry.identifier)}</gmd:URL></gmd:linkage>"
        f"{_text('protocol', 'OGC:WMS-1.3.0-http-get-map')}{_text('name', 'Layer')}{_text('description', 'As a map')}"
        "</gmd:CI_OnlineResource></gmd:onLine></gmd:MD_DigitalTransferOptions></gmd:transferOptions>"
        f"</gmd:MD_Distribution></gmd:distributionInfo>{entry.extra}</gmd:MD_Metadata>"
    )


def dublin_core(entry: Entry, *, brief: bool = False) -> str:
    """The record in Dublin Core."""
    name = f"<dc:identifier>{escape(entry.identifier)}</dc:identifier>" if not entry.identifier.startswith("?") else ""
    if brief:
        return f"<csw:BriefRecord>{name}<dc:title>{escape(entry.title)}</dc:title></csw:BriefRecord>"
    return (
        f"<csw:Record>{name}<dc:title>{escape(entry.title)}</dc:title><dc:subject>hay</dc:subject>"
        f"<dct:modified>{entry.at:%Y-%m-%d}</dct:modified><dct:abstract>{escape(entry.abstract)}</dct:abstract>"
        f"<dc:description>{escape(entry.abstract)}</dc:description><dc:publisher>{escape(entry.publisher)}</dc:publisher>"
        "<dc:language>eng</dc:language><dc:rights>CC0</dc:rights><ows:BoundingBox>"
        "<ows:LowerCorner>1 2</ows:LowerCorner><ows:UpperCorner>3 4</ows:UpperCorner></ows:BoundingBox>"
        '<dc:URI protocol="OGC:WMS-1.1.1-http-get-map" name="Layer" description="As a map">'
        "https://maps.example/wms</dc:URI>"
        f'<dct:references scheme="WWW:LINK">https://maps.example/about</dct:references>{entry.extra}</csw:Record>'
    )


class ChangingCsw(Changing, CswService):
    """A service for the refresh-equals-rebuild machine."""

    kind = "csw"

    def change(self, chance: Random) -> None:
        name = f"n{chance.randrange(14)}"
        self.calm()
        match chance.randrange(12):
            case 0 | 1 | 2 | 3:
                self.write(chance, name)
            case 4 | 5:
                self.records.pop(name, None)
                self.tick(chance.choice([0.1, 50]))
            case 6:
                self.spoil(name)
            case 7:
                self.ignores = set(chance.sample(["filter", "order", "start"], chance.randrange(3)))
            case 8:
                self.count_wrongly(chance.choice([0, 0, 1, -1]))
                self.following = chance.choice(["honest", "lies", "none"])
            case 9:
                self.body = chance.choice([b"<html>Maintenance</html>", b"<csw:GetRecordsResponse", b"", b"<a/>"])
                self.leading = chance.choice([b"", b"\n"])
            case 10:
                self.down = chance.random() < 0.3
                self.cut_bytes = chance.choice([0, 1, 40])
                self.empty_when_filtered = chance.random() < 0.3
            case 11:
                self.page_max = chance.choice([1, 4, 1000])
                self.report_status = chance.choice([200, 400, 500])
        if self.miscount < 0:
            # Two lies that fit each other, a count too low and pages no larger, only a reconciliation finds out.
            self.page_max = 1000

    def write(self, chance: Random, name: str) -> None:
        text = some_words(chance)
        words = {"abstract": text, "publisher": chance.choice(WORDS), "title": chance.choice(WORDS)}
        self.make(name, tick_h=chance.choice([0, 0.1, 5, 50]), **words)

    def calm(self) -> None:
        super().calm()
        self.cut_bytes, self.empty_when_filtered = 0, False

    def unreadable(self, chance: Random, record: Entry) -> Entry:
        if chance.random() < 0.5:
            self.poison = {record.identifier}
            return record
        return replace(record, extra="<gmd:broken>")

    def recover(self) -> None:
        super().recover()
        self.poison = set()

    def is_spoiled(self, record: Entry) -> bool:
        return bool(record.extra)
