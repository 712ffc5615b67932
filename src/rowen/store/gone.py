"""Items that their source says are gone, marked until the guard lets them go."""

from collections.abc import Sequence

from rowen.store.database import Connection
from rowen.store.rows import all_rows

__all__ = ["mark", "marked", "unmark"]


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
