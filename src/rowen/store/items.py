"""Items: comparing a group with what is stored in one round trip, and writing only what differs."""

from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

from rowen.model import twins
from rowen.model.hashes import Hash, canonical_json
from rowen.model.item import Document
from rowen.model.source import Source
from rowen.store.database import Connection
from rowen.store.rows import all_rows, scalar

__all__ = [
    "Check",
    "Dropped",
    "HeldRow",
    "Stored",
    "check",
    "count",
    "delete",
    "every_held",
    "held",
    "insert",
    "keep_revisions",
    "stored",
    "touch",
    "update",
    "vanished",
]


class Stored(NamedTuple):
    """What the sieve compares an observation with."""

    id: int
    title: str
    language: str | None
    content_hash: Hash
    record_hash: Hash
    chunker: int
    recipe: Hash | None
    etag: str | None
    last_modified: str | None
    body_hash: Hash | None
    depth: int | None
    links: str | None


class HeldRow(NamedTuple):
    """What a connector may ask an origin about."""

    key: Hash
    id: int
    url: str
    etag: str | None
    last_modified: str | None
    body_hash: Hash | None
    depth: int
    links: str
    content_hash: Hash


class Check(NamedTuple):
    """An item's check as it is to be; `links` None leaves the stored ones. `recipe` None is no reader's."""

    item_id: int
    etag: str | None
    last_modified: str | None
    body_hash: Hash | None
    depth: int
    links: str | None
    recipe: Hash | None


class Dropped(NamedTuple):
    """An item that is to be, or was, deleted."""

    id: int
    key: Hash
    url: str
    title: str


# Keys travel as one string of bytes: an array of them costs the driver ten times as much.
_KEYS = "array(select substring(%(keys)b from n * 32 + 1 for 32) from generate_series(0, %(count)s - 1) as n)"


def _packed(keys: Sequence[Hash]) -> dict[str, object]:
    return {"keys": b"".join(keys), "count": len(keys)}


async def count(c: Connection, source_id: int) -> int:
    """How many items a source has."""
    return int(await scalar(c, "select count(*) from item where source_id = %s", [source_id]) or 0)


_STORED = """
select item.key, item.id, title, language, content_hash, record_hash, chunker,
       recipe, etag, last_modified, body_hash, depth, links
  from item left join item_check on item_id = item.id
 where source_id = %(source)s
"""


async def stored(c: Connection, source_id: int, keys: Sequence[Hash]) -> dict[Hash, Stored]:
    """What is stored under these keys."""
    those = await all_rows(c, _STORED + f" and key = any({_KEYS})", {"source": source_id, **_packed(keys)}, binary=True)
    return {key: Stored(*rest) for key, *rest in those}


# Under a recipe that no reader would give now, validators prove nothing. The old one, of whole runs, covers records.
_HELD = """
select item.key, item.id, item.url, proof.etag, proof.last_modified, proof.body_hash,
       coalesce(depth, 0), coalesce(links, ''), content_hash
  from item left join item_check on item_id = item.id
       left join lateral (
           select item_check.etag, item_check.last_modified, item_check.body_hash
            where recipe = any(%(recipes)s) or (recipe = %(old)s and item_check.body_hash is null)
       ) as proof on true
 where source_id = %(source)s
"""


async def held(
    c: Connection, source_id: int, keys: Sequence[Hash], *, recipes: Collection[Hash], old: Hash
) -> list[tuple[Any, ...]]:
    """Validators and links under these keys, as rows of `HeldRow`; validators of other recipes are left out."""
    values = {"source": source_id, "recipes": list(recipes), "old": old, **_packed(keys)}
    return await all_rows(c, _HELD + f" and key = any({_KEYS})", values, binary=True)


async def every_held(
    c: Connection, source_id: int, *, recipes: Collection[Hash], old: Hash, batch: int = 2000
) -> AsyncIterator[list[HeldRow]]:
    """All items of a source by id, in batches that each are a statement of their own."""
    after = 0
    while True:
        those = await all_rows(
            c,
            _HELD + " and item.id > %(after)s order by item.id limit %(batch)s",
            {"source": source_id, "recipes": list(recipes), "old": old, "after": after, "batch": batch},
            binary=True,
        )
        rows = [HeldRow(*row) for row in those]
        if not rows:
            return
        after = rows[-1].id
        yield rows


async def insert(
    c: Connection, source_id: int, documents: Sequence[tuple[Hash, Document]], *, chunker: int
) -> dict[Hash, int]:
    """Store new items; returns their ids."""
    if not documents:
        return {}
    those = await all_rows(
        c,
        """
        insert into item (source_id, chunker, key, url, title, text, tags, record,
                          content_hash, record_hash, language, media_type, twins, remarks)
        select %s, %s, key, url, title, text, array(select jsonb_array_elements_text(tags::jsonb)), record::jsonb,
               content_hash, record_hash, language, media_type, twins::bigint[], remarks
          from unnest(%b::bytea[], %b::text[], %b::text[], %b::text[], %b::text[], %b::text[],
                      %b::bytea[], %b::bytea[], %b::text[], %b::text[], %b::text[], %b::text[])
               as new(key, url, title, text, tags, record, content_hash, record_hash, language, media_type, twins,
                      remarks)
        returning key, id
        """,
        [source_id, chunker, [key for key, _ in documents], *_columns([document for _, document in documents])],
        binary=True,
    )
    return dict(those)


async def update(c: Connection, documents: Sequence[tuple[int, Document, bool]], *, chunker: int) -> None:
    """Replace stored items; where the flag says so, what they say has changed and a new revision begins."""
    if not documents:
        return
    await c.execute(
        """
        update item set url = new.url, title = new.title, text = new.text,
               tags = array(select jsonb_array_elements_text(new.tags::jsonb)), record = new.record::jsonb,
               content_hash = new.content_hash, record_hash = new.record_hash,
               language = new.language, media_type = new.media_type, twins = new.twins::bigint[],
               remarks = new.remarks, chunker = %s, revision = revision + new.revised::integer, updated_at = now()
          from unnest(%b::bigint[], %b::boolean[], %b::text[], %b::text[], %b::text[], %b::text[], %b::text[],
                      %b::bytea[], %b::bytea[], %b::text[], %b::text[], %b::text[], %b::text[])
               as new(id, revised, url, title, text, tags, record, content_hash, record_hash, language, media_type,
                      twins, remarks)
         where item.id = new.id
        """,
        [
            chunker,
            [item_id for item_id, _, _ in documents],
            [revised for _, _, revised in documents],
            *_columns([document for _, document, _ in documents]),
        ],
    )


def _columns(documents: Sequence[Document]) -> list[list[object]]:
    return [
        [d.url for d in documents],
        [d.title for d in documents],
        [d.text for d in documents],
        [canonical_json(d.tags).decode() for d in documents],
        [d.record_json for d in documents],
        [d.content_hash for d in documents],
        [d.record_hash for d in documents],
        [d.language for d in documents],
        [d.media_type for d in documents],
        [twins.written(d) for d in documents],
        ["\n".join(d.remarks) or None for d in documents],
    ]


async def keep_revisions(c: Connection, item_ids: Sequence[int], *, kept: int) -> None:
    """Move the texts that are about to be replaced into the history, and forget the oldest ones."""
    if not item_ids or not kept:
        return
    ids = list(item_ids)
    await c.execute(
        "insert into revision (item_id, number, content_hash, title, text, tags, at)"
        " select id, revision, content_hash, title, text, tags, updated_at from item where id = any(%s)",
        [ids],
    )
    await c.execute(
        "delete from revision using item where item.id = any(%s) and revision.item_id = item.id"
        " and revision.number <= item.revision - %s",
        [ids, kept],
    )


async def check(c: Connection, run_id: int, rows: Sequence[Check]) -> None:
    """Store validators, links, depth and recipe."""
    if not rows:
        return
    columns: list[list[object]] = [list(column) for column in zip(*rows, strict=True)]
    await c.execute(
        """
        insert into item_check (run_id, item_id, etag, last_modified, body_hash, depth, links, recipe)
        select %s, item_id, etag, last_modified, body_hash, depth, coalesce(links, ''), coalesce(recipe, '')
          from unnest(%b::bigint[], %b::text[], %b::text[], %b::bytea[], %b::integer[], %b::text[], %b::bytea[])
               as new(item_id, etag, last_modified, body_hash, depth, links, recipe)
        on conflict (item_id) do update
           set run_id = excluded.run_id, checked_at = now(), recipe = excluded.recipe, etag = excluded.etag,
               last_modified = excluded.last_modified, body_hash = excluded.body_hash, depth = excluded.depth,
               links = case when excluded.item_id = any(%s) then item_check.links else excluded.links end
        """,
        [run_id, *columns, [row.item_id for row in rows if row.links is None]],
    )


async def delete(c: Connection, source: Source, keys: Sequence[Hash]) -> list[Dropped]:
    """Delete items with their passages, checks and revisions."""
    if not keys:
        return []
    rows = await all_rows(
        c,
        "delete from item where source_id = %s and key = any(%s) returning id, key, url, title",
        [source.id, list(keys)],
    )
    return [Dropped(*row) for row in rows]


async def vanished(c: Connection, source_id: int, seen: Iterable[int]) -> list[Dropped]:
    """The items of a source that are not among the seen ones; must run inside a transaction."""
    await _load_seen(c, seen)
    rows = await all_rows(
        c,
        "select id, key, url, title from item where source_id = %s"
        " and not exists (select from seen where seen.id = item.id) order by id",
        [source_id],
    )
    return [Dropped(*row) for row in rows]


async def touch(c: Connection, run_id: int, seen: Iterable[int]) -> None:
    """Note the check of the items that an incomplete run did reach; must run inside a transaction."""
    ids = iter(seen)
    while batch := list(islice(ids, 50_000)):
        await c.execute(
            "update item_check set checked_at = now(), run_id = %s where item_id = any(%b::bigint[]) and run_id <> %s",
            [run_id, batch, run_id],
        )


async def _load_seen(c: Connection, seen: Iterable[int]) -> None:
    await c.execute("create temporary table seen (id bigint) on commit drop")
    ids = iter(seen)
    while batch := list(islice(ids, 50_000)):
        await c.execute("insert into seen select unnest(%b::bigint[])", [batch])
    await c.execute("analyze seen")
