"""The passages of a database of an earlier version get the hashes of a rebuild, and keep their vectors."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rowen import Complete, Fetched
from rowen.content import readers
from rowen.harvest import passages
from rowen.harvest.parse_pool import Workers
from rowen.harvest.parse_worker import Answer, Task
from tests.conftest import ScratchDatabase
from tests.logical import index_of
from tests.portals.embedder import Provider
from tests.portals.scripted import Scripted, page, shows

# As version 2 of the chunker wrote at first: hashes, and vectors, over the letters of a passage.
LETTERS = """
create temp table old as
    select distinct text_hash as new_hash, sha256(convert_to(text, 'UTF8')) as old_hash from chunk;
insert into embedding (model_id, text_hash, part, vector)
    select model_id, old_hash, part, vector from embedding join old on text_hash = new_hash on conflict do nothing;
delete from embedding using old
    where text_hash = new_hash and text_hash not in (select old_hash from old)
      and text_hash not in (select text_hash from item_title);
update embedding_refused set text_hash = old_hash from old where text_hash = new_hash;
update chunk set text_hash = sha256(convert_to(text, 'UTF8'));
update item set chunker = 2;
drop table hash_version;
delete from migration where name = 'hash_versions'
"""
TEXTS = {
    "cats.md": "# Cats\n\nSee [the **guide**](https://example.org/1.0/guide.html) and `purr()`.\n",
    "dogs.md": "# Dogs\n\nPlain words only.\n",
    "long.md": "# Long\n\n" + "\n\n".join(f"## Part {n}\n\n" + f"Some *marked* words of {n}. " * 60 for n in range(4)),
}


@pytest.fixture(autouse=True)
def _scripted(kinds: Callable[[Any], None]) -> None:
    kinds(Scripted)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    folder = tmp_path / "docs"
    folder.mkdir()
    for name, text in TEXTS.items():
        (folder / name).write_text(text)
    return str(folder)


def downgrade(database: ScratchDatabase) -> list[tuple[bytes]]:
    """Let a database look as an earlier version wrote it; returns the hashes of its passages as they should be."""
    hashes = database.query("select text_hash from chunk order by id")
    database.execute(LETTERS)
    assert database.query("select text_hash from chunk order by id") != hashes
    return hashes


async def test_one_sync_after_the_upgrade_gives_the_index_of_a_rebuild_without_a_read_or_an_input(
    new_database: Callable[[], ScratchDatabase], folder: str, provider: Provider
) -> None:
    old, rebuilt = new_database(), new_database()
    async with old.open(**provider.settings) as r:
        await r.sync(folder)
    hashes = downgrade(old)
    provider.received.clear()

    async with old.open(**provider.settings) as r:
        run = await r.sync(folder)
        again = await r.sync(folder)
        [status] = await r.embeddings.list()
        changes = await r.changes.last_number()
    async with rebuilt.open() as r:
        await r.sync(folder)

    assert (run.stats.stopped_at_validator, run.stats.bytes, run.stats.embedded, provider.received) == (3, 0, 0, [])
    assert (status.pending, changes) == (0, 3)
    assert old.query("select text_hash from chunk order by id") == hashes
    assert index_of(old) == index_of(rebuilt)
    assert old.query("select distinct chunker from item") == [(readers.CHUNKER_VERSION,)]
    assert again.stats.rows_written == 0


async def test_copies_in_a_new_source_share_the_vectors_of_unsynced_sources(
    database: ScratchDatabase, folder: str, provider: Provider
) -> None:
    async with database.open(**provider.settings) as r:
        await r.sync(folder)
    downgrade(database)
    provider.received.clear()
    copy = TEXTS["cats.md"].replace("1.0", "2.0").strip()

    async with database.open(**provider.settings) as r:
        shows(Fetched(page(1, copy, title="")), Complete())
        run = await r.sync("scripted:one")

    assert (run.stats.embedded, run.stats.embeddings_reused, provider.received) == (0, 1, [])
    assert database.query("select count(distinct text_hash) from chunk where text like '%guide%'") == [(1,)]


async def test_a_text_that_was_refused_is_not_sent_again_after_the_upgrade(
    database: ScratchDatabase, folder: str, provider: Provider
) -> None:
    provider.poison = "guide"
    async with database.open(**provider.settings) as r:
        await r.sync(folder)
    assert database.query("select count(*) from embedding_refused") == [(1,)]
    downgrade(database)
    asked = len(provider.asked_for)

    async with database.open(**provider.settings) as r:
        await r.sync(folder)

    assert len(provider.asked_for) == asked


async def test_the_rest_of_a_killed_upgrade_is_renewed_by_the_next_sync(
    database: ScratchDatabase, folder: str, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with database.open(**provider.settings) as r:
        await r.sync(folder)
    hashes = downgrade(database)
    provider.received.clear()
    monkeypatch.setattr(passages, "_AT_ONCE", 1)
    write_edits, renewed = passages.write_edits, []

    async def killed(*arguments: Any) -> Any:
        if renewed:
            raise RuntimeError("killed")
        renewed.append(arguments)
        return await write_edits(*arguments)

    async with database.open(**provider.settings) as r:
        monkeypatch.setattr(passages, "write_edits", killed)
        with pytest.raises(RuntimeError):
            await r.sync(folder)
        monkeypatch.setattr(passages, "write_edits", write_edits)
        assert database.query("select chunker, count(*) from item group by 1 order by 1") == [
            (2, 2),
            (readers.CHUNKER_VERSION, 1),
        ]
        await r.sync(folder)

    assert database.query("select text_hash from chunk order by id") == hashes
    assert provider.received == []


async def test_passages_of_another_item_are_not_stored_by_the_upgrade(
    database: ScratchDatabase, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with database.open() as r:
        await r.sync(folder)
    downgrade(database)
    stored = database.query("select item_id, text from chunk order by id")
    prepared = Workers.prepare

    async def swapped(workers: Workers, tasks: list[Task]) -> list[Answer]:
        return (await prepared(workers, tasks))[::-1]

    monkeypatch.setattr(Workers, "prepare", swapped)
    async with database.open() as r:
        with pytest.raises(RuntimeError, match=r"The answer to .* is about .*"):
            await r.sync(folder)

    assert database.query("select item_id, text from chunk order by id") == stored


async def test_a_dry_run_after_the_upgrade_writes_nothing(database: ScratchDatabase, folder: str) -> None:
    async with database.open() as r:
        await r.sync(folder)
        downgrade(database)
    before = database.query("select id, xmin::text from chunk union all select id, xmin::text from item order by 1, 2")

    async with database.open() as r:
        run = await r.sync(folder, dry_run=True)

    after = database.query("select id, xmin::text from chunk union all select id, xmin::text from item order by 1, 2")
    assert (run.stats.unchanged, after) == (3, before)
