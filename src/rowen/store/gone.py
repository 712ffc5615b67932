"""Items that their source says are gone, marked until the guard lets them go."""

from collections.abc import Iterable, Sequence
from itertools import islice

from rowen.store.database import Connection
from rowen.store.items import Dropped
from rowen.store.rows import all_rows

__all__ = ["items_of", "mark", "marked", "unmark"]

# Ids in one statement: an array of 400 kB.
_BATCH = 50_000


async def marked(c: Connection, source_id: int) -> list[int]:
    """The ids of the items that are marked."""
    those = await all_rows(c, "select item_id from item_gone where source_id = %s", [source_id], binary=True)
    return [item_id for (item_id,) in those]


async def mark(c: Connection, source_id: int, item_ids: Sequence[int]) -> None:
    """Mark items; one that is no more needs no mark."""
    if item_ids:
        await c.execute(
            "insert into item_gone (item_id, source_id)"
            " select id, source_id from item where source_id = %s and id = any(%b::bigint[]) on conflict do nothing",
            [source_id, list(item_ids)],
        )


async def unmark(c: Connection, item_ids: Sequence[int]) -> None:
    """Take the marks away of items that were seen again."""
    if item_ids:
        await c.execute("delete from item_gone where item_id = any(%b::bigint[])", [list(item_ids)])


async def items_of(c: Connection, source_id: int, item_ids: Iterable[int]) -> list[Dropped]:
    """The items with these ids, in their order."""
    found: list[Dropped] = []
    ids = iter(sorted(item_ids))
    while batch := list(islice(ids, _BATCH)):
        those = await all_rows(
            c,
            "select id, key, url, title from item where source_id = %s and id = any(%b::bigint[]) order by id",
            [source_id, batch],
        )
        found += [Dropped(*row) for row in those]
    return found
