"""What a record describes, in the words of each kind of portal, and finding by it."""

import json
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest

from rowen.connectors.arcgis import dataset_of as of_arcgis
from rowen.connectors.catalog.dataset import Dataset
from rowen.connectors.catalog.dcat import dataset_of as of_dcat
from rowen.connectors.ckan.address import CkanAddress
from rowen.connectors.ckan.record import dataset_of as of_ckan
from rowen.connectors.csw.record import dataset_of as of_csw
from rowen.connectors.datajson.record import dataset_of as of_datajson
from rowen.connectors.oai.record import dataset_of as of_oai
from rowen.connectors.socrata import dataset_of as of_socrata
from rowen.connectors.stac.record import dataset_of as of_stac
from rowen.errors import UsageError
from rowen.formats.rdf.graph import Graph, Iri
from rowen.formats.xml import Element
from tests.conftest import ScratchDatabase
from tests.connectors.conftest import Opened
from tests.portals.catalogs import keep
from tests.portals.ckan import CkanPortal

HERE = "https://p.example"
ISO = "http://www.isotc211.org/2005"


def ckan(**record: Any) -> Dataset:
    return of_ckan({"id": "hay", "title": "Hay", **record}, CkanAddress.of(HERE))


def xml(text: str) -> Element:
    return fromstring(text)


def iso(scope: str, about: str = "MD_DataIdentification") -> Dataset:
    return of_csw(
        xml(
            f'<record><gmd:MD_Metadata xmlns:gmd="{ISO}/gmd">{scope}'
            f"<gmd:identificationInfo><gmd:{about}/></gmd:identificationInfo></gmd:MD_Metadata></record>"
        )[0],
        HERE,
    )


def scope(code: str) -> str:
    return f'<gmd:hierarchyLevel><gmd:MD_ScopeCode codeListValue="{code}"/></gmd:hierarchyLevel>'


def oai(metadata: str) -> Dataset:
    return of_oai(xml(f"<record><metadata>{metadata}</metadata></record>"), HERE)


def dcat(*classes: str, kind: str | None = None) -> Dataset:
    graph, node = Graph(), Iri(f"{HERE}/1")
    for one in classes:
        graph.add(node, "rdf:type", Iri(f"http://www.w3.org/ns/dcat#{one}"))
    if kind:
        graph.add(node, "dct:type", Iri(kind))
    return of_dcat(graph, node, HERE)


@pytest.mark.parametrize(
    ("dataset", "kind"),
    [
        (ckan(), None),
        (ckan(type="dataset"), "dataset"),
        (ckan(type="our-own-form"), None),
        (ckan(type="showcase"), "application"),
        (ckan(type="dataset", extras=[{"key": "resource-type", "value": "service"}]), "service"),
        (ckan(extras=[{"key": "resource-type", "value": "nonGeographicDataset"}]), "dataset"),
        (ckan(collection_metadata="true"), "series"),
        (of_datajson({"@type": "dcat:Dataset", "title": "Hay"}, HERE), "dataset"),
        (of_datajson({"@type": "DatasetSeries", "title": "Hay"}, HERE), "series"),
        (of_datajson({"@type": "DataService", "title": "Hay"}, HERE), "service"),
        (of_socrata({"resource": {"id": "abcd-1234", "type": "map"}}, HERE), "map"),
        (of_socrata({"resource": {"id": "abcd-1234", "type": "filter"}}, HERE), "dataset"),
        (of_socrata({"resource": {"id": "abcd-1234", "type": "story"}}, HERE), "document"),
        (of_arcgis({"id": "1", "type": "Feature Service"}, HERE), "dataset"),
        (of_arcgis({"id": "1", "type": "Map Service"}, HERE), "service"),
        (of_arcgis({"id": "1", "properties": {"type": "Web Map"}}, HERE), "map"),
        (of_arcgis({"id": "1", "type": "Hub Initiative"}, HERE), "other"),
        (of_stac({"id": "sentinel", "type": "Collection"}, HERE, base=HERE), "series"),
        (dcat("Dataset"), None),
        (dcat("Dataset", "DatasetSeries"), "series"),
        (dcat("DataService"), "service"),
        (dcat("Dataset", kind="http://inspire.ec.europa.eu/metadata-codelist/ResourceType/series"), "series"),
        (dcat("Dataset", kind="http://publications.europa.eu/resource/authority/dataset-type/STATISTICAL"), None),
        (iso(""), None),
        (iso("", "SV_ServiceIdentification"), "service"),
        (iso(scope("dataset")), "dataset"),
        (iso(scope("series")), "series"),
        (iso(scope("fieldSession")), "other"),
        (iso(scope("whatever")), "other"),
        (oai("<dc><title>Hay</title></dc>"), "other"),
        (oai("<dc><type>info:eu-repo/semantics/article</type></dc>"), "document"),
        (oai("<dc><type>http://purl.org/coar/resource_type/c_ddb1/</type></dc>"), "dataset"),
        (
            oai(
                '<resource xmlns="http://datacite.org/schema/kernel-4"><resourceType resourceTypeGeneral="Dataset">'
                "Survey</resourceType></resource>"
            ),
            "dataset",
        ),
        (oai("<mods><typeOfResource>cartographic</typeOfResource></mods>"), "map"),
        (oai("<record><leader>00000nam a</leader><datafield tag='245'/></record>"), "document"),
    ],
)
def test_a_record_describes_what_its_portal_says(dataset: Dataset, kind: str | None) -> None:
    assert dataset.record_kind == kind


def test_that_a_record_describes_a_dataset_is_not_written_into_it() -> None:
    assert "record_kind" not in ckan(type="dataset").document().record
    assert ckan(type="service").document().record["record_kind"] == "service"


async def test_items_are_found_and_exported_by_what_they_describe(
    database: ScratchDatabase, opened: Opened, tmp_path: Path
) -> None:
    portal = opened(CkanPortal)
    portal.make("a", "Hay", notes="Meadows of the county.")
    portal.make("b", "Hay service", notes="Meadows of the county.", type="service")
    async with database.open() as r:
        await keep(r, portal)
        every = await r.search("meadows")
        service = await r.search("meadows", record_kinds=["service"])
        plain = await r.search("meadows", record_kinds=["dataset", "map"])
        lines = b"".join([some async for some in r.exports.stream(record_kinds=["service"])])
        await r.export("csv", tmp_path / "out", record_kinds=["dataset"])
        with pytest.raises(UsageError, match="Unknown record kind 'sevice'"):
            await r.search("meadows", record_kinds=["sevice"])

    assert {(hit.title, hit.record_kind) for hit in every} == {("Hay", "dataset"), ("Hay service", "service")}
    assert ([hit.title for hit in service], [hit.title for hit in plain]) == (["Hay service"], ["Hay"])
    assert [(row["title"], row["record_kind"]) for row in map(json.loads, lines.splitlines())] == [
        ("Hay service", "service")
    ]
    assert "Hay service" not in next((tmp_path / "out").glob("portal.csv")).read_text()
