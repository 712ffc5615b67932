"""The same dataset in several portals: grouped by marks, stored separately, with a known original."""

from collections.abc import Iterator
from contextlib import closing
from random import Random

import pytest

from rowen import Rowen
from rowen.model.datasets import TwinGroup, as_array
from rowen.store.items import duplicates
from rowen.store.items.exports import snapshot
from tests.conftest import ScratchDatabase
from tests.portals.ckan import CkanPortal
from tests.portals.datajson import DataJsonSite

UUID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
LONG = "The water level of every well in the county, measured on each Monday since 1931."


@pytest.fixture
def city() -> Iterator[DataJsonSite]:
    with closing(DataJsonSite()) as site:
        yield site


@pytest.fixture
def region() -> Iterator[CkanPortal]:
    with closing(CkanPortal()) as portal:
        yield portal


@pytest.fixture
def nation() -> Iterator[DataJsonSite]:
    with closing(DataJsonSite()) as site:
        yield site


async def read_all(rowen: Rowen, city: DataJsonSite, region: CkanPortal, nation: DataJsonSite) -> None:
    for name, portal in (("nation", nation), ("region", region), ("city", city)):
        await rowen.sources.add(portal.address, name=name, kind="ckan" if portal is region else "datajson")
        assert (await rowen.sync(name)).status == "completed"


def sources_of(group: TwinGroup | None) -> list[str]:
    return [] if group is None else [member.source for member in group.members]


async def test_a_dataset_of_three_portals_is_one_group_whose_original_is_the_citys(
    database: ScratchDatabase, city: DataJsonSite, region: CkanPortal, nation: DataJsonSite
) -> None:
    home = f"{city.url}/datasets/wells"
    city.add(home, "Wells", issued="2020-01-01")
    city.add("other", "Mills")
    region.make("r1", "Brunnen", extras=[{"key": "guid", "value": UUID}, {"key": "uri", "value": home}])
    nation.add(UUID, "Wells of the region", landingPage=f"{region.url}/dataset/slug-of-r1")

    async with database.open() as rowen:
        await read_all(rowen, city, region, nation)
        from_the_city = await rowen.items.duplicates(home, source="city")
        alone = await rowen.items.duplicates(f"{city.address}#/other")

    assert sources_of(from_the_city) == ["city", "nation", "region"]
    assert alone is None
    assert database.query("select count(*) from item") == [(4,)]


async def test_equal_long_texts_make_duplicates_and_equal_short_texts_do_not(
    database: ScratchDatabase, city: DataJsonSite, region: CkanPortal, nation: DataJsonSite
) -> None:
    for site in (city, nation):
        site.add("w", "Wells", description=LONG, distribution=[])
        site.add("m", "Mills", description="Mills.", distribution=[])
    region.make("r1")

    async with database.open() as rowen:
        await read_all(rowen, city, region, nation)
        wells = await rowen.items.duplicates(f"{city.address}#/w")
        mills = await rowen.items.duplicates(f"{city.address}#/m")

    assert sources_of(wells) == ["nation", "city"]
    assert mills is None


async def test_a_page_shared_by_many_datasets_joins_none_of_them(
    database: ScratchDatabase, city: DataJsonSite, region: CkanPortal, nation: DataJsonSite
) -> None:
    for number in range(3):
        city.add(f"c{number}", landingPage="https://city.example/data.html")
    nation.add("n", landingPage="https://city.example/data.html")
    region.make("r1")

    async with database.open() as rowen:
        await read_all(rowen, city, region, nation)

        assert await rowen.items.duplicates(f"{nation.address}#/n") is None


async def test_a_group_dissolves_when_a_portal_changes_its_record(
    database: ScratchDatabase, city: DataJsonSite, region: CkanPortal, nation: DataJsonSite
) -> None:
    city.add(UUID, "Wells")
    copy = nation.add("n", "Wells", **{"@id": f"urn:uuid:{UUID}"})
    region.make("r1")

    async with database.open() as rowen:
        await read_all(rowen, city, region, nation)
        before = await rowen.items.duplicates(f"{nation.address}#/n")
        del copy["@id"]
        amended = (await rowen.sync("nation")).stats
        after = await rowen.items.duplicates(f"{nation.address}#/n")

    assert sorted(sources_of(before)) == ["city", "nation"]
    assert after is None
    assert (amended.amended, amended.chunks_written) == (1, 0)


async def test_a_deleted_item_leaves_its_group(
    database: ScratchDatabase, city: DataJsonSite, region: CkanPortal, nation: DataJsonSite
) -> None:
    city.add(UUID, "Wells")
    city.add("other")
    nation.add(UUID, "Wells")
    region.make("r1")

    async with database.open() as rowen:
        await read_all(rowen, city, region, nation)
        city.records.pop(0)
        await rowen.sync("city")

        assert await rowen.items.duplicates(f"{nation.address}#/{UUID}") is None


async def test_datasets_older_than_marks_get_them_in_the_next_run_once(
    database: ScratchDatabase, city: DataJsonSite, region: CkanPortal, nation: DataJsonSite
) -> None:
    city.fill(3)
    city.add(UUID, "Wells", description=LONG, **{"dct:identifier": ["urn:x:1"], "landingPage": "https://a.example/b"})
    region.make("r1")
    nation.add(UUID, "Wells")

    async with database.open() as rowen:
        await read_all(rowen, city, region, nation)
        written = database.query("select url, twins from item order by url")
        database.execute("update item set twins = null")
    async with database.open() as rowen:
        runs = [await rowen.sync("city") for _ in range(2)]
        group = await rowen.items.duplicates(f"{city.address}#/{UUID}")

    assert [run.stats.rows_written for run in runs] == [4, 0]
    assert sources_of(group) == []
    assert [row for row in written if f"{city.url}/" in row[0]] == database.query(
        "select url, twins from item where twins is not null and url like %s order by url", f"{city.url}/%"
    )


async def test_a_mark_of_all_items_joins_nothing(
    database: ScratchDatabase, city: DataJsonSite, region: CkanPortal, nation: DataJsonSite
) -> None:
    city.fill(60)
    nation.fill(60)
    region.make("r1")
    async with database.open() as rowen:
        await read_all(rowen, city, region, nation)
        database.execute("update item set twins = array[7, -8]::bigint[]")

        assert await rowen.items.duplicates("http://portal.example/datasets/1", source="city") is None


async def test_the_database_groups_as_the_program_does(
    database: ScratchDatabase, city: DataJsonSite, region: CkanPortal, nation: DataJsonSite
) -> None:
    """The rule exists twice: in Python for single items, in SQL for a whole export."""
    for number in range(12):
        city.add(f"c{number}")
        nation.add(f"n{number}")
        region.make(f"r{number}")
    async with database.open() as rowen:
        await read_all(rowen, city, region, nation)
        ids = [item for (item,) in database.query("select id from item order by id")]
        joined = 0
        for seed in range(25):
            chance = Random(seed)
            marks = [mark for mark in range(-chance.randrange(2, 30), chance.randrange(2, 30)) if mark]
            marks_of = {item: as_array(tuple(set(chance.choices(marks, k=chance.randrange(4))))) for item in ids}
            values = ", ".join(f"({item}, '{array}')" for item, array in marks_of.items())
            database.execute(
                f"update item set twins = v.t::bigint[] from (values {values}) v(id, t) where item.id = v.id"
            )
            async with rowen._engine.database.connection() as c:
                one_by_one = {item: group.original.key for item, group in (await duplicates.groups(c, ids)).items()}
            async with snapshot(rowen._engine.database) as index:
                count = await index.find_twins()
                rows = await (await index._c.execute("select item_id, original_key from twin_of")).fetchall()

            assert dict(rows) == one_by_one, seed
            assert count == len(one_by_one)
            joined += len(one_by_one)

    assert joined > 100
