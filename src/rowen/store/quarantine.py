"""What could not be read, kept with its error until it can."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from rowen.model.hashes import Hash
from rowen.model.item import Failed
from rowen.store.database import Connection
from rowen.store.rows import all_rows, list_of, scalar

if TYPE_CHECKING:
    from rowen.model.library import Case

__all__ = ["QuarantineRow", "failed", "keys", "missing", "put", "read", "release"]

# Enough to see what was wrong with a record; thousands of them in quarantine must not outgrow the items.
PAYLOAD_KEPT_BYTES = 64 * 1024


class QuarantineRow(NamedTuple):
    """An item that could not be read: how often that was tried, first and last."""

    key: Hash
    url: str
    tries: int
    first_at: datetime
    last_at: datetime


async def keys(c: Connection, source_id: int) -> set[Hash]:
    """Which items of a source are in quarantine."""
    rows = await all_rows(c, "select key from quarantine where source_id = %s", [source_id])
    return {key for (key,) in rows}


async def failed(c: Connection, source_id: int) -> list[QuarantineRow]:
    """What of a source is in quarantine, the one that was tried longest ago first."""
    rows = await all_rows(
        c,
        "select key, url, tries, first_at, last_at from quarantine where source_id = %s order by last_at, url",
        [source_id],
    )
    return [QuarantineRow(*row) for row in rows]


async def missing(c: Connection, source_id: int) -> int:
    """How many of what is in quarantine have no item: no version of these is held."""
    return int(
        await scalar(
            c,
            "select count(*) from quarantine where source_id = %s and not exists"
            " (select from item where item.source_id = quarantine.source_id and item.key = quarantine.key)",
            [source_id],
        )
    )


async def put(c: Connection, source_id: int, cases: Sequence[tuple[Hash, Failed]]) -> None:
    """Quarantine items, or count another try of those that are there."""
    if not cases:
        return
    await c.execute(
        """
        insert into quarantine (source_id, key, url, error, hint, payload)
        select %s, * from unnest(%b::bytea[], %b::text[], %b::text[], %b::text[], %b::bytea[])
        on conflict (source_id, key) do update
           set error = excluded.error, hint = excluded.hint, url = excluded.url,
               payload = coalesce(excluded.payload, quarantine.payload),
               tries = quarantine.tries + 1, last_at = now()
        """,
        [
            source_id,
            [key for key, _ in cases],
            [case.url for _, case in cases],
            [case.error for _, case in cases],
            [case.hint for _, case in cases],
            [case.payload[:PAYLOAD_KEPT_BYTES] if case.payload else None for _, case in cases],
        ],
    )


async def release(c: Connection, source_id: int, released: Sequence[Hash]) -> None:
    """Let items go that were read, or are gone."""
    if released:
        await c.execute("delete from quarantine where source_id = %s and key = any(%s)", [source_id, list(released)])


async def read(
    c: Connection, *, source: str | None = None, limit: int = 100, after: tuple[datetime, str, str] | None = None
) -> list[Case]:
    """The items in quarantine, newest trouble first; those that follow a place, if it is given."""
    from rowen.model.library import Case

    at, url, name = after or (None, None, None)
    return await list_of(
        c,
        Case,
        """
        select source.name as source, quarantine.url, error, hint, tries, first_at, last_at
          from quarantine join source on source.id = source_id
         where (%(source)s::text is null or source.name = %(source)s)
           and (%(at)s::timestamptz is null or last_at < %(at)s
                or last_at = %(at)s and (quarantine.url, source.name) > (%(url)s, %(name)s))
         order by last_at desc, quarantine.url, source.name limit %(limit)s
        """,
        {"source": source, "limit": limit, "at": at, "url": url, "name": name},
    )
