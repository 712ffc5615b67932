"""Which vanished dataset is which new one is decided once, at the end: by what they say, one to one or not at all."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from rowen import Checkpoint, Complete, Document, Fetched, Gone, Incomplete, Observation, Rowen, Run, Unchanged
from rowen.errors import RowenError
from rowen.model.datasets import DATASET
from tests.conftest import ScratchDatabase
from tests.logical import contents, index_of, replayed
from tests.portals.scripted import Scripted, shows
from tests.refresh.statements import failing_at

ADDRESS = "scripted:one"
TEXT = "A meadow that is cut twice a year and dried in the sun, for {}."


@pytest.fixture(autouse=True)
def _scripted(kinds: Callable[[Any], None]) -> None:
    kinds(Scripted)


def dataset(
    name: str, title: str = "", text: str = "", *, issued: str = "", files: tuple[str, ...] = (), **more: Any
) -> Document:
    """A record of a catalog; its identifier is the name."""
    record = {"issued": issued, "resources": [{"url": url} for url in files]}
    return Document(f"https://example.org/{name}", title or name, text, record=record | more, media_type=DATASET)


def url(name: str) -> str:
    return f"https://example.org/{name}"


async def sync(r: Rowen, *seen: Document | Observation, **how: bool) -> Run:
    shows(*(Fetched(one) if isinstance(one, Document) else one for one in seen))
    return await r.sync(ADDRESS, **how)


def moves(database: ScratchDatabase) -> set[tuple[str, str]]:
    """From where to where, by the last parts of the URLs."""
    rows = database.query("select moved_from, url from change where kind = 'moved'")
    return {(before.rpartition("/")[2], after.rpartition("/")[2]) for before, after in rows}


STAYS = [dataset(f"stays-{n}", f"Stays number {n}", TEXT.format(n)) for n in range(30)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (dataset("a", "Old title", "Old.", files=("x", "y")), dataset("b", "New title", "New.", files=("y", "x"))),
        (dataset("a", "Hay", "Old.", issued="2024-01-01"), dataset("b", "Hay", "New.", issued="2024-01-01")),
        (dataset("a", "Hay", TEXT, issued="2024"), dataset("b", "Hay", TEXT, issued="2025")),
        (dataset("a", "Hay of the north", "Old."), dataset("b", "Hay of the north", "New.")),
    ],
    ids=["files", "title and date", "text", "title"],
)
async def test_one_piece_of_evidence_is_enough(database: ScratchDatabase, before: Document, after: Document) -> None:
    async with database.open() as r:
        await sync(r, before, *STAYS, Complete())
        run = await sync(r, after, *STAYS, Complete())
        history = await r.items.history(url("b"))

    assert (run.stats.moved, run.stats.created, run.stats.deleted, run.stats.unchanged) == (1, 0, 0, 30)
    assert [revision.text for revision in history] == list(dict.fromkeys([before.text, after.text]))
    assert replayed(database) == contents(database)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (dataset("a", "Hay of the north", issued="2024"), dataset("b", "Hay of the north", issued="2025")),
        (dataset("a", "Budget"), dataset("b", "Budget")),
        (dataset("a", "Hay", "None."), dataset("b", "Hay", "None.")),
        (dataset("a", "Clover of the north", files=("x",)), dataset("b", "Hay of the south", files=("y",))),
        (Document(url("a"), "A page of hay", TEXT), Document(url("b"), "A page of hay", TEXT)),
    ],
    ids=["dates that differ", "a short title", "a short text", "nothing in common", "pages"],
)
async def test_too_little_evidence_moves_nothing(database: ScratchDatabase, before: Document, after: Document) -> None:
    async with database.open() as r:
        await sync(r, before, *STAYS, Complete())
        run = await sync(r, after, *STAYS, Complete())

    assert (run.stats.moved, run.stats.created, run.stats.deleted) == (0, 1, 1)


@pytest.mark.parametrize("shared", ["files", "title", "text", "day"])
async def test_evidence_shared_with_a_remaining_item_decides_nothing(database: ScratchDatabase, shared: str) -> None:
    def one(name: str) -> Document:
        return dataset(
            name,
            "Hay of the north" if shared in ("title", "text", "day") else f"Hay {name}",
            TEXT if shared == "text" else f"Text of {name}.",
            issued="2024-01-01" if shared == "day" else "",
            files=("one.csv",) if shared == "files" else (),
        )

    async with database.open() as r:
        await sync(r, one("a"), one("c"), *STAYS, Complete())
        run = await sync(r, one("b"), one("c"), *STAYS, Complete())

    assert (run.stats.moved, run.stats.created, run.stats.deleted) == (0, 1, 1)


async def test_namesakes_are_not_swapped(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *(dataset(f"a{n}", "Hay of the north", f"Number {n}.") for n in range(2)), *STAYS, Complete())
        run = await sync(
            r, *(dataset(f"b{n}", "Hay of the north", f"Other {n}.") for n in range(2)), *STAYS, Complete()
        )

    assert (run.stats.moved, run.stats.created, run.stats.deleted) == (0, 2, 2)


async def test_items_matched_by_strong_evidence_are_excluded_from_weaker(database: ScratchDatabase) -> None:
    def one(name: str, *files: str) -> Document:
        return dataset(name, "Hay of the north", f"Text of {name}.", files=files)

    async with database.open() as r:
        await sync(r, one("a0", "0.csv"), one("a1", "1.csv"), *STAYS, Complete())
        await sync(r, one("b1", "other.csv"), one("b0", "0.csv"), *STAYS, Complete())

    assert moves(database) == {("a0", "b0"), ("a1", "b1")}


async def test_the_guard_counts_the_items_left_after_moves(database: ScratchDatabase) -> None:
    def named(prefix: str, count: int) -> list[Document]:
        return [dataset(f"{prefix}{n}", f"Meadow number {n}", TEXT.format(n)) for n in range(count)]

    async with database.open() as r:
        await sync(r, *named("a", 40), Complete())
        run = await sync(r, *named("b", 37), Complete())

    assert (run.stats.moved, run.stats.created, run.stats.deleted, run.stats.deletions_held) == (37, 0, 3, 0)


async def test_a_source_of_changes_only_moves_items_that_it_reports_gone(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, dataset("a", "Hay of the north", TEXT), *STAYS, Checkpoint(1), Complete())
        new = await sync(r, dataset("b", "Hay of the north", TEXT), Checkpoint(2))
        told = await sync(r, Gone(url("a")), Checkpoint(3))
        kept = len(await r.items.history(url("b")))

    assert (new.stats.created, new.stats.moved) == (1, 0)
    assert (told.stats.moved, told.stats.created, told.stats.deleted, kept) == (1, 0, 0, 1)
    assert database.query("select count(*) from item_gone") == [(0,)]
    assert replayed(database) == contents(database)


async def test_a_walk_that_is_not_whole_moves_nothing_that_it_did_not_see(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, dataset("a", "Hay of the north", TEXT), *STAYS, Complete())
        part = await sync(r, dataset("b", "Hay of the north", TEXT), Incomplete("Half of it is missing."))
        whole = await sync(r, dataset("b", "Hay of the north", TEXT), *STAYS, Complete())

    assert (part.stats.created, part.stats.moved, part.stats.deleted) == (1, 0, 0)
    assert (whole.stats.moved, whole.stats.created, whole.stats.unchanged, whole.stats.deleted) == (1, 0, 31, 0)


async def test_an_item_present_in_a_whole_walk_is_not_the_target_of_a_later_move(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, dataset("a", "Hay of the north", TEXT), *STAYS, Complete())
        await sync(
            r, dataset("a", "Hay of the north", TEXT), dataset("b", "Hay of the north", TEXT), *STAYS, Complete()
        )
        run = await sync(r, dataset("b", "Hay of the north", TEXT), *STAYS, Complete())

    assert (run.stats.moved, run.stats.deleted) == (0, 1)


async def test_texts_that_the_new_row_had_meanwhile_stay_in_the_history(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, dataset("a", "Hay of the north", "One."), *STAYS, Checkpoint(1), Complete())
        await sync(r, dataset("b", "Hay of the north", "Two."), Checkpoint(2))
        await sync(r, dataset("b", "Hay of the north", "Three."), Checkpoint(3))
        await sync(r, Gone(url("a")), Checkpoint(4))
        history = await r.items.history(url("b"))
        found = await r.search("three")
        old = await r.search("one")

    assert [(one.number, one.text) for one in history] == [(1, "One."), (2, "Two."), (3, "Three.")]
    assert ([hit.url for hit in found][:1], url("a") in [hit.url for hit in old]) == ([url("b")], False)


async def test_a_dry_run_that_meets_new_records_is_whole(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *STAYS[:5], Complete(expected=5))
        run = await sync(r, *STAYS[:8], Complete(expected=8), dry_run=True)

    assert (run.status, run.complete, run.stats.created) == ("completed", True, 3)


async def test_a_run_without_missing_items_sends_no_query_about_moves(database: ScratchDatabase) -> None:
    sent: list[str] = []
    original = psycopg.AsyncCursor.execute

    async def listening(self: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
        sent.append(str(query))
        return await original(self, query, *args, **kwargs)

    async with database.open() as r:
        await sync(r, *STAYS, Complete())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(psycopg.AsyncCursor, "execute", listening)
            run = await sync(r, *(Unchanged(one.url) for one in STAYS), Complete())

    assert run.stats.rows_written == 0
    assert not [query for query in sent if "missing" in query or "moving" in query]


def worlds(chance: Random) -> tuple[list[Document], list[Document]]:
    """A catalog before and after: some records got other identifiers, with more or less else changed, and namesakes."""
    before, after = [], []
    for n in range(chance.randint(4, 14)):
        twin = chance.randrange(6)
        title = chance.choice([f"Hay of field {n}", f"Hay of farm {twin}", "Budget"])
        files = chance.choice([(), (f"{n}.csv",), (f"{twin}.csv", "all.csv"), ("all.csv",)])
        issued = chance.choice(["", "2024-01-01", f"2024-01-{twin + 1:02}"])
        text = chance.choice([TEXT.format(n), TEXT.format(twin), "None."])
        before.append(dataset(f"a{n}", title, text, issued=issued, files=files))
        match chance.randrange(6):
            case 0:
                after.append(before[-1])
            case 1:
                continue
            case fate:
                text = text if fate % 2 else f"Written anew for {n}, and long enough to be told from others."
                files = files if fate > 3 else ()
                after.append(dataset(f"b{n}", title, text, issued=issued, files=files))
    return before, after


async def told(database: ScratchDatabase, before: list[Document], after: list[Document], chance: Random | None) -> None:
    """Show a catalog and then what became of it: in any order and any groups, with any crash on the way."""
    async with database.open(deletion_floor=1000, deletion_small_share=1.0) as r:
        await sync(r, *before, Complete())
        seen: list[Document | Observation] = list(after)
        if chance is not None:
            chance.shuffle(seen)
            for _ in range(chance.randrange(4)):
                seen.insert(chance.randrange(len(seen) + 1), Checkpoint(1))
            for _ in range(chance.randrange(3)):
                cut = chance.randrange(len(seen) + 1)
                await sync(r, *seen[:cut], Incomplete("The connection broke."))
            with failing_at(chance.randint(1, 80)), suppress(RowenError):
                await sync(r, *seen, Complete())
        await sync(r, *seen, Complete())


@settings(
    max_examples=25,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(seed=st.integers(0, 2**32))
def test_any_order_any_groups_and_any_crash_give_the_same_index_and_the_same_moves(
    new_database: Callable[[], ScratchDatabase], seed: int
) -> None:
    chance = Random(seed)
    before, after = worlds(chance)
    plain, other = new_database(), new_database()

    asyncio.run(told(plain, before, after, None))
    asyncio.run(told(other, before, after, chance))

    assert index_of(other) == index_of(plain)
    assert moves(other) == moves(plain)
    assert replayed(other) == contents(other)
    for url_ in {after for _, after in moves(plain)}:
        number = "select revision from item where url = 'https://example.org/" + url_ + "'"
        assert other.query(number) == plain.query(number)
