"""The HNSW index of each model: made beside the traffic, over the rows that are there.

Inserting into an index is ten times slower than building one over the same rows, so it is made after a load. Few
vectors need none: they are compared one by one.
"""

from typing import NamedTuple

from psycopg import errors

from rowen.store.database import Connection
from rowen.store.embeddings import Model
from rowen.store.rows import scalar

__all__ = ["IndexState", "build", "remove", "state"]

# PostgreSQL's own default for maintenance.
_LEAST_BYTES = 64 << 20
# 1.7 million vectors of 384 halves; of more, the rest of the graph is built on disk, which is much slower.
_MOST_BYTES = 2 << 30
# What a node of the graph takes beside its vector, with 16 neighbours a layer.
_NODE_BYTES = 400


class IndexState(NamedTuple):
    """Whether a model's index can be used; one that is not valid was left behind by a build that ended early."""

    exists: bool
    valid: bool


def _name(model_id: int) -> str:
    return f"embedding_hnsw_{model_id:d}"


async def state(c: Connection, model_id: int) -> IndexState:
    """Whether a model's index exists and can be used."""
    valid = await scalar(c, "select indisvalid from pg_index where indexrelid = to_regclass(%s)", [_name(model_id)])
    return IndexState(valid is not None, bool(valid))


async def build(c: Connection, model: Model, *, dimensions: int, rows: int, embedded: bool) -> None:
    """Make the index of a model while others read and write; must run outside a transaction."""
    await remove(c, model.id)
    memory_bytes = _memory_bytes(dimensions, rows, embedded=embedded)
    await c.execute(f"set maintenance_work_mem = '{memory_bytes >> 10}kB'")
    try:
        await _create(c, model.id, dimensions)
    except (errors.DiskFull, errors.InsufficientResources, errors.OutOfMemory):
        # Workers share memory that a container may not have; one process alone needs none of it.
        await remove(c, model.id)
        await c.execute("set max_parallel_maintenance_workers = 0")
        await _create(c, model.id, dimensions)
        await c.execute("reset max_parallel_maintenance_workers")
    finally:
        if not c.broken:
            await c.execute("reset maintenance_work_mem")


async def _create(c: Connection, model_id: int, dimensions: int) -> None:
    await c.execute(
        f"create index concurrently {_name(model_id)} on embedding"
        f" using hnsw ((vector::halfvec({dimensions:d})) halfvec_cosine_ops) where model_id = {model_id:d}"
    )


async def remove(c: Connection, model_id: int) -> None:
    """Drop the index of a model, if there is one; must run outside a transaction."""
    await c.execute(f"drop index concurrently if exists {_name(model_id)}")


def _memory_bytes(dimensions: int, rows: int, *, embedded: bool) -> int:
    """Enough to build in memory, within reason; a server of ours may have a part of what is free here."""
    import psutil  # type: ignore[import-untyped] # its stubs are another package

    wanted = int(rows * (dimensions * 2 + _NODE_BYTES) * 1.1)
    most = min(_MOST_BYTES, psutil.virtual_memory().available // 3) if embedded else _MOST_BYTES // 4
    return max(_LEAST_BYTES, min(wanted, most))
