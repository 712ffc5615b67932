"""Deletions that were held back, until the items are seen again, somebody decides, or time does."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from rowen.model.hashes import Hash
from rowen.store.database import Connection
from rowen.store.rows import all_rows, list_of, one, scalar

if TYPE_CHECKING:
    from rowen.model.library import HeldDeletion

__all__ = [
    "Pending",
    "among",
    "doom_overdue",
    "keep",
    "pending",
    "put",
    "read",
    "release",
    "spare_kept",
    "take",
    "waiting",
]


class Pending(NamedTuple):
    """What earlier runs of a source left behind: items that are held back, and since when there are withdrawn ones."""

    held: list[int]
    withdrawn_since: datetime | None


async def pending(c: Connection, source_id: int) -> Pending:
    """What a run has to know when it begins."""
    row = await one(
        c,
        "select array(select item_id from item_held where source_id = %(source)s),"
        " (select min(at) from withdrawn where source_id = %(source)s)",
        {"source": source_id},
    )
    return Pending(*row) if row else Pending([], None)


async def waiting(c: Connection, source_id: int) -> int:
    """How many deletions of a source wait for a decision."""
    return int(await scalar(c, "select count(*) from item_held where source_id = %s and kept_at is null", [source_id]))


async def spare_kept(c: Connection) -> int:
    """Take from what is missing what somebody wants kept; returns how many items that were."""
    spared = await c.execute("delete from missing using item_held where item_id = id and item_held.kept_at is not null")
    return spared.rowcount


async def doom_overdue(c: Connection, source_id: int, *, runs: int, days: float) -> int:
    """Let those go that their source has not shown for so long; returns how many.

    What only vanished is missed by complete runs alone, what was called gone by every run that was completed. The run
    that is about to end counts as well.
    """
    doomed = await c.execute(
        """
        update missing set doomed = true
          from item_held
          join (select run_id, count(*) filter (where complete) as whole,
                       count(*) filter (where status = 'completed') as completed
                  from (select distinct run_id from item_held where source_id = %(source)s) as beginning
                  join run on run.source_id = %(source)s and id >= run_id
                 group by run_id) as since using (run_id)
         where item_id = missing.id and at <= now() - make_interval(secs => %(seconds)s)
           and case when told then completed else whole end + 1 >= %(runs)s
        """,
        {"source": source_id, "runs": runs, "seconds": days * 86_400},
    )
    return doomed.rowcount


async def put(c: Connection, source_id: int, run_id: int) -> int:
    """Note what is missing and stays; returns how many of these are new."""
    noted = await c.execute(
        "insert into item_held (item_id, source_id, run_id) select id, %s, %s from missing where not doomed"
        " on conflict do nothing",
        [source_id, run_id],
    )
    return noted.rowcount


async def release(c: Connection, item_ids: Sequence[int]) -> None:
    """Forget about items that were seen again."""
    if item_ids:
        await c.execute("delete from item_held where item_id = any(%b::bigint[])", [list(item_ids)])


async def among(c: Connection, item_ids: Sequence[int]) -> set[int]:
    """Which of these items their source no longer shows."""
    rows = await all_rows(c, "select item_id from item_held where item_id = any(%b::bigint[])", [list(item_ids)])
    return {item_id for (item_id,) in rows}


async def read(
    c: Connection, *, source: str | None = None, limit: int | None = None, after: tuple[str, str] | None = None
) -> list[HeldDeletion]:
    """What is held back, by source and URL; what follows a place, if it is given.

    Source by source: the planner does not know that most of what is held is often of one of them.
    """
    from rowen.model.library import HeldDeletion

    name, url = after or (None, None)
    asked = {"source": source, "name": name}
    found: list[HeldDeletion] = []
    for source_id, called in await all_rows(c, _HOLDING, asked):
        left = None if limit is None else limit - len(found)
        place = {"id": source_id, "after": url if called == name else None, "limit": left}
        found += await list_of(c, HeldDeletion, _HELD, place)
        if limit is not None and len(found) >= limit:
            break
    return found


_HOLDING = """
select id, name from source
 where exists (select from item_held where source_id = source.id)
   and (%(source)s::text is null or name = %(source)s) and (%(name)s::text is null or name >= %(name)s)
 order by name
"""
_HELD = """
select source.name as source, item.url, item.title, item_held.at as since,
       exists (select from item_gone where item_gone.item_id = item.id) as told, item_held.kept_at
  from item_held join item on item.id = item_held.item_id join source on source.id = item_held.source_id
 where item_held.source_id = %(id)s and (%(after)s::text is null or item.url > %(after)s)
 order by item.url limit %(limit)s
"""


async def keep(c: Connection, source_id: int, keys: Sequence[Hash]) -> set[Hash]:
    """Keep items that are held back, whatever their source says; returns the keys of those that there were."""
    rows = await all_rows(
        c,
        "update item_held set kept_at = coalesce(kept_at, now()) from item where item.id = item_id"
        " and item.source_id = %s and key = any(%s) returning key",
        [source_id, list(keys)],
    )
    return {key for (key,) in rows}


async def take(c: Connection, source_id: int, keys: Sequence[Hash]) -> set[Hash]:
    """Note held items as missing and doomed, as a run would; returns the keys of those that there were."""
    rows = await all_rows(
        c,
        """
        with chosen as (
            select item.id, key from item join item_held on item_id = item.id
             where item.source_id = %s and key = any(%s)
        ), noted as (insert into missing (id, doomed) select id, true from chosen)
        select key from chosen
        """,
        [source_id, list(keys)],
    )
    return {key for (key,) in rows}
