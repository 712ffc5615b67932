"""Records that an earlier release stored in one piece, and those that are kept apart."""

import psycopg
import pytest
from psycopg.types.json import Jsonb

from rowen.store.items.items import whole
from tests.conftest import ScratchDatabase
from tests.connectors.conftest import Opened
from tests.portals.catalogs import keep
from tests.portals.ckan import CkanPortal


@pytest.fixture
def portal(opened: Opened) -> CkanPortal:
    return opened(CkanPortal)


async def test_rows_of_an_earlier_release_are_read_compared_and_written_anew(
    database: ScratchDatabase, portal: CkanPortal
) -> None:
    for name in ("a1", "a2", "a3"):
        portal.make(name, f"Hay of {name}")
    async with database.open() as r:
        await keep(r, portal)
        new = await r.get(f"{portal.url}/dataset/a1")
        in_one_piece(database)
        old = await r.get(f"{portal.url}/dataset/a1")
        again = await r.sync("portal", full=True)
        portal.make("a1", "Rowen")
        edited = await r.sync("portal")
        superseded = await r.items.compare_fields(f"{portal.url}/dataset/a1")

    assert old.record == new.record
    assert new.record["source"]["id"] == "a1"
    assert (again.stats.unchanged, again.stats.rows_written) == (3, 0)
    assert edited.stats.updated == 1
    assert database.query("select count(source_record) from item") == [(1,)]
    assert "/source/title" in {change.path for change in superseded.fields}


def in_one_piece(database: ScratchDatabase) -> None:
    with psycopg.connect(database.conninfo, options="-c search_path=rowen,public") as c:
        for number, facts, packed in c.execute("select id, record, source_record from item").fetchall():
            record = Jsonb(whole(facts, packed))
            c.execute("update item set record = %s, source_record = null where id = %s", [record, number])
