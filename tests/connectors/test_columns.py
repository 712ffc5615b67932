"""The columns of tables, where portals tell them: kept, found by their names, and exported."""

import json
from typing import Any

import pytest

from rowen.connectors.arcgis import dataset_of as of_arcgis
from rowen.connectors.catalog.dataset import Dataset
from rowen.connectors.catalog.resources import MOST_COLUMNS, Column, column_text
from rowen.connectors.ckan.address import CkanAddress
from rowen.connectors.ckan.record import dataset_of as of_ckan
from rowen.connectors.datajson.record import dataset_of as of_datajson
from rowen.connectors.opendatasoft import OpenDataSoftAddress
from rowen.connectors.opendatasoft import dataset_of as of_opendatasoft
from rowen.connectors.socrata import dataset_of as of_socrata
from rowen.connectors.stac.record import dataset_of as of_stac
from tests.conftest import ScratchDatabase
from tests.connectors.conftest import Opened
from tests.portals.catalogs import keep
from tests.portals.ckan import CkanPortal

HERE = "https://p.example"
SCHEMA = {"fields": [{"name": "species", "title": "Species of grass", "type": "string"}, {"name": "height"}]}
COLUMNS = (Column("species", "Species of grass", "string"), Column("height"))


def ckan(**resource: Any) -> Dataset:
    return of_ckan({"id": "hay", "resources": [{"url": f"{HERE}/hay.csv", **resource}]}, CkanAddress.of(HERE))


def socrata(**resource: Any) -> Dataset:
    return of_socrata({"resource": {"id": "abcd-1234", "type": "dataset", **resource}}, HERE)


def opendatasoft(**record: Any) -> Dataset:
    return of_opendatasoft({"dataset_id": "hay", **record}, OpenDataSoftAddress.of(HERE))


@pytest.mark.parametrize(
    ("dataset", "columns"),
    [
        (
            socrata(
                columns_field_name=["species", ":@computed_region_1", "height"],
                columns_name=["Species of grass", "Region", "height"],
                columns_datatype=["text", "number"],
            ),
            (Column("species", "Species of grass", "text"), Column("height")),
        ),
        (socrata(columns_name=None), ()),
        (
            opendatasoft(fields=[{"name": "species", "label": "Species of grass", "type": "text"}, {"name": "height"}]),
            (Column("species", "Species of grass", "text"), Column("height")),
        ),
        (opendatasoft(fields=[None, 1, {"name": None}, {"label": "Height"}]), (Column("Height"),)),
        (
            of_arcgis(
                {
                    "id": "1",
                    "layers": [{"fields": [{"name": "SPEC", "alias": "Species", "type": "esriFieldTypeString"}]}],
                },
                HERE,
            ),
            (Column("SPEC", "Species", "String"),),
        ),
        (
            of_stac(
                {
                    "id": "hay",
                    "table:columns": [{"name": "species", "type": "byte_array"}],
                    "cube:variables": {"vp": {"type": "data", "description": "Vapour pressure"}},
                },
                HERE,
                base=HERE,
            ),
            (Column("species", "", "byte_array"), Column("vp", "Vapour pressure")),
        ),
    ],
)
def test_the_columns_of_a_table_are_told_by_its_portal(dataset: Dataset, columns: tuple[Column, ...]) -> None:
    assert dataset.columns == columns


@pytest.mark.parametrize(
    "resource",
    [
        {"schema": SCHEMA},
        {"schema": json.dumps(SCHEMA)},
        {"fields": SCHEMA["fields"]},
        {
            "datastore_fields": [
                {"id": "species", "info": {"label": "Species of grass"}, "type": "string"},
                {"id": "height"},
            ]
        },
        {
            "tableSchema": {
                "columns": [
                    {"name": "species", "titles": ["Species of grass"], "datatype": "string"},
                    {"name": "height"},
                ]
            }
        },
    ],
)
def test_a_resource_tells_its_columns_by_a_schema_of_its_own(resource: dict[str, Any]) -> None:
    [file] = ckan(**resource).resources
    [other] = of_datajson({"title": "Hay", "distribution": [resource]}, HERE).resources

    assert file.columns == other.columns == COLUMNS


def test_the_address_of_a_schema_and_what_is_none_are_no_columns() -> None:
    for schema in (f"{HERE}/schema.json", "{broken", [], {"fields": "species"}, 7):
        assert ckan(schema=schema).resources[0].columns == ()
    assert "columns" not in ckan().document().record["resources"][0]


def test_a_wide_table_is_one_short_passage() -> None:
    wide = opendatasoft(fields=[{"name": f"answer_{n}", "label": f"Answer to question {n}"} for n in range(5_000)])

    text = column_text(wide.columns)
    assert text.startswith("## Columns\n\nanswer_0 (Answer to question 0), answer_1 (")
    assert len(text) < 1_250
    assert text.endswith("more")
    assert len(wide.columns) == MOST_COLUMNS


async def test_a_dataset_is_found_and_exported_with_its_columns(database: ScratchDatabase, opened: Opened) -> None:
    portal = opened(CkanPortal)
    portal.make("a", "Meadows", resources=[{"name": "Table", "url": f"{HERE}/a.csv", "schema": SCHEMA}])
    portal.make("b", "Fields")
    async with database.open() as r:
        await keep(r, portal)
        found = await r.search("species of grass")
        lines = [json.loads(line) async for some in r.exports.stream() for line in some.splitlines()]

    assert [hit.title for hit in found] == ["Meadows"]
    # The order is that of keys, and so of the port.
    assert next(line["columns"] for line in lines if line["title"] == "Meadows") == [
        {"name": "species", "label": "Species of grass", "type": "string"},
        {"name": "height", "label": "", "type": ""},
    ]
