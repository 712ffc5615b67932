"""What a look at a record leaves stands in its item, until there is more to say."""

import pytest

from rowen.store.database import Database
from rowen.store.items import items
from tests.conftest import ScratchDatabase
from tests.connectors.conftest import Opened
from tests.portals.catalogs import keep
from tests.portals.ckan import CkanPortal


@pytest.fixture
def portal(opened: Opened) -> CkanPortal:
    return opened(CkanPortal)


async def test_a_new_title_writes_the_item_its_passages_and_a_line_of_the_log(
    database: ScratchDatabase, portal: CkanPortal
) -> None:
    portal.make("a1", "Hay")
    async with database.open() as r:
        await keep(r, portal)
        portal.make("a1", "Rowen")
        run = await r.sync("portal")
        quiet = await r.sync("portal", full=True)

    [(passages,)] = database.query("select count(*) from chunk")
    assert (run.stats.updated, run.stats.rows_written) == (1, 2 + passages)
    assert (quiet.stats.stopped_at_body, quiet.stats.rows_written) == (1, 0)
    assert database.query("select count(*) from item_check") == [(0,)]


async def test_a_check_in_a_row_of_its_own_counts_and_is_kept_up(database: ScratchDatabase, portal: CkanPortal) -> None:
    portal.make("a1", "Hay")
    async with database.open() as r:
        await keep(r, portal)
        database.execute(
            "insert into item_check (item_id, run_id, body_hash, recipe) select id, 1, 'old', recipe from item"
        )
        differing = await r.sync("portal", full=True)
        portal.make("a1", "Rowen")
        edited = await r.sync("portal")
        quiet = await r.sync("portal", full=True)

    assert (differing.stats.stopped_at_content, differing.stats.rows_written) == (1, 1)
    assert edited.stats.updated == 1
    assert (quiet.stats.stopped_at_body, quiet.stats.rows_written) == (1, 0)
    assert database.query(
        "select count(*) from item_check join item on item_id = id and item_check.body_hash <> item.body_hash"
    ) == [(1,)]


async def test_an_incomplete_run_notes_which_old_items_it_reached(
    database: ScratchDatabase, portal: CkanPortal
) -> None:
    for name in ("a1", "a2"):
        portal.make(name)
    async with database.open() as r:
        await keep(r, portal)
        database.execute("update item set updated_at = now() - interval '8 days' where title like '%a1'")
        ids = [number for (number,) in database.query("select id from item order by title")]
        pool = Database(database.settings())
        await pool.open()
        async with pool.transaction() as c:
            await items.touch(c, 7, ids)
        await pool.close()
        quiet = await r.sync("portal", full=True)

    assert database.query("select item_id, run_id from item_check") == [(ids[0], 7)]
    assert (quiet.stats.stopped_at_body, quiet.stats.rows_written) == (2, 0)
