"""Store embedding models, their vectors and vector indexes.

Two locks keep the rows consistent. Writers of passages and titles share the first lock until the end of their
transactions. A process that holds this lock alone therefore sees every text, and may record up to which id all texts
have vectors. The second lock is a model's claim: only its holder embeds with the model, so that no text is paid for
twice.
"""

import asyncio
import json
import struct
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString, NamedTuple, cast

import psycopg
from psycopg import errors

from rowen.errors import StoreUnavailableError
from rowen.model.hashes import Hash
from rowen.model.status import Tidied
from rowen.model.text import error_within
from rowen.store.database import Connection, Database, has_news, translate_database_errors
from rowen.store.locks import ALL_PASSAGES, Lock, hold, hold_shared, release_at_end, try_session
from rowen.store.rows import affected, column, first_of, list_of, number, scalar

# Interval of connection attempts to a restarting server, so that answers can be stored.
_RETRY_S = 0.1
_COPY_HEADER = b"PGCOPY\n\xff\r\n\x00" + struct.pack("!ii", 0, 0)
_COPY_END = struct.pack("!h", -1)


@dataclass(frozen=True, slots=True)
class Model:
    """An embedding model; `complete` if all texts had vectors when it was read.

    Vectors of two models are not comparable.
    """

    id: int
    name: str
    kind: str
    model: str | None
    wanted: int | None
    url: str | None
    dimensions: int | None
    weight: float
    state: str
    covered_to: int
    trouble: Mapping[str, Any] | None
    complete: bool


class Claim:
    """The right to embed with one model; it ends with its connection."""

    def __init__(self, database: Database, connection: Connection, model_id: int) -> None:
        self.model_id = model_id
        self.connection = connection
        self._database = database
        self._is_lost = False

    @classmethod
    async def take(cls, database: Database, model_id: int) -> "Claim | None":
        """Return the claim; None if another process has it."""
        connection = await database.connect()
        try:
            with translate_database_errors(database.place):
                is_mine = await try_session(connection, Lock.EMBEDDING, model_id)
        except BaseException:
            await connection.close()
            raise
        if is_mine:
            return cls(database, connection, model_id)
        await connection.close()
        return None

    async def check(self) -> None:
        """Raise if the claim is lost, so that no text is sent that another process may have sent already.

        The server is queried only if it sent an unrequested message, as it does when it ends a session.
        """
        if not self._is_lost and (self.connection.closed or has_news(self.connection)):
            try:
                await self.connection.execute("select")
            except psycopg.OperationalError:
                self._is_lost = self.connection.closed
        if self._is_lost:
            raise StoreUnavailableError(
                f"The connection to {self._database.place} that holds the right to embed was lost. "
                "The vectors received so far are stored; the next process that embeds continues from there."
            )

    async def store(self, vectors: Sequence[tuple[Hash, Sequence[bytes]]], *, dimensions: int | None = None) -> None:
        """Store the vectors of texts, each as half-precision numbers in network order; all of them or none.

        With `dimensions`, the length of the model's vectors is stored first. Vectors are paid for, so a restarting
        server is waited for. If the claim was lost, another connection stores the vectors of texts for which no other
        process has stored any.
        """
        rows = [self._row(text_hash, part, vector) for text_hash, parts in vectors for part, vector in enumerate(parts)]
        with translate_database_errors(self._database.place):
            try:
                if not self._is_lost:
                    await set_dimensions(self.connection, self.model_id, dimensions)
                    await _copy(self.connection, "embedding", rows)
                    return
            except errors.UniqueViolation:
                pass  # another process stored some of these vectors first
            except psycopg.OperationalError:
                if not self.connection.closed:
                    raise
                self._is_lost = True

        async def store_missing(c: Connection) -> None:
            await set_dimensions(c, self.model_id, dimensions)
            await c.execute("create temporary table answered (like embedding) on commit drop")
            await _copy(c, "answered", rows)
            await c.execute(
                "insert into embedding (model_id, text_hash, part, vector)"
                " select model_id, text_hash, part, vector from answered"
                " where not exists (select from embedding stored where stored.model_id = answered.model_id"
                " and stored.text_hash = answered.text_hash)"
                " on conflict do nothing"
            )

        await self._patiently(store_missing)

    async def replace(self, vectors: Sequence[tuple[Hash, Sequence[bytes]]], *, dimensions: int | None = None) -> None:
        """Replace the vectors of texts that are listed to be embedded again, and remove the texts from the list.

        If the server restarts, wait for it.
        """

        async def replace(c: Connection) -> None:
            await set_dimensions(c, self.model_id, dimensions)
            hashes = await unlist(c, self.model_id, [text_hash for text_hash, _ in vectors])
            for table in ("embedding", "embedding_refused"):
                delete = f"delete from {table} where model_id = %s and text_hash = any(%s)"  # noqa: S608 (a constant)
                await c.execute(delete.encode(), [self.model_id, hashes])
            listed = [(text_hash, parts) for text_hash, parts in vectors if text_hash in set(hashes)]
            rows = [self._row(text_hash, n, vector) for text_hash, parts in listed for n, vector in enumerate(parts)]
            await _copy(c, "embedding", rows)

        await self._patiently(replace)

    async def _patiently(self, work: Callable[[Connection], Awaitable[None]]) -> None:
        """Run `work` in a transaction; repeat it while the server restarts."""
        until = time.monotonic() + self._database.settings.database_patience_s
        while True:
            try:
                async with self._database.transaction() as c:
                    await work(c)
                return
            except StoreUnavailableError:
                if time.monotonic() > until:
                    raise
            await asyncio.sleep(_RETRY_S)

    def _row(self, text_hash: Hash, part: int, vector: bytes) -> bytes:
        return b"".join(
            (
                struct.pack("!hihi", 4, 2, self.model_id, len(text_hash)),
                text_hash,
                struct.pack("!ih", 2, part),
                struct.pack("!ihh", len(vector) + 4, len(vector) // 2, 0),
                vector,
            )
        )

    async def release(self) -> None:
        """Release the claim, so that other processes may embed."""
        try:
            await release_at_end(self.connection, Lock.EMBEDDING, self.model_id)
        finally:
            await self.connection.close()


async def unlist(c: Connection, model_id: int, hashes: Sequence[Hash]) -> list[Hash]:
    """Remove texts from the list of texts to embed again; return the hashes that were on it."""
    return await column(
        c,
        "delete from embedding_again where model_id = %b and text_hash = any(%b::bytea[]) returning text_hash",
        [model_id, list(hashes)],
        binary=True,
    )


async def _copy(c: Connection, table: LiteralString, rows: Sequence[bytes]) -> None:
    async with c.cursor().copy(f"copy {table} (model_id, text_hash, part, vector) from stdin (format binary)") as copy:
        await copy.write(_COPY_HEADER + b"".join(rows) + _COPY_END)


LAST_TEXT = "greatest((select max(id) from chunk), (select max(id) from item_title), 0)"
_MODEL = f"""
select id, name, kind, model, wanted, url, dimensions, weight, state, covered_to, trouble,
       covered_to >= {LAST_TEXT} as complete
  from embedding_model
"""  # noqa: S608 (of constants)


async def every(c: Connection) -> list[Model]:
    """Return all models, oldest first."""
    return await list_of(c, Model, _MODEL + " order by id")


async def find(c: Connection, name: str) -> Model | None:
    """Return the model of this name; None if there is none."""
    return await first_of(c, Model, _MODEL + " where name = %s", [name])


async def active(c: Connection) -> Model | None:
    """Return the model that search uses; None if there is none."""
    return await first_of(c, Model, _MODEL + " where state = 'active'")


async def register(
    c: Connection, name: str, *, kind: str, model: str | None, wanted: int | None, url: str | None, weight: float
) -> Model:
    """Return the model of this name, and create it if it is new; the first model becomes active at once."""
    await c.execute(
        """
        insert into embedding_model (name, kind, model, wanted, url, weight, state)
        select %(name)s, %(kind)s, %(model)s, %(wanted)s, %(url)s, %(weight)s,
               case when exists (select from embedding_model where state = 'active') then 'building' else 'active' end
         where not exists (select from embedding_model where name = %(name)s)
        on conflict do nothing
        """,
        {"name": name, "kind": kind, "model": model, "wanted": wanted, "url": url, "weight": weight},
    )
    statement = """
        update embedding_model set url = %(url)s, weight = %(weight)s where name = %(name)s
           and (url, weight) is distinct from (%(url)s, %(weight)s::real)
    """
    await c.execute(statement, {"name": name, "url": url, "weight": weight})
    # Two processes may create the first model at the same moment: the second try finds an active model.
    registered = await find(c, name)
    return registered or await register(c, name, kind=kind, model=model, wanted=wanted, url=url, weight=weight)


async def set_dimensions(c: Connection, model_id: int, dimensions: int | None) -> None:
    """Store the length of a model's vectors, unless it is stored already or `dimensions` is None."""
    if dimensions is not None:
        await c.execute(
            "update embedding_model set dimensions = %s where id = %s and dimensions is null", [dimensions, model_id]
        )


async def note_trouble(c: Connection, model_id: int, trouble: Mapping[str, Any] | None) -> None:
    """Store the reason why embedding stopped, or None if it did not; write only a change."""
    text = None if trouble is None else json.dumps(trouble)
    await c.execute(
        "update embedding_model set trouble = %(t)s::jsonb where id = %(id)s and trouble is distinct from %(t)s::jsonb",
        {"t": text, "id": model_id},
    )


async def share_passages(c: Connection) -> None:
    """Take a share of the passage lock until the transaction ends; needed before a passage or title is stored."""
    await hold_shared(c, Lock.EMBEDDING, ALL_PASSAGES)


async def count_reused(c: Connection, hashes: Sequence[Hash]) -> int:
    """Return how many passages about to be stored already have a vector."""
    query = """
        select count((select true from embedding
                       where model_id = (select id from embedding_model where state = 'active')
                         and embedding.text_hash = fresh.text_hash and part = 0))
          from unnest(%b::bytea[]) as fresh(text_hash)
    """
    return await number(c, query, [list(hashes)])


async def hold_passages(c: Connection) -> None:
    """Block writers of passages until the transaction ends."""
    await hold(c, Lock.EMBEDDING, ALL_PASSAGES)


async def last_text(c: Connection) -> int:
    """Return the highest id of a passage or title; 0 if there is none."""
    return await number(c, f"select {LAST_TEXT}")


# Copies rows of a table to new hashes. If several old hashes become one, the vectors of one of them are copied whole:
# parts of two are never mixed.
_CARRY = """
with carried as (
    select distinct on (old.model_id, new.text_hash) old.model_id, new.text_hash, old_hash
      from unnest(%(old)b::bytea[], %(new)b::bytea[]) as new(old_hash, text_hash)
      join {table} old on old.text_hash = old_hash
     where not exists (select from {table} other
                        where other.model_id = old.model_id and other.text_hash = new.text_hash)
     order by old.model_id, new.text_hash, old_hash
)
insert into {table} (model_id, text_hash, {columns})
select carried.model_id, carried.text_hash, {columns}
  from carried join {table} old on (old.model_id, old.text_hash) = (carried.model_id, old_hash)
 order by carried.model_id, carried.text_hash
on conflict do nothing
"""
_CARRIED_COLUMNS = {"embedding": "part, vector", "embedding_refused": "error, at", "embedding_again": "since"}


async def carry(c: Connection, hashes: Sequence[tuple[Hash, Hash]]) -> None:
    """Copy vectors, refusals and list entries of texts to new hashes, given as pairs of old and new hash.

    The rows of the old hashes stay, for passages that still have them. Must run in the transaction that changes the
    hashes.
    """
    if not hashes:
        return
    values = {"old": [old for old, _ in hashes], "new": [new for _, new in hashes]}
    for table, columns in _CARRIED_COLUMNS.items():
        await c.execute(_CARRY.format(table=table, columns=columns).encode(), values)


async def count_texts(c: Connection, model_id: int) -> int:
    """Return how many texts have vectors under a model."""
    return await number(c, "select count(*) from embedding where model_id = %s and part = 0", [model_id])


async def count_refused(c: Connection, model_id: int) -> int:
    """Return how many texts a model has refused."""
    return await number(c, "select count(*) from embedding_refused where model_id = %s", [model_id])


async def refuse(c: Connection, model_id: int, text_hash: Hash, error: str) -> None:
    """Store that the embedder refuses a text."""
    await c.execute(
        "insert into embedding_refused (model_id, text_hash, error) values (%s, %s, %s) on conflict do nothing",
        [model_id, text_hash, error_within(error)],
    )


async def drop(c: Connection, model_id: int) -> int:
    """Delete a model that is not active, with its vectors; return the number of deleted vectors."""
    dropped = await affected(c, "delete from embedding where model_id = %s", [model_id])
    await c.execute("delete from embedding_model where id = %s and state <> 'active'", [model_id])
    return dropped


# PostgreSQL's own default for maintenance.
_LEAST_BYTES = 64 << 20
# 1.7 million vectors of 384 half-precision numbers; with more, the rest of the graph is built on disk, much slower.
_MOST_BYTES = 2 << 30
# The size of a node of the graph beside its vector, with 16 neighbours per layer.
_NODE_BYTES = 400


class IndexState(NamedTuple):
    """Whether a model's index exists and is valid; an interrupted build leaves an invalid index."""

    exists: bool
    valid: bool


def _index_name(model_id: int) -> str:
    return f"embedding_hnsw_{model_id:d}"


async def index_state(c: Connection, model_id: int) -> IndexState:
    """Return whether a model's index exists and is valid."""
    valid = await scalar(
        c, "select indisvalid from pg_index where indexrelid = to_regclass(%s)", [_index_name(model_id)]
    )
    return IndexState(valid is not None, bool(valid))


async def build_index(c: Connection, model: Model, *, dimensions: int, rows: int, embedded: bool) -> None:
    """Build the HNSW index of a model while others read and write; must run outside a transaction.

    Inserting into an index is ten times slower than building it over the same rows, so it is built after a load. Few
    vectors need no index: they are compared one by one.
    """
    import psutil  # type: ignore[import-untyped] # its stubs are another package

    await drop_index(c, model.id)
    wanted = int(rows * (dimensions * 2 + _NODE_BYTES) * 1.1)
    # The embedded server may take a part of what is free.
    most = min(_MOST_BYTES, psutil.virtual_memory().available // 3) if embedded else _MOST_BYTES // 4
    memory_bytes = max(_LEAST_BYTES, min(wanted, most))
    await c.execute(f"set maintenance_work_mem = '{memory_bytes >> 10}kB'")
    try:
        await _create_index(c, model.id, dimensions)
    except (errors.DiskFull, errors.InsufficientResources, errors.OutOfMemory):
        # Parallel workers share memory that a container may not have; a single process needs none.
        await drop_index(c, model.id)
        await c.execute("set max_parallel_maintenance_workers = 0")
        await _create_index(c, model.id, dimensions)
        await c.execute("reset max_parallel_maintenance_workers")
    finally:
        if not c.broken:
            await c.execute("reset maintenance_work_mem")


async def _create_index(c: Connection, model_id: int, dimensions: int) -> None:
    await c.execute(
        f"create index concurrently {_index_name(model_id)} on embedding"
        f" using hnsw ((vector::halfvec({dimensions:d})) halfvec_cosine_ops) where model_id = {model_id:d}"
    )


async def drop_index(c: Connection, model_id: int) -> None:
    """Drop the index of a model, if there is one; must run outside a transaction."""
    await c.execute(f"drop index concurrently if exists {_index_name(model_id)}")


# Queries whose vectors are stored, so that repeating a query costs nothing: 4 MB at 384 half-precision numbers.
_QUERIES_KEPT = 5_000
# Vectors that are dropped in one transaction, which blocks writers of passages.
_BATCH = 5_000


async def query_vector(c: Connection, model_id: int, text_hash: Hash) -> str | None:
    """Return the stored vector of a query in PostgreSQL's text format; None if there is none."""
    statement = "select vector::text from query_embedding where model_id = %s and text_hash = %s"
    return cast("str | None", await scalar(c, statement, [model_id, text_hash]))


async def store_query_vector(c: Connection, model_id: int, text_hash: Hash, vector: str) -> None:
    """Store the vector of a query, and delete the oldest query vectors beyond some thousands."""
    await c.execute(
        "insert into query_embedding (model_id, text_hash, vector) values (%s, %s, %s::halfvec) on conflict do nothing",
        [model_id, text_hash, vector],
    )
    statement = """
        delete from query_embedding where model_id = %(m)s and at < (select at from query_embedding
                 where model_id = %(m)s order by at desc offset %(kept)s limit 1)
    """
    await c.execute(statement, {"m": model_id, "kept": _QUERIES_KEPT})


async def drop_unused(database: Database, *, kept_days: float) -> Tidied:
    """Record which vectors no text needs, and delete vectors that have been unused for `kept_days`."""
    needed = "exists (select from embeddable where embeddable.text_hash = {}.text_hash)".format
    async with database.transaction() as c:
        await c.execute(f"delete from embedding_unused unused where {needed('unused')}".encode())  # noqa: S608
        await c.execute(f"delete from embedding_refused refused where not {needed('refused')}".encode())  # noqa: S608
        await c.execute(
            "insert into embedding_unused (model_id, text_hash) select model_id, text_hash from embedding"  # noqa: S608
            f" where not {needed('embedding')} on conflict do nothing".encode()
        )
    dropped, is_done = 0, False
    while not is_done:
        async with database.transaction() as c:
            # While writers of passages are blocked, no stored text can need a vector that is being deleted.
            await hold_passages(c)
            batch = await affected(c, _DROP_EXPIRED, [kept_days * 86_400, _BATCH])
        dropped, is_done = dropped + batch, not batch
    async with database.connection() as c:
        return Tidied(dropped=dropped, kept=await number(c, "select count(*) from embedding_unused"))


# Deletes a batch of vectors that have been unused for the given time.
_DROP_EXPIRED = """
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
"""
