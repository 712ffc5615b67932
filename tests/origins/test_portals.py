"""A small CKAN and a paid embedder: what each change of a dataset costs, and how a sync is recorded."""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from rowen import Checkpoint, Complete, Failed, Fetched, Incomplete, Known, Observation
from tests.conftest import ScratchDatabase
from tests.harvest.embedded import sync, untitled
from tests.portals.catalogs import keep
from tests.portals.ckan import CkanPortal
from tests.portals.embedder import Provider
from tests.portals.scripted import Scripted, page


@pytest.fixture
def portal() -> Iterator[CkanPortal]:
    with closing(CkanPortal()) as portal:
        yield portal


@pytest.fixture
def provider() -> Iterator[Provider]:
    with closing(Provider()) as provider:
        yield provider


RESOURCE = {"name": "Table", "url": "https://elsewhere.example/moved.csv", "format": "CSV"}


@pytest.mark.parametrize(
    ("edit", "outcome", "inputs"),
    [
        ({"resources": [RESOURCE]}, "amended", []),
        ({"title": "Another title"}, "updated", ["Another title"]),
        ({"notes": "Another description."}, "updated", ["Another description."]),
    ],
)
async def test_only_what_a_dataset_says_anew_is_embedded(
    database: ScratchDatabase,
    portal: CkanPortal,
    provider: Provider,
    edit: dict[str, Any],
    outcome: str,
    inputs: list[str],
) -> None:
    portal.fill(3)
    async with database.open(**provider.settings) as r:
        await keep(r, portal)
        provider.received.clear()
        portal.make("d00001", **edit)
        run = await r.sync("portal")

    assert (getattr(run.stats, outcome), run.stats.requests) == (1, 2)
    assert [text.partition("\n")[0] for text in provider.received] == inputs
    assert run.stats.embedded == len(inputs)


async def test_a_new_dataset_is_embedded_and_what_did_not_change_is_not_fetched(
    database: ScratchDatabase, portal: CkanPortal, provider: Provider
) -> None:
    portal.fill(20)
    async with database.open(**provider.settings) as r:
        await keep(r, portal)
        provider.received.clear()
        quiet = await r.sync("portal")
        sent_quietly = list(provider.received)
        portal.make("new", "A new dataset")
        run = await r.sync("portal")

    # The newest record is within the overlap and comes again; the others are not asked for.
    assert (quiet.stats.rows_written, quiet.stats.requests, sent_quietly) == (0, 2, [])
    assert quiet.stats.not_asked >= 19
    assert run.stats.created == 1
    assert len(provider.received) == run.stats.embedded > 0
    assert all("new" in text for text in provider.received)


async def test_a_full_sync_reads_all_datasets_and_embeds_none_that_did_not_change(
    database: ScratchDatabase, portal: CkanPortal, provider: Provider
) -> None:
    portal.fill(10)
    async with database.open(**provider.settings) as r:
        first = await keep(r, portal)
        provider.received.clear()
        later = await r.sync("portal")
        full = await r.sync("portal", full=True)

    assert [run.mode for run in (first, later, full)] == ["full", "incremental", "full"]
    assert (full.stats.unchanged, full.stats.not_asked, full.stats.embedded) == (first.stats.created, 0, 0)
    assert full.stats.requests < full.stats.unchanged, "datasets come in pages"
    assert provider.received == []


async def test_created_and_updated_are_embedded_and_unchanged_and_failed_are_not(
    database: ScratchDatabase, provider: Provider, kinds: Callable[[Any], None]
) -> None:
    kinds(Scripted)
    async with database.open(**provider.settings) as r:
        await sync(r, *(Fetched(untitled(number, f"Text {number}.")) for number in (1, 2, 3)))
        provider.received.clear()
        run = await sync(
            r,
            Fetched(untitled(1, "Text 1.")),
            Fetched(untitled(2, "Another text.")),
            Failed("https://example.org/3", "It is broken."),
            Fetched(untitled(4, "Text 4.")),
        )
        told = run.stats.to_json()

    counted = {name: told[name] for name in ("created", "updated", "unchanged", "failed", "skipped", "embedded")}
    assert counted == {"created": 1, "updated": 1, "unchanged": 1, "failed": 1, "skipped": 0, "embedded": 2}
    assert sorted(provider.received) == ["Another text.", "Text 4."]


async def test_the_record_of_syncs_has_its_old_columns_and_types(database: ScratchDatabase) -> None:
    columns = dict(
        database.query(
            "select column_name, data_type from information_schema.columns where table_name = 'portal_sync_status'"
        )
    )

    told = {name: columns[name] for name in ("portal_url", "last_sync_mode", "sync_status")}
    times = {name: columns[name] for name in ("last_successful_sync", "updated_at")}
    assert set(told.values()) == {"text"}
    assert set(times.values()) == {"timestamp with time zone"}
    assert columns["datasets_synced"] == "integer"


async def test_the_record_of_syncs_tells_start_mode_count_and_end_also_of_a_cancelled_one(
    database: ScratchDatabase, kinds: Callable[[Any], None]
) -> None:
    kinds(Scripted)

    def record() -> tuple[Any, ...]:
        [row] = database.query(
            "select last_successful_sync, last_sync_mode, sync_status, datasets_synced, updated_at"
            " from portal_sync_status"
        )
        return row

    async with database.open() as r:
        whole = await sync(r, Fetched(page(1)), Fetched(page(2)), full=True)
        after_whole = record()

        def stops(known: Known) -> Iterator[Observation]:
            meanwhile.append(record()[1:3])
            yield Fetched(page(1))
            yield Checkpoint(1)
            r.stop()
            yield Fetched(page(3))
            yield Complete()

        meanwhile: list[tuple[Any, ...]] = []
        Scripted.script = stops
        stopped = await r.sync("scripted:one")
        cancelled = record()
        await sync(r, Fetched(page(1)), Incomplete("A page is missing."))
        partial = record()

    assert after_whole == (whole.started_at, "full", "completed", 2, whole.finished_at)
    assert meanwhile == [("incremental", "running")]
    assert cancelled[:3] == (whole.started_at, "incremental", "cancelled")
    assert cancelled[4] == stopped.finished_at
    assert partial[:3] == (whole.started_at, "incremental", "partial")


async def test_the_next_sync_asks_from_before_the_newest_record_by_the_clock_of_the_portal(
    database: ScratchDatabase, portal: CkanPortal
) -> None:
    portal.fill(5)
    newest = max(record["metadata_modified"] for record in portal.records.values())
    async with database.open() as r:
        await keep(r, portal)
        await r.sync("portal")

    filters = [question["fq"] for question in portal.questions() if "metadata_modified:[" in question.get("fq", "")]
    assert filters
    since = filters[0].partition("metadata_modified:[")[2].partition(" ")[0]
    # Neither the start nor the end of our last sync decides, so that no clock but the portal's matters.
    assert since < newest
