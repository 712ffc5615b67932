"""What feeds announce, read off the change log, and what became of it."""

from collections.abc import AsyncIterator, Sequence

from rowen.model.announcement import AnnouncedDocument, Announcement, announcement_of
from rowen.store.database import Connection
from rowen.store.rows import all_rows, one

__all__ = ["ROOM", "backlog", "changed", "every", "feed_of"]

ROOM = "announced"
"""The room of the notes that tell what became of each announcement."""

_AT_ONCE = 1_000  # records of a kilobyte; a page of a feed has fewer


async def feed_of(c: Connection, source_id: int, url: str) -> tuple[int, str] | None:
    """The feed that is kept of an address, as number and name: the first that is not the asking source itself."""
    found = await one(
        c,
        "select id, name from source where url = %s and id <> %s and kind <> 'announced' order by id",
        [url, source_id],
    )
    return (found[0], found[1]) if found else None


async def changed(c: Connection, feed_id: int, *, after: int) -> AsyncIterator[Sequence[Announcement]]:
    """What a feed announced after a number: each entry once, as it is now, in the order of its last line."""
    while True:
        rows = await all_rows(
            c,
            """
            with line as (
                select number, key, url from change
                 where source_id = %(feed)s and number > %(after)s
                   and kind in ('created', 'updated', 'amended', 'moved', 'deleted')
                 order by number limit %(limit)s)
            select line.number, line.url, item.record
              from (select distinct on (key) number, key, url from line order by key, number desc) line
              left join item on item.source_id = %(feed)s and item.key = line.key
             order by line.number
            """,
            {"feed": feed_id, "after": after, "limit": _AT_ONCE},
        )
        if not rows:
            return
        after = rows[-1][0]
        yield [announcement_of(*row) for row in rows]


async def every(c: Connection, source_id: int, *, limit: int, outcome: str | None = None) -> list[AnnouncedDocument]:
    """What became of announcements, the latest first; only those with an outcome, if one is named."""
    rows = await all_rows(
        c,
        """
        select note.name, note.value ->> 'location', note.value ->> 'member', note.value ->> 'at',
               note.value ->> 'outcome', note.value ->> 'why', run.id, run.job_id, run.finished_at
          from source_note note left join run on run.id = note.run_id and note.value ->> 'outcome' <> 'waiting'
         where note.source_id = %(source)s and note.room = %(room)s
           and (%(outcome)s::text is null or note.value ->> 'outcome' = %(outcome)s)
         order by note.value ->> 'at' desc, note.name limit %(limit)s
        """,
        {"source": source_id, "room": ROOM, "outcome": outcome, "limit": limit},
    )
    return [AnnouncedDocument(*row) for row in rows]


async def backlog(c: Connection, source_id: int) -> dict[str, int]:
    """How many announcements there are of each outcome."""
    return dict(
        await all_rows(
            c,
            "select value ->> 'outcome', count(*) from source_note where source_id = %s and room = %s group by 1",
            [source_id, ROOM],
        )
    )
