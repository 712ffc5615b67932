"""A database in one file, and back."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rowen import NotFoundError, RefusedError, StoreError, UsageError
from tests.conftest import House
from tests.logical import index_of


async def test_what_was_dumped_is_restored_and_goes_on(new_house: Callable[[], House], tmp_path: Path) -> None:
    one, other = new_house(), new_house()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "hay.md").write_text("# Hay\n\nCut it dry.\n")
    dump = tmp_path / "rowen.dump"

    async with one.open() as r:
        await r.sync(str(tmp_path / "docs"))
        size_bytes = await r.dump(dump)
    async with other.open() as r:
        await r.restore(dump)
    async with other.open() as r:
        again = await r.sync("docs")
        [hit] = await r.search("hay")

    assert size_bytes == dump.stat().st_size > 0
    assert dump.stat().st_mode & 0o077 == 0
    assert index_of(other) == index_of(one)
    assert (again.tally.unchanged, again.tally.rows_written, hit.title) == (1, 0, "Hay")
    assert list(tmp_path.glob("*.part")) == list(tmp_path.glob(".*.part")) == []

    async with other.open() as r:
        with pytest.raises(RefusedError, match="has sources"):
            await r.restore(dump)
        with pytest.raises(RefusedError, match="is there already"):
            await r.dump(dump)


async def test_what_is_no_dump_changes_nothing(house: House, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hay")

    async with house.open() as r:
        with pytest.raises(UsageError, match="is no dump of Rowen"):
            await r.restore(tmp_path / "notes.txt")
        with pytest.raises(NotFoundError):
            await r.restore(tmp_path / "nothere")
        assert await r.sources() == []


async def test_a_dump_that_breaks_off_leaves_the_database_as_it_was(house: House, tmp_path: Path) -> None:
    dump = tmp_path / "rowen.dump"
    async with house.open() as r:
        await r.dump(dump)
        dump.write_bytes(dump.read_bytes()[: dump.stat().st_size * 9 // 10])

        with pytest.raises((StoreError, UsageError)):
            await r.restore(dump)

        assert await r.sources() == []
    assert house.query("select count(*) from pg_namespace where nspname like 'rowen%'") == [(1,)]
