"""Migrations: applied once, in order, by one process at a time; a newer database is refused."""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from rowen.errors import ConfigurationError, NewerDatabaseError, StoreUnavailableError, StoreUnfitError
from rowen.model.hashes import text_hash
from rowen.settings import Settings
from rowen.store import migrate
from rowen.store.database import Database
from tests.conftest import ScratchDatabase, Server

EARLIER = r"""
insert into source (name, kind, url) values ('one', 'ckan', 'https://example.org/');
insert into item (source_id, key, url, title, text, tags, record, content_hash, record_hash, chunker, media_type)
values (1, '', 'https://example.org/1', 'Hay', 'Text.', '{a,b}', '{"publisher": "Us"}', '', '', 2,
        'application/vnd.rowen.dataset+json');
insert into chunk (item_id, position, heading, text, text_hash, tsv) values (1, 1048576, '{}', 'Text.', '\x01', '');
insert into embedding_model (name, kind, dimensions, state, covered_to) values ('m', 'local', 2, 'active', 1);
insert into embedding (model_id, text_hash, vector) values (1, '\x01', '[1,2]');
"""


@pytest.fixture
def empty(server: Server) -> Iterator[str]:
    name = server.create()
    yield server.conninfo(name)
    server.drop(name)


async def opened(conninfo: str) -> None:
    database = Database(Settings(database_url=conninfo, database_patience_s=5))
    await database.open()
    await database.close()


async def test_several_processes_may_migrate_an_empty_database_at_once(empty: str) -> None:
    await asyncio.gather(*(opened(empty) for _ in range(5)))

    database = ScratchDatabase(empty, None)  # type: ignore[arg-type]
    assert database.query("select max(number) from migration") == [(migrate.latest(),)]


async def test_a_database_newer_than_the_program_is_refused_and_left_alone(database: ScratchDatabase) -> None:
    database.execute("insert into migration (number, name, checksum) values (9999, 'from the future', '')")

    with pytest.raises(NewerDatabaseError, match="at schema 9999") as caught:
        await opened(database.conninfo)

    assert "Upgrade Rowen" in (caught.value.hint or "")


async def test_a_server_without_pgvector_is_refused_with_a_hint(empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "MINIMUM_VECTOR", (99, 0))

    with pytest.raises(StoreUnfitError, match="or later") as caught:
        await opened(empty)

    assert "ROWEN_DATABASE_URL" in (caught.value.hint or "")


async def test_a_missing_server_is_named_without_its_password() -> None:
    with pytest.raises(StoreUnavailableError) as caught:
        await opened("postgresql://someone:hunter2@127.0.0.1:9/none")

    assert "127.0.0.1" in str(caught.value)
    assert "are host and port in ROWEN_DATABASE_URL right?" in str(caught.value.hint)
    assert "hunter2" not in str(caught.value) + str(caught.value.__cause__)


def test_migrations_are_numbered_without_gaps() -> None:
    numbers = [step.number for step in migrate.migrations()]

    assert numbers == list(range(1, len(numbers) + 1))


async def test_vectors_of_an_earlier_release_stay_and_its_titles_wait_for_theirs(
    empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = migrate.migrations()
    monkeypatch.setattr(migrate, "migrations", lambda: [step for step in every if step.number < 13])
    await opened(empty)
    database = ScratchDatabase(empty, None)  # type: ignore[arg-type]
    database.execute(EARLIER)

    monkeypatch.setattr(migrate, "migrations", lambda: every)
    await opened(empty)

    assert database.query("select text_hash, part, vector::text from rowen.embedding") == [(b"\x01", 0, "[1,2]")]
    [(number, title)] = database.query("select id, text_hash from rowen.item_title")
    [(covered_to, last)] = database.query("select covered_to, (select max(id) from chunk) from rowen.embedding_model")
    assert number > last == covered_to
    assert title == text_hash("Hay\nUs")


TITLED = r"""
insert into item (source_id, key, url, title, text, tags, record, content_hash, record_hash, chunker)
select 1, number::text::bytea, 'https://example.org/new/' || number, title, 'Text.', tags, '{}', '', '', 2
  from (values (1, 'Oats', '{c}'::text[]), (2, 'Oats', '{d}'), (3, 'Rye', '{}'), (4, '', '{e}'), (5, 'Maize', '{f}'))
       as new(number, title, tags);
insert into item_title (item_id, text_hash)
select id, sha256(convert_to(words, 'UTF8'))
  from item cross join lateral title_words(title, tags, record, media_type) words
 where url <> 'https://example.org/1' order by id;
insert into embedding (model_id, text_hash, part, vector)
select 1, text_hash, part, ('[' || item_title.id || ',' || part || ']')::halfvec
  from item_title join item on item.id = item_id cross join generate_series(0, 1) as part where title <> 'Maize';
update embedding_model set covered_to = (select max(id) from item_title);
"""


async def test_vectors_of_titles_with_tags_move_to_the_hash_without_tags(
    empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = migrate.migrations()
    first = next(step.number for step in every if step.name == "titles_without_tags")
    monkeypatch.setattr(migrate, "migrations", lambda: [step for step in every if step.number < 13])
    await opened(empty)
    database = ScratchDatabase(empty, None)  # type: ignore[arg-type]
    database.execute(EARLIER)
    monkeypatch.setattr(migrate, "migrations", lambda: [step for step in every if step.number < first])
    await opened(empty)
    database.execute(TITLED)
    [(covered_to,)] = database.query("select covered_to from rowen.embedding_model")

    monkeypatch.setattr(migrate, "migrations", lambda: every)
    await opened(empty)

    titles = database.query(
        "select title, item_title.text_hash, item_title.id > %s, array_agg(vector::text order by part)"
        " from rowen.item_title join rowen.item on item.id = item_id left join rowen.embedding using (text_hash)"
        " where url <> 'https://example.org/1' group by item.id, item_title.item_id order by item.id",
        covered_to,
    )
    assert [(title, hashed == text_hash(title), again) for title, hashed, again, _ in titles] == [
        ("Oats", True, False),
        ("Oats", True, False),
        ("Rye", True, False),
        ("Maize", True, True),
    ]
    oats, same, rye, maize = (vectors for *_, vectors in titles)
    assert oats == same
    assert oats[0].replace(",0]", ",1]") == oats[1]
    assert (len(rye), maize) == (2, [None])


async def test_a_failed_step_leaves_nothing(empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    good = migrate.migrations()
    bad = migrate.Migration(len(good) + 1, "bad", "create table half (n integer); select broken;")
    steps: Callable[[], list[migrate.Migration]] = lambda: [*good, bad]  # noqa: E731
    monkeypatch.setattr(migrate, "migrations", steps)

    with pytest.raises(Exception, match="broken"):
        await opened(empty)

    database = ScratchDatabase(empty, None)  # type: ignore[arg-type]
    assert database.query("select to_regclass('rowen.half'), to_regclass('rowen.item')") == [(None, None)]


async def test_an_older_database_keeps_its_last_complete_run_and_its_pending_deletions(
    empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = migrate.migrations()
    monkeypatch.setattr(migrate, "migrations", lambda: [step for step in steps if step.number < 14])
    await opened(empty)
    database = ScratchDatabase(empty, None)  # type: ignore[arg-type]
    database.execute("insert into source (name, kind, url) values ('a', 'ckan', 'https://a.example')")
    for created, complete in (("2026-01-01", True), ("2026-01-03", False)):
        database.execute(
            "insert into item (source_id, key, url, title, text, tags, record, content_hash, record_hash, chunker,"
            f" created_at) values (1, '{created}', '', '', '', '{{}}', '{{}}', '', '', 1, '{created}')"
        )
        database.execute(
            "insert into run (source_id, mode, status, complete, started_at, finished_at)"
            f" values (1, 'full', 'completed', {complete}, '{created}', date '{created}' + 1)"
        )
    database.execute("insert into item_gone (item_id, source_id) values (2, 1)")
    database.execute("update source set deletions_held = 1")
    monkeypatch.undo()

    await opened(empty)

    assert database.query("select last_item from run order by id") == [(1,), (None,)]
    assert database.query("select item_id, source_id, run_id, kept_at from item_held") == [(2, 1, 2, None)]


async def test_a_database_older_than_the_queue_gets_it_and_scheduled_sources_are_due_at_once(
    empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = migrate.migrations()
    monkeypatch.setattr(migrate, "migrations", lambda: [step for step in steps if step.number < 15])
    await opened(empty)
    database = ScratchDatabase(empty, None)  # type: ignore[arg-type]
    for name, schedule in (("timed", "'every 6h'"), ("plain", "null")):
        database.execute(
            "insert into source (name, kind, url, schedule)"
            f" values ('{name}', 'ckan', 'https://{name}.example', {schedule})"
        )
    database.execute("insert into run (source_id, mode, status, finished_at) values (1, 'full', 'failed', now())")
    logged = (
        "insert into change (number, source_id, source, kind, key, url, title) values (%d, 1, 'a', '%s', '', '', '')"
    )
    database.execute(logged % (1, "created"))
    monkeypatch.undo()

    await opened(empty)

    due = "select name, due_at <= now(), failures from source_due join source on source.id = source_id"
    assert database.query(due) == [("timed", True, 0)]
    assert database.query("select error_code, retry_at, job_id from run") == [(None, None, None)]
    assert database.query("select count(*) from procrastinate_jobs") == [(0,)]
    database.execute(logged % (2, "failing"))


async def test_steps_of_a_later_queue_package_are_applied_and_jobs_survive(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    database.execute("insert into procrastinate_jobs (queue_name, task_name) values ('sync', 'sync')")
    folder = tmp_path / "sql"
    shutil.copytree(migrate._sql(), folder)
    step = folder / "migrations" / "99.00.00_01_pre_more.sql"
    step.write_text("alter table procrastinate_jobs add column more int;")
    monkeypatch.setattr(migrate, "_sql", lambda: folder)

    await opened(database.conninfo)
    await opened(database.conninfo)

    assert database.query("select task_name, more from procrastinate_jobs") == [("sync", None)]


async def test_the_error_names_the_missing_rights_of_a_user(empty: str, server: Server) -> None:
    with psycopg.connect(empty, autocommit=True) as c:
        name = f"guest_{c.info.dbname}"
        c.execute(sql.SQL("create role {} login password 'hay'").format(sql.Identifier(name)))
        try:
            with pytest.raises(StoreUnfitError, match="may not create a schema") as refused:
                await opened(make_conninfo(empty, user=name, password="hay"))
        finally:
            c.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))

    assert "grant create on database" in str(refused.value.hint)


async def test_the_error_names_the_statement_that_an_administrator_must_run_for_the_extension(empty: str) -> None:
    with psycopg.connect(empty, autocommit=True) as c:
        user, database = (sql.Identifier(one) for one in (f"owner_{c.info.dbname}", c.info.dbname))
        c.execute("drop extension if exists vector")
        c.execute(sql.SQL("create role {} login password 'hay'").format(user))
        c.execute(sql.SQL("grant create on database {} to {}").format(database, user))
        try:
            with pytest.raises(StoreUnfitError, match="may not add it to the database") as refused:
                await opened(make_conninfo(empty, user=f"owner_{c.info.dbname}", password="hay"))
        finally:
            c.execute(sql.SQL("drop owned by {}").format(user))
            c.execute(sql.SQL("drop role {}").format(user))

    assert "create extension vector with schema public" in str(refused.value.hint)


async def test_a_user_that_the_server_refuses_gets_a_hint_at_the_url(empty: str) -> None:
    with pytest.raises(StoreUnfitError, match="refused this user") as refused:
        await opened(make_conninfo(empty, dbname="no-such-database"))

    assert "ROWEN_DATABASE_URL" in str(refused.value.hint)


async def test_another_database_than_postgresql_is_named() -> None:
    with pytest.raises(ConfigurationError, match="mysql://"):
        await opened("mysql://user:secret@host/db")
