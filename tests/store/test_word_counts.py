"""Counting words takes time in proportion to the passages, whatever the words and their order."""

import psutil
import pytest

from rowen.store.database import Database
from rowen.store.rows import scalar
from rowen.store.search import words
from tests.conftest import ScratchDatabase

SMALL, LARGE = 6_000, 24_000
# Four times the passages: 4 if linear, 16 if quadratic. Half of the way, since small counts have fixed costs.
MOST = 9
WORLD = """
truncate source cascade;
with made as (insert into source (name, kind, url) values ('s', 'web', 'https://s.example/') returning id)
insert into item (source_id, key, url, title, text, tags, record, content_hash, record_hash, chunker)
select id, '\\x01', 'https://s.example/1', '', '', '{{}}', '{{}}', '\\x00', '\\x00', 1 from made;
insert into chunk (item_id, position, heading, text, text_hash, tsv)
select item.id, n, '{{}}', 'x', decode(md5(n::text), 'hex'), array_to_tsvector(array[{word}])
  from item, generate_series(1, {passages}) n order by n;
analyze chunk
"""
FAMILIES = {
    "padded numbers": "'record-' || lpad(n::text, 9, '0')",
    "identifiers of OAI": "'oai:example.org:' || lpad(to_hex(n), 12, '0')",
    "identifiers by time": "to_hex(1700000000000 + n)",
    "descending": "'r' || lpad((999999 - n)::text, 9, '0')",
    "random": "md5(n::text)",
}


@pytest.mark.parametrize("family", FAMILIES)
async def test_words_in_any_order_are_counted_in_linear_time(database: ScratchDatabase, family: str) -> None:
    pool = Database(database.settings())
    await pool.open()
    spent: list[float] = []
    try:
        for passages in (SMALL, LARGE):
            database.execute(WORLD.format(word=FAMILIES[family], passages=passages))
            async with pool.transaction() as c:
                backend = psutil.Process(await scalar(c, "select pg_backend_pid()"))
                await c.execute("update term_count set halvings = null")
                before = backend.cpu_times()
                await words._count(c)
                after = backend.cpu_times()
                spent.append(after.user + after.system - before.user - before.system)
                assert await scalar(c, "select count(*) from term") == passages
    finally:
        await pool.close()

    assert spent[1] < MOST * max(spent[0], 0.05), spent
