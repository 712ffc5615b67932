"""Lists of a store in which one source has nearly everything: what is read grows with what is shown.

Each question is asked a dozen times on one connection, since a statement is planned once for all values after a while.
"""

from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import pytest

from rowen.model.datasets import DATASET, CatalogPlace
from rowen.model.schemas import Schema
from rowen.model.sources import Source
from rowen.store import changes, library, runs, schemas, sources
from rowen.store import extraction as extraction_store
from rowen.store.database import Connection, Database
from rowen.store.items import duplicates
from rowen.store.rows import scalar
from rowen.store.schemas import AttachedSchema
from tests.conftest import ScratchDatabase, Server

T = TypeVar("T")

SOURCES, ITEMS = 30, 2_000
# Source 1 has nine items of ten; all from the seventh on are catalogs, of which every third also has pages.
WORLD = f"""
insert into source (name, kind, url) select 's' || n, 'web', 'https://s' || n || '.example/'
  from generate_series(1, {SOURCES}) n;
insert into run (source_id, mode, status, complete) select 1 + n % {SOURCES}, 'full', 'completed', true
  from generate_series(1, {SOURCES * 30}) n;
insert into item (source_id, key, url, title, text, tags, record, content_hash, record_hash, language, media_type,
                  chunker)
select source, decode(md5(n::text), 'hex'), 'https://example.org/' || n, 'Field ' || n % 700, words, '{{}}', '{{}}',
       '\\x00', '\\x00', (array['en', 'de'])[1 + n % 2],
       case when source > 6 and not (source % 3 = 0 and n % 4 = 0) then '{DATASET}' end, 1
  from generate_series(1, {ITEMS}) n
  cross join lateral (select case when n % 10 < 9 then 1 else 2 + n / 10 % {SOURCES - 1} end) of(source)
  cross join lateral (select 'hay ' || case when n % 100 = 9 then 'swallows ' else '' end || 'w' || n % 50) told(words);
insert into chunk (item_id, position, heading, text, text_hash, tsv)
select id, 0, '{{}}', text, '\\x00', passage_tsv(language, title, '{{}}', text) from item;
insert into change (number, source_id, source, key, kind, url, title, at)
select id, source_id, 's' || source_id, key, 'created', url, title, now() - ({ITEMS} - id) * interval '1 minute'
  from item;
insert into change (number, source_id, source, key, kind, url, title, at)
select {ITEMS} + n, 1, 's1', decode(md5('gone' || n), 'hex'), 'deleted', 'https://gone.example/' || n,
       'Barn ' || n % 9 || '''s Swallows', now() from generate_series(1, 60) n;
insert into item_held (item_id, source_id, run_id) select id, source_id, 1 from item where source_id = 1;
insert into quarantine (source_id, key, url, error) select source_id, key, url, 'no' from item where source_id = 1;
analyze
"""


@pytest.fixture(scope="module")
def filled(server: Server, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScratchDatabase]:
    """A database with these rows, for all tests of this module: they only read."""
    name = server.create(template)
    database = ScratchDatabase(server.conninfo(name), tmp_path_factory.mktemp("home"))
    database.execute(WORLD)
    yield database
    server.drop(name)


async def read_rows(
    database: ScratchDatabase, ask: Callable[[Connection], Awaitable[T]], *, of: str = "%"
) -> tuple[T, int]:
    """Return the result of a query, and how many rows of all tables or of one it reads."""
    pool = Database(database.settings())
    await pool.open()
    try:
        async with pool.transaction() as c:
            for _ in range(12):
                before = await _rows(c, of)
                answer = await ask(c)
            return answer, await _rows(c, of) - before
    finally:
        await pool.close()


async def _rows(c: Connection, of: str) -> int:
    read = "select sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) from pg_stat_xact_user_tables where relname like %s"
    return int(await scalar(c, read, [of]))


async def test_items_of_sources_are_counted_in_one_pass(filled: ScratchDatabase) -> None:
    answer, read = await read_rows(filled, library.overview)
    few, read_for_few = await read_rows(filled, lambda c: library.overview(c, limit=3, after="s1"))
    every, read_of_all = await read_rows(filled, sources.every)
    counted, _ = await read_rows(filled, lambda c: sources.every(c, counted=True))

    counts = dict(filled.query("select 's' || source_id, count(*) from item group by 1"))
    assert {one.name: (one.deletions_held, one.quarantined) for one in answer if one.deletions_held} == {
        "s1": (counts["s1"], counts["s1"])
    }
    assert all(one.last_complete_at and one.last_status == "completed" for one in answer)
    assert [one.name for one in few] == ["s10", "s11", "s12"]
    assert {one.name: one.items for one in counted} == counts
    assert {one.name: one.deletions_held for one in every if one.deletions_held} == {"s1": counts["s1"]}
    # Each that is held back or cannot be read once, and a few rows for each source.
    assert read < 2 * counts["s1"] + 20 * SOURCES
    assert read_for_few < 2 * counts["s1"] + 4 * SOURCES
    assert read_of_all < counts["s1"] + 20 * SOURCES


async def count_s1(c: Connection) -> Source:
    # An index-only scan of a vacuumed table is not counted as read rows.
    await c.execute("set local enable_indexonlyscan = off")
    return await sources.get(c, "s1", counted=True)


async def test_items_of_a_source_are_read_only_if_they_are_counted(filled: ScratchDatabase) -> None:
    named, read = await read_rows(filled, lambda c: sources.get(c, "s1"), of="item")
    counted, read_to_count = await read_rows(filled, count_s1, of="item")

    assert (named.items, read) == (0, 0)
    assert read_to_count >= counted.items > ITEMS / 2


async def test_only_the_first_and_last_lines_of_a_span_of_the_log_are_read(filled: ScratchDatabase) -> None:
    of_all, read = await read_rows(filled, lambda c: changes.spans(c, size=100, source=None))
    of_one, read_of_one = await read_rows(filled, lambda c: changes.spans(c, size=100, source="s9"))
    part, _ = await read_rows(filled, lambda c: changes.spans(c, size=10, source="s1", after=100, until=200))

    grouped = "select (number - 1) / {}, min(at), max(at) from change where {} group by 1 order by 1"
    assert [(one.number, one.first_at, one.last_at) for one in of_all] == filled.query(grouped.format(100, "true"))
    assert [(one.number, one.first_at, one.last_at) for one in of_one] == filled.query(
        grouped.format(100, "source = 's9'")
    )
    assert [one.number for one in part] == list(range(10, 20))
    assert read <= 4 * len(of_all)
    assert read_of_one <= 4 * len(of_one) + 4


async def test_pages_of_a_catalog_are_read_without_scanning_items_that_are_no_datasets(filled: ScratchDatabase) -> None:
    counts, _ = await read_rows(filled, duplicates.count_datasets)
    first, read = await read_rows(filled, lambda c: duplicates.page_of_datasets(c, counts, after=None, limit=10))

    found, place = list(first.datasets), first.next
    while place is not None:
        parsed = CatalogPlace.parse(str(place))
        page, _ = await read_rows(filled, lambda c: duplicates.page_of_datasets(c, counts, after=parsed, limit=90))  # noqa: B023
        found += page.datasets
        place = page.next
    listed = filled.query(f"select url from item where media_type = '{DATASET}' order by source_id, key")
    assert [one.url for one in found] == [url for (url,) in listed]
    assert sum(counts.values()) == len(listed)
    assert read < 400


QUERIES = (
    "hay",
    "swallows",
    "w7",
    "hay -w7",
    "-hay",
    "swallows or w9",
    '"barn 3"',
    "the",
    "barn's swallows",
    "zzz",
    "!!",
)
ABOUT = """
select number from change where to_tsvector('simple', title) @@ websearch_to_tsquery('simple', $1)
    or exists (select from item join chunk on chunk.item_id = item.id
                where item.source_id = change.source_id and item.key = change.key
                  and chunk.tsv @@ websearch_to_tsquery(text_config(item.language), words_apart($1)))
 order by number desc limit 45
"""


# How many lines are walked at first and then, and how many items may be looked up: each way to find lines once.
BOUNDS = {"looked up": (5, 20, 10_000), "walked": (5, 200, 3), "at once": (5_000, 20, 3)}


async def test_lines_about_words_are_the_same_by_either_search(
    filled: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = {query: [n for (n,) in filled.query(ABOUT.replace("$1", "%s"), query, query)] for query in QUERIES}
    pool = Database(filled.settings())
    await pool.open()
    try:
        async with pool.connection() as c:
            found = {}
            for way, bounds in BOUNDS.items():
                for name, value in zip(("_FIRST_LINES", "_NEXT_LINES", "_MOST_ITEMS"), bounds, strict=True):
                    monkeypatch.setattr(changes, name, value)
                found[way] = {query: await _about(c, query) for query in QUERIES}
            narrowed = await changes.newest(c, query="swallows", kinds=["deleted"], source="s1", limit=100)
    finally:
        await pool.close()

    assert found == dict.fromkeys(BOUNDS, right)
    assert len(right["swallows"]) == 45
    assert len(narrowed) == 60


async def _about(c: Connection, query: str) -> list[int]:
    """Return the numbers of two pages."""
    lines = await changes.newest(c, query=query, limit=20)
    more = await changes.newest(c, query=query, limit=25, before=lines[-1].number) if lines else []
    return [line.number for line in (*lines, *more)]


async def test_rare_words_are_checked_in_few_lines_one_by_one(filled: ScratchDatabase) -> None:
    _, read = await read_rows(filled, lambda c: changes.newest(c, query="zzz", limit=20))

    assert changes._FIRST_LINES == 1_000
    assert read < 4 * changes._FIRST_LINES + 2 * ITEMS


async def test_no_recent_row_is_read_to_find_expired_ones(
    filled: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "_RUNS_KEPT", 5)
    monkeypatch.setattr(runs, "_NEWS_KEPT", 5)
    monkeypatch.setattr(runs, "_NEWS_MOST", 50)
    filled.execute(
        "insert into saved_search (name, query, after) select 'n' || n, 'hay', 0 from generate_series(1, 200) n;"
        "insert into saved_news (search_id, kind, number, source, url, title, at)"
        " select 1 + n % 200, 'matches', n, 's1', 'https://example.org/' || n, 'Field', now()"
        "   from generate_series(1, 5000) n;"
        "insert into answer (key, data, model, calls, tokens_sent, tokens_received)"
        " select decode(md5(n::text), 'hex'), '{}', 'm', 1, 1, 1 from generate_series(1, 2000) n; analyze"
    )
    settings = filled.settings()
    forgotten, read = await read_rows(filled, lambda c: runs.forget_old(c, settings))
    _, runs_read = await read_rows(filled, lambda c: runs.forget_old(c, settings), of="run")

    assert not any(forgotten)
    # Of runs the last one that is a year old, which there is not; of each search its 25 news twice.
    assert runs_read <= 1
    assert read <= 200 * (2 + 6 + 25) + 20


async def test_a_work_list_is_made_once_for_any_batch_size(filled: ScratchDatabase) -> None:
    carried = AttachedSchema(1, Schema("barn", "1.0.0", {}), 0, 0, "warn", False, {}, ())

    async def read_all(c: Connection) -> list[int]:
        numbers = await schemas.work_list(c, carried, after=0, upto=9999)
        parts = [numbers[start : start + 20] for start in range(0, len(numbers), 20)]
        return [item.number for part in parts for item in await schemas.pending(c, carried, part)]

    listed, read = await read_rows(filled, read_all, of="change")

    lines = dict(filled.query("select key, max(number) from change where source_id = 1 group by key"))
    counts = {key for (key,) in filled.query("select key from item where source_id = 1")}
    assert listed == sorted(number for key, number in lines.items() if key in counts)
    # Each line once for the list and once with its item. A list made anew for each part would read 45 times as many.
    assert read <= 2 * (len(listed) + 60)


async def test_a_part_of_a_work_list_leaves_out_items_extracted_since(filled: ScratchDatabase) -> None:
    carried = AttachedSchema(1, Schema("barn", "1.0.0", {}), 0, 0, "warn", False, {}, ())
    pool = Database(filled.settings())
    await pool.open()
    try:
        async with pool.connection() as c, c.transaction(force_rollback=True):
            numbers = await schemas.work_list(c, carried, after=0, upto=9999, limit=3)
            [first, second, third] = await schemas.pending(c, carried, numbers)
            await extraction_store.fail(c, 1, second.key, "barn", number=second.number, error="No price.", code="no")
            now = await schemas.pending(c, carried, numbers)
            rest = await schemas.work_list(c, carried, after=0, upto=9999, limit=3)
    finally:
        await pool.close()

    assert [item.number for item in now] == [first.number, third.number]
    assert list(rest[:2]) == [first.number, third.number]


async def test_pending_items_are_not_counted_for_sources_that_are_up_to_date(
    filled: ScratchDatabase, statements: list[str]
) -> None:
    filled.execute(
        "insert into schema (name, version, number, definition, hash) values ('farm', '1.0.0', '{1,0,0}', '{}', '');"
        "insert into source_schema (source_id, name, schema_id, extracted_to)"
        " select source.id, 'farm', schema.id, case source.id when 3 then 0 else 9999 end from source, schema"
    )
    pool = Database(filled.settings())
    await pool.open()
    try:
        async with pool.connection() as c:
            statements.clear()
            answer = await extraction_store.overview(c)
            executed = len(statements)
    finally:
        await pool.close()

    left = {one.source: one.pending for one in answer if one.pending}
    assert (len(answer), executed) == (SOURCES, 2)
    assert left == dict(filled.query("select 's3', count(*) from item where source_id = 3"))
