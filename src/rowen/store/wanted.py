"""What searches found before all of it had vectors: whose passages are to be embedded before those of others."""

import logging
from collections.abc import Collection, Sequence

import psycopg

from rowen.store.database import Connection
from rowen.store.embeddings import WITHOUT_VECTOR, Model, PendingText
from rowen.store.rows import all_rows

__all__ = ["note", "pending"]

log = logging.getLogger(__name__)

# As many as a search shows on its first page; who reads on has not found it yet.
MOST_NOTED = 10
# Some five passages each: together about what is embedded at a time. With half of them batches are not full; with more,
# those that were asked for least are looked up again and again before it is their turn.
ITEMS_AT_A_TIME = 100

# An item that is being deleted is left out, not waited for, and keys come in one order: no search waits for a harvest.
_NOTE = f"""
insert into item_wanted as noted (model_id, item_id)
select %(model)s, id from (
    select id from item
     where id = any(%(items)s::bigint[]) and exists (
           select from chunk those where item_id = item.id and those.id > %(above)s and {WITHOUT_VECTOR})
     order by id for key share skip locked) item
on conflict (item_id, model_id) do update set times = noted.times + 1
"""  # noqa: S608 (of constants)
_MOST_WANTED = """
select item_id from item_wanted join item on item.id = item_id
 where model_id = %(model)s and source_id <> all(%(without)s::bigint[])
 order by times desc, item_id desc limit %(items)s
"""
_PENDING = f"""
select those.id, those.text_hash, those.text, source_id
  from unnest(%(items)s::bigint[]) with ordinality as noted (item_id, place)
  join chunk those using (item_id) join item on item.id = item_id
 where those.id > %(above)s and {WITHOUT_VECTOR}
 order by place, position limit %(limit)s
"""  # noqa: S608 (of constants)
# Who deletes items has these rows as well, in an order of his own: nobody waits for him with some of them in hand.
_FORGET = """
delete from item_wanted where (item_id, model_id) in (
    select item_id, model_id from item_wanted where model_id = %s and item_id = any(%s::bigint[])
       for update skip locked)
"""


async def note(c: Connection, model: Model, items: Sequence[int]) -> None:
    """Note which of the items that a search found have passages without a vector; a search never fails for it."""
    try:
        values = {"model": model.id, "above": model.covered_to, "items": list(items[:MOST_NOTED])}
        await c.execute(_NOTE, values)
    except psycopg.Error as problem:
        log.info("could not note what was searched for: %s", problem)


async def pending(c: Connection, model: Model, *, limit: int, without: Collection[int] = ()) -> list[PendingText]:
    """Passages without a vector of what was searched for, that which was asked for most first.

    Those of some sources may be left out. Notes of items that have all their vectors are forgotten.
    """
    from rowen.model.words import words_of

    values = {"model": model.id, "above": model.covered_to, "limit": limit}
    asked = {"model": model.id, "without": list(without), "items": ITEMS_AT_A_TIME}
    while rows := await all_rows(c, _MOST_WANTED, asked):
        items = [item_id for (item_id,) in rows]
        if found := await all_rows(c, _PENDING, {**values, "items": items}, binary=True):
            return [PendingText(number, of, words_of(text), source_id) for number, of, text, source_id in found]
        forgotten = await c.execute(_FORGET, [model.id, items])
        if not forgotten.rowcount:
            break
    return []
