"""Delete items: missing items of a run, pending deletions, items reported gone, and copies of deleted items.

In its last transaction a run writes the missing items into a temporary table. Each of them then moves, is deleted, or
gets a pending deletion. A pending deletion lasts until the item is seen again, a user decides, or it is overdue.
Functions on the temporary table must run inside that transaction.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from rowen.model.hashes import Hash
from rowen.store import changes
from rowen.store.database import Connection
from rowen.store.rows import affected, all_rows, column, number, one

# Ids in one statement: an array of 400 kB.
_IDS_AT_ONCE = 50_000
# Deletions that are logged in one batch: some megabytes of memory.
_LINES_AT_ONCE = 5000


async def note_unseen(c: Connection, source_id: int, seen: Iterable[int], *, reported: Iterable[int]) -> int:
    """List items that are not in `seen` as missing; items in `reported` are marked as reported gone by the source."""
    await create_missing_table(c)
    await c.execute("create temporary table seen (id bigint) on commit drop")
    for batch in _batches(seen):
        await c.execute("insert into seen select unnest(%b::bigint[])", [batch])
    await c.execute("analyze seen")
    statement = """
        insert into missing (id) select id from item where source_id = %s
           and not exists (select from seen where seen.id = item.id)
    """
    await c.execute(statement, [source_id])
    for batch in _batches(reported):
        await c.execute("update missing set reported = true where id = any(%b::bigint[])", [batch])
    await c.execute("analyze missing")
    return await number(c, "select count(*) from missing")


async def note_gone(c: Connection, source_id: int, reported: Iterable[int]) -> int:
    """Add the items that a source reported gone to the missing items; return how many exist."""
    await create_missing_table(c)
    for batch in _batches(reported):
        statement = """
            insert into missing (id, reported)
            select id, true from item where source_id = %s and id = any(%b::bigint[])
        """
        await c.execute(statement, [source_id, batch])
    await c.execute("analyze missing")
    return await number(c, "select count(*) from missing")


async def mark_all_deleted(c: Connection) -> None:
    """Mark all missing items for deletion."""
    await c.execute("update missing set marked = true where not marked")


async def mark_deleted(c: Connection, ids: Iterable[int]) -> int:
    """Mark the items in `ids` that are missing for deletion; return their number."""
    statement = "update missing set marked = true where id = any(%b::bigint[])"
    return sum([await affected(c, statement, [batch]) for batch in _batches(ids)])


async def unmark_unconfirmed(c: Connection) -> int:
    """Unmark items that the source did not report gone; return how many items stay marked."""
    await c.execute("update missing set marked = false where marked and not reported")
    return await number(c, "select count(*) from missing where marked")


async def delete_marked(c: Connection, *, copies: bool) -> None:
    """Delete the marked items with passages, checks and revisions; with `copies`, keep a copy of each item."""
    if copies:
        await c.execute(_COPY_WITHDRAWN)
    await c.execute(
        "create temporary table dropped (id bigint primary key, key bytea, url text, title text, stated text[])"
        " on commit drop"
    )
    statement = """
        with deleted as (
            delete from item where id in (select id from missing where marked) returning id, key, url, title,
                   case when record ? 'rdfa'
                        then array(select jsonb_array_elements_text(record -> 'rdfa' -> 'statements')) end
        )
        insert into dropped select * from deleted
    """
    await c.execute(statement)


async def read_deleted(c: Connection) -> AsyncIterator[list[changes.LogLine]]:
    """Yield the lines of the change log for the deleted items, in batches in the order of ids."""
    query = "select id, key, url, title, stated from dropped where id > %s order by id limit %s"
    after = 0
    while rows := await all_rows(c, query, [after, _LINES_AT_ONCE]):
        after = rows[-1][0]
        yield [changes.removal("deleted", *item, stated=stated) for _, *item, stated in rows]


async def create_missing_table(c: Connection) -> None:
    """Create the table of missing items: `reported` gone by the source, `marked` for deletion."""
    await c.execute(
        "create temporary table missing (id bigint primary key, reported boolean not null default false,"
        " marked boolean not null default false) on commit drop"
    )


def _batches(ids: Iterable[int]) -> Iterable[list[int]]:
    left = iter(ids)
    while batch := list(islice(left, _IDS_AT_ONCE)):
        yield batch


class EarlierDeletions(NamedTuple):
    """Pending deletions of earlier runs, and the time of the oldest copy of a deleted item, if any."""

    item_ids: list[int]
    withdrawn_since: datetime | None


async def pending(c: Connection, source_id: int) -> EarlierDeletions:
    """Return the earlier deletions of a source."""
    query = """
        select array(select item_id from item_held where source_id = %(source)s),
               (select min(at) from withdrawn where source_id = %(source)s)
    """
    row = await one(c, query, {"source": source_id})
    return EarlierDeletions(*row) if row else EarlierDeletions([], None)


async def count_pending(c: Connection, source_id: int) -> int:
    """Return how many pending deletions of a source wait for a decision."""
    return await number(c, "select count(*) from item_held where source_id = %s and kept_at is null", [source_id])


async def unmark_kept(c: Connection) -> int:
    """Remove items that a user decided to keep from the missing items; return how many."""
    return await affected(c, "delete from missing using item_held where item_id = id and item_held.kept_at is not null")


async def mark_overdue(c: Connection, source_id: int, *, runs: int, days: float) -> int:
    """Mark missing items whose deletion has been pending for `runs` runs and `days` days; return how many.

    For an item reported gone every completed run counts, for any other item only complete runs. The run that is about
    to end counts as well.
    """
    statement = """
        update missing set marked = true
          from item_held
          join (select run_id, count(*) filter (where complete) as whole,
                       count(*) filter (where status = 'completed') as completed
                  from (select distinct run_id from item_held where source_id = %(source)s) as beginning
                  join run on run.source_id = %(source)s and id >= run_id
                 group by run_id) as since using (run_id)
         where item_id = missing.id and at <= now() - make_interval(secs => %(seconds)s)
           and case when reported then completed else whole end + 1 >= %(runs)s
    """
    return await affected(c, statement, {"source": source_id, "runs": runs, "seconds": days * 86_400})


async def add_pending(c: Connection, source_id: int, run_id: int) -> int:
    """Add pending deletions of the missing items that are not marked; return how many are new."""
    statement = """
        insert into item_held (item_id, source_id, run_id) select id, %s, %s from missing where not marked
        on conflict do nothing
    """
    return await affected(c, statement, [source_id, run_id])


async def remove_pending(c: Connection, item_ids: Sequence[int]) -> None:
    """Remove the pending deletions of items that were seen again."""
    if item_ids:
        await c.execute("delete from item_held where item_id = any(%b::bigint[])", [list(item_ids)])


async def pending_among(c: Connection, item_ids: Sequence[int]) -> set[int]:
    """Return the ids in `item_ids` that have a pending deletion."""
    return set(await column(c, "select item_id from item_held where item_id = any(%b::bigint[])", [list(item_ids)]))


async def keep_pending(c: Connection, source_id: int, keys: Sequence[Hash]) -> set[Hash]:
    """Keep items with a pending deletion, even if their source no longer has them; return the keys that were found."""
    statement = """
        update item_held set kept_at = coalesce(kept_at, now()) from item where item.id = item_id
           and item.source_id = %s and key = any(%s) returning key
    """
    rows = await column(c, statement, [source_id, list(keys)])
    return set(rows)


async def mark_pending_deleted(c: Connection, source_id: int, keys: Sequence[Hash]) -> set[Hash]:
    """Mark items with a pending deletion for deletion, as a run would; return the keys that were found."""
    query = """
        with chosen as (
            select item.id, key from item join item_held on item_id = item.id
             where item.source_id = %s and key = any(%s)
        ), marked as (insert into missing (id, marked) select id, true from chosen)
        select key from chosen
    """
    rows = await column(c, query, [source_id, list(keys)])
    return set(rows)


async def reported_gone(c: Connection, source_id: int) -> list[int]:
    """Return the ids of the items that a source reported gone."""
    return await column(c, "select item_id from item_gone where source_id = %s", [source_id], binary=True)


async def mark_gone(c: Connection, source_id: int, item_ids: Sequence[int]) -> None:
    """Store that a source reported items gone; ignore items that no longer exist."""
    if item_ids:
        statement = """
            insert into item_gone (item_id, source_id)
            select id, source_id from item where source_id = %s and id = any(%b::bigint[]) on conflict do nothing
        """
        await c.execute(statement, [source_id, list(item_ids)])


async def unmark_gone(c: Connection, item_ids: Sequence[int]) -> None:
    """Delete the notes "reported gone" of items that were seen again."""
    if item_ids:
        await c.execute("delete from item_gone where item_id = any(%b::bigint[])", [list(item_ids)])


# Copies the items that are about to be deleted, with their revisions.
_COPY_WITHDRAWN = """
insert into withdrawn (item_id, source_id, key, url, title, text, tags, record, source_record, content_hash,
                       record_hash, language, media_type, remarks, revision, created_at, updated_at, revisions)
select id, source_id, key, url, title, text, tags, record, source_record, content_hash,
       record_hash, language, media_type, remarks, revision, created_at, updated_at,
       (select coalesce(jsonb_agg(jsonb_build_object(
                   'number', number, 'at', at, 'title', old.title, 'text', old.text, 'tags', old.tags,
                   'content_hash', encode(old.content_hash, 'hex')) order by number), '[]')
          from revision old where old.item_id = item.id)
  from item where id in (select id from missing where marked)
on conflict (source_id, key) do nothing
"""


async def restore_withdrawn(c: Connection, source_id: int, item_ids: Sequence[int], *, revisions_kept: int) -> None:
    """Restore the history of deleted items that were created again: their last texts become revisions."""
    statement = """
        with back as (
            delete from withdrawn using item
             where withdrawn.source_id = %(source)s and item.source_id = %(source)s and item.key = withdrawn.key
               and item.id = any(%(ids)b::bigint[])
            returning withdrawn.*, item.id, item.content_hash <> withdrawn.content_hash as differs
        ), history as (
            select back.id, old.number, decode(old.content_hash, 'hex'), old.title, old.text, old.tags, old.at
              from back, jsonb_to_recordset(back.revisions)
                   as old(number integer, content_hash text, title text, text text, tags text[], at timestamptz)
             union all
            select id, revision, content_hash, title, text, tags, updated_at from back where differs
        ), kept as (
            insert into revision (item_id, number, content_hash, title, text, tags, at) select * from history
        )
        update item set revision = back.revision + back.differs::integer, created_at = back.created_at
          from back where item.id = back.id
    """
    await c.execute(statement, {"source": source_id, "ids": list(item_ids)})
    await c.execute(
        "delete from revision using item where item.id = any(%b::bigint[]) and item_id = item.id"
        " and number < item.revision - %s",
        [list(item_ids), revisions_kept],
    )


async def expire_withdrawn(c: Connection, source_id: int, *, days: float) -> None:
    """Delete copies older than `days`, the oldest 2,000 at a time: some megabytes per transaction."""
    statement = """
        delete from withdrawn where item_id in (select item_id from withdrawn where source_id = %s
                   and at <= now() - make_interval(secs => %s) order by at limit 2000)
    """
    await c.execute(statement, [source_id, days * 86_400])
