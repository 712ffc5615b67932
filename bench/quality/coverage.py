"""How good the answers are while vectors are being made: the same questions with vectors for a share of the texts."""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from rowen.store.database import Connection, Database
from rowen.store.rows import scalar
from rowen.store.search import embeddings, pending_texts
from rowen.store.search.pending_texts import Depth

__all__ = ["SHARES", "by_coverage", "put_back", "table"]

SHARES = (0.0, 0.01, 0.05, 0.25, 0.5, 1.0)
# Two random choices: one alone may be lucky.
SEEDS = (1, 2)

Quality = Callable[[], Awaitable[float]]


async def by_coverage(database: Database, quality: Quality) -> dict[str, list[float]]:
    """The quality at each share, for texts chosen at random, and in the order in which they would be embedded."""
    async with database.connection() as c, _kept(c):
        found = {"as embedded": await _measured(c, await _embedding_order(c), quality)}
        every = sorted(found_hash for (found_hash,) in await _rows(c, "select distinct text_hash from bench_vector"))
        runs = [await _measured(c, _shuffled(every, seed), quality) for seed in SEEDS]
    return {"at random": [sum(row) / len(row) for row in zip(*runs, strict=True)], **found}


def table(rows: dict[str, list[float]]) -> str:
    """The rows as text; what falls below the answer by words alone is marked."""
    lines = [f"  {'held out, coverage':<20}" + "".join(f"{share:>9.0%}" for share in SHARES)]
    for name, row in rows.items():
        cells = (f"{value:>9.4f}" if value >= row[0] else f"{value:>8.4f}!" for value in row)
        lines.append(f"  {name:<20}" + "".join(cells))
    return "\n".join(lines)


@asynccontextmanager
async def _kept(c: Connection) -> AsyncIterator[None]:
    """Vectors may be taken away meanwhile; they are put back."""
    await c.execute("create table bench_vector as select * from embedding")
    try:
        yield
    finally:
        await _put_back(c)


async def put_back(database: Database) -> None:
    """Put back the vectors that a run took away which was killed."""
    async with database.connection() as c:
        if await scalar(c, "select to_regclass('bench_vector') is not null"):
            await _put_back(c)


async def _put_back(c: Connection) -> None:
    await c.execute("insert into embedding select * from bench_vector on conflict do nothing")
    await c.execute("drop table bench_vector")


async def _embedding_order(c: Connection) -> list[bytes]:
    model = await embeddings.active(c)
    assert model is not None, "search by meaning needs a model"
    await c.execute("truncate embedding")
    last = await embeddings.last_text(c)
    layers = [await pending_texts.pending(c, model.id, depth, above=0, upto=last, limit=last) for depth in Depth]
    return list(dict.fromkeys(bytes(text.text_hash) for texts in layers for text in texts))


def _shuffled(hashes: Sequence[bytes], seed: int) -> list[bytes]:
    return sorted(hashes, key=lambda one: hashlib.sha256(seed.to_bytes(1) + one).digest())


async def _measured(c: Connection, order: Sequence[bytes], quality: Quality) -> list[float]:
    row = []
    for share in SHARES:
        await c.execute("truncate embedding")
        await c.execute(
            "insert into embedding select * from bench_vector where text_hash = any(%s)",
            [list(order[: round(len(order) * share)])],
        )
        row.append(await quality())
    return row


async def _rows(c: Connection, statement: str) -> list[tuple[bytes]]:
    return [(bytes(row[0]),) for row in await (await c.execute(statement)).fetchall()]  # type: ignore[call-overload]
