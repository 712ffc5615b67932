"""Catalogue services: what becomes of a record, and what a refresh costs."""

from xml.etree import ElementTree as ET

import pytest

from rowen.connectors.csw import Csw
from rowen.connectors.csw.record import dataset_of
from rowen.connectors.probe import Probe
from rowen.net.client import Client
from tests.conftest import ScratchDatabase
from tests.connectors.conftest import Opened
from tests.portals.catalogs import keep
from tests.portals.csw import CSW, GMD, CswService

ISO_19115_3 = """<mdb:MD_Metadata xmlns:mdb="http://standards.iso.org/iso/19115/-3/mdb/2.0"
  xmlns:mcc="http://standards.iso.org/iso/19115/-3/mcc/1.0" xmlns:gco="http://standards.iso.org/iso/19115/-3/gco/1.0"
  xmlns:cit="http://standards.iso.org/iso/19115/-3/cit/2.0" xmlns:mri="http://standards.iso.org/iso/19115/-3/mri/1.0"
  xmlns:lan="http://standards.iso.org/iso/19115/-3/lan/1.0" xmlns:gex="http://standards.iso.org/iso/19115/-3/gex/1.0"
  xmlns:mrd="http://standards.iso.org/iso/19115/-3/mrd/1.0" xmlns:mco="http://standards.iso.org/iso/19115/-3/mco/1.0"
  xmlns:gml="http://www.opengis.net/gml/3.2" xmlns:srv="http://standards.iso.org/iso/19115/-3/srv/2.0">
  <mdb:metadataIdentifier><mcc:MD_Identifier><mcc:code><gco:CharacterString>a</gco:CharacterString></mcc:code>
  </mcc:MD_Identifier></mdb:metadataIdentifier>
  <mdb:defaultLocale><lan:PT_Locale><lan:language><lan:LanguageCode codeListValue="eng"/></lan:language></lan:PT_Locale>
  </mdb:defaultLocale>
  <mdb:otherLocale><lan:PT_Locale id="L2"><lan:language><lan:LanguageCode codeListValue="fre"/></lan:language>
  </lan:PT_Locale></mdb:otherLocale>
  <mdb:dateInfo><cit:CI_Date><cit:date><gco:Date>2020-01-01</gco:Date></cit:date><cit:dateType>
  <cit:CI_DateTypeCode codeListValue="creation"/></cit:dateType></cit:CI_Date></mdb:dateInfo>
  <mdb:dateInfo><cit:CI_Date><cit:date><gco:Date>2024-03-01</gco:Date></cit:date><cit:dateType>
  <cit:CI_DateTypeCode codeListValue="revision"/></cit:dateType></cit:CI_Date></mdb:dateInfo>
  <mdb:identificationInfo><mri:MD_DataIdentification><mri:citation><cit:CI_Citation><cit:title>
  <gco:CharacterString>Meadows</gco:CharacterString><lan:PT_FreeText><lan:textGroup>
  <lan:LocalisedCharacterString locale="#L2">Prairies</lan:LocalisedCharacterString></lan:textGroup></lan:PT_FreeText>
  </cit:title><cit:date><cit:CI_Date><cit:date><gco:Date>2020</gco:Date></cit:date><cit:dateType>
  <cit:CI_DateTypeCode codeListValue="publication"/></cit:dateType></cit:CI_Date></cit:date></cit:CI_Citation>
  </mri:citation><mri:abstract><gco:CharacterString>All about meadows.</gco:CharacterString></mri:abstract>
  <mri:pointOfContact><cit:CI_Responsibility><cit:role><cit:CI_RoleCode codeListValue="publisher"/></cit:role>
  <cit:party><cit:CI_Organisation><cit:name><gco:CharacterString>The Farm</gco:CharacterString></cit:name>
  </cit:CI_Organisation></cit:party></cit:CI_Responsibility></mri:pointOfContact>
  <mri:topicCategory><mri:MD_TopicCategoryCode>farming</mri:MD_TopicCategoryCode></mri:topicCategory>
  <mri:descriptiveKeywords><mri:MD_Keywords><mri:keyword><gco:CharacterString>hay</gco:CharacterString></mri:keyword>
  </mri:MD_Keywords></mri:descriptiveKeywords>
  <mri:resourceConstraints><mco:MD_LegalConstraints><mco:useLimitation><gco:CharacterString>For the cows
  </gco:CharacterString></mco:useLimitation></mco:MD_LegalConstraints></mri:resourceConstraints>
  <mri:extent><gex:EX_Extent><gex:geographicElement><gex:EX_GeographicBoundingBox>
  <gex:westBoundLongitude><gco:Decimal>1</gco:Decimal></gex:westBoundLongitude>
  <gex:eastBoundLongitude><gco:Decimal>3</gco:Decimal></gex:eastBoundLongitude>
  <gex:southBoundLatitude><gco:Decimal>2</gco:Decimal></gex:southBoundLatitude>
  <gex:northBoundLatitude><gco:Decimal>4</gco:Decimal></gex:northBoundLatitude>
  </gex:EX_GeographicBoundingBox></gex:geographicElement><gex:temporalElement><gex:EX_TemporalExtent><gex:extent>
  <gml:TimePeriod gml:id="x"><gml:begin><gml:TimeInstant><gml:timePosition>2001-01-01</gml:timePosition>
  </gml:TimeInstant></gml:begin><gml:endPosition>now</gml:endPosition></gml:TimePeriod></gex:extent>
  </gex:EX_TemporalExtent></gex:temporalElement></gex:EX_Extent></mri:extent>
  <srv:containsOperations><srv:SV_OperationMetadata><srv:connectPoint><cit:CI_OnlineResource><cit:linkage>
  <gco:CharacterString>https://maps.example/wfs</gco:CharacterString></cit:linkage><cit:protocol>
  <gco:CharacterString>OGC:WFS</gco:CharacterString></cit:protocol></cit:CI_OnlineResource></srv:connectPoint>
  </srv:SV_OperationMetadata></srv:containsOperations></mri:MD_DataIdentification></mdb:identificationInfo>
  <mdb:distributionInfo><mrd:MD_Distribution><mrd:distributionFormat><mrd:MD_Format><mrd:formatSpecificationCitation>
  <cit:CI_Citation><cit:title><gco:CharacterString>Shapefile</gco:CharacterString></cit:title></cit:CI_Citation>
  </mrd:formatSpecificationCitation></mrd:MD_Format></mrd:distributionFormat><mrd:transferOptions>
  <mrd:MD_DigitalTransferOptions><mrd:onLine><cit:CI_OnlineResource><cit:linkage><gco:CharacterString>
  https://maps.example/hay.zip</gco:CharacterString></cit:linkage><cit:name><gco:CharacterString>hay.zip
  </gco:CharacterString></cit:name></cit:CI_OnlineResource></mrd:onLine></mrd:MD_DigitalTransferOptions>
  </mrd:transferOptions></mrd:MD_Distribution></mdb:distributionInfo>
</mdb:MD_Metadata>"""


@pytest.fixture
def portal(opened: Opened) -> CswService:
    return opened(CswService)


async def test_a_record_of_iso_19139_becomes_a_dataset(database: ScratchDatabase, portal: CswService) -> None:
    portal.make("a", "Meadows")
    async with database.open() as r:
        await keep(r, portal)

    [(url, title, text, tags, record)] = database.query("select url, title, text, tags, record from item")
    assert url == f"{portal.base}?service=CSW&version=2.0.2&request=GetRecordById&id=a"
    assert (title, tags) == ("Meadows", ["clover", "hay"])
    assert text == "All about a.\n\n## Karte a (de)\n\n## Resources\n\n- Layer (OGC:WMS): As a map"
    source = record.pop("source")
    assert record == {
        "identifier": "a",
        "publisher": "The Farm",
        "licence": "https://creativecommons.org/licenses/by/4.0/",
        "languages": ["en", "de"],
        "issued": "2020-05-01",
        "modified": "2024-01-02T02:00:00Z",
        "spatial": "The meadow; 1 2 3 4",
        "temporal": "2001/2002",
        "resources": [
            {
                "url": "https://maps.example/wms?layers=a",
                "name": "Layer",
                "description": "As a map",
                "format": "OGC:WMS",
                "media_type": "",
                "size_bytes": 1_500_000,
            }
        ],
    }
    assert source["gmd:fileIdentifier"] == {"gco:CharacterString": "a"}


async def test_a_record_in_dublin_core_becomes_a_dataset(database: ScratchDatabase, portal: CswService) -> None:
    portal.schemas = [CSW["2.0.2"]]
    portal.make("a", "Meadows")
    async with database.open() as r:
        await keep(r, portal)

    [(title, text, tags, record)] = database.query("select title, text, tags, record from item")
    assert (title, tags) == ("Meadows", ["hay"])
    assert text == "All about a.\n\n## Resources\n\n- Layer (OGC:WMS): As a map"
    assert {name: record[name] for name in record if name not in ("source", "resources")} == {
        "identifier": "a",
        "publisher": "The Farm",
        "licence": "CC0",
        "languages": ["en"],
        "modified": "2024-01-02",
        "spatial": "1 2 3 4",
        "landing_page": "https://maps.example/about",
    }
    assert [one["url"] for one in record["resources"]] == ["https://maps.example/wms", "https://maps.example/about"]
    assert record["source"]["dc:rights"] == "CC0"


def test_a_record_of_iso_19115_3_becomes_a_dataset() -> None:
    dataset = dataset_of(ET.fromstring(ISO_19115_3), "https://maps.example/csw")

    assert (dataset.identifier, dataset.title, dataset.description) == ("a", "Meadows", "All about meadows.")
    assert dataset.texts == {"fr": ("Prairies", "")}
    assert (dataset.tags, dataset.publisher, dataset.licence) == (("hay", "farming"), "The Farm", "For the cows")
    assert (dataset.languages, dataset.issued, dataset.modified) == (("en", "fr"), "2020", "2024-03-01")
    assert (dataset.spatial, dataset.temporal) == ("1 2 3 4", "2001-01-01/now")
    assert [(one.url, one.format, one.name) for one in dataset.resources] == [
        ("https://maps.example/hay.zip", "Shapefile", "hay.zip"),
        ("https://maps.example/wfs", "OGC:WFS", ""),
    ]
    assert dataset.source["mdb:metadataIdentifier"]["mcc:MD_Identifier"]["mcc:code"] == {"gco:CharacterString": "a"}


async def test_nothing_changed_costs_two_requests_and_no_row(database: ScratchDatabase, portal: CswService) -> None:
    portal.fill(250)
    async with database.open() as r:
        first = await keep(r, portal)
        run = await r.sync("portal")

    assert (first.status, first.complete, first.stats.created) == ("completed", True, 251)
    assert [wish.kind for wish in portal.wishes()] == ["results", "hits"]
    assert (run.stats.requests, run.stats.rows_written) == (2, 0)


async def test_a_first_walk_costs_little_more_than_its_pages(database: ScratchDatabase, portal: CswService) -> None:
    portal.fill(250)
    async with database.open() as r:
        await r.sync(portal.address)

    asked = [(wish.kind, wish.at, wish.size, wish.sort) for wish in portal.wishes() if wish.since is None]
    assert asked == [
        ("hits", 1, 1, "dc:identifier"),
        ("results", 1, 100, "dc:identifier"),
        ("results", 101, 100, "dc:identifier"),
        ("results", 201, 100, "dc:identifier"),
    ]
    assert len(portal.log) == 1 + len(asked) + 3


async def test_only_what_changed_is_asked_for(database: ScratchDatabase, portal: CswService) -> None:
    portal.fill(250)
    async with database.open() as r:
        await keep(r, portal)
        portal.make("d00003", "Edited")
        portal.make("new")
        run = await r.sync("portal")

    assert (run.stats.updated, run.stats.created, run.stats.requests) == (1, 1, 2)
    assert portal.wishes()[0].since == "apiso:Modified >= 2024-01-10"


async def test_what_vanished_shows_in_the_count(database: ScratchDatabase, portal: CswService) -> None:
    portal.fill(250)
    async with database.open() as r:
        await keep(r, portal)
        del portal.records["d00003"]
        run = await r.sync("portal")
        portal.make("d00003")
        back = await r.sync("portal")

    assert (run.complete, run.stats.deleted, back.stats.created) == (True, 1, 1)


async def test_a_service_of_version_3_is_spoken_to_in_its_words(database: ScratchDatabase, portal: CswService) -> None:
    portal.version, portal.schemas = "3.0.0", [GMD, CSW["3.0.0"]]
    portal.fill(150)
    async with database.open() as r:
        first = await keep(r, portal)
        portal.make("d00003", "Edited")
        run = await r.sync("portal")

    assert (first.complete, first.stats.created) == (True, 151)
    assert (run.stats.updated, run.stats.requests) == (1, 2)


async def test_a_service_without_post_is_asked_by_get(database: ScratchDatabase, portal: CswService) -> None:
    portal.methods = ["Get"]
    portal.fill(150)
    async with database.open() as r:
        first = await keep(r, portal)
        portal.make("d00003", "Edited")
        run = await r.sync("portal")

    assert (first.complete, first.stats.created) == (True, 151)
    assert (run.stats.updated, run.stats.requests) == (1, 2)
    assert {wish.method for wish in portal.wishes()} == {"GET"}


async def test_a_binding_elsewhere_is_not_trusted_before_the_address(
    database: ScratchDatabase, portal: CswService
) -> None:
    portal.binding = "http://10.0.0.1:8080/geonetwork/csw"
    portal.fill(5)
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created) == ("completed", 6)


@pytest.mark.parametrize("told", [True, False])
async def test_dublin_core_is_read_where_iso_is_refused(
    database: ScratchDatabase, portal: CswService, told: bool
) -> None:
    portal.schemas, portal.told_schemas = [CSW["2.0.2"]], told
    portal.fill(5)
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created) == ("completed", 6)


async def test_a_wished_profile_is_read(database: ScratchDatabase, portal: CswService) -> None:
    portal.make("a")
    async with database.open() as r:
        await keep(r, portal, profile="dublin-core")

    assert database.query("select record->>'licence' from item") == [("CC0",)]


async def test_a_service_that_sorts_by_nothing_is_proved_by_its_count(
    database: ScratchDatabase, portal: CswService
) -> None:
    portal.sorts = set()
    portal.fill(30)
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.complete, run.stats.created) == ("completed", True, 31)


async def test_numbers_of_elements_are_no_change(database: ScratchDatabase, portal: CswService) -> None:
    portal.fill(20)
    async with database.open() as r:
        await keep(r, portal)
        run = await r.sync("portal", full=True)

    assert (run.complete, run.stats.rows_written) == (True, 0)


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("csw:https://maps.example/x", "https://maps.example/x"),
        ("https://maps.example/geonetwork/srv/eng/csw", "https://maps.example/geonetwork/srv/eng/csw"),
        (
            "https://maps.example/geonetwork/srv/eng/csw-inspire?x=1",
            "https://maps.example/geonetwork/srv/eng/csw-inspire?x=1",
        ),
        (
            "https://maps.example/cgi?map=/a.map&SERVICE=CSW&REQUEST=GetCapabilities",
            "https://maps.example/cgi?map=%2Fa.map",
        ),
        ("https://maps.example/wms?service=WMS", None),
        ("https://maps.example/cswift", None),
    ],
)
def test_addresses_are_recognised(address: str, url: str | None) -> None:
    assert Csw.recognise(address) == url


@pytest.mark.parametrize(
    ("path", "found"),
    [("/csw?service=CSW&request=GetCapabilities", 1), ("/csw", 2), ("/", 2), ("/other", None)],
)
async def test_a_service_is_found_by_probing(
    database: ScratchDatabase, portal: CswService, path: str, found: int | None
) -> None:
    portal.methods = ["Post"]
    async with Client(database.settings()) as client:
        probe = Probe(client, f"{portal.url}{path}")
        await probe.begin()
        url = await Csw.probe(probe)

    assert url == (portal.base if found else None)
    assert len(portal.log) == (found or 2)
