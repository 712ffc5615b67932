"""Find texts without a vector, in the order in which they are embedded.

Passages and titles are texts with ids of one sequence. Titles come first, then the first passage of each item, then
passages of items that searches found, then all other passages. Texts that have a vector can be listed to be embedded
again.
"""

import logging
from collections.abc import Collection, Sequence
from enum import Enum
from typing import NamedTuple

import psycopg

from rowen.model.hashes import Hash
from rowen.store.database import Connection, Database
from rowen.store.locks import ALL_PASSAGES, Lock, try_hold
from rowen.store.rows import affected, all_rows, number, only, scalar
from rowen.store.search.embeddings import Model, hold_passages, last_text


class PendingText(NamedTuple):
    """The text of a passage or title without a vector, and a source that has it."""

    id: int
    text_hash: Hash
    text: str
    source_id: int


class Depth(Enum):
    """The layers of embedding, in order; in the last layer, passages of items that searches found come first."""

    TITLES = "titles"
    OPENINGS = "openings"
    PASSAGES = "passages"


class Amount(NamedTuple):
    """The number of distinct texts to embed, and of their characters."""

    texts: int
    chars: int


class VectorCoverage(NamedTuple):
    """The number of passages, and the number of passages without a vector."""

    passages: int
    waiting: int

    @property
    def share(self) -> float:
        """The share of passages that have a vector."""
        return 1 - self.waiting / self.passages if self.passages else 1.0


# The condition that a text has neither vector nor refusal. A scalar subselect is looked up by key for each passage;
# `not exists` might read all vectors instead.
WITHOUT_VECTOR = """
    (select true from embedding where model_id = %(model)s and embedding.text_hash = entry.text_hash and part = 0)
    is null
and (select true from embedding_refused where model_id = %(model)s and embedding_refused.text_hash = entry.text_hash)
    is null
"""
TITLE = "title_words(title, record, media_type)"
_IS_FIRST = (
    "not exists (select from chunk first where first.item_id = entry.item_id and first.position < entry.position)"
)
OF_SOURCES = "(%(sources)s::bigint[] is null or source_id = any(%(sources)s))"
# Texts of a layer without a vector in a range of ids, newest first.
_PENDING = f"""
select entry.id, entry.text_hash, {{words}}, source_id, {{is_title}}
  from {{table}} entry join item on item.id = entry.item_id
 where entry.id > %(above)s and entry.id <= %(upto)s and {WITHOUT_VECTOR} and {{condition}} and {OF_SOURCES}
 order by entry.id desc limit %(limit)s
"""  # noqa: S608 (of constants)
_LAYERS = {
    Depth.TITLES: _PENDING.format(table="item_title", words=TITLE, is_title="true", condition="true"),
    Depth.OPENINGS: _PENDING.format(table="chunk", words="entry.text", is_title="false", condition=_IS_FIRST),
    Depth.PASSAGES: _PENDING.format(table="chunk", words="entry.text", is_title="false", condition="true"),
}
# The number of distinct texts that fulfil a condition, and of their characters.
_AMOUNT = f"""
select count(*), coalesce(sum(chars), 0)::bigint
  from (select max(chars) as chars from (
            select text_hash, length(entry.text) as chars from chunk entry join item on item.id = item_id
             where {{condition}} and {OF_SOURCES}
            union all
            select text_hash, length({TITLE}) from item_title entry join item on item.id = item_id
             where {{condition}} and {OF_SOURCES}) words group by text_hash) texts
"""  # noqa: S608 (of constants)
# How many passages each source has, and how many without a vector.
_COVERAGE = f"""
select source.name, count(*), count(*) filter (where entry.id > %(above)s and {WITHOUT_VECTOR})
  from chunk entry join item on item.id = item_id join source on source.id = source_id group by source.id
"""  # noqa: S608 (a constant)


async def pending(
    c: Connection, model_id: int, depth: Depth, *, above: int, upto: int, limit: int, sources: Sequence[int] = ()
) -> list[PendingText]:
    """Return texts of one layer without a vector in a range of ids, newest first; empty `sources` stands for all."""
    values = {"model": model_id, "above": above, "upto": upto, "limit": limit, "sources": list(sources) or None}
    rows = await all_rows(c, _LAYERS[depth], values, binary=True)
    return [_pending_text(*row) for row in rows]


async def amount(c: Connection, model: Model | None, *, sources: Sequence[int] = ()) -> Amount:
    """Return the amount of texts without a vector, in all or some sources; without a model, of all texts."""
    values = {"model": model.id, "above": model.covered_to} if model else {"model": 0, "above": 0}
    statement = _AMOUNT.format(condition=f"entry.id > %(above)s and {WITHOUT_VECTOR}")
    return Amount(*await only(c, statement.encode(), {**values, "sources": list(sources) or None}))


async def coverage_by_source(c: Connection, model: Model) -> dict[str, VectorCoverage]:
    """Return the vector coverage of each source; empty if all passages have vectors."""
    if not await scalar(c, "select exists (select from chunk where id > %s)", [model.covered_to]):
        return {}
    rows = await all_rows(c, _COVERAGE, {"model": model.id, "above": model.covered_to})
    return {source: VectorCoverage(passages, waiting) for source, passages, waiting in rows}


async def count_pending(c: Connection, model: Model, source_id: int) -> int:
    """Return the number of texts of a source without a vector."""
    query = f"""
        select count(distinct text_hash) from embeddable entry join item on item.id = item_id
         where entry.id > %(above)s and source_id = %(source)s and {WITHOUT_VECTOR}
    """  # noqa: S608 (a constant)
    return await number(c, query, {"model": model.id, "above": model.covered_to, "source": source_id})


async def cover(c: Connection, model: Model, *, wait: bool = False) -> bool | None:
    """Record that all texts have vectors; return False if some have none, None if texts are being stored now.

    Must run inside a transaction. With `wait`, it waits for writers of passages and blocks them until the transaction
    ends.
    """
    if wait:
        await hold_passages(c)
    elif not await try_hold(c, Lock.EMBEDDING, ALL_PASSAGES):
        return None
    last = await last_text(c)
    for depth in Depth.TITLES, Depth.PASSAGES:
        if await pending(c, model.id, depth, above=model.covered_to, upto=last, limit=1):
            return False
    await c.execute(
        "update embedding_model set covered_to = %(last)s where id = %(id)s and covered_to < %(last)s",
        {"last": last, "id": model.id},
    )
    return True


async def activate(c: Connection, model: Model) -> bool:
    """Let search use a model if all texts have its vectors; return whether they have.

    Must run inside a transaction.
    """
    if not await cover(c, model, wait=True):
        return False
    await c.execute("update embedding_model set state = 'retired' where state = 'active' and id <> %s", [model.id])
    await c.execute("update embedding_model set state = 'active' where id = %s and state <> 'active'", [model.id])
    return True


log = logging.getLogger(__name__)

# Items that are counted per search: the items of its first page.
MOST_NOTED = 10
# Items whose passages, some five each, make about one batch. With half as many items, batches are not full; with more,
# the least wanted items are looked up repeatedly before their turn comes.
ITEMS_AT_A_TIME = 100

# Counts items that a search found, if they have passages without a vector. An item that is being deleted is skipped,
# and keys are locked in order: no search waits for a harvest.
_NOTE_WANTED = f"""
insert into item_wanted as noted (model_id, item_id)
select %(model)s, id from (
    select id from item
     where id = any(%(items)s::bigint[]) and exists (
           select from chunk entry where item_id = item.id and entry.id > %(above)s and {WITHOUT_VECTOR})
     order by id for key share skip locked) item
on conflict (item_id, model_id) do update set times = noted.times + 1
"""  # noqa: S608 (of constants)
# The items found most often.
_MOST_WANTED = """
select item_id from item_wanted join item on item.id = item_id
 where model_id = %(model)s and source_id <> all(%(without)s::bigint[])
 order by times desc, item_id desc limit %(items)s
"""
# Their passages without a vector.
_PENDING_WANTED = f"""
select entry.id, entry.text_hash, entry.text, source_id
  from unnest(%(items)s::bigint[]) with ordinality as noted (item_id, place)
  join chunk entry using (item_id) join item on item.id = item_id
 where entry.id > %(above)s and {WITHOUT_VECTOR}
 order by place, position limit %(limit)s
"""  # noqa: S608 (of constants)
# Deletes their counts. A transaction that deletes items locks these rows in another order: locked rows are skipped, to
# avoid deadlocks.
_FORGET_WANTED = """
delete from item_wanted where (item_id, model_id) in (
    select item_id, model_id from item_wanted where model_id = %s and item_id = any(%s::bigint[])
       for update skip locked)
"""


async def note_wanted(c: Connection, model: Model, items: Sequence[int]) -> None:
    """Count the items that a search found and that have passages without a vector; errors are only logged."""
    try:
        values = {"model": model.id, "above": model.covered_to, "items": list(items[:MOST_NOTED])}
        await c.execute(_NOTE_WANTED, values)
    except psycopg.Error as problem:
        log.info("could not count the items that a search found: %s", problem)


async def pending_wanted(
    c: Connection, model: Model, *, limit: int, without: Collection[int] = ()
) -> list[PendingText]:
    """Return passages without a vector of items that searches found, the most frequently found items first.

    Sources in `without` are left out. The counts of items that have all their vectors are deleted.
    """
    values = {"model": model.id, "above": model.covered_to, "limit": limit}
    filters = {"model": model.id, "without": list(without), "items": ITEMS_AT_A_TIME}
    while rows := await all_rows(c, _MOST_WANTED, filters):
        items = [item_id for (item_id,) in rows]
        if rows_of_items := await all_rows(c, _PENDING_WANTED, {**values, "items": items}, binary=True):
            return [_pending_text(*row) for row in rows_of_items]
        if not await affected(c, _FORGET_WANTED, [model.id, items]):
            break
    return []


# The conditions that a text can be embedded again, and that it is listed for that. Texts that were refused may be
# accepted now, but texts without words never.
_REPEATABLE = """
coalesce(
    (select true from embedding where model_id = %(model)s and embedding.text_hash = entry.text_hash and part = 0),
    (select true from embedding_refused
      where model_id = %(model)s and embedding_refused.text_hash = entry.text_hash and error <> 'blank'))
"""
_LISTED = "exists (select from embedding_again where model_id = %(model)s and text_hash = entry.text_hash)"


# Lists texts to be embedded again.
_LIST = f"""
insert into embedding_again (model_id, text_hash)
select distinct %(model)s::smallint, text_hash from embeddable entry join item on item.id = item_id
 where {_REPEATABLE} and {OF_SOURCES}
    on conflict do nothing
"""  # noqa: S608 (of constants)
_ELSEWHERE = "source_id <> all(%(without)s::bigint[])"
# Listed texts, each with one of its passages or titles.
_PENDING_LISTED = f"""
select text.id, again.text_hash, text.words, text.source_id, text.is_title
  from embedding_again again cross join lateral (
       (select entry.id, entry.text as words, source_id, false as is_title
          from chunk entry join item on item.id = item_id
         where entry.text_hash = again.text_hash and {OF_SOURCES} and {_ELSEWHERE} limit 1)
       union all
       (select entry.id, {TITLE}, source_id, true
          from item_title entry join item on item.id = item_id
         where entry.text_hash = again.text_hash and {OF_SOURCES} and {_ELSEWHERE} limit 1)
       limit 1) text
 where model_id = %(model)s and again.text_hash > %(after)s
 order by again.text_hash limit %(limit)s
"""  # noqa: S608 (of constants)


async def amount_to_repeat(c: Connection, model: Model | None, *, sources: Sequence[int] = ()) -> Amount:
    """Return the amount of texts, of all or some sources, that would be embedded again."""
    if model is None:
        return Amount(0, 0)
    values = {"model": model.id, "sources": list(sources) or None}
    return Amount(*await only(c, _AMOUNT.format(condition=_REPEATABLE).encode(), values))


async def amount_listed(c: Connection, model: Model | None, *, sources: Sequence[int] = ()) -> Amount:
    """Return the amount of texts, of all or some sources, that are listed to be embedded again."""
    if model is None or not await count_listed(c, model.id):
        return Amount(0, 0)
    values = {"model": model.id, "sources": list(sources) or None}
    return Amount(*await only(c, _AMOUNT.format(condition=_LISTED).encode(), values))


async def count_listed(c: Connection, model_id: int) -> int:
    """Return how many texts of a model are listed to be embedded again."""
    return await number(c, "select count(*) from embedding_again where model_id = %s", [model_id])


async def list_texts(c: Connection, model: Model, *, sources: Sequence[int] = ()) -> None:
    """List the texts of all or some sources to be embedded again; must run inside a transaction.

    Vectors of queries are deleted. If all sources are listed, vectors of texts that no item has are deleted too:
    otherwise such a text could come back with its old vector.
    """
    await hold_passages(c)
    await c.execute(_LIST.encode(), {"model": model.id, "sources": list(sources) or None})
    await c.execute("delete from query_embedding where model_id = %s", [model.id])
    if not sources:
        statement = """
            delete from embedding where model_id = %s
               and not exists (select from embeddable where embeddable.text_hash = embedding.text_hash)
        """
        await c.execute(statement, [model.id])
        await c.execute("delete from embedding_unused where model_id = %s", [model.id])


async def pending_listed(
    c: Connection, model_id: int, *, after: Hash, limit: int, sources: Sequence[int], without: Collection[int]
) -> list[PendingText]:
    """Return listed texts after a hash, in order, each with a source of `sources` but not of `without`.

    An empty `sources` stands for all sources.
    """
    values = {"model": model_id, "after": after, "limit": limit}
    rows = await all_rows(
        c, _PENDING_LISTED, {**values, "sources": list(sources) or None, "without": list(without)}, binary=True
    )
    return [_pending_text(*row) for row in rows]


def _pending_text(text_id: int, text_hash: Hash, text: str, source_id: int, is_title: bool = False) -> PendingText:
    # Importing this module compiles patterns for 10 ms; a run that embeds nothing needs none of them.
    from rowen.model.passages import words_of

    return PendingText(text_id, text_hash, text if is_title else words_of(text), source_id)


async def forget_removed(database: Database, model_id: int) -> None:
    """Remove texts that no item has any more from the list, and delete their vectors."""
    async with database.connection() as c:
        if not await count_listed(c, model_id):
            return
    async with database.transaction() as c:
        # While writers of passages are blocked, no stored text can need a vector that is being deleted.
        await hold_passages(c)
        statement = """
            with gone as (delete from embedding_again again where model_id = %(model)s
             and not exists (select from embeddable where embeddable.text_hash = again.text_hash) returning text_hash)
                   delete from embedding using gone where model_id = %(model)s and embedding.text_hash = gone.text_hash
        """
        await c.execute(statement, {"model": model_id})
