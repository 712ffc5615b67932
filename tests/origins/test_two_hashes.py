"""Two hashes: one says which item it is, the other whether it says something else."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from rowen import Complete, Fetched, Outcome
from tests.conftest import ScratchDatabase
from tests.harvest.embedded import sync
from tests.portals.scripted import Scripted, page


@pytest.fixture(autouse=True)
def _scripted(kinds: Callable[[Any], None]) -> None:
    kinds(Scripted)


def hashes(database: ScratchDatabase) -> dict[str, tuple[bytes, bytes]]:
    return {
        url: (bytes(key), bytes(content))
        for url, key, content in database.query("select url, key, content_hash from item")
    }


@pytest.mark.parametrize(
    "edit",
    [{"title": "Population 2024"}, {"text": "Other words."}, {"tags": ("census", "people")}],
    ids=["title", "description", "tags"],
)
async def test_another_title_description_or_tag_at_the_same_url_is_an_update_of_the_same_item(
    database: ScratchDatabase, edit: dict[str, Any]
) -> None:
    first = {"title": "Population 2023", "text": "Some words.", "tags": ("census",)}
    async with database.open() as r:
        await sync(r, Fetched(page("population", **first)))
        [before] = hashes(database).values()
        run = await sync(r, Fetched(page("population", **{**first, **edit})))
        [after] = hashes(database).values()
        entry = await r.get("https://example.org/population")
        [change] = await r.changes(since=1)

    assert (run.stats.updated, run.stats.created) == (1, 0)
    assert after[0] == before[0]
    assert after[1] != before[1]
    assert (change.kind, entry.revision) == ("updated", 2)
    assert database.query("select updated_at > created_at from item") == [(True,)]


async def test_the_same_title_at_another_url_is_another_item_while_both_are_there(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, Fetched(page("old", title="Population")))
        run = await sync(r, Fetched(page("old", title="Population")), Fetched(page("new", title="Population")))

    [old, new] = hashes(database).values()
    assert (run.stats.created, run.stats.unchanged) == (1, 1)
    assert old[0] != new[0]
    assert old[1] == new[1]


async def test_the_same_again_writes_no_item_and_is_known_to_be_checked(database: ScratchDatabase) -> None:
    url = "https://example.org/1"
    async with database.open() as r:
        await sync(r, Fetched(page(1)))
        stored = database.query("select updated_at, record_hash from item")
        [(_, first)] = (await r.items.last_checked([url])).items()
        run = await sync(r, Fetched(page(1)))
        [(_, second)] = (await r.items.last_checked([url])).items()

    assert (run.stats.unchanged, run.stats.rows_written) == (1, 0)
    assert database.query("select updated_at, record_hash from item") == stored
    assert second > first


async def test_a_url_can_be_stored_once_in_a_source_and_both_hashes_have_32_bytes(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, Fetched(page(1)), Fetched(page(1, "Again.")), Fetched(page(2)))

    assert database.query("select count(*), min(length(key)), min(length(content_hash)) from item") == [(2, 32, 32)]
    keys = database.query("select indexdef from pg_indexes where tablename = 'item' and indexdef like '%UNIQUE%'")
    assert any(re.search(r"\(source_id, key\)", definition) for (definition,) in keys)
    required = dict(
        database.query("select column_name, is_nullable from information_schema.columns where table_name = 'item'")
    )
    assert [required[name] for name in ("key", "content_hash", "title", "tags")] == ["NO"] * 4


async def test_every_item_has_one_outcome_and_the_statistics_add_up(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *(Fetched(page(number)) for number in range(10)))
        run = await sync(
            r,
            *(Fetched(page(number)) for number in range(7)),
            *(Fetched(page(number, "Changed.")) for number in range(7, 10)),
            *(Fetched(page(number)) for number in range(10, 12)),
        )

    told = run.stats.to_json()
    assert {name: told[name] for name in ("created", "updated", "unchanged", "failed")} == {
        "created": 2,
        "updated": 3,
        "unchanged": 7,
        "failed": 0,
    }
    assert sum(told[outcome.value] for outcome in Outcome) == 12


async def test_white_space_around_an_address_and_the_case_of_its_host_name_no_other_item(
    database: ScratchDatabase,
) -> None:
    async with database.open() as r:
        document = page(1)
        await sync(r, Fetched(document))
        for spelling in (" https://example.org/1 ", "HTTPS://EXAMPLE.ORG/1", "http://example.org/1#top"):
            Scripted.script = lambda known, spelling=spelling: [  # type: ignore[misc]
                Fetched(type(document)(spelling, document.title, document.text)),
                Complete(),
            ]
            run = await r.sync("scripted:one")
            assert (run.stats.created, run.stats.deleted) == (0, 0), spelling

    assert len(hashes(database)) == 1


async def test_the_log_of_a_sync_names_what_was_created_and_updated(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, Fetched(page(1)))
        await sync(r, Fetched(page(1, title="Population 2024")), Fetched(page(2)))
        changes = await r.changes()

    assert [(change.kind, change.title) for change in changes] == [
        ("created", "Page 1"),
        ("updated", "Population 2024"),
        ("created", "Page 2"),
    ]
