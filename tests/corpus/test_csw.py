"""Every recorded answer of real catalogue services is digested."""

from collections.abc import Iterator
from typing import Any

import pytest

from rowen.connectors.csw import Csw
from tests.conftest import ScratchDatabase
from tests.corpus import CORPUS, needs
from tests.portals.csw import CSW, GMD, MDB, CswService, Wish

FOLDER = CORPUS / "csw"
pytestmark = needs(FOLDER)

# Single pages of longer lists: the schema, how many records the page holds, and of how many.
PAGES = {
    "inspire-de_GetRecords.xml": (GMD, 2, 216),
    "vic-geonetwork_GetRecords.xml": (MDB, 10, 6952),
    "environment-au_GetRecords_leading-newline.invalid.xml": (GMD, 10, 292),
}
CHAIN = [f"csiro_GetRecords_page{number}.xml" for number in (1, 2, 3)]


class Recorded(CswService):
    """A service that answers with recordings: one for each hundred of positions, the last one ever after."""

    def __init__(self, schema: str, count: int, *bodies: bytes) -> None:
        super().__init__()
        self.schemas, self.count, self.bodies = [schema], count, bodies

    async def _records(self, wish: Wish) -> Any:
        number = (wish.at - 1) // 100
        if wish.schema not in self.schemas or wish.since or wish.brief or number >= len(self.bodies):
            return self._report("InvalidParameterValue")
        if wish.kind == "hits":
            results = f'<csw:SearchResults numberOfRecordsMatched="{self.count}"/>'
            return self._told(f'<csw:GetRecordsResponse xmlns:csw="{CSW["2.0.2"]}">{results}</csw:GetRecordsResponse>')
        self.body = self.bodies[number]
        return await super()._records(wish)


@pytest.fixture(autouse=True)
def _kind(kinds: Any) -> None:
    kinds(Csw)


@pytest.fixture
def service(request: pytest.FixtureRequest) -> Iterator[Recorded]:
    schema, count, names = request.param
    service = Recorded(schema, count, *[(FOLDER / name).read_bytes() for name in names])
    yield service
    service.close()


def test_no_file_is_forgotten() -> None:
    assert sorted([*PAGES, *CHAIN]) == sorted(path.name for path in FOLDER.iterdir())


@pytest.mark.parametrize("service", [(CSW["2.0.2"], 230, CHAIN)], indirect=True)
async def test_a_recorded_catalogue_is_digested_whole(database: ScratchDatabase, service: Recorded) -> None:
    async with database.open() as r:
        run = await r.sync(service.address)
        again = await r.sync(service.address, full=True)

    assert (run.status, run.complete, run.stats.created, run.stats.failed) == ("completed", True, 230, 0)
    assert (again.stats.unchanged, again.stats.rows_written) == (230, 0)
    [(dated, titled, linked)] = database.query(
        "select count(*) filter (where record ? 'modified'), count(*) filter (where title <> record->>'identifier'),"
        " count(*) filter (where record->'resources' <> '[]') from item"
    )
    assert (dated, titled) == (230, 230)
    assert linked > 200


@pytest.mark.parametrize(
    "service", [(schema, count, [name]) for name, (schema, _, count) in PAGES.items()], indirect=True, ids=PAGES
)
async def test_a_recorded_page_is_digested_and_known_to_be_a_part(database: ScratchDatabase, service: Recorded) -> None:
    """The same page comes again for each position: all of it is kept, and the run knows that there should be more."""
    async with database.open() as r:
        run = await r.sync(service.address)
        again = await r.sync(service.address, full=True)

    records = next(records for _, records, count in PAGES.values() if count == service.count)
    assert (run.status, run.complete, run.stats.created, run.stats.failed) == ("partial", False, records, 0)
    assert (again.stats.unchanged, again.stats.rows_written) == (records, 0)
    untold = database.query(
        "select url from item where title = record->>'identifier' or text = '' or not record ? 'publisher'"
        " or not record ? 'modified' or record->'source' = '{}'"
    )
    assert untold == []
