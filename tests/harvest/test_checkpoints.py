"""Checkpoints: they move with what came before them, and cost no transaction of their own where nothing changed."""

from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from rowen import Checkpoint, Complete, Fetched, Incomplete, Known, Observation, SourceError, Unchanged
from rowen.harvest import commit, observations, run
from rowen.store import sources
from tests.conftest import ScratchDatabase
from tests.portals.scripted import Scripted, page, shows

ADDRESS = "scripted:one"


@pytest.fixture(autouse=True)
def _scripted(kinds: Callable[[Any], None]) -> None:
    kinds(Scripted)


@pytest.fixture
def moves(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The cursors that were written, in order."""
    written: list[Any] = []
    move = sources.move_cursor

    async def moving(c: Any, source_id: int, cursor: Any, *, version: str | None = None) -> None:
        written.append(cursor)
        await move(c, source_id, cursor, version=version)

    monkeypatch.setattr(sources, "move_cursor", moving)
    return written


def walk(*, pages: int, last: Any = "end") -> list[Observation]:
    """One page after the other, a checkpoint after each."""
    seen: list[Observation] = []
    for number in range(pages):
        seen += [Fetched(page(number)), Checkpoint(number)]
    return [*seen, Checkpoint(last), Complete()]


async def test_a_walk_without_changes_moves_its_cursor_once(database: ScratchDatabase, moves: list[Any]) -> None:
    async with database.open() as r:
        shows(*walk(pages=20))
        await r.sync(ADDRESS)
        moves.clear()
        shows(*walk(pages=20, last="another end"))
        run = await r.sync(ADDRESS, full=True)

    assert (run.status, run.stats.unchanged, run.stats.rows_written) == ("completed", 20, 0)
    assert moves == ["another end"]


async def test_a_cursor_that_did_not_move_is_not_written(database: ScratchDatabase, moves: list[Any]) -> None:
    async with database.open() as r:
        shows(*walk(pages=3))
        await r.sync(ADDRESS)
        moves.clear()
        await r.sync(ADDRESS)

    assert moves == []


async def test_a_long_walk_without_changes_keeps_its_place_now_and_then(
    database: ScratchDatabase, moves: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with database.open() as r:
        shows(*walk(pages=5))
        await r.sync(ADDRESS)
        moves.clear()
        monkeypatch.setattr(commit, "CHECKPOINT_S", 0.0)
        await r.sync(ADDRESS, full=True)

    assert moves == [0, 1, 2, 3, 4, "end"]


async def test_a_checkpoint_is_stored_only_when_the_last_one_is_old_enough(
    database: ScratchDatabase, moves: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = iter(range(1000))
    commits = commit.Committer.__init__

    def ticking(self: commit.Committer, *given: Any, **how: Any) -> None:
        commits(self, *given, **how, clock=lambda: float(next(seconds)))

    monkeypatch.setattr(commit.Committer, "__init__", ticking)
    monkeypatch.setattr(run, "WRITERS", 1)
    async with database.open() as r:
        shows(*walk(pages=1))
        await r.sync(ADDRESS)
        moves.clear()
        shows(*[one for number in range(20) for one in (Unchanged(page(0).url), Checkpoint(number))], Complete())
        await r.sync(ADDRESS, full=True)

    # The clock shows a second more each time that it is asked: once for each checkpoint, and for each commit.
    assert moves == [4, 9, 14, 19]


async def test_a_checkpoint_that_waits_goes_with_the_next_item_that_changed(
    database: ScratchDatabase, moves: list[Any]
) -> None:
    async with database.open() as r:
        shows(*walk(pages=5))
        await r.sync(ADDRESS)
        moves.clear()
        changed = walk(pages=5)
        changed[6] = Fetched(page(3, "Other words."))
        shows(*changed)
        await r.sync(ADDRESS, full=True)

    assert moves == [3, "end"]


class Breaking(Scripted):
    """A walk that does not come to its end."""

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        for observation in walk(pages=5)[:6]:
            yield observation
        raise SourceError("It went away.")


async def test_the_place_of_a_walk_that_breaks_off_is_kept(
    database: ScratchDatabase, moves: list[Any], kinds: Callable[[Any], None]
) -> None:
    async with database.open() as r:
        shows(*walk(pages=5))
        await r.sync(ADDRESS)
        moves.clear()
        kinds(Breaking)
        run = await r.sync(ADDRESS, full=True)

    assert (run.status, moves) == ("partial", [2])


async def test_a_checkpoint_that_waits_is_kept_by_items_that_have_none_of_their_own(
    database: ScratchDatabase, moves: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observations, "MAX_ITEMS", 1)
    async with database.open() as r:
        shows(*walk(pages=2))
        await r.sync(ADDRESS)
        moves.clear()
        place = Checkpoint("half way", notes={("room", "a"): 1})
        shows(Unchanged(page(0).url), place, Fetched(page(1, "Other words.")), Incomplete("It went away."))
        run = await r.sync(ADDRESS, full=True)

    assert (run.status, run.stats.updated, moves) == ("partial", 1, ["half way"])
    assert version_and_notes(database) == (None, ["a"])


def version_and_notes(database: ScratchDatabase) -> tuple[str | None, list[str]]:
    [(version,)] = database.query("select version from source")
    return version, [name for (name,) in database.query("select name from source_note order by name")]


async def test_checkpoints_that_wait_together_keep_the_last_version_and_the_notes_of_all(
    database: ScratchDatabase,
) -> None:
    async with database.open() as r:
        shows(*walk(pages=1))
        await r.sync(ADDRESS)
        first = Checkpoint(1, version="v2", notes={("room", "a"): 1, ("room", "b"): 1})
        shows(Fetched(page(0)), first, Checkpoint(2, notes={("room", "b"): None, ("room", "c"): 1}), Complete())
        run = await r.sync(ADDRESS, full=True)

    assert (run.stats.unchanged, version_and_notes(database)) == (1, ("v2", ["a", "c"]))


async def test_a_new_version_or_note_is_written_although_the_cursor_did_not_move(database: ScratchDatabase) -> None:
    async with database.open() as r:
        shows(*walk(pages=1))
        await r.sync(ADDRESS)
        shows(Fetched(page(0)), Checkpoint("end", version="v2"), Complete())
        await r.sync(ADDRESS)
        after_version = version_and_notes(database)
        shows(Fetched(page(0)), Checkpoint("end", notes={("room", "a"): 1}), Complete())
        await r.sync(ADDRESS)

    assert (after_version, version_and_notes(database)) == (("v2", []), ("v2", ["a"]))


async def test_only_the_first_checkpoint_of_a_full_run_removes_the_notes_of_earlier_runs(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "CHECKPOINT_S", 0.0)
    async with database.open() as r:
        shows(Fetched(page(0)), Checkpoint(0, notes={("room", "old"): 1}), Complete())
        await r.sync(ADDRESS)
        shows(Checkpoint(1, notes={("room", "a"): 1}), Fetched(page(0)), Checkpoint(2), Complete())
        await r.sync(ADDRESS, full=True)

    assert version_and_notes(database) == (None, ["a"])
