"""The last copies of deleted items, which can be looked at for a while and go on if they return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rowen.model.hashes import Hash
from rowen.store.database import Connection
from rowen.store.rows import list_of

if TYPE_CHECKING:
    from rowen.model.library import Entry, Revision

__all__ = ["copy", "entries", "expire", "restore", "revisions"]

# Copies that one run forgets: some megabytes a transaction; the next run forgets the next ones.
_EXPIRED_AT_ONCE = 2000


async def copy(c: Connection) -> None:
    """Copy the missing items that are about to be deleted."""
    await c.execute(
        """
        insert into withdrawn (item_id, source_id, key, url, title, text, tags, record, source_record, content_hash,
                               record_hash, language, media_type, remarks, revision, created_at, updated_at, revisions)
        select id, source_id, key, url, title, text, tags, record, source_record, content_hash,
               record_hash, language, media_type, remarks, revision, created_at, updated_at,
               (select coalesce(jsonb_agg(jsonb_build_object(
                           'number', number, 'at', at, 'title', old.title, 'text', old.text, 'tags', old.tags,
                           'content_hash', encode(old.content_hash, 'hex')) order by number), '[]')
                  from revision old where old.item_id = item.id)
          from item where id in (select id from missing where doomed)
        on conflict (source_id, key) do nothing
        """
    )


async def restore(c: Connection, source_id: int, item_ids: Sequence[int], *, kept: int) -> None:
    """Let new items go on from their withdrawn copies: their texts become superseded ones."""
    await c.execute(
        """
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
        """,
        {"source": source_id, "ids": list(item_ids)},
    )
    await c.execute(
        "delete from revision using item where item.id = any(%b::bigint[]) and item_id = item.id"
        " and number < item.revision - %s",
        [list(item_ids), kept],
    )


async def expire(c: Connection, source_id: int, *, days: float) -> None:
    """Forget copies that are older, the oldest first, some thousand at a time."""
    await c.execute(
        "delete from withdrawn where item_id in (select item_id from withdrawn where source_id = %s"
        " and at <= now() - make_interval(secs => %s) order by at limit %s)",
        [source_id, days * 86_400, _EXPIRED_AT_ONCE],
    )


async def entries(c: Connection, key: Hash, *, days: float) -> list[Entry]:
    """The withdrawn copies under a key that are not older, the last one first."""
    from rowen.store.library import entries_of

    return await entries_of(
        c,
        """
        select item_id as id, source.name as source, withdrawn.url, title, text, tags, record, source_record, language,
               media_type,
               coalesce(string_to_array(remarks, e'\\n'), '{}') as remarks, revision, withdrawn.created_at, updated_at,
               at as checked_at, at as withdrawn_at
          from withdrawn join source on source.id = source_id
         where key = %s and at > now() - make_interval(secs => %s) order by at desc, source.name
        """,
        [key, days * 86_400],
    )


async def revisions(c: Connection, item_id: int) -> list[Revision]:
    """All texts of a withdrawn item, oldest first."""
    from rowen.model.library import Revision

    return await list_of(
        c,
        Revision,
        """
        select old.number, old.at, old.title, old.text, old.tags
          from withdrawn, jsonb_to_recordset(revisions)
               as old(number integer, at timestamptz, title text, text text, tags text[])
         where item_id = %(id)s
         union all
        select revision, updated_at, title, text, tags from withdrawn where item_id = %(id)s
         order by 1
        """,
        {"id": item_id},
    )
