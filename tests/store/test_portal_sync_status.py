"""The view of syncs with the column names of the portals' harvesters."""

from tests.conftest import ScratchDatabase
from tests.portals.datajson import DataJsonSite


async def test_the_view_shows_mode_status_start_count_and_cursor_of_the_last_sync(database: ScratchDatabase) -> None:
    site = DataJsonSite()
    site.fill(3)
    try:
        async with database.open() as r:
            first = await r.sync(site.address)
            [counts] = database.query("select datasets_synced, datasets from portal_sync_status")
            site.down = True
            second = await r.sync(site.address)
    finally:
        site.close()

    [row] = database.query(
        "select portal_url, last_successful_sync, last_sync_mode, sync_status, last_sync_started, datasets_synced,"
        " datasets,"
        " cursor ->> 'items' from portal_sync_status"
    )
    assert (first.status, second.status) == ("completed", "failed")
    assert counts == (3, 3)
    assert first.to_json()["total_found"] == 3
    assert row == (site.address, first.started_at, "incremental", "failed", second.started_at, 0, 3, "3")
