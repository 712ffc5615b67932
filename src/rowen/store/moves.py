"""Items that get another key, and the traits by which they are recognised."""

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from rowen.model.hashes import Hash
from rowen.store.database import Connection
from rowen.store.rows import all_rows

__all__ = ["Trait", "rekey", "traits", "traits_of"]


class Trait(NamedTuple):
    """What distinguishes an item from others."""

    id: int
    key: Hash
    url: str
    content_hash: Hash
    title: str
    resources: list[str]


_TRAITS = """
select id, key, url, content_hash, title,
       array(select coalesce(one ->> 'url', '') from jsonb_path_query(record, '$.resources[*]') as one)
  from item where source_id = %s
"""


async def traits_of(c: Connection, source_id: int, keys: Sequence[Hash]) -> list[Trait]:
    """The traits of some items."""
    those = await all_rows(c, _TRAITS + " and key = any(%s)", [source_id, list(keys)], binary=True)
    return [Trait(*row) for row in those]


async def traits(c: Connection, source_id: int, *, batch: int = 5000) -> AsyncIterator[list[Trait]]:
    """The traits of all items of a source, in batches."""
    after = 0
    while True:
        those = await all_rows(c, _TRAITS + " and id > %s order by id limit %s", [source_id, after, batch], binary=True)
        rows = [Trait(*row) for row in those]
        if not rows:
            return
        after = rows[-1].id
        yield rows


async def rekey(c: Connection, moves: Sequence[tuple[int, Hash]]) -> None:
    """Give items other keys; everything else about them stays."""
    if not moves:
        return
    await c.execute(
        "update item set key = new.key from unnest(%b::bigint[], %b::bytea[]) as new(id, key) where item.id = new.id",
        [[item_id for item_id, _ in moves], [key for _, key in moves]],
    )
