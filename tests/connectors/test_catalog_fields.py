"""What records say of their coverage, languages and files, in the forms that portals write them."""

import json
from typing import Any

import pytest

from rowen.connectors.arcgis import dataset_of as of_arcgis
from rowen.connectors.catalog.dataset import Dataset, place_of
from rowen.connectors.catalog.dcat import dataset_of as of_dcat
from rowen.connectors.catalog.resources import format_named, format_of, size_of
from rowen.connectors.catalog.text import code_of, codes_of, one_of, wordings
from rowen.connectors.ckan.address import CkanAddress
from rowen.connectors.ckan.record import dataset_of as of_ckan
from rowen.connectors.csw.record import dataset_of as of_csw
from rowen.connectors.datajson.record import dataset_of as of_datajson
from rowen.connectors.oai.record import dataset_of as of_oai
from rowen.connectors.opendatasoft import OpenDataSoftAddress
from rowen.connectors.opendatasoft import dataset_of as of_opendatasoft
from rowen.connectors.socrata import dataset_of as of_socrata
from rowen.connectors.stac.record import dataset_of as of_stac
from rowen.formats.rdf.graph import Graph, Iri, Literal
from rowen.formats.xml import Reader, read_xml

SHAPE = {"type": "Polygon", "coordinates": [[[1, 2], [3, 4], [5, 6], [1, 2]]]}
SHAPE_TEXT = json.dumps(SHAPE, sort_keys=True)
LANGUAGES = "http://publications.europa.eu/resource/authority/language"


def ckan(**record: Any) -> Dataset:
    return of_ckan({"id": "hay", "title": "Hay", **record}, CkanAddress.of("https://p.example"))


def datajson(**record: Any) -> Dataset:
    return of_datajson({"identifier": "hay", "title": "Hay", **record}, "https://p.example/data.json")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (1024, 1024),
        (1024.0, 1024),
        ("1024.0", 1024),
        ("12 KB", 12_000),
        ("12kB", 12_000),
        ("1.5 MB", 1_500_000),
        ("1.5 MiB", 1_572_864),
        ("2 GB", 2_000_000_000),
        ("7 bytes", 7),
        *((nothing, None) for nothing in (0, "0", "0.0", "1.5", "1,5 MB", "12 pages", "3 Mbit", -1, True, None, {})),
        *((much, None) for much in (1e300, float("nan"), "9" * 30, "9" * 18 + " TB")),
    ],
)
def test_a_size_is_read_with_and_without_its_unit(written: object, meant: int | None) -> None:
    assert size_of(written) == meant


@pytest.mark.parametrize(
    ("media_type", "url", "meant"),
    [
        ("text/csv; charset=utf-8", "", "CSV"),
        ("image/tiff; application=geotiff; profile=cloud-optimized", "", "GeoTIFF"),
        ("image/tiff", "", "TIFF"),
        ("application/vnd.iso.19139+xml", "", "XML"),
        ("application/x-binary", "https://p.example/a/b.zarr", "Zarr"),
        ("", "az://bucket/a.parquet/", "Parquet"),
        ("", "https://p.example/A.CSV?as=x.pdf", "CSV"),
        ("", "https://p.example/page.html", ""),
        ("", "https://p.example", ""),
        ("", "https://[", ""),
        ("", "", ""),
    ],
)
def test_a_format_is_that_of_the_media_type_or_of_the_file(media_type: str, url: str, meant: str) -> None:
    assert format_of(media_type, url) == meant


def test_a_format_may_be_an_address() -> None:
    assert format_named("http://publications.europa.eu/resource/authority/file-type/CSV") == "CSV"
    assert format_named("https://www.iana.org/assignments/media-types/text/csv") == "CSV"
    assert format_named("https://www.iana.org/assignments/media-types/x/y") == "x/y"
    assert format_named("Web page") == "Web page"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (" Bern ", "Bern"),
        (SHAPE, SHAPE_TEXT),
        ({"type": "GeometryCollection", "geometries": []}, '{"geometries": [], "type": "GeometryCollection"}'),
        ({"type": "Feature", "bbox": [1, 2, 3, 4]}, '{"bbox": [1, 2, 3, 4], "type": "Feature"}'),
        ({"de": "Genf", "fr": "Genève"}, "Genève"),
        ({"de": "", "fr": ""}, ""),
        ({"@type": "Location", "prefLabel": {"en": "Bern"}, "bbox": "POLYGON((1 2))"}, "Bern"),
        ({"@type": "Location", "bbox": "POLYGON((1 2))"}, "POLYGON((1 2))"),
        ({"@type": "Location"}, '{"@type": "Location"}'),
        ([{"uri": "https://p.example/1"}, "Bern", "Bern", None], "https://p.example/1; Bern"),
        ([5.9, 45.8, 10.5, 47.8], "5.9,45.8,10.5,47.8"),
        ([[1, 2], [3, 4]], "[[1, 2], [3, 4]]"),
        ([], ""),
        (None, ""),
    ],
)
def test_a_place_becomes_text_in_whatever_form_it_is_given(given: object, said: str) -> None:
    assert place_of(given, "fr") == said


def test_languages_are_codes_where_they_are_known() -> None:
    assert codes_of(["English", f"{LANGUAGES}/FRA", "de-CH", "de", "tlh"]) == ("en", "fr", "de", "tlh")
    assert [code_of(f"{LANGUAGES}/{name}") for name in ("CAT", "NOB", "GLG", "UKR")] == ["ca", "nb", "gl", "uk"]


def test_a_text_may_stand_beside_its_language() -> None:
    said = wordings({"@value": "Heu", "@language": "de"}, {"@value": "Gras"})

    assert (said.title, said.description, said.language) == ("Heu", "Gras", "de")
    assert one_of({"@language": "de", "@value": "Heu"}, "en") == "Heu"


def test_a_year_of_ckan_that_is_a_number_is_no_second_of_1970() -> None:
    dataset = ckan(issued=2020, modified=20_201_231, metadata_created="2021-01-01")

    assert (dataset.issued, dataset.modified) == ("2020", "2020-12-31")


@pytest.mark.parametrize("where", [{"spatial": SHAPE}, {"spatial_coverage": SHAPE}])
def test_a_geometry_of_ckan_is_kept(where: dict[str, Any]) -> None:
    assert ckan(**where).spatial == SHAPE_TEXT


@pytest.mark.parametrize(
    ("fields", "spatial", "temporal"),
    [
        ({"spatial_coverage": "Basin", "temporal_coverage_from": "1990"}, "Basin", "1990/"),
        ({"temporal_coverage_from": "Current", "temporal_coverage_to": "1/2/2013"}, "", "Current/1/2/2013"),
        ({"spatialRelationship": "Zürich", "timeRange": "seit 1999"}, "Zürich", "seit 1999"),
        ({"spatial_coverage": [{"uri": "https://p.example/be", "text": "Bern"}]}, "Bern", ""),
        ({"temporal_coverage": [{"start": "2001", "end": "2002"}]}, "", "2001/2002"),
        ({"extras": [{"key": "temporal-extent-begin", "value": "2001-01-01"}]}, "", "2001-01-01/"),
        ({"temporal_start": "", "extras": {"temporal_start": "2001"}}, "", "2001/"),
    ],
)
def test_coverage_is_found_in_the_fields_of_ckans_extensions(
    fields: dict[str, Any], spatial: str, temporal: str
) -> None:
    dataset = ckan(**fields)

    assert (dataset.spatial, dataset.temporal) == (spatial, temporal)


@pytest.mark.parametrize(
    ("language", "codes"),
    [
        ('["en", "fr"]', ("en", "fr")),
        (f'["{LANGUAGES}/ENG"]', ("en",)),
        ([f"{LANGUAGES}/ENG", "German"], ("en", "de")),
        ("English", ("en",)),
        ("[broken", ("[broken",)),
    ],
)
def test_languages_of_ckan_may_be_lists_in_a_text_and_addresses(language: object, codes: tuple[str, ...]) -> None:
    assert ckan(language=language).languages == codes
    assert ckan(extras=[{"key": "language", "value": language}]).languages == codes


def test_a_publisher_of_ckan_may_be_in_a_list() -> None:
    assert ckan(publisher=[{"name": "The Farm"}]).publisher == "The Farm"
    assert ckan(publisher=[], organization={"title": "The Barn"}).publisher == "The Barn"


def test_a_resource_of_ckan_has_its_size_and_format() -> None:
    files = [{"url": "https://p.example/a.csv", "size": "1.5 MB"}, {"url": "x", "format": "ODS", "size": 12.0}]

    found = ckan(resources=files).resources

    assert [(one.format, one.size_bytes) for one in found] == [("CSV", 1_500_000), ("ODS", 12)]


def test_dcat_us_3_wraps_dates_formats_and_languages() -> None:
    period = {"startDate": {"@value": "2020", "@type": "xsd:gYear"}, "endDate": {"@value": "2021-02-01"}}
    file = {
        "downloadURL": {"@id": "https://p.example/hay"},
        "format": {"@type": "MediaType", "label": "CSV"},
        "mediaType": {"@id": "https://www.iana.org/assignments/media-types/text/csv"},
        "byteSize": "2.0",
    }

    dataset = datajson(
        temporal=[period],
        issued={"@value": "2020-01-01"},
        language=[f"{LANGUAGES}/ENG"],
        spatial=[{"@type": "Location", "prefLabel": "Bern"}],
        distribution=[file, {**file, "format": {"@id": "https://p.example/file-type/ODS"}}],
    )

    assert (dataset.temporal, dataset.issued, dataset.languages) == ("2020/2021-02-01", "2020-01-01", ("en",))
    assert (dataset.spatial, [one.format for one in dataset.resources]) == ("Bern", ["CSV", "ODS"])
    first = dataset.resources[0]
    assert (first.url, first.media_type, first.size_bytes) == ("https://p.example/hay", "text/csv", 2)


def test_a_geometry_and_a_year_of_datajson_are_kept() -> None:
    dataset = datajson(spatial=SHAPE, modified=2020, distribution=[{"mediaType": "text/csv", "byteSize": "12 KB"}])

    assert (dataset.spatial, dataset.modified) == (SHAPE_TEXT, "2020")
    assert [(one.format, one.size_bytes) for one in dataset.resources] == [("CSV", 12_000)]


def test_assets_of_stac_have_formats() -> None:
    assets = {
        "a": {"href": "a", "type": "image/tiff; application=geotiff", "file:size": 7},
        "b": {"href": "b", "media_type": "image/png"},
        "c": {"href": "c.parquet"},
    }

    found = of_stac({"id": "hay", "assets": assets}, "https://p.example/hay", base="https://p.example/").resources

    assert [(one.format, one.media_type) for one in found] == [
        ("GeoTIFF", "image/tiff; application=geotiff"),
        ("PNG", "image/png"),
        ("Parquet", ""),
    ]


@pytest.mark.parametrize(
    ("fields", "temporal"),
    [
        ({"time": {"interval": ["2001-01-01", ".."]}}, "2001-01-01/.."),
        ({"time": {"date": "2001-01-01"}}, "2001-01-01"),
        ({"time": None}, ""),
        ({"properties": {"id": "hay", "timeInfo": {"timeExtent": [946_684_800_000, None]}}}, "2000-01-01T00:00:00Z/.."),
        ({"properties": {"id": "hay", "timeInfo": {"timeExtent": [None, None]}}}, ""),
    ],
)
def test_the_time_of_an_item_of_arcgis_is_read(fields: dict[str, Any], temporal: str) -> None:
    assert of_arcgis({"id": "hay", **fields}, "https://p.example/datasets/hay").temporal == temporal


@pytest.mark.parametrize(
    ("page", "root"),
    [
        ("https://p.example/datasets/hay", "https://www.arcgis.com"),
        ("https://p.example/portal/home/item.html?id=hay", "https://p.example/portal"),
    ],
)
def test_an_item_of_arcgis_that_is_a_file_has_its_address(page: str, root: str) -> None:
    [file] = of_arcgis({"id": "hay", "type": "CSV", "size": 7, "url": None}, page).resources

    assert file.url == f"{root}/sharing/rest/content/items/hay/data"
    assert (file.format, file.media_type, file.size_bytes) == ("CSV", "text/csv", 7)
    assert of_arcgis({"id": "hay", "type": "Web Map"}, page).resources == ()


def test_place_and_language_of_an_item_of_arcgis() -> None:
    feature = {"id": "hay", "geometry": SHAPE, "properties": {"culture": "english (united states)"}}

    dataset = of_arcgis(feature, "https://p.example/datasets/hay")

    assert (dataset.spatial, dataset.languages) == (SHAPE_TEXT, ("en",))


def test_files_and_boxes_of_other_portals() -> None:
    blob = {"resource": {"id": "abcd-1234", "type": "file", "blob_mime_type": "application/pdf; charset=binary"}}
    dataset = {
        "dataset_id": "hay",
        "metas": {"default": {"bbox": SHAPE, "language": "eng"}},
        "attachments": [{"id": "a", "mimetype": "application/pdf"}],
    }

    [file] = of_socrata(blob, "https://p.example").resources
    found = of_opendatasoft(dataset, OpenDataSoftAddress.of("https://p.example"))

    assert file.format == "PDF"
    assert (found.spatial, found.languages, found.resources[0].format) == (SHAPE_TEXT, ("en",), "PDF")


CSW = b"""<a xmlns:csw="http://www.opengis.net/cat/csw/2.0.2" xmlns:dc="http://purl.org/dc/elements/1.1/"><csw:Record>
<dc:identifier>hay</dc:identifier><dc:URI protocol="image/png">https://p.example/a</dc:URI>
<dc:URI>https://p.example/a.csv</dc:URI><dc:URI protocol="x/y">https://p.example/b</dc:URI></csw:Record></a>"""
ISO = b"""<a xmlns:gmd="http://www.isotc211.org/2005/gmd" xmlns:gml="http://www.opengis.net/gml/3.2"><gmd:MD_Metadata>
<gmd:identificationInfo><gmd:MD_DataIdentification><gmd:extent><gmd:EX_Extent><gmd:temporalElement>
<gmd:EX_TemporalExtent><gmd:extent><gml:TimeInstant><gml:timePosition>20010203</gml:timePosition></gml:TimeInstant>
</gmd:extent></gmd:EX_TemporalExtent></gmd:temporalElement></gmd:EX_Extent></gmd:extent>
</gmd:MD_DataIdentification></gmd:identificationInfo></gmd:MD_Metadata></a>"""
DATACITE = b"""<a><record><metadata><resource xmlns="http://datacite.org/schema/kernel-4"><language>eng</language>
<sizes><size>12 pages</size><size>1.5 MB</size></sizes><formats><format>application/pdf</format></formats>
<relatedIdentifiers><relatedIdentifier relationType="HasPart" relatedIdentifierType="URL">https://p.example/a
</relatedIdentifier></relatedIdentifiers></resource></metadata></record></a>"""


def test_a_link_of_a_catalogue_service_has_a_format() -> None:
    [found] = read_xml(CSW, Reader(frozenset({"Record"})))

    files = of_csw(found.tree, "https://p.example/csw").resources

    assert [(one.format, one.media_type) for one in files] == [("PNG", "image/png"), ("CSV", ""), ("x/y", "x/y")]


def test_a_moment_covered_by_iso_19115_is_read() -> None:
    [found] = read_xml(ISO, Reader(frozenset({"MD_Metadata"})))

    assert of_csw(found.tree, "https://p.example/csw").temporal == "2001-02-03"


def test_a_file_of_datacite_has_its_size_format_and_language() -> None:
    [found] = read_xml(DATACITE, Reader(frozenset({"record"})))

    dataset = of_oai(found.tree, "https://p.example/hay")

    assert dataset.languages == ("en",)
    assert [(one.format, one.size_bytes) for one in dataset.resources] == [("PDF", 1_500_000)]


def test_a_distribution_of_dcat_has_its_size_and_format() -> None:
    graph, node, file = Graph(), Iri("https://p.example/hay"), Iri("https://p.example/hay/file")
    graph.add(node, "dcat:distribution", file)
    graph.add(file, "dcat:byteSize", Literal("12 KB"))
    graph.add(file, "dct:format", Iri("https://www.iana.org/assignments/media-types/text/csv"))

    [found] = of_dcat(graph, node, "https://p.example/").resources

    assert (found.format, found.size_bytes) == ("CSV", 12_000)
