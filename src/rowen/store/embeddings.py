"""Models and their vectors: which texts still need one, and storing each exactly once.

Passages and titles are texts, and numbered together. Two locks keep the books right. Whoever stores them holds a share
of the passages' lock to the end of his transaction; who has it alone therefore sees every text there is, and may write
down up to where all have vectors. And only the holder of a model's claim embeds under it, so that nobody pays for what
another has in hand.
"""

import asyncio
import json
import struct
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, LiteralString, NamedTuple

import psycopg
from psycopg import errors

from rowen.errors import StoreUnavailableError
from rowen.model.caps import error_within
from rowen.model.hashes import Hash
from rowen.store.database import Connection, Database, has_news, translate_database_errors
from rowen.store.locks import ALL_PASSAGES, Lock, hold, hold_shared, release_at_end, try_hold, try_session
from rowen.store.rows import all_rows, first_of, list_of, one, scalar

__all__ = [
    "OF_SOURCES",
    "TITLE",
    "WITHOUT_VECTOR",
    "Amount",
    "Claim",
    "Depth",
    "Model",
    "PendingText",
    "VectorCoverage",
    "activate",
    "active",
    "amount",
    "carry",
    "cover",
    "coverage_by_source",
    "drop",
    "every",
    "find",
    "hold_passages",
    "last_passage",
    "note_trouble",
    "pending",
    "pending_of",
    "refuse",
    "refused",
    "register",
    "reused",
    "set_dimensions",
    "share_passages",
    "stored",
    "unlist",
]

# How often a server that is being restarted is asked for a connection, so that what was answered can be stored.
_AGAIN_S = 0.1
_COPY_HEADER = b"PGCOPY\n\xff\r\n\x00" + struct.pack("!ii", 0, 0)
_COPY_END = struct.pack("!h", -1)


@dataclass(frozen=True, slots=True)
class Model:
    """A way to turn texts into vectors; vectors of two models cannot be compared.

    It is `complete` if all texts had theirs when it was read.
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


class PendingText(NamedTuple):
    """The words of a passage or title that have no vector yet, and a source that has them."""

    id: int
    text_hash: Hash
    text: str
    source_id: int


class Depth(Enum):
    """What is embedded first: of all items their titles, then their first passages, then the rest.

    Of the rest, what was searched for comes first (`store/wanted.py`).
    """

    TITLES = "titles"
    OPENINGS = "openings"
    PASSAGES = "passages"


class Amount(NamedTuple):
    """How much there is to embed: distinct texts and their characters."""

    texts: int
    chars: int


class VectorCoverage(NamedTuple):
    """How many passages there are, and how many of them wait for a vector."""

    passages: int
    waiting: int

    @property
    def share(self) -> float:
        """The share that does not wait."""
        return 1 - self.waiting / self.passages if self.passages else 1.0


class Claim:
    """The right to embed under one model, and the connection that it lives and dies with."""

    def __init__(self, database: Database, connection: Connection, model_id: int) -> None:
        self.model_id = model_id
        self.connection = connection
        self._database = database
        self._is_lost = False

    @classmethod
    async def take(cls, database: Database, model_id: int) -> "Claim | None":
        """The claim, or None if another process has it."""
        connection = await database.connect()
        try:
            with translate_database_errors(database.place):
                mine = await try_session(connection, Lock.EMBEDDING, model_id)
        except BaseException:
            await connection.close()
            raise
        if mine:
            return cls(database, connection, model_id)
        await connection.close()
        return None

    async def check(self) -> None:
        """Raise where the claim is lost, so that nothing more is asked that another process may have asked already.

        The server is asked only where it said something by itself, as it does when it ends a session.
        """
        if not self._is_lost and (self.connection.closed or has_news(self.connection)):
            try:
                await self.connection.execute("select")
            except psycopg.OperationalError:
                self._is_lost = self.connection.closed
        if self._is_lost:
            raise StoreUnavailableError(
                f"The connection to {self._database.place} that stands for the right to embed was lost. "
                "What was answered is stored; the rest is asked for by whoever embeds next."
            )

    async def store(self, vectors: Sequence[tuple[Hash, Sequence[bytes]]], *, dimensions: int | None = None) -> None:
        """Keep the vectors of texts, each as its half-precision numbers in network order; all of them or none.

        With `dimensions`, it is noted first how long the vectors of the model are. Answers are paid for. So they are
        stored also where the claim was lost meanwhile, on another connection and beside those that another process has
        stored since, and a server that restarts is waited for.
        """
        rows = [self._row(text_hash, part, one) for text_hash, those in vectors for part, one in enumerate(those)]
        if await self._store_as_holder(rows, dimensions):
            return

        async def store(c: Connection) -> None:
            await self._note_dimensions(c, dimensions)
            await _store_beside(c, rows)

        await self._patiently(store)

    async def replace(self, vectors: Sequence[tuple[Hash, Sequence[bytes]]], *, dimensions: int | None = None) -> None:
        """Keep the vectors of texts in the place of those that they have, and take these texts off the list.

        Only those that are still to be embedded again are replaced. A server that restarts is waited for.
        """

        async def replace(c: Connection) -> None:
            await self._note_dimensions(c, dimensions)
            hashes = await unlist(c, self.model_id, [text_hash for text_hash, _ in vectors])
            told = {"model": self.model_id, "hashes": hashes}
            await c.execute("delete from embedding where model_id = %(model)s and text_hash = any(%(hashes)s)", told)
            await c.execute(
                "delete from embedding_refused where model_id = %(model)s and text_hash = any(%(hashes)s)", told
            )
            listed = [one for one in vectors if one[0] in set(hashes)]
            rows = [self._row(text_hash, part, one) for text_hash, those in listed for part, one in enumerate(those)]
            await _copy(c, "embedding", rows)

        await self._patiently(replace)

    async def _patiently(self, work: Callable[[Connection], Awaitable[None]]) -> None:
        """Do something in a transaction, and wait for a server that restarts."""
        until = time.monotonic() + self._database.settings.database_patience_s
        while True:
            try:
                async with self._database.transaction() as c:
                    await work(c)
                return
            except StoreUnavailableError:
                if time.monotonic() > until:
                    raise
            await asyncio.sleep(_AGAIN_S)

    async def _store_as_holder(self, rows: Sequence[bytes], dimensions: int | None) -> bool:
        """Store on the claim's own connection; False where it was lost, or another process was quicker."""
        if self._is_lost:
            return False
        with translate_database_errors(self._database.place):
            try:
                await self._note_dimensions(self.connection, dimensions)
                await _copy(self.connection, "embedding", rows)
            except errors.UniqueViolation:
                return False
            except psycopg.OperationalError:
                if not self.connection.closed:
                    raise
                self._is_lost = True
        return not self._is_lost

    async def _note_dimensions(self, c: Connection, dimensions: int | None) -> None:
        if dimensions is not None:
            await set_dimensions(c, self.model_id, dimensions)

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
        """Let others embed."""
        try:
            await release_at_end(self.connection, Lock.EMBEDDING, self.model_id)
        finally:
            await self.connection.close()


async def unlist(c: Connection, model_id: int, hashes: Sequence[Hash]) -> list[Hash]:
    """Take texts off the list of those that are to be embedded again; returns those that were on it."""
    rows = await all_rows(
        c,
        "delete from embedding_again where model_id = %b and text_hash = any(%b::bytea[]) returning text_hash",
        [model_id, list(hashes)],
        binary=True,
    )
    return [text_hash for (text_hash,) in rows]


async def _copy(c: Connection, table: LiteralString, rows: Sequence[bytes]) -> None:
    async with c.cursor().copy(f"copy {table} (model_id, text_hash, part, vector) from stdin (format binary)") as copy:
        await copy.write(_COPY_HEADER + b"".join(rows) + _COPY_END)


async def _store_beside(c: Connection, rows: Sequence[bytes]) -> None:
    """Keep vectors of texts that have none yet, all parts of a text or none; must run inside a transaction."""
    await c.execute("create temporary table answered (like embedding) on commit drop")
    await _copy(c, "answered", rows)
    await c.execute(
        "insert into embedding (model_id, text_hash, part, vector)"
        " select model_id, text_hash, part, vector from answered"
        " where not exists (select from embedding held where held.model_id = answered.model_id"
        " and held.text_hash = answered.text_hash)"
        " on conflict do nothing"
    )


_LAST = "greatest((select max(id) from chunk), (select max(id) from item_title), 0)"
_MODEL = f"""
select id, name, kind, model, wanted, url, dimensions, weight, state, covered_to, trouble,
       covered_to >= {_LAST} as complete
  from embedding_model
"""  # noqa: S608 (of constants)


async def every(c: Connection) -> list[Model]:
    """All models, the oldest first."""
    return await list_of(c, Model, _MODEL + " order by id")


async def find(c: Connection, name: str) -> Model | None:
    """The model of this name."""
    return await first_of(c, Model, _MODEL + " where name = %s", [name])


async def active(c: Connection) -> Model | None:
    """The model that search uses."""
    return await first_of(c, Model, _MODEL + " where state = 'active'")


async def register(
    c: Connection, name: str, *, kind: str, model: str | None, wanted: int | None, url: str | None, weight: float
) -> Model:
    """The model of this name, made if it is new. The first one is active at once: there is nothing to switch from."""
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
    await c.execute(
        "update embedding_model set url = %(url)s, weight = %(weight)s where name = %(name)s"
        " and (url, weight) is distinct from (%(url)s, %(weight)s::real)",
        {"name": name, "url": url, "weight": weight},
    )
    # Two processes may make the first model at the same moment, each its own: the second try is building.
    found = await find(c, name)
    return found or await register(c, name, kind=kind, model=model, wanted=wanted, url=url, weight=weight)


async def set_dimensions(c: Connection, model_id: int, dimensions: int) -> None:
    """Note how long the vectors of a model are, once for all."""
    await c.execute(
        "update embedding_model set dimensions = %s where id = %s and dimensions is null", [dimensions, model_id]
    )


async def note_trouble(c: Connection, model_id: int, trouble: Mapping[str, Any] | None) -> None:
    """Note why embedding stopped, for `status`; None when it went well. Written only if it differs."""
    told = None if trouble is None else json.dumps(trouble)
    await c.execute(
        "update embedding_model set trouble = %(t)s::jsonb where id = %(id)s and trouble is distinct from %(t)s::jsonb",
        {"t": told, "id": model_id},
    )


async def share_passages(c: Connection) -> None:
    """Share the passages' lock until the end of this transaction; taken before a passage or title is stored."""
    await hold_shared(c, Lock.EMBEDDING, ALL_PASSAGES)


async def reused(c: Connection, hashes: Sequence[Hash]) -> int:
    """How many of the passages that are about to be stored have a vector."""
    return int(
        await scalar(
            c,
            """
            select count((select true from embedding
                           where model_id = (select id from embedding_model where state = 'active')
                             and embedding.text_hash = fresh.text_hash and part = 0))
              from unnest(%b::bytea[]) as fresh(text_hash)
            """,
            [list(hashes)],
        )
        or 0
    )


async def hold_passages(c: Connection) -> None:
    """Hold back whoever stores passages until the end of this transaction."""
    await hold(c, Lock.EMBEDDING, ALL_PASSAGES)


async def last_passage(c: Connection) -> int:
    """The highest id of a passage or title, 0 if there is none."""
    return int(await scalar(c, f"select {_LAST}") or 0)


# Several old hashes may become one: the vectors of one of them are taken whole, parts of two are never mixed.
_CARRIED = """
with carried as (
    select distinct on (held.model_id, new.text_hash) held.model_id, new.text_hash, old_hash
      from unnest(%(old)b::bytea[], %(new)b::bytea[]) as new(old_hash, text_hash)
      join {table} held on held.text_hash = old_hash
     where not exists (select from {table} other
                        where other.model_id = held.model_id and other.text_hash = new.text_hash)
     order by held.model_id, new.text_hash, old_hash
)
insert into {table} (model_id, text_hash, {columns})
select carried.model_id, carried.text_hash, {columns}
  from carried join {table} held on (held.model_id, held.text_hash) = (carried.model_id, old_hash)
 order by carried.model_id, carried.text_hash
on conflict do nothing
"""
_CARRY = (
    _CARRIED.format(table="embedding", columns="part, vector"),
    _CARRIED.format(table="embedding_refused", columns="error, at"),
    _CARRIED.format(table="embedding_again", columns="since"),
)


async def carry(c: Connection, hashes: Sequence[tuple[Hash, Hash]]) -> None:
    """Copy the vectors, refusals and orders of texts to new hashes; `hashes` are pairs of an old and a new one.

    The old ones stay for passages that still have the old hash. Must run in the transaction that changes the hashes.
    """
    if not hashes:
        return
    told = {"old": [old for old, _ in hashes], "new": [new for _, new in hashes]}
    for statement in _CARRY:
        await c.execute(statement.encode(), told)


# A scalar subselect is looked up by key for each passage; `not exists` might read all vectors instead.
WITHOUT_VECTOR = """
    (select true from embedding where model_id = %(model)s and embedding.text_hash = those.text_hash and part = 0)
    is null
and (select true from embedding_refused where model_id = %(model)s and embedding_refused.text_hash = those.text_hash)
    is null
"""
TITLE = "title_words(title, record, media_type)"
_FIRST = "not exists (select from chunk first where first.item_id = those.item_id and first.position < those.position)"


OF_SOURCES = "(%(sources)s::bigint[] is null or source_id = any(%(sources)s))"


def _pending(table: str, words: str, more: str = "true") -> str:
    return f"""
select those.id, those.text_hash, {words}, source_id from {table} those join item on item.id = those.item_id
 where those.id > %(above)s and those.id <= %(upto)s and {WITHOUT_VECTOR} and {more} and {OF_SOURCES}
 order by those.id desc limit %(limit)s
"""  # noqa: S608 (of constants)


_PENDING = {
    Depth.TITLES: _pending("item_title", TITLE),
    Depth.OPENINGS: _pending("chunk", "those.text", _FIRST),
    Depth.PASSAGES: _pending("chunk", "those.text"),
}
_AMOUNT = f"""
select count(*), coalesce(sum(chars), 0)
  from (select max(chars) as chars from (
            select text_hash, length(those.text) as chars from chunk those join item on item.id = item_id
             where those.id > %(above)s and {WITHOUT_VECTOR} and {OF_SOURCES}
            union all
            select text_hash, length({TITLE}) from item_title those join item on item.id = item_id
             where those.id > %(above)s and {WITHOUT_VECTOR} and {OF_SOURCES}) words group by text_hash) texts
"""  # noqa: S608 (a constant)
_COVERAGE = f"""
select source.name, count(*), count(*) filter (where those.id > %(above)s and {WITHOUT_VECTOR})
  from chunk those join item on item.id = item_id join source on source.id = source_id group by source.id
"""  # noqa: S608 (a constant)
_PENDING_OF = f"""
select count(distinct text_hash) from embeddable those join item on item.id = item_id
 where those.id > %(above)s and source_id = %(source)s and {WITHOUT_VECTOR}
"""  # noqa: S608 (a constant)


async def pending(
    c: Connection,
    model_id: int,
    depth: Depth,
    *,
    above: int,
    upto: int,
    limit: int,
    sources: Sequence[int] = (),
) -> list[PendingText]:
    """What has no vector in a range of ids, newest first, of all sources or some: titles, openings, or all passages."""
    # Its patterns take 5 ms to compile, and who embeds nothing needs none of them.
    from rowen.model.words import words_of

    values = {"model": model_id, "above": above, "upto": upto, "limit": limit, "sources": list(sources) or None}
    rows = await all_rows(c, _PENDING[depth], values, binary=True)
    told = (lambda words: words) if depth is Depth.TITLES else words_of
    return [PendingText(number, of, told(text), source_id) for number, of, text, source_id in rows]


async def amount(c: Connection, model: Model | None, *, sources: Sequence[int] = ()) -> Amount:
    """How much has no vector, in all sources or in some; under a model that is not there yet, everything."""
    values = {"model": model.id, "above": model.covered_to} if model else {"model": 0, "above": 0}
    row = await one(c, _AMOUNT, {**values, "sources": list(sources) or None})
    return Amount(int(row[0]), int(row[1])) if row else Amount(0, 0)


async def coverage_by_source(c: Connection, model: Model) -> dict[str, VectorCoverage]:
    """How many passages each source has, and how many of them wait for a vector; empty where none waits."""
    if not await scalar(c, "select exists (select from chunk where id > %s)", [model.covered_to]):
        return {}
    rows = await all_rows(c, _COVERAGE, {"model": model.id, "above": model.covered_to})
    return {source: VectorCoverage(passages, waiting) for source, passages, waiting in rows}


async def pending_of(c: Connection, model: Model, source_id: int) -> int:
    """How many texts of a source have no vector."""
    values = {"model": model.id, "above": model.covered_to, "source": source_id}
    return int(await scalar(c, _PENDING_OF, values) or 0)


async def stored(c: Connection, model_id: int) -> int:
    """How many texts have their vectors under a model."""
    return int(await scalar(c, "select count(*) from embedding where model_id = %s and part = 0", [model_id]) or 0)


async def refused(c: Connection, model_id: int) -> int:
    """How many texts a model will not take."""
    return int(await scalar(c, "select count(*) from embedding_refused where model_id = %s", [model_id]) or 0)


async def refuse(c: Connection, model_id: int, text_hash: Hash, error: str) -> None:
    """Note a text that the embedder will not take."""
    await c.execute(
        "insert into embedding_refused (model_id, text_hash, error) values (%s, %s, %s) on conflict do nothing",
        [model_id, text_hash, error_within(error)],
    )


async def cover(c: Connection, model: Model, *, wait: bool = False) -> bool | None:
    """Write down that all passages have vectors; False if some have none, None if passages are being stored now.

    Must run inside a transaction; with `wait` it holds back whoever stores passages until that ends.
    """
    if wait:
        await hold_passages(c)
    else:
        if not await try_hold(c, Lock.EMBEDDING, ALL_PASSAGES):
            return None
    last = await last_passage(c)
    for depth in Depth.TITLES, Depth.PASSAGES:
        if await pending(c, model.id, depth, above=model.covered_to, upto=last, limit=1):
            return False
    await c.execute(
        "update embedding_model set covered_to = %(last)s where id = %(id)s and covered_to < %(last)s",
        {"last": last, "id": model.id},
    )
    return True


async def activate(c: Connection, model: Model) -> bool:
    """Let search use a model from now on, if it has vectors for all passages; must run inside a transaction."""
    if not await cover(c, model, wait=True):
        return False
    await c.execute("update embedding_model set state = 'retired' where state = 'active' and id <> %s", [model.id])
    await c.execute("update embedding_model set state = 'active' where id = %s and state <> 'active'", [model.id])
    return True


async def drop(c: Connection, model_id: int) -> int:
    """Forget a model that is not active, with its vectors; returns how many there were."""
    gone = await c.execute("delete from embedding where model_id = %s", [model_id])
    await c.execute("delete from embedding_model where id = %s and state <> 'active'", [model_id])
    return gone.rowcount
