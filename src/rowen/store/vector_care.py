"""Vectors of questions, and of texts that are gone: kept for a while, then forgotten."""

from rowen.model.database import Tidied
from rowen.model.hashes import Hash
from rowen.store.database import Connection, Database
from rowen.store.embeddings import hold_passages
from rowen.store.rows import scalar

__all__ = ["collect", "keep_query", "query_vector"]

# Questions whose vectors are kept, so that asking again costs nothing: 4 MB at 384 halves.
_QUERIES_KEPT = 5_000
# Vectors that go in one transaction, which holds back whoever stores passages.
_BATCH = 5_000


async def query_vector(c: Connection, model_id: int, text_hash: Hash) -> str | None:
    """The vector of a question that was asked before, in the database's notation."""
    statement = "select vector::text from query_embedding where model_id = %s and text_hash = %s"
    found: str | None = await scalar(c, statement, [model_id, text_hash])
    return found


async def keep_query(c: Connection, model_id: int, text_hash: Hash, vector: str) -> None:
    """Keep the vector of a question; of thousands the oldest are forgotten."""
    await c.execute(
        "insert into query_embedding (model_id, text_hash, vector) values (%s, %s, %s::halfvec) on conflict do nothing",
        [model_id, text_hash, vector],
    )
    await c.execute(
        "delete from query_embedding where model_id = %(m)s and at < (select at from query_embedding"
        " where model_id = %(m)s order by at desc offset %(kept)s limit 1)",
        {"m": model_id, "kept": _QUERIES_KEPT},
    )


async def collect(database: Database, *, kept_days: float) -> Tidied:
    """Note which vectors no passage needs, and drop those that nobody needed for so long."""
    async with database.transaction() as c:
        await _mark(c)
    dropped = 0
    while gone := await _drop_some(database, kept_days):
        dropped += gone
    async with database.connection() as c:
        kept = await scalar(c, "select count(*) from embedding_unused")
    return Tidied(dropped=dropped, kept=int(kept or 0))


async def _mark(c: Connection) -> None:
    await c.execute(
        "delete from embedding_unused unused where exists"
        " (select from embeddable where embeddable.text_hash = unused.text_hash)"
    )
    await c.execute(
        "delete from embedding_refused refused"
        " where not exists (select from embeddable where embeddable.text_hash = refused.text_hash)"
    )
    await c.execute(
        "insert into embedding_unused (model_id, text_hash) select model_id, text_hash from embedding"
        " where not exists (select from embeddable where embeddable.text_hash = embedding.text_hash)"
        " on conflict do nothing"
    )


async def _drop_some(database: Database, kept_days: float) -> int:
    """Drop a batch while nobody stores passages, so that none can come back to a vector that is going."""
    async with database.transaction() as c:
        await hold_passages(c)
        gone = await c.execute(
            """
            with expired as (
                select model_id, text_hash from embedding_unused unused
                 where since <= now() - make_interval(secs => %s)
                   and not exists (select from embeddable where embeddable.text_hash = unused.text_hash)
                 limit %s
            ), forgotten as (
                delete from embedding_unused unused using expired
                 where (unused.model_id, unused.text_hash) = (expired.model_id, expired.text_hash)
            ), unlisted as (
                delete from embedding_again again using expired
                 where (again.model_id, again.text_hash) = (expired.model_id, expired.text_hash)
            )
            delete from embedding using expired
             where (embedding.model_id, embedding.text_hash) = (expired.model_id, expired.text_hash)
            """,
            [kept_days * 86_400, _BATCH],
        )
        return gone.rowcount
