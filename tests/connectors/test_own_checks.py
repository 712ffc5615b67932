"""What a look at a record leaves stands in its item, until there is more to say."""

import pytest

from rowen.store import items
from rowen.store.database import Database
from tests.conftest import House
from tests.connectors.conftest import Opened
from tests.portals.catalogs import keep
from tests.portals.ckan import CkanPortal


@pytest.fixture
def portal(opened: Opened) -> CkanPortal:
    return opened(CkanPortal)


async def test_a_new_title_writes_the_item_its_passages_and_a_line_of_the_log(house: House, portal: CkanPortal) -> None:
    portal.make("a1", "Hay")
    async with house.open() as r:
        await keep(r, portal)
        portal.make("a1", "Rowen")
        run = await r.sync("portal")
        quiet = await r.sync("portal", full=True)

    [(passages,)] = house.query("select count(*) from chunk")
    assert (run.tally.updated, run.tally.rows_written) == (1, 2 + passages)
    assert (quiet.tally.stopped_at_body, quiet.tally.rows_written) == (1, 0)
    assert house.query("select count(*) from item_check") == [(0,)]


async def test_a_check_in_a_row_of_its_own_counts_and_is_kept_up(house: House, portal: CkanPortal) -> None:
    portal.make("a1", "Hay")
    async with house.open() as r:
        await keep(r, portal)
        house.execute(
            "insert into item_check (item_id, run_id, body_hash, recipe) select id, 1, 'old', recipe from item"
        )
        differing = await r.sync("portal", full=True)
        portal.make("a1", "Rowen")
        edited = await r.sync("portal")
        quiet = await r.sync("portal", full=True)

    assert (differing.tally.stopped_at_content, differing.tally.rows_written) == (1, 1)
    assert edited.tally.updated == 1
    assert (quiet.tally.stopped_at_body, quiet.tally.rows_written) == (1, 0)
    assert house.query(
        "select count(*) from item_check join item on item_id = id and item_check.body_hash <> item.body_hash"
    ) == [(1,)]


async def test_an_incomplete_run_notes_which_old_items_it_reached(house: House, portal: CkanPortal) -> None:
    for name in ("a1", "a2"):
        portal.make(name)
    async with house.open() as r:
        await keep(r, portal)
        house.execute("update item set updated_at = now() - interval '8 days' where title like '%a1'")
        ids = [number for (number,) in house.query("select id from item order by title")]
        database = Database(house.settings())
        await database.open()
        async with database.transaction() as c:
            await items.touch(c, 7, ids)
        await database.close()
        quiet = await r.sync("portal", full=True)

    assert house.query("select item_id, run_id from item_check") == [(ids[0], 7)]
    assert (quiet.tally.stopped_at_body, quiet.tally.rows_written) == (2, 0)
