"""Pages for people: as the portal names them, by a template, or where such portals have them."""

from typing import Any

import pytest

from rowen.connectors.catalog.options import page_at_europa, page_of_dataflow, page_of_geonetwork
from rowen.connectors.datajson.record import dataset_of as of_datajson
from rowen.connectors.registry import check_options
from rowen.errors import UsageError
from tests.conftest import ScratchDatabase
from tests.connectors.conftest import Opened
from tests.portals.catalogs import keep
from tests.portals.ckan import CkanPortal

TEMPLATE = "https://people.example/show?of={id}"


@pytest.mark.parametrize(
    "template",
    [
        "people.example/{id}",
        "https://people.example/",
        "https://{id}.example/",
        "https://p.example/{0}",
        "https://p.example/{id.real}",
        "https://p.example/{id!r}",
        "https://p.example/{name:>9}",
        "https://p.example/{id",
    ],
)
def test_a_template_that_makes_no_addresses_is_refused(template: str) -> None:
    with pytest.raises(UsageError, match="'landing_page' of kind 'ckan'"):
        check_options("ckan", {"landing_page": template})


def test_a_template_is_for_records_that_name_no_page() -> None:
    def page(**record: Any) -> str | None:
        dataset = of_datajson({"title": "Hay", **record}, "https://p.example/data.json")
        page: str | None = dataset.document(landing_page=TEMPLATE).record.get("landing_page")
        return page

    assert page(identifier="a/b&c") == "https://people.example/show?of=a%2Fb%26c"
    assert page(identifier="1", landingPage="https://p.example/1") == "https://p.example/1"
    assert page() is None


def test_known_portals_have_pages_that_their_records_do_not_name() -> None:
    europa = "https://data.europa.eu/data/datasets/hay~~1"
    assert page_at_europa("http://data.europa.eu/88u/dataset/hay~~1") == europa
    assert page_at_europa("http://data.example/88u/dataset/hay") == ""
    geonetwork = "https://g.example/geonetwork/srv"
    assert page_of_geonetwork(f"{geonetwork}/eng/csw?a=b", "a b") == f"{geonetwork}/api/records/a%20b"
    assert page_of_geonetwork("https://g.example/csw", "1") == ""
    office = "https://ec.europa.eu/eurostat"
    flow = page_of_dataflow(f"{office}/api/dissemination/sdmx/2.1", "NAMA_10_GDP")
    assert flow == f"{office}/databrowser/view/NAMA_10_GDP/default/table"
    assert page_of_dataflow("https://sdmx.example", "NAMA") == ""


async def test_another_template_reads_the_records_again(database: ScratchDatabase, opened: Opened) -> None:
    portal = opened(CkanPortal)
    portal.make("a1")

    def pages() -> list[Any]:
        return database.query("select record ->> 'landing_page' from item")

    async with database.open() as r:
        await keep(r, portal)
        usual = pages()
        await r.sources.edit("portal", options={"landing_page": "https://people.example/{name}"})
        run = await r.sync("portal")
        again = await r.sync("portal")

    assert usual == [(f"{portal.url}/dataset/slug-of-a1",)]
    assert pages() == [("https://people.example/slug-of-a1",)]
    assert (run.stats.amended, run.stats.updated, again.stats.rows_written) == (1, 0, 0)
