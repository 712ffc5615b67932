"""The list of texts whose vectors are to be made again, though they have some."""

from collections.abc import Collection, Sequence

from rowen.model.hashes import Hash
from rowen.store.database import Connection, Database
from rowen.store.embeddings import OF_SOURCES, TITLE, Amount, Model, PendingText, hold_passages
from rowen.store.rows import all_rows, one, scalar

__all__ = ["amount", "forget_gone", "left", "list_texts", "listed", "pending"]

# Texts that were refused may be accepted now; what has no words never is.
_REPEATABLE = """
coalesce(
    (select true from embedding where model_id = %(model)s and embedding.text_hash = those.text_hash and part = 0),
    (select true from embedding_refused
      where model_id = %(model)s and embedding_refused.text_hash = those.text_hash and error <> 'blank'))
"""
_LISTED = "exists (select from embedding_again where model_id = %(model)s and text_hash = those.text_hash)"


def _amount(which: str) -> str:
    return f"""
select count(*), coalesce(sum(chars), 0)
  from (select max(chars) as chars from (
            select text_hash, length(those.text) as chars from chunk those join item on item.id = item_id
             where {which} and {OF_SOURCES}
            union all
            select text_hash, length({TITLE}) from item_title those join item on item.id = item_id
             where {which} and {OF_SOURCES}) words group by text_hash) texts
"""  # noqa: S608 (of constants)


_AMOUNT, _AMOUNT_LISTED = _amount(_REPEATABLE), _amount(_LISTED)
_LIST = f"""
insert into embedding_again (model_id, text_hash)
select distinct %(model)s::smallint, text_hash from embeddable those join item on item.id = item_id
 where {_REPEATABLE} and {OF_SOURCES}
    on conflict do nothing
"""  # noqa: S608 (of constants)
_ELSEWHERE = "source_id <> all(%(without)s::bigint[])"
_PENDING = f"""
select text.id, again.text_hash, text.words, text.source_id, text.is_title
  from embedding_again again cross join lateral (
       (select those.id, those.text as words, source_id, false as is_title
          from chunk those join item on item.id = item_id
         where those.text_hash = again.text_hash and {OF_SOURCES} and {_ELSEWHERE} limit 1)
       union all
       (select those.id, {TITLE}, source_id, true
          from item_title those join item on item.id = item_id
         where those.text_hash = again.text_hash and {OF_SOURCES} and {_ELSEWHERE} limit 1)
       limit 1) text
 where model_id = %(model)s and again.text_hash > %(after)s
 order by again.text_hash limit %(limit)s
"""  # noqa: S608 (of constants)


async def amount(c: Connection, model: Model | None, *, sources: Sequence[int] = ()) -> Amount:
    """Return how many texts of all sources, or of some, would be embedded again."""
    return await _count(c, _AMOUNT, model, sources)


async def listed(c: Connection, model: Model | None, *, sources: Sequence[int] = ()) -> Amount:
    """Return how many texts of all sources, or of some, are on the list."""
    if model is None or not await left(c, model.id):
        return Amount(0, 0)
    return await _count(c, _AMOUNT_LISTED, model, sources)


async def _count(c: Connection, statement: str, model: Model | None, sources: Sequence[int]) -> Amount:
    if model is None:
        return Amount(0, 0)
    row = await one(c, statement, {"model": model.id, "sources": list(sources) or None})
    return Amount(int(row[0]), int(row[1])) if row else Amount(0, 0)


async def left(c: Connection, model_id: int) -> int:
    """Return how many texts are on the list of a model."""
    return int(await scalar(c, "select count(*) from embedding_again where model_id = %s", [model_id]) or 0)


async def list_texts(c: Connection, model: Model, *, sources: Sequence[int] = ()) -> None:
    """Put the texts of all sources, or of some, on the list; must run inside a transaction.

    Vectors of questions are forgotten, and vectors of texts that no item has if all sources are meant: such a text may
    come back, and its old vector with it.
    """
    await hold_passages(c)
    await c.execute(_LIST.encode(), {"model": model.id, "sources": list(sources) or None})
    await c.execute("delete from query_embedding where model_id = %s", [model.id])
    if not sources:
        await c.execute(
            "delete from embedding where model_id = %s"
            " and not exists (select from embeddable where embeddable.text_hash = embedding.text_hash)",
            [model.id],
        )
        await c.execute("delete from embedding_unused where model_id = %s", [model.id])


async def pending(
    c: Connection, model_id: int, *, after: Hash, limit: int, sources: Sequence[int], without: Collection[int]
) -> list[PendingText]:
    """Return texts of the list behind a hash, in order, each with one of the sources that have it.

    `sources` are the only ones that count, all if there are none; `without` are those that do not.
    """
    from rowen.model.words import words_of

    told = {"model": model_id, "after": after, "limit": limit}
    rows = await all_rows(
        c, _PENDING, {**told, "sources": list(sources) or None, "without": list(without)}, binary=True
    )
    return [
        PendingText(number, text_hash, words if is_title else words_of(words), source_id)
        for number, text_hash, words, source_id, is_title in rows
    ]


async def forget_gone(database: Database, model_id: int) -> None:
    """Take texts off the list that no item has any more, with their vectors."""
    async with database.connection() as c:
        if not await left(c, model_id):
            return
    async with database.transaction() as c:
        # No text may come back to a vector that is going.
        await hold_passages(c)
        await c.execute(
            "with gone as (delete from embedding_again again where model_id = %(model)s"
            " and not exists (select from embeddable where embeddable.text_hash = again.text_hash) returning text_hash)"
            " delete from embedding using gone where model_id = %(model)s and embedding.text_hash = gone.text_hash",
            {"model": model_id},
        )
