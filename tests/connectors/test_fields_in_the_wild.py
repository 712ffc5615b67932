"""Fields as real catalogs write them: markup in licences, boxes the wrong way round, names in unusual places."""

import json
from typing import Any

import pytest

from rowen.connectors.catalog.dataset import Dataset, licence_in
from rowen.connectors.ckan.address import CkanAddress
from rowen.connectors.ckan.record import dataset_of as of_ckan
from rowen.connectors.csw.record import dataset_of as of_csw
from rowen.connectors.datajson.record import dataset_of as of_datajson
from rowen.connectors.oai.record import dataset_of as of_oai
from rowen.connectors.socrata import dataset_of as of_socrata
from rowen.connectors.web.hints import read_entries
from rowen.formats.xml import Reader, read_xml
from tests.conftest import ScratchDatabase
from tests.connectors.conftest import Opened
from tests.portals.catalogs import keep
from tests.portals.csw import CswService
from tests.portals.datajson import DataJsonSite
from tests.portals.sdmx import SdmxService
from tests.portals.site import Page

CC = "https://creativecommons.org/licenses/by/3.0/au/"


def stored(dataset: Dataset) -> dict[str, Any]:
    return dict(dataset.document().record)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (f'{CC}"><img src="https://i.example/by.png"/>', CC),
        (f"<a rel='license' href='{CC}'><img alt='CC' src='https://i.creativecommons.example/x.png'/></a>", CC),
        (f"<div>You may use it under <a href={CC}>this</a> licence.</div>", CC),
        ("<div style='x'><p>Free of charge.</p><p>Ask the farmer.</p></div>", "Free of charge. Ask the farmer."),
        ("Hay &amp; Straw licence", "Hay & Straw licence"),
        ('<a href="https://farm.example/terms"></a>', "https://farm.example/terms"),
        ("CC BY 4.0", "CC BY 4.0"),
        ("Use < 3 bales", "Use < 3 bales"),
        (CC, CC),
        ("<br/>", ""),
        ("", ""),
    ],
)
def test_a_licence_is_its_address_or_its_words_whatever_markup_is_around(written: str, meant: str) -> None:
    assert licence_in(written) == meant
    record = stored(of_datajson({"identifier": "a", "title": "A", "license": written}, "https://p.example/data.json"))
    assert record.get("licence", "") == meant


def test_titles_and_publishers_are_words_without_entities_and_markup() -> None:
    record = {"identifier": "a", "title": "Hay &amp; <b>Straw</b> &#8211; all", "publisher": {"name": "Farm &amp; Co"}}

    dataset = of_datajson(record, "https://p.example/data.json")

    assert dataset.document().title == "Hay & Straw – all"
    assert stored(dataset)["publisher"] == "Farm & Co"


def csw(xml: str) -> Dataset:
    [found] = read_xml(f"<r>{xml}</r>".encode(), Reader(frozenset(), within=frozenset({"r"})))
    return of_csw(found.tree, "https://m.example/csw")


def iso(constraints: str) -> Dataset:
    return csw(
        "<MD_Metadata xmlns:x='http://www.w3.org/1999/xlink'><fileIdentifier><s>a</s></fileIdentifier>"
        f"<identificationInfo><MD_DataIdentification>{constraints}</MD_DataIdentification></identificationInfo>"
        "</MD_Metadata>"
    )


def test_a_licence_of_a_citation_is_read() -> None:
    cited = (
        "<resourceConstraints><MD_LegalConstraints><reference><CI_Citation><title><s>Farm licence 2</s></title>{}"
        "</CI_Citation></reference><useConstraints><c codeListValue='license'/></useConstraints>"
        "</MD_LegalConstraints></resourceConstraints>"
    )
    link = (
        "<onlineResource><CI_OnlineResource><linkage><s>https://creativecommons.org/licenses/by/4.0/</s></linkage>"
        "</CI_OnlineResource></onlineResource>"
    )

    assert stored(iso(cited.format("")))["licence"] == "Farm licence 2"
    assert stored(iso(cited.format(link)))["licence"] == "https://creativecommons.org/licenses/by/4.0/"


def test_markup_that_is_glued_to_a_licence_is_left_out() -> None:
    words = (
        f"<resourceConstraints><MD_Constraints><useLimitation><s>{CC}\"&gt;&lt;img src='x.png'/&gt;</s></useLimitation>"
    )

    assert stored(iso(f"{words}</MD_Constraints></resourceConstraints>"))["licence"] == CC


@pytest.mark.parametrize(
    ("crs", "lower", "upper", "meant"),
    [
        ("urn:x-ogc:def:crs:EPSG:6.11:4326", "-45.5 110", "-6 155", "110 -45.5 155 -6"),
        ("urn:ogc:def:crs:EPSG::4326", "47.1 8.2", "48 9", "8.2 47.1 9 48"),
        ("urn:ogc:def:crs:OGC:1.3:CRS84", "8.2 47.1", "9 48", "8.2 47.1 9 48"),
        ("", "8.2 47.1", "9 48", "8.2 47.1 9 48"),
        ("::EPSG:4326", "155.0 -45.0", "110.0 -6.0", "110 -45 155 -6"),
        ("urn:ogc:def:crs:EPSG::4326", "110 -45", "155 -6", "110 -45 155 -6"),
        ("", "175 -50", "-170 -30", "175 -50 -170 -30"),
        ("urn:ogc:def:crs:EPSG::3857", "100000 200000", "300000 400000", "100000 200000 300000 400000"),
        ("", "a b", "c d", "a b c d"),
        ("", "1 2", "", "1 2"),
    ],
)
def test_a_box_is_told_from_west_to_east_whatever_the_order_of_its_axes(
    crs: str, lower: str, upper: str, meant: str
) -> None:
    box = f"<BoundingBox crs='{crs}'><LowerCorner>{lower}</LowerCorner><UpperCorner>{upper}</UpperCorner></BoundingBox>"

    assert csw(f"<Record><identifier>a</identifier><title>A</title>{box}</Record>").spatial == meant


RDF = (
    "<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns:dct='http://purl.org/dc/terms/' "
    "xmlns:dcat='http://www.w3.org/ns/dcat#' xmlns:foaf='http://xmlns.com/foaf/0.1/'>{}</rdf:RDF>"
)
DATASET = (
    "<dcat:Dataset{}><dct:identifier>hay-7</dct:identifier><dct:title>Hay</dct:title>"
    "<dct:description>Cut twice.</dct:description><dct:modified>2024-05-01</dct:modified><dct:publisher>"
    "<foaf:Agent><foaf:name>The Farm</foaf:name></foaf:Agent></dct:publisher>"
    "<dct:license rdf:resource='https://creativecommons.org/licenses/by/4.0/'/></dcat:Dataset>"
)


@pytest.mark.parametrize(
    "xml",
    [
        RDF.format(DATASET.format(" rdf:about='https://m.example/hay'")),
        RDF.format(
            "<dcat:CatalogRecord><dct:identifier>record-7</dct:identifier><foaf:primaryTopic>"
            f"{DATASET.format('')}</foaf:primaryTopic></dcat:CatalogRecord>"
        ),
        DATASET.format(
            " xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns:dct='http://purl.org/dc/terms/' "
            "xmlns:dcat='http://www.w3.org/ns/dcat#' xmlns:foaf='http://xmlns.com/foaf/0.1/'"
        ),
    ],
)
def test_a_record_in_dcat_is_read_where_a_catalogue_service_writes_it(xml: str) -> None:
    dataset = csw(xml)

    record = stored(dataset)
    assert (dataset.title, dataset.description, dataset.identifier) == ("Hay", "Cut twice.", "hay-7")
    assert dataset.url == "https://m.example/csw?service=CSW&version=2.0.2&request=GetRecordById&id=hay-7"
    assert (record["publisher"], record["modified"]) == ("The Farm", "2024-05-01")
    assert record["licence"] == "https://creativecommons.org/licenses/by/4.0/"


async def test_a_service_that_offers_dcat_is_read_in_it(database: ScratchDatabase, opened: Opened) -> None:
    portal = opened(CswService)
    portal.schemas = ["http://www.w3.org/ns/dcat#", *portal.schemas[1:]]
    portal.make("hay")
    portal.writes = {"http://www.w3.org/ns/dcat#": RDF.format(DATASET.format(""))}
    broken = RDF.format("<dcat:Dataset rdf:about='a' rdf:nodeID='b'/>")
    async with database.open() as r:
        run = await keep(r, portal)
        portal.writes = {"http://www.w3.org/ns/dcat#": broken}
        failed = await r.sync("portal", full=True)

    assert (run.status, run.stats.created) == ("completed", 1)
    assert database.query("select title from item") == [("Hay",)]
    assert (failed.stats.failed, failed.stats.deleted) == (1, 0)


def test_rdf_without_a_dataset_is_a_record_without_a_title() -> None:
    assert csw(RDF.format("<dct:Agent/>")).title == "Untitled"


def test_an_organisation_that_is_only_a_contributor_or_an_address_is_the_publisher() -> None:
    about = "<dct:publisher rdf:resource='https://m.example/srv#/metadata//organizations/The%20Farm'/>"
    named = RDF.format(
        f"<dcat:Dataset><dct:identifier>a</dct:identifier><dct:title>A</dct:title>{about}</dcat:Dataset>"
    )

    assert csw("<Record><identifier>a</identifier><contributor>The Farm</contributor></Record>").publisher == "The Farm"
    assert csw(named).publisher == "The Farm"


@pytest.fixture
def site(opened: Opened) -> DataJsonSite:
    return opened(DataJsonSite)


async def test_members_of_a_series_and_what_a_service_serves_are_items(
    database: ScratchDatabase, site: DataJsonSite
) -> None:
    hay = {"identifier": "hay", "title": "Hay"}
    body = {
        "@type": "Catalog",
        "dataset": [{"identifier": "rye", "title": "Rye", "description": "All of it."}],
        "datasetSeries": [
            {
                "@id": "s",
                "title": "Grass by the year",
                "first": hay,
                "seriesMember": [hay, {"@id": "rye", "title": "Rye, in short"}, {"@id": "somewhere"}, "text"],
            }
        ],
        "service": [
            {
                "identifier": "w",
                "title": "Maps",
                "endpointURL": "https://m.example/wms",
                "endpointDescription": {"@id": "https://m.example/wms?request=GetCapabilities"},
                "servesDataset": {"identifier": "oats", "title": "Oats"},
            }
        ],
    }
    site.body = json.dumps(body).encode()
    async with database.open() as r:
        run = await keep(r, site)
        again = await r.sync("portal", full=True)

    titles = sorted(title for (title,) in database.query("select title from item"))
    assert titles == ["Grass by the year", "Hay", "Maps", "Oats", "Rye"]
    assert (run.status, run.stats.created, run.stats.shared) == ("completed", 5, 0)
    assert (again.stats.unchanged, again.stats.rows_written) == (5, 0)
    [(resources,)] = database.query("select record -> 'resources' from item where title = 'Maps'")
    assert [(one["name"], one["url"]) for one in resources] == [
        ("Endpoint", "https://m.example/wms"),
        ("Description of the endpoint", "https://m.example/wms?request=GetCapabilities"),
    ]


@pytest.mark.parametrize("name", ["datasetSeries", "service"])
@pytest.mark.parametrize("context", [{"@type": "Catalog"}, {"conformsTo": "https://project-open-data.cio.gov/x"}])
async def test_a_catalog_of_nothing_but_series_or_services_is_found(
    database: ScratchDatabase, site: DataJsonSite, name: str, context: dict[str, str]
) -> None:
    site.pages["/all"] = Page(json.dumps({**context, name: [{"identifier": "a", "title": "A"}]}).encode())
    async with database.open(probe=True) as r:
        source = await r.sources.add(f"{site.url}/all")
        run = await r.sync(source.name)

    assert (source.kind, run.status, run.stats.created) == ("datajson", "completed", 1)


@pytest.mark.parametrize("kind", ["DataService", "DatasetSeries"])
async def test_rdf_of_nothing_but_series_or_services_is_found(
    database: ScratchDatabase, site: DataJsonSite, kind: str
) -> None:
    title = '<http://purl.org/dc/terms/title> "A"'
    turtle = f"@prefix d: <http://www.w3.org/ns/dcat#> . <https://m.example/a> a d:{kind} ; {title} ."
    site.pages["/all"] = Page(turtle.encode(), headers={"Content-Type": "text/turtle"})
    async with database.open(probe=True) as r:
        source = await r.sources.add(f"{site.url}/all")
        run = await r.sync(source.name)

    assert (source.kind, run.status, run.stats.created) == ("dcat", "completed", 1)


def ckan(**record: Any) -> Dataset:
    return of_ckan({"id": "hay", "title": "Hay", **record}, CkanAddress.of("https://p.example"))


def test_groups_of_ckan_are_tags() -> None:
    groups = [{"name": "env", "display_name": "Environment"}, {"name": "x", "title": {"de": "Felder"}}, {}, "plain"]

    dataset = ckan(organization=None, groups=groups, tags=[{"name": "hay"}])

    assert dataset.tags == ("hay", "Environment", "Felder", "plain")
    assert dataset.publisher == ""


def test_dkan_names_its_publisher_by_a_group_and_the_rest_by_labels() -> None:
    extras = [
        {"key": "Language", "value": "German"},
        {"key": "Spatial / Geographical Coverage Location", "value": "The meadow"},
        {"key": "Spatial / Geographical Coverage Area", "value": "POLYGON ((1 2, 3 4, 5 6, 1 2))"},
        {"key": "Temporal Coverage", "value": "2001 to 2002"},
    ]

    dataset = ckan(type="Dataset", groups=[{"title": "The Farm", "name": "group/1"}], extras=extras)

    assert (dataset.publisher, dataset.tags, dataset.languages) == ("The Farm", (), ("de",))
    assert (dataset.spatial, dataset.temporal) == ("POLYGON ((1 2, 3 4, 5 6, 1 2))", "2001 to 2002")


@pytest.mark.parametrize(
    ("told", "meant"),
    [
        ({"Common-Core_Publisher": "City Farm", "Common-Core_Publisher-Email": "f@x.example"}, "City Farm"),
        ({"Dataset-Information_Agency": "Office of Hay"}, "Office of Hay"),
        ({"Department_Responsible-Department": "Barns", "Common-Core_Publisher": ""}, "Barns"),
        ({"Common-Core_Publisher-Email": "f@x.example", "Legal_Department-URL": "https://x.example"}, "d.example"),
        ({}, "d.example"),
    ],
)
def test_the_publisher_of_a_socrata_asset_is_no_person(told: dict[str, str], meant: str) -> None:
    record = {
        "resource": {"id": "abcd-1234", "name": "Hay", "type": "dataset"},
        "classification": {"domain_metadata": [{"key": key, "value": value} for key, value in told.items()]},
        "owner": {"display_name": "Jo Miller", "user_type": "interactive"},
        "metadata": {"domain": "d.example"},
    }

    assert of_socrata(record, "https://d.example").publisher == meant


def test_attribution_comes_before_the_fields_of_a_portal() -> None:
    told = [{"key": "Common-Core_Publisher", "value": "City Farm"}]
    resource = {"id": "abcd-1234", "name": "Hay", "attribution": "The Farm"}

    dataset = of_socrata({"resource": resource, "classification": {"domain_metadata": told}}, "https://d.example")

    assert dataset.publisher == "The Farm"


async def test_rdf_that_says_a_property_in_two_ways_does_not_cost_the_catalog(
    database: ScratchDatabase, site: DataJsonSite
) -> None:
    both = "<dcat:dataset><dcat:Dataset rdf:about='https://m.example/{}'><dct:title>{}</dct:title>{}</dcat:Dataset>"
    odd = "<dct:language rdf:resource='https://m.example/lang/eng'>English</dct:language>"
    broken = "<dct:x rdf:resource='c' rdf:nodeID='d'/>"
    listed = "</dcat:dataset>".join([both.format("a", "Hay", odd), both.format("b", "Rye", ""), ""])
    failing = "</dcat:dataset>".join([both.format("a", "Hay", broken), both.format("b", "Rye", ""), ""])
    whole = "<dcat:Catalog rdf:about='https://m.example/'>{}</dcat:Catalog>"
    site.pages["/catalog.rdf"] = Page(RDF.format(whole.format(listed)).encode())
    async with database.open() as r:
        await r.sources.add(f"{site.url}/catalog.rdf", name="rdf")
        run = await r.sync("rdf")
        site.pages["/catalog.rdf"] = Page(RDF.format(whole.format(failing)).encode())
        after = await r.sync("rdf")

    assert (run.status, run.stats.created) == ("completed", 2)
    [(record,)] = database.query("select record from item where title = 'Hay'")
    assert record["languages"] == ["en"]
    assert (after.stats.unchanged, after.stats.failed, after.stats.deleted) == (1, 1, 0)


def oai(xml: str) -> Dataset:
    record = f"<record><header><identifier>oai:x:1</identifier></header><metadata>{xml}</metadata></record>"
    [found] = read_xml(f"<r>{record}</r>".encode(), Reader(frozenset(), within=frozenset({"r"})))
    return of_oai(found.tree, "https://r.example/1")


def test_a_record_in_mods_is_read() -> None:
    dataset = oai(
        "<mods xmlns='http://www.loc.gov/mods/v3' xmlns:x='http://www.w3.org/1999/xlink'>"
        "<titleInfo type='alternative'><title>Grass</title></titleInfo>"
        "<titleInfo><nonSort>The</nonSort><title>Hay</title><subTitle>a survey</subTitle></titleInfo>"
        "<name><namePart type='family'>Miller</namePart><namePart type='given'>Jo</namePart></name>"
        "<name><namePart>The Farm</namePart></name><abstract>Cut twice.</abstract>"
        "<originInfo><publisher>Barn Press</publisher><dateIssued>1998</dateIssued>"
        "<dateIssued keyDate='yes' encoding='w3cdtf'>1999-05</dateIssued></originInfo>"
        "<language><languageTerm type='code'>ger</languageTerm></language>"
        "<subject><topic>meadows</topic><geographic>The valley</geographic><temporal>1990s</temporal></subject>"
        "<relatedItem type='host'><titleInfo><title>Journal of Straw</title></titleInfo></relatedItem>"
        "<identifier type='doi'>10.1234/hay</identifier><location><url access='raw object'>https://r.example/1.pdf</url>"
        "<url usage='primary display'>https://r.example/1/about</url></location>"
        "<accessCondition x:href='https://creativecommons.org/licenses/by/4.0/'>CC BY</accessCondition></mods>"
    )

    record = stored(dataset)
    assert dataset.title == "The Hay a survey"
    assert dataset.description == "Grass\n\nCut twice.\n\nBy Miller, Jo; The Farm."
    assert (dataset.tags, record["publisher"], record["issued"]) == (("meadows",), "Barn Press", "1999-05")
    assert (record["licence"], record["languages"]) == ("https://creativecommons.org/licenses/by/4.0/", ["de"])
    assert (record["spatial"], record["temporal"]) == ("The valley", "1990s")
    assert record["landing_page"] == "https://r.example/1/about"
    assert [one["url"] for one in record["resources"]] == ["https://r.example/1.pdf"]


def test_a_record_in_marc_is_read() -> None:
    def field(tag: str, *parts: str) -> str:
        subfields = "".join(f"<subfield code='{part[0]}'>{part[2:]}</subfield>" for part in parts)
        return f"<datafield tag='{tag}' ind1=' ' ind2=' '>{subfields}</datafield>"

    fields = [
        field("100", "a Miller, Jo,"),
        field("245", "a Hay :", "b a survey /", "c Jo Miller."),
        field("264", "a Barnton :", "b Barn Press,", "c [1999]"),
        field("520", "a Cut twice."),
        field("650", "a Meadows."),
        field("651", "a The valley"),
        field("710", "a The Farm"),
        field("540", "a Free", "u https://creativecommons.org/licenses/by/4.0/"),
        field("856", "u https://r.example/1.pdf", "q application/pdf", "y Full text"),
    ]
    control = f"<controlfield tag='008'>{'990101s1999    xx ' + ' ' * 17 + 'ger d'}</controlfield>"

    dataset = oai(f"<record xmlns='http://www.loc.gov/MARC21/slim'>{control}{''.join(fields)}</record>")

    record = stored(dataset)
    assert (dataset.title, dataset.description) == ("Hay a survey", "Cut twice.\n\nBy Miller, Jo; The Farm.")
    assert (dataset.tags, record["publisher"], record["issued"]) == (("Meadows",), "Barn Press", "1999")
    assert (record["spatial"], record["languages"]) == ("The valley", ["de"])
    assert record["licence"] == "https://creativecommons.org/licenses/by/4.0/"
    assert (record["landing_page"], record["resources"][0]["format"]) == ("https://r.example/1.pdf", "PDF")


def test_bare_records_of_mods_and_marc_are_no_error() -> None:
    assert oai("<mods xmlns='http://www.loc.gov/mods/v3'/>").document().title == "oai:x:1"
    assert oai("<record><datafield tag='245'/></record>").document().title == "oai:x:1"


KEY_FAMILIES = (
    "<message:Structure xmlns:message='http://www.SDMX.org/resources/SDMXML/schemas/v2_0/message' "
    "xmlns:s='http://www.SDMX.org/resources/SDMXML/schemas/v2_0/structure'><message:Header/>{}<message:KeyFamilies>"
    "<s:KeyFamily id='HAY' agencyID='FARM' version='1.0'><s:Name xml:lang='en'>Hay</s:Name>"
    "<s:Name xml:lang='fr'>Foin</s:Name><s:Components/></s:KeyFamily></message:KeyFamilies></message:Structure>"
)


async def test_key_families_of_sdmx_2_are_read_where_there_are_no_dataflows(
    database: ScratchDatabase, site: DataJsonSite
) -> None:
    flows = (
        "<message:Dataflows><s:Dataflow id='DF' agencyID='FARM'><s:Name>Flow</s:Name></s:Dataflow></message:Dataflows>"
    )
    site.pages["/all.xml"] = Page(KEY_FAMILIES.format("").encode())
    async with database.open(probe=True) as r:
        source = await r.sources.add(f"{site.url}/all.xml")
        run = await r.sync(source.name)
        [(title, record)] = database.query("select title, record from item")
        site.pages["/all.xml"] = Page(KEY_FAMILIES.format(flows).encode())
        after = await r.sync(source.name, accept_deletions=True)

    assert (source.kind, run.status, title) == ("sdmx", "completed", "Hay")
    assert (record["publisher"], record["languages"]) == ("FARM", ["en", "fr"])
    assert "Components" in record["source"]
    assert (after.stats.created, after.stats.deleted) == (1, 1)


async def test_a_service_that_speaks_only_sdmx_3_is_found(database: ScratchDatabase, opened: Opened) -> None:
    service = opened(SdmxService)
    service.notation = "3.0"
    service.fill(3)
    async with database.open(probe=True) as r:
        source = await r.sources.add(f"{service.url}/rest")
        run = await r.sync(source.name)

    assert (source.kind, run.status, run.stats.created) == ("sdmx", "completed", 3)


def test_an_index_of_sitemaps_may_lack_loc() -> None:
    bare = b"<sitemapindex><sitemap> https://e.org/1.xml </sitemap><sitemap><![CDATA[https://e.org/2.xml]]></sitemap>"
    dated = b"<sitemap>https://e.org/3.xml<lastmod>2024-01-01</lastmod></sitemap><sitemap>none</sitemap></sitemapindex>"

    entries = read_entries(bare + dated)

    assert [(one.url, one.nested) for one in entries] == [(f"https://e.org/{n}.xml", True) for n in (1, 2, 3)]
    assert entries[2].modified is not None
