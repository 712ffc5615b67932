"""The flow over a scripted source: outcomes, guards, cursors, failures."""

from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from rowen import (
    BusyError,
    Checkpoint,
    Complete,
    Failed,
    Fetched,
    Gone,
    Known,
    Observation,
    Raw,
    RefusedError,
    Rowen,
    Run,
    Skipped,
    SourceError,
    Unchanged,
    Validators,
)
from rowen.connectors import registry
from rowen.harvest.parse_pool import Workers
from rowen.harvest.parse_worker import Answer, Refused, Task, Text
from rowen.harvest.plan import Plan
from rowen.store.items.items import ItemCheck
from tests.conftest import ScratchDatabase
from tests.logical import contents, replayed
from tests.portals.scripted import Scripted, page, shows

ADDRESS = "scripted:one"


LINKED = """# Start

See [the guide](../1.0/guide.html) and `[a](b)`.

```
[x](1)
```

- One

    [run](a)() throws E

[r]: https://example.org/1"""


@pytest.fixture(autouse=True)
def _scripted(kinds: Callable[[Any], None]) -> None:
    kinds(Scripted)


async def sync(r: Rowen, *observations: Observation, **how: bool) -> Run:
    shows(*observations)
    return await r.sync(ADDRESS, **how)


def fetched(*numbers: int, **more: Any) -> list[Observation]:
    return [Fetched(page(number, **more)) for number in numbers]


async def test_new_items_are_created_and_announced(database: ScratchDatabase) -> None:
    async with database.open() as r:
        run = await sync(r, *fetched(1, 2), Complete())

        assert (run.status, run.mode, run.complete, run.stats.created) == ("completed", "full", True, 2)
        assert [(c.number, c.kind, c.title) for c in await r.changes()] == [
            (1, "created", "Page 1"),
            (2, "created", "Page 2"),
        ]


async def test_the_same_again_writes_nothing(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *fetched(1, 2), Complete())
        run = await sync(r, *fetched(1, 2), Complete())

        assert (run.mode, run.stats.unchanged, run.stats.rows_written) == ("incremental", 2, 0)
        assert run.stats.stopped_at_content == 2
        assert await r.changes.last_number() == 2


async def test_inline_code_that_is_wrapped_elsewhere_is_amended_and_a_block_of_code_is_updated(
    database: ScratchDatabase,
) -> None:
    texts = ["See `mow(Hay,    Time)`.", "```\nmow(Hay,    Time)\n```"]
    async with database.open() as r:
        await sync(r, *(Fetched(page(n, text)) for n, text in enumerate(texts)), Complete())
        run = await sync(r, *(Fetched(page(n, text.replace("    ", " "))) for n, text in enumerate(texts)), Complete())

    assert (run.stats.amended, run.stats.updated) == (1, 1)


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        ("../1.0/guide.html", "../1.1/guide.html", "amended"),
        ("https://example.org/1", "https://example.org/2", "amended"),
        ("throws E", "throws [E](https://example.org/E)", "amended"),
        ("the guide", "a guide", "updated"),
        ("`[a](b)`", "`[a](c)`", "updated"),
        ("[x](1)", "[x](2)", "updated"),
        ("\n\nSee", "\n\nMore.\n\nSee", "updated"),
    ],
)
async def test_a_link_that_leads_elsewhere_is_amended_and_other_words_or_code_are_updated(
    database: ScratchDatabase, before: str, after: str, outcome: str
) -> None:
    changed = LINKED.replace(before, after)
    async with database.open() as r:
        await sync(r, Fetched(page(1, LINKED)), Complete())
        run = await sync(r, Fetched(page(1, changed)), Complete())

        assert (run.stats.amended, run.stats.updated) == ((1, 0) if outcome == "amended" else (0, 1))
        assert [c.kind for c in await r.changes(since=1)] == [outcome]
        assert (await r.get("https://example.org/1")).text == changed
        assert len(await r.items.history("https://example.org/1")) == 2
        assert database.query("select text from chunk") == [(changed,)]


async def test_a_link_that_leads_elsewhere_under_another_title_or_other_tags_is_updated(
    database: ScratchDatabase,
) -> None:
    moved = LINKED.replace("1.0", "1.1")
    async with database.open() as r:
        await sync(r, Fetched(page(1, LINKED)), Fetched(page(2, LINKED)), Complete())
        run = await sync(r, Fetched(page(1, moved, title="Other")), Fetched(page(2, moved, tags=("a",))), Complete())

    assert (run.stats.amended, run.stats.updated) == (0, 2)


async def test_other_text_is_updated_and_other_metadata_is_amended(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, Fetched(page(1)), Fetched(page(2, record={"licence": "CC0"})), Complete())
        run = await sync(r, Fetched(page(1, "Other.")), Fetched(page(2, record={"licence": "MIT"})), Complete())

        assert (run.stats.updated, run.stats.amended, run.stats.chunks_written) == (1, 1, 1)
        assert (await r.get("https://example.org/2")).record == {"licence": "MIT"}
        assert [c.kind for c in await r.changes(since=2)] == ["updated", "amended"]


async def test_an_amended_item_has_no_version_of_its_own_before_its_text_changes(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *fetched(1), Complete())
        await sync(r, *fetched(1, record={"licence": "CC0"}), Complete())
        amended = await r.items.history(page(1).url)
        run = await sync(r, *fetched(1, text="Other words."), Complete())
        updated = await r.items.history(page(1).url)

    assert [(one.number, one.text) for one in amended] == [(1, "Some text.")]
    assert (run.stats.updated, run.stats.failed) == (1, 0)
    assert [(one.number, one.text) for one in updated] == [(1, "Some text."), (2, "Other words.")]


async def test_case_alone_is_a_change(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, Fetched(page(1, "polish notation")), Complete())
        run = await sync(r, Fetched(page(1, "Polish notation")), Complete())

        assert run.stats.updated == 1
        assert (await r.get("https://example.org/1")).text == "Polish notation"


async def test_a_new_title_rewrites_no_passage_text_but_is_found(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, Fetched(page(1, title="Old name")), Complete())
        run = await sync(r, Fetched(page(1, title="Quinces")), Complete())

        assert (run.stats.updated, run.stats.chunks_written) == (1, 0)
        assert [hit.title for hit in await r.search("quinces")] == ["Quinces"]


async def test_items_that_a_complete_run_did_not_observe_are_deleted(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *fetched(1, 2, 3), Complete())
        run = await sync(r, *fetched(1, 3), Complete())

        assert run.stats.deleted == 1
        assert [c.kind for c in await r.changes(since=3)] == ["deleted"]
        assert {hit.url for hit in await r.search("page")} == {"https://example.org/1", "https://example.org/3"}
        assert (await r.get("https://example.org/2")).withdrawn_at is not None


async def test_a_run_that_is_not_complete_deletes_nothing(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *fetched(1, 2, 3), Complete())
        run = await sync(r, *fetched(1))

        assert (run.status, run.complete, run.stats.deleted) == ("partial", False, 0)
        assert len(contents(database)) == 3


async def test_an_empty_listing_never_deletes(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *fetched(1, 2), Complete())
        run = await sync(r, Complete(), accept_deletions=True)

        assert (run.stats.deleted, run.stats.deletions_held) == (0, 2)
        assert len(contents(database)) == 2


async def test_a_mass_deletion_is_pending_until_it_is_accepted(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *fetched(*range(20)), Complete())
        held = await sync(r, *fetched(*range(10)), Complete())
        assert (held.stats.deleted, held.stats.deletions_held) == (0, 10)
        assert (await r.sources.get("one")).deletions_held == 10

        accepted = await sync(r, *fetched(*range(10)), Complete(), accept_deletions=True)

        assert (accepted.stats.deleted, accepted.stats.deletions_held) == (10, 0)
        assert (await r.sources.get("one")).deletions_held == 0


async def test_the_guard_is_a_setting(database: ScratchDatabase) -> None:
    async with database.open(deletion_floor=1, deletion_share=0.0) as r:
        await sync(r, *fetched(1, 2, 3), Complete())
        run = await sync(r, *fetched(1, 2), Complete())

        assert (run.stats.deleted, run.stats.deletions_held) == (0, 1)


async def test_gone_deletes_at_once_even_without_completeness(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *fetched(1, 2), Complete())
        run = await sync(r, Gone("https://example.org/2", "410"))

        assert run.stats.deleted == 1
        assert {hit.url for hit in await r.search("page")} == {"https://example.org/1"}
        assert replayed(database) == contents(database)


async def test_an_item_that_comes_back_is_created_again(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *fetched(1, 2), Complete())
        await sync(r, Fetched(page(1)), Gone("https://example.org/2"), Complete())
        run = await sync(r, *fetched(1, 2), Complete())

        assert run.stats.created == 1
        assert [c.kind for c in await r.changes()] == ["created", "created", "deleted", "created"]


async def test_gone_and_fetched_again_in_one_run_leaves_the_item(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *fetched(1, 2), Complete())
        run = await sync(
            r, Fetched(page(1)), Gone("https://example.org/2"), Checkpoint(1), Fetched(page(2, "New.")), Complete()
        )

        assert (run.stats.deleted, run.stats.created, run.stats.updated) == (0, 0, 1)
        assert (await r.get("https://example.org/2")).text == "New."


async def test_a_failed_item_keeps_its_last_copy_and_is_released_when_read_again(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *fetched(1, 2), Complete())
        failed = Failed("https://example.org/2", "The licence is not\x00 JSON.", "Ask the portal.", b"{")
        run = await sync(r, Fetched(page(1)), failed, Complete())
        assert (run.status, run.stats.failed, run.stats.deleted) == ("completed", 1, 0)
        [case] = await r.items.quarantine()
        assert (case.url, case.error, case.tries) == ("https://example.org/2", "The licence is not JSON.", 1)

        await sync(r, Fetched(page(1)), failed, Complete())
        assert [case.tries for case in await r.items.quarantine()] == [2]
        await sync(r, *fetched(1, 2), Complete())

        assert await r.items.quarantine() == []
        assert len(contents(database)) == 2


async def test_quarantine_drops_items_that_the_source_no_longer_lists(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, Fetched(page(1)), Failed("https://example.org/2", "Bad."), Complete())
        await sync(r, Fetched(page(1)), Complete())

        assert await r.items.quarantine() == []


async def test_a_skipped_item_is_neither_lost_nor_swept(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *fetched(1, 2), Complete())
        run = await sync(r, Fetched(page(1)), Skipped("https://example.org/2", "circuit open"), Complete())

        assert (run.stats.skipped, run.stats.deleted) == (1, 0)
        assert len(contents(database)) == 2


async def test_the_same_item_twice_in_a_run_is_one_item(database: ScratchDatabase) -> None:
    async with database.open() as r:
        twice = [Fetched(page(1)), Fetched(page(1, "Otherwise.")), Checkpoint(0), Fetched(page(1, "Late."))]
        first = await sync(r, *twice, Complete())
        second = await sync(r, *twice, Complete())

        assert (first.stats.created, first.stats.duplicates) == (1, 2)
        assert (second.stats.unchanged, second.stats.duplicates, second.stats.rows_written) == (1, 2, 0)


async def test_an_unknown_item_reported_as_unchanged_is_a_failure_not_a_crash(database: ScratchDatabase) -> None:
    async with database.open() as r:
        run = await sync(r, Unchanged("https://example.org/9"), Complete())

        assert run.stats.failed == 1


async def test_unchanged_with_new_validators_keeps_them_and_the_links(database: ScratchDatabase) -> None:
    async with database.open() as r:
        document = page(1, links=("https://example.org/2",), validators=Validators("a"))
        await sync(r, Fetched(document), Complete())
        await sync(r, Unchanged(document.url, Validators("b")), Complete())

        held = (await Scripted.known.look_up([document.url]))[document.url]
        assert (held.etag, held.links) == ("b", ("https://example.org/2",))


async def test_the_cursor_moves_with_its_group_and_comes_back(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *fetched(1), Checkpoint({"page": 1}), Complete())
        run = await sync(r, *fetched(2), Checkpoint({"page": 2}))

        assert Scripted.known.cursor == {"page": 1}
        assert (run.status, run.complete) == ("completed", False)
        assert (await r.sources.get("one")).cursor == {"page": 2}


async def test_a_full_sync_shows_no_cursor_and_no_validators(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, Fetched(page(1, validators=Validators("a"))), Checkpoint(1), Complete())
        await sync(r, Fetched(page(1, validators=Validators("a"))), Complete(), full=True)

        assert (Scripted.known.mode, Scripted.known.cursor) == ("full", None)
        held = await Scripted.known.look_up(["https://example.org/1"])
        assert held["https://example.org/1"].etag is None


async def test_a_source_that_fails_midway_keeps_its_items(database: ScratchDatabase) -> None:
    def breaks(known: Known) -> Iterator[Observation]:
        yield from fetched(1, 2)
        raise SourceError("The portal fell over.")

    async with database.open() as r:
        Scripted.script = breaks
        run = await r.sync(ADDRESS)

        assert (run.status, run.error, run.stats.created) == ("partial", "The portal fell over.", 2)


async def test_a_connector_with_a_bug_fails_its_run_alone(database: ScratchDatabase) -> None:
    def breaks(known: Known) -> Iterator[Observation]:
        raise ZeroDivisionError("oops")
        yield

    async with database.open() as r:
        Scripted.script = breaks
        run = await r.sync(ADDRESS)

        assert run.status == "failed"
        assert "'scripted' failed: ZeroDivisionError: oops" in (run.error or "")


async def test_a_document_that_the_database_refuses_costs_one_item(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await r.sources.add(ADDRESS)
        database.execute("alter table item add constraint no_three check (title <> 'Page 3')")
        run = await sync(r, *fetched(1, 2, 3, 4, 5), Complete())

        assert (run.status, run.stats.created, run.stats.failed) == ("completed", 4, 1)
        [case] = await r.items.quarantine()
        assert case.url == "https://example.org/3"


async def test_a_second_live_run_is_refused_and_the_first_goes_on(database: ScratchDatabase) -> None:
    async with database.open() as r, database.open() as other:
        await r.sources.add(ADDRESS)
        refused: list[str] = []

        class Busy(Scripted):
            async def pull(self, known: Known) -> Any:
                yield Fetched(page(1))
                with pytest.raises(BusyError) as caught:
                    await other.sync("one")
                refused.append(str(caught.value))
                yield Complete()

        registry.register(Busy)
        run = await r.sync("one")

        assert run.status == "completed"
        assert "is being synced by run" in refused[0]


async def test_a_run_whose_lease_ran_out_is_taken_over_and_cannot_write_any_more(database: ScratchDatabase) -> None:
    async with database.open(lease_s=1000) as r, database.open() as other:
        await r.sources.add(ADDRESS)

        class Frozen(Scripted):
            async def pull(self, known: Known) -> Any:
                database.execute("update run set lease_until = now() - interval '1 second'")
                shows(Fetched(page(2)), Complete())
                registry.register(Scripted)
                await other.sync("one")
                yield Fetched(page(1))
                yield Complete()

        registry.register(Frozen)
        with pytest.raises(BusyError, match="taken over"):
            await r.sync("one")

        assert list(contents(database)) == ["https://example.org/2"]
        assert [run.status for run in await other.runs.list()] == ["completed", "failed"]


async def test_a_run_that_was_taken_over_before_its_sweep_deletes_nothing(database: ScratchDatabase) -> None:
    async with database.open(lease_s=1000) as r, database.open() as other:
        await sync(r, *fetched(1, 2, 3), Complete())

        class Frozen(Scripted):
            async def pull(self, known: Known) -> Any:
                yield Fetched(page(1))
                yield Fetched(page(2))
                database.execute("update run set lease_until = now() - interval '1 second'")
                shows(*fetched(1, 2, 3), Complete())
                registry.register(Scripted)
                await other.sync("one")
                yield Complete()

        registry.register(Frozen)
        with pytest.raises(BusyError, match="taken over"):
            await r.sync("one")

        assert len(contents(database)) == 3
        assert {change.kind for change in await r.changes()} == {"created"}


async def test_stop_ends_the_run_as_cancelled_and_keeps_received_items(database: ScratchDatabase) -> None:
    async with database.open() as r:

        def stops(known: Known) -> Iterator[Observation]:
            yield from fetched(1, 2)
            yield Checkpoint(1)
            r.stop()
            yield from fetched(3)

        Scripted.script = stops
        run = await r.sync(ADDRESS)

        assert (run.status, run.complete) == ("cancelled", False)
        assert "https://example.org/1" in contents(database)


async def test_a_paused_source_is_refused_and_left_out(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await r.sources.add(ADDRESS)
        await r.sources.pause("one")
        with pytest.raises(RefusedError, match="paused"):
            await r.sync("one")
        assert await r.runs.sync_all() == []

        await r.sources.resume("one")
        shows(Complete())
        assert [type(run) for run in await r.runs.sync_all()] == [Run]


async def test_removing_a_source_announces_each_deletion(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *fetched(1, 2), Complete())
        assert await r.sources.remove("one") == 2

        assert replayed(database) == {} == contents(database)
        assert database.query("select count(*) from chunk") == [(0,)]


async def test_a_dry_run_reports_changes_and_makes_none(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *fetched(1, 2, 3, 4), Complete())
        before = database.query("select count(*), max(number) from change")
        run = await sync(r, Fetched(page(1, "New.")), *fetched(2, 5), Complete(), dry_run=True)

        assert (run.stats.created, run.stats.updated, run.stats.deleted) == (1, 1, 2)
        assert database.query("select count(*), max(number) from change") == before
        assert len(await r.runs.list()) == 1


async def test_a_body_is_read_only_when_it_differs(database: ScratchDatabase) -> None:
    async with database.open() as r:
        raw = Raw("https://example.org/r", b"# Title\n\nText.", name="r.md", etag="1")
        await sync(r, Fetched(raw), Complete())
        again = await sync(r, Fetched(Raw(raw.url, raw.body, name="r.md", etag="2")), Complete())

        assert (again.stats.unchanged, again.stats.stopped_at_body) == (1, 1)
        held = await Scripted.known.look_up([raw.url])
        assert held[raw.url].etag == "2"


async def test_a_body_that_cannot_be_read_costs_that_item(database: ScratchDatabase, tmp_path: Path) -> None:
    async with database.open() as r:
        bad = Raw("https://example.org/b", b"\x00\x01\x02\x03" * 100, name="b.txt")
        run = await sync(r, Fetched(bad), *fetched(1), Complete())

        assert (run.stats.failed, run.stats.created) == (1, 1)


async def test_other_options_cause_every_item_to_be_read_again(database: ScratchDatabase) -> None:
    async with database.open() as r:
        raw = Raw("https://example.org/r", b"Ein Text.", name="r.txt", etag="1")
        await sync(r, Fetched(raw), Complete())
        await r.sources.edit("one", options={"language": "de"})
        await sync(r, Complete())
        held = await Scripted.known.look_up([raw.url])

        assert (held[raw.url].etag, held[raw.url].body_hash) == (None, None)


async def test_a_new_way_of_cutting_recuts_without_announcing(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with database.open() as r:
        await sync(r, *fetched(1), Complete())
        monkeypatch.setattr("rowen.content.readers.CHUNKER_VERSION", 99)
        run = await sync(r, *fetched(1), Complete())

        assert (run.stats.unchanged, await r.changes.last_number()) == (1, 1)
        assert database.query("select chunker from item") == [(99,)]


async def test_a_failed_item_that_keeps_no_copy_is_deleted_and_in_quarantine(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *fetched(1, 2, 3), Complete())
        run = await sync(r, *fetched(1, 2), Failed(page(3).url, "Too large.", keeps_copy=False), Complete())

        assert (run.stats.failed, run.stats.deleted) == (1, 1)
        assert [case.url for case in await r.items.quarantine()] == [page(3).url]
        assert page(3).url not in contents(database)


async def test_an_item_that_fails_twice_in_a_run_is_one_failure(database: ScratchDatabase) -> None:
    async with database.open() as r:
        failed = Failed(page(2).url, "Not JSON.")
        run = await sync(r, *fetched(1), failed, failed, Checkpoint(1), failed, Complete())

        assert (run.stats.failed, run.stats.duplicates) == (1, 2)
        assert [case.tries for case in await r.items.quarantine()] == [1]


@pytest.mark.parametrize("between", [[], [Checkpoint(1)]])
async def test_an_item_that_fails_and_is_then_gone_has_not_failed(
    database: ScratchDatabase, between: list[Observation]
) -> None:
    async with database.open() as r:
        await sync(r, *fetched(1, 2, 3), Complete())
        run = await sync(r, *fetched(1, 2), Failed(page(3).url, "Not JSON."), *between, Gone(page(3).url))

        assert (run.stats.failed, run.stats.deleted) == (0, 1)
        assert await r.items.quarantine() == []


@pytest.mark.parametrize("validators", [None, Validators("etag")])
async def test_an_unchanged_item_leaves_the_quarantine(
    database: ScratchDatabase, validators: Validators | None
) -> None:
    async with database.open() as r:
        await sync(r, *fetched(1, 2), Complete())
        await sync(r, *fetched(1), Failed(page(2).url, "Not JSON."), Complete())
        await sync(r, Unchanged(page(2).url, validators))

        assert await r.items.quarantine() == []


class LooksUp(Scripted):
    """Finds out what is held before it says that all of it is unchanged, as connectors do."""

    validators: ClassVar[Validators | None] = None

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        for url in await known.look_up([page(number).url for number in range(1, 31)]):
            yield Unchanged(url, self.validators)
        yield Complete()


@pytest.mark.parametrize("validators", [None, Validators("etag")])
async def test_an_unchanged_item_that_was_reported_gone_before_is_no_longer_gone(
    database: ScratchDatabase, kinds: Callable[[Any], None], validators: Validators | None
) -> None:
    LooksUp.validators = validators
    async with database.open() as r:
        await sync(r, *fetched(*range(1, 31)), Complete())
        held = await sync(r, *[Gone(page(number).url) for number in range(1, 26)])
        kinds(LooksUp)
        run = await r.sync(ADDRESS, accept_deletions=True)

    assert (held.stats.deletions_held, run.stats.unchanged, run.stats.deleted) == (25, 30, 0)
    assert database.query("select (select count(*) from item_gone), (select count(*) from item_held)") == [(0, 0)]


@pytest.mark.parametrize(
    "again",
    [
        lambda number: Fetched(page(number)),
        lambda number: Fetched(page(number, "Other text.")),
        lambda number: Failed(page(number).url, "Not JSON."),
        lambda number: Skipped(page(number).url, "The host is left alone."),
    ],
    ids=["fetched", "changed", "failed", "skipped"],
)
async def test_an_item_that_returns_after_it_was_reported_gone_is_no_longer_gone(
    database: ScratchDatabase, again: Callable[[int], Observation]
) -> None:
    async with database.open() as r:
        await sync(r, *fetched(*range(1, 31)), Complete())
        held = await sync(r, *[Gone(page(number).url) for number in range(1, 26)])
        run = await sync(r, *map(again, range(1, 31)), Complete(), accept_deletions=True)

    assert (held.stats.deletions_held, run.stats.deleted, len(contents(database))) == (25, 0, 30)
    assert database.query("select (select count(*) from item_gone), (select count(*) from item_held)") == [(0, 0)]


async def test_an_unchanged_item_that_was_looked_up_leaves_the_quarantine(
    database: ScratchDatabase, kinds: Callable[[Any], None]
) -> None:
    async with database.open() as r:
        await sync(r, *fetched(1, 2), Complete())
        await sync(r, *fetched(1), Failed(page(2).url, "Not JSON."), Complete())
        LooksUp.validators = None
        kinds(LooksUp)
        run = await sync(r)

        assert (run.stats.unchanged, await r.items.quarantine()) == (2, [])


async def test_a_body_that_comes_again_leaves_the_quarantine(database: ScratchDatabase) -> None:
    async with database.open() as r:
        raw = Raw("https://example.org/r", b"# Title\n\nText.", name="r.md")
        await sync(r, Fetched(raw), Complete())
        await sync(r, Failed(raw.url, "No answer."), Complete())
        run = await sync(r, Fetched(raw))

        assert (run.stats.stopped_at_body, await r.items.quarantine()) == (1, [])


async def test_a_document_keeps_its_depth_without_validators_or_links(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *fetched(1, depth=3), Complete())

        assert database.query("select depth from item_check") == [(3,)]


async def test_a_document_that_comes_without_its_former_validator_is_stored_without_it(
    database: ScratchDatabase,
) -> None:
    async with database.open() as r:
        before = page(1, validators=Validators("a"))
        await sync(r, Fetched(before), Complete())
        await sync(r, Fetched(page(1, text="Other words.")), Complete())
        await sync(r, Complete())

        assert (await Scripted.known.look_up([before.url]))[before.url].etag is None


def cut_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let parse workers refuse each text that they are to cut."""
    prepared = Workers.prepare

    async def prepare(workers: Workers, tasks: list[Task]) -> list[Answer]:
        answers = await prepared(workers, tasks)
        return [Refused("Too long.") if isinstance(task, Text) else answers[at] for at, task in enumerate(tasks)]

    monkeypatch.setattr(Workers, "prepare", prepare)


async def test_a_text_that_cannot_be_cut_is_a_failure_and_not_created(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_nothing(monkeypatch)
    async with database.open() as r:
        run = await sync(r, *fetched(1), Complete())

        assert (run.stats.created, run.stats.failed, contents(database)) == (0, 1, {})
        assert [case.error for case in await r.items.quarantine()] == ["Too long."]


async def test_a_refused_document_hides_no_other_failure_and_is_counted_once(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *fetched(1, 2), Complete())
        database.execute("alter table item add constraint no_four check (text <> 'Refused.')")
        changed = [Fetched(page(1, "New.")), Fetched(page(2, "Refused."))]
        run = await sync(r, *changed, Failed(page(9).url, "Not JSON."), Complete())

        assert (run.stats.updated, run.stats.failed, run.stats.created) == (1, 2, 0)
        assert {case.url for case in await r.items.quarantine()} == {page(2).url, page(9).url}


async def test_a_text_that_cannot_be_cut_stays_in_quarantine_and_keeps_its_former_validator(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with database.open() as r:
        await sync(r, Fetched(page(1, validators=Validators("before"))), *fetched(2), Complete())
        await sync(r, Failed(page(1).url, "Not JSON."))
        cut_nothing(monkeypatch)
        await sync(r, Fetched(page(1, "New.", validators=Validators("now"))), *fetched(2))

        assert [(case.url, case.error) for case in await r.items.quarantine()] == [(page(1).url, "Too long.")]
        assert (await Scripted.known.look_up([page(1).url]))[page(1).url].etag == "before"


@pytest.mark.parametrize("refused", [1, 2, 3, 4])
async def test_a_refused_document_stays_in_quarantine_and_keeps_its_former_validator(
    database: ScratchDatabase, refused: int
) -> None:
    numbers = [1, 2, 3, 4]
    async with database.open() as r:
        await sync(r, *(Fetched(page(number, validators=Validators("before"))) for number in numbers), Complete())
        await sync(r, *(Failed(page(number).url, "Not JSON.") for number in numbers))
        database.execute("alter table item add constraint no_refused check (text <> 'Refused.')")
        texts = {number: "Refused." if number == refused else "New." for number in numbers}
        run = await sync(r, *(Fetched(page(one, texts[one], validators=Validators("now"))) for one in numbers))
        urls = {number: page(number).url for number in numbers}
        await sync(r)
        known = await Scripted.known.look_up(list(urls.values()))

        assert (run.stats.updated, run.stats.failed) == (3, 1)
        assert [case.url for case in await r.items.quarantine()] == [urls[refused]]
        assert {one: known[urls[one]].etag for one in numbers} == {
            one: "before" if one == refused else "now" for one in numbers
        }


async def test_a_changed_language_alone_reindexes_the_passages(
    database: ScratchDatabase, new_database: Callable[[], ScratchDatabase]
) -> None:
    now = [Fetched(page(1, "Die Wiesen wurden gemäht.", language="de")), Complete()]
    rebuilt = new_database()
    async with database.open() as r, rebuilt.open() as other:
        await sync(r, Fetched(page(1, "Die Wiesen wurden gemäht.")), Complete())
        run = await sync(r, *now)
        await sync(other, *now)

    words = "select tsv::text from chunk"
    assert (run.stats.amended, database.query(words)) == (1, rebuilt.query(words))


async def test_an_item_created_and_deleted_in_one_run_does_not_count_for_the_guard(
    database: ScratchDatabase,
) -> None:
    async with database.open() as r:
        await sync(r, *fetched(1), Complete())
        new = fetched(*range(100, 130))
        gone = [Gone(page(number).url) for number in range(100, 130)]
        run = await sync(r, *fetched(1), *new, Checkpoint(1), *gone, Complete())

        assert (run.stats.deleted, run.stats.deletions_held) == (30, 0)
        assert list(contents(database)) == [page(1).url]


async def test_a_walk_with_fewer_items_than_declared_is_partial_even_if_its_connector_says_complete(
    database: ScratchDatabase,
) -> None:
    async with database.open() as r:
        await sync(r, *fetched(1, 2, 3), Complete(expected=3))
        run = await sync(r, *fetched(1), Complete(expected=3))

        assert (run.status, run.stats.deleted) == ("partial", 0)
        assert "declares 3 items, but returned 1" in (run.error or "")


@pytest.mark.parametrize(("declared", "status"), [(2, "completed"), (3, "partial")])
async def test_a_new_item_counts_once_against_what_the_source_declares(
    database: ScratchDatabase, declared: int, status: str
) -> None:
    async with database.open() as r:
        first = await sync(r, *fetched(1), Checkpoint(1), *fetched(2), Checkpoint(2), Complete(expected=declared))
        dry = await sync(r, *fetched(3), Checkpoint(1), *fetched(4), Complete(expected=declared), dry_run=True)

    assert (first.status, dry.status) == (status, status)


@pytest.mark.parametrize(("declared", "status"), [(2, "completed"), (3, "partial")])
async def test_a_new_item_that_cannot_be_read_counts_once_against_what_the_source_declares(
    database: ScratchDatabase, declared: int, status: str
) -> None:
    unreadable = Raw("https://example.org/b", bytes(range(256)) * 10, name="b.txt")
    async with database.open() as r:
        run = await sync(r, *fetched(1), Fetched(unreadable), Complete(expected=declared))

    assert (run.status, run.stats.failed) == (status, 1)


async def test_an_incomplete_run_leaves_unobserved_items_in_quarantine(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *fetched(1, 3), Failed(page(2).url, "Not JSON."), Complete())
        run = await sync(r, *fetched(1), Gone(page(3).url))

        assert run.stats.deleted == 1
        assert [case.url for case in await r.items.quarantine()] == [page(2).url]


async def test_a_failed_item_that_is_gone_later_leaves_the_quarantine(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *fetched(1, 2), Complete())
        await sync(r, *fetched(1), Failed(page(2).url, "Not JSON."), Complete())
        run = await sync(r, Gone(page(2).url))

        assert (run.stats.deleted, await r.items.quarantine()) == (1, [])


@pytest.mark.parametrize(
    ("what", "is_apart"),
    [
        ({"checks": [ItemCheck(1, None, None, None, 0, None, None)]}, True),
        ({"marked": [1]}, False),
        ({"unmarked": [1]}, False),
        ({"failed": [(b"key", Failed("https://example.org/1", "Not JSON."))]}, False),
        ({"released": [b"key"]}, False),
    ],
)
def test_a_group_is_written_beside_earlier_ones_only_if_none_of_them_may_touch_the_same_rows(
    what: dict[str, Any], is_apart: bool
) -> None:
    plan = Plan(**what)

    assert (plan.apart, plan.idle) == (is_apart, False)


async def test_an_identifier_that_is_no_url_is_an_item_like_any_other(database: ScratchDatabase) -> None:
    async with database.open() as r:
        run = await sync(r, Failed("http://[bad", "Not a URL."), *fetched(1), Complete())

        assert (run.status, run.stats.created, run.stats.failed) == ("completed", 1, 1)
