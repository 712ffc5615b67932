import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rowen.store.database import Database
from rowen.store.search import words as store_words
from rowen.store.search.words import WordIndex

FIND = "select to_regclass('chunk_tsv')::text"


@asynccontextmanager
async def opened(database) -> AsyncIterator[Database]:
    pool = Database(database.settings())
    await pool.open()
    try:
        yield pool
    finally:
        await pool.close()


def write(folder: Path, names: str) -> None:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / f"{name}.md").write_text(f"# Field {name}\n\nThe rowen of field {name} was cut dry.\n")


async def test_a_first_harvest_fills_the_passages_without_an_index_and_ends_with_one(
    database, tmp_path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(store_words, "ENOUGH_PASSAGES", 2)
    set_aside = []

    async def grown(self: WordIndex, passages: int) -> None:
        await unwatched(self, passages)
        set_aside.append(database.query(FIND))

    unwatched = WordIndex.grown
    monkeypatch.setattr(WordIndex, "grown", grown)
    write(tmp_path / "fields", "abc")

    async with database.open() as r:
        await r.sync(str(tmp_path / "fields"))
        after_the_first = database.query(FIND)
        first_asides, set_aside[:] = set_aside[:], []
        write(tmp_path / "more", "defghijk")
        await r.sync(str(tmp_path / "more"))
        found = await r.search("field k")

    assert (first_asides[-1], after_the_first) == ([(None,)], [("chunk_tsv",)])
    assert database.query(FIND) == [("chunk_tsv",)]
    assert found[0].title == "Field k"


async def test_passages_of_other_runs_keep_the_index(database, tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(store_words, "ENOUGH_PASSAGES", 2)
    write(tmp_path / "fields", "abcdefgh")

    async with database.open() as r, opened(database) as pool:
        await r.sync(str(tmp_path / "fields"))
        await WordIndex(pool).grown(4)
        indexes = database.query(FIND)
        await WordIndex(pool).grown(5)

    assert indexes == [("chunk_tsv",)]
    assert database.query(FIND) == [(None,)]


async def test_a_long_harvest_restores_the_index_after_some_minutes(
    database, tmp_path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(store_words, "ENOUGH_PASSAGES", 2)
    now = [0.0]
    write(tmp_path / "fields", "abc")

    async with database.open() as r, opened(database) as pool:
        await r.sync(str(tmp_path / "fields"))
        words = WordIndex(pool, clock=lambda: now[0])
        await words.grown(3)
        aside = database.query(FIND)
        now[0] = store_words.LONGEST_S + 1
        await words.grown(4)

    assert (aside, database.query(FIND)) == ([(None,)], [("chunk_tsv",)])


async def test_an_index_missing_after_a_killed_run_is_built_by_the_next_run(database, tmp_path):
    write(tmp_path / "fields", "ab")

    async with database.open() as r:
        await r.sync(str(tmp_path / "fields"))
        database.execute("drop index chunk_tsv")
        before = await r.search("rowen")
        again = await r.sync(str(tmp_path / "fields"))

    assert len(before) == 2
    assert again.stats.rows_written == 0
    assert database.query(FIND) == [("chunk_tsv",)]


async def test_runs_that_end_together_build_the_index_once(database, tmp_path):
    write(tmp_path / "fields", "abc")
    async with database.open() as r, opened(database) as one, opened(database) as other:
        await r.sync(str(tmp_path / "fields"))
        for _ in range(30):
            database.execute("drop index if exists chunk_tsv")
            made = await asyncio.gather(store_words.restore_word_index(one), store_words.restore_word_index(other))
            assert sorted(made) == [False, True]
