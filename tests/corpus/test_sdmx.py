"""Every recorded answer of SDMX services is digested."""

from collections.abc import Iterator

import pytest

from tests.conftest import ScratchDatabase
from tests.corpus import CORPUS, needs
from tests.portals.sdmx import SdmxService

pytestmark = needs(CORPUS)

COUNTS = {"ecb_dataflows.xml": 56, "insee_dataflows.xml": 663, "spc_category-scheme.json": 36}


@pytest.fixture
def service() -> Iterator[SdmxService]:
    service = SdmxService()
    yield service
    service.close()


def test_every_recorded_answer_is_looked_at() -> None:
    assert {path.name for path in (CORPUS / "sdmx").iterdir()} == set(COUNTS)


@pytest.mark.parametrize("name", COUNTS)
async def test_recorded_documents_are_digested(database: ScratchDatabase, service: SdmxService, name: str) -> None:
    service.body = (CORPUS / "sdmx" / name).read_bytes()
    async with database.open() as r:
        run = await r.sync(service.address)
        again = await r.sync(service.address, full=True)
        held = await r.sync(service.address)

    assert (run.status, run.stats.created, run.stats.failed) == ("completed", COUNTS[name], 0)
    assert (again.stats.unchanged, again.stats.rows_written) == (COUNTS[name], 0)
    assert (held.stats.requests, held.stats.not_modified) == (1, 1)


async def test_names_in_two_languages_are_both_kept(database: ScratchDatabase, service: SdmxService) -> None:
    service.body = (CORPUS / "sdmx" / "insee_dataflows.xml").read_bytes()
    async with database.open() as r:
        await r.sync(service.address)

    [(title, text)] = database.query("select title, text from item where url like %s", "%/FR1/ACT-TRIM-ANC")
    assert title == "Activity by sex and age - Quarterly series"
    assert text == "## Activité par sexe et âge - Séries trimestrielles (fr)"
