"""Items: comparing a group with what is stored in one round trip, and writing only what differs."""

from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

from rowen.model import twins
from rowen.model.hashes import Hash, canonical_json
from rowen.model.item import Document
from rowen.store.database import Connection
from rowen.store.packed import pack, unpacked
from rowen.store.rows import all_rows, scalar

__all__ = [
    "Check",
    "HeldRow",
    "OwnCheck",
    "Said",
    "Stored",
    "UncutItem",
    "check",
    "count",
    "every_held",
    "held",
    "hold_uncut",
    "insert",
    "keep_revisions",
    "records",
    "said",
    "set_chunker",
    "stored",
    "touch",
    "uncut",
    "update",
]

# A source that is never seen whole would have all its rows written in each run, to tell nothing but the time. When an
# item was last seen is asked for in days, and runs that are complete come about once a week where a source is honest.
_CHECKED_DAYS = 7


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
    checked_apart: bool


class OwnCheck(NamedTuple):
    """A check that says no more than this: it stands in the item, and not in a row of its own."""

    body_hash: Hash | None
    recipe: Hash


class Said(NamedTuple):
    """What an item says as it is stored."""

    title: str
    text: str
    tags: list[str]


class UncutItem(NamedTuple):
    """An item whose passages another version of the chunker made."""

    id: int
    url: str
    content_hash: Hash
    text: str


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


class PresentReading(NamedTuple):
    """How items are read at present: the recipes that count, the old one, and the version of the chunker."""

    recipes: list[Hash]
    old: Hash
    chunker: int


class Check(NamedTuple):
    """An item's check as it is to be; `links` None leaves the stored ones. `recipe` None is no reader's."""

    item_id: int
    etag: str | None
    last_modified: str | None
    body_hash: Hash | None
    depth: int
    links: str | None
    recipe: Hash | None


# Keys travel as one string of bytes: an array of them costs the driver ten times as much.
_KEYS = "array(select substring(%(keys)b from n * 32 + 1 for 32) from generate_series(0, %(count)s - 1) as n)"


def _packed(keys: Sequence[Hash]) -> dict[str, object]:
    return {"keys": b"".join(keys), "count": len(keys)}


async def count(c: Connection, source_id: int) -> int:
    """How many items a source has."""
    return int(await scalar(c, "select count(*) from item where source_id = %s", [source_id]) or 0)


# A row of `item_check` counts in the stead of what stands in the item.
_LOOK = """
       cross join lateral (
           select item_check.item_id is not null as apart, coalesce(item_check.recipe, item.recipe) as recipe,
                  case when item_check.item_id is null then item.body_hash else item_check.body_hash end as body_hash,
                  case when item.recipe is not null then coalesce(depth, 0) else depth end as depth,
                  case when item.recipe is not null then coalesce(links, '') else links end as links
       ) as look
"""
_STORED = f"""
select item.key, item.id, title, language, content_hash, record_hash, chunker,
       look.recipe, etag, last_modified, look.body_hash, look.depth, look.links, look.apart
  from item left join item_check on item_id = item.id {_LOOK}
 where source_id = %(source)s
"""  # noqa: S608 (a constant)


async def stored(c: Connection, source_id: int, keys: Sequence[Hash]) -> dict[Hash, Stored]:
    """What is stored under these keys."""
    those = await all_rows(c, _STORED + f" and key = any({_KEYS})", {"source": source_id, **_packed(keys)}, binary=True)
    return {key: Stored(*rest) for key, *rest in those}


async def records(c: Connection, ids: Sequence[int]) -> dict[int, Any]:
    """The sources' own records of some datasets."""
    those = await all_rows(
        c, "select id, record -> 'source', source_record from item where id = any(%s)", [list(ids)], binary=True
    )
    return {item_id: own if packed is None else unpacked(packed).get("source") for item_id, own, packed in those}


async def said(c: Connection, item_ids: Sequence[int]) -> dict[int, Said]:
    """What these items say."""
    those = await all_rows(
        c, "select id, title, text, tags from item where id = any(%s)", [list(item_ids)], binary=True
    )
    return {item_id: Said(*rest) for item_id, *rest in those}


# Under a recipe that no reader would give now, or cut by another chunker, validators prove nothing. The old recipe, of
# whole runs, covers records.
_HELD = f"""
select item.key, item.id, item.url, proof.etag, proof.last_modified, proof.body_hash,
       coalesce(look.depth, 0), coalesce(look.links, ''), content_hash
  from item left join item_check on item_id = item.id {_LOOK}
       left join lateral (
           select item_check.etag, item_check.last_modified, look.body_hash
            where chunker = %(chunker)s
              and (look.recipe = any(%(recipes)s) or (look.recipe = %(old)s and look.body_hash is null))
       ) as proof on true
 where source_id = %(source)s
"""  # noqa: S608 (a constant)


async def held(c: Connection, source_id: int, keys: Sequence[Hash], reading: PresentReading) -> list[tuple[Any, ...]]:
    """Validators and links under these keys, as rows of `HeldRow`; validators of other recipes or cuts are left out."""
    values = {"source": source_id, **reading._asdict(), **_packed(keys)}
    return await all_rows(c, _HELD + f" and key = any({_KEYS})", values, binary=True)


async def every_held(
    c: Connection, source_id: int, reading: PresentReading, *, batch: int = 2000
) -> AsyncIterator[list[HeldRow]]:
    """All items of a source by id, in batches that each are a statement of their own."""
    after = 0
    while True:
        those = await all_rows(
            c,
            _HELD + " and item.id > %(after)s order by item.id limit %(batch)s",
            {"source": source_id, **reading._asdict(), "after": after, "batch": batch},
            binary=True,
        )
        rows = [HeldRow(*row) for row in those]
        if not rows:
            return
        after = rows[-1].id
        yield rows


async def insert(
    c: Connection, source_id: int, documents: Sequence[tuple[Hash, Document, OwnCheck | None]], *, chunker: int
) -> dict[Hash, int]:
    """Store new items, with those checks that stand in them; returns their ids."""
    if not documents:
        return {}
    those = await all_rows(
        c,
        """
        with fresh as (
        insert into item (source_id, chunker, key, url, title, text, tags, record, source_record,
                          content_hash, record_hash, language, media_type, twins, remarks, body_hash, recipe)
        select %s, %s, key, url, title, text, array(select jsonb_array_elements_text(tags::jsonb)), record::jsonb,
               source_record, content_hash, record_hash, language, media_type, twins::bigint[], remarks, body_hash,
               recipe
          from unnest(%b::bytea[], %b::text[], %b::text[], %b::text[], %b::text[], %b::text[], %b::bytea[],
                      %b::bytea[], %b::bytea[], %b::text[], %b::text[], %b::text[], %b::text[], %b::bytea[],
                      %b::bytea[])
               as new(key, url, title, text, tags, record, source_record, content_hash, record_hash, language,
                      media_type, twins, remarks, body_hash, recipe)
        returning key, id, title_words(title, record, media_type) as words
        ), titled as (
        insert into item_title (item_id, text_hash)
        select id, sha256(convert_to(words, 'UTF8')) from fresh where words <> ''
        )
        select key, id from fresh
        """,
        [
            source_id,
            chunker,
            [key for key, _, _ in documents],
            *_columns([document for _, document, _ in documents]),
            *_check_columns([check for _, _, check in documents]),
        ],
        binary=True,
    )
    return dict(those)


async def update(
    c: Connection, documents: Sequence[tuple[int, Document, bool, OwnCheck | None]], *, chunker: int, kept: int
) -> None:
    """Replace stored items; where the flag says so, what they say has changed and a new revision begins.

    So many of the records that are replaced by others are kept of each. A check that stands in the item is replaced
    where another is given.
    """
    if not documents:
        return
    ids = [item_id for item_id, *_ in documents]
    await c.execute(
        """
        with new as (
            select * from unnest(%b::bigint[], %b::boolean[], %b::text[], %b::text[], %b::text[], %b::text[],
                                 %b::text[], %b::bytea[], %b::bytea[], %b::bytea[], %b::text[], %b::text[],
                                 %b::text[], %b::text[], %b::bytea[], %b::bytea[])
                as new(id, revised, url, title, text, tags, record, source_record, content_hash, record_hash,
                       language, media_type, twins, remarks, body_hash, recipe)
        ), superseded as (
            insert into superseded_record (item_id, record, source_record, at)
            select item.id, item.record, item.source_record, item.updated_at from item join new on new.id = item.id
             where item.record_hash <> new.record_hash and %b::integer > 0
               and (item.record <> new.record::jsonb or item.source_record is distinct from new.source_record)
        )
        update item set url = new.url, title = new.title, text = new.text,
               tags = array(select jsonb_array_elements_text(new.tags::jsonb)), record = new.record::jsonb,
               source_record = new.source_record, content_hash = new.content_hash, record_hash = new.record_hash,
               language = new.language, media_type = new.media_type, twins = new.twins::bigint[],
               remarks = new.remarks, chunker = %s, revision = revision + new.revised::integer, updated_at = now(),
               body_hash = case when new.recipe is null then item.body_hash else new.body_hash end,
               recipe = coalesce(new.recipe, item.recipe)
          from new where item.id = new.id
        """,
        [
            ids,
            [revised for _, _, revised, _ in documents],
            *_columns([document for _, document, _, _ in documents]),
            *_check_columns([check for *_, check in documents]),
            kept,
            chunker,
        ],
    )
    await _forget_records(c, ids, kept=kept)
    await _retitle(c, ids)


async def _forget_records(c: Connection, item_ids: Sequence[int], *, kept: int) -> None:
    """Forget the oldest superseded records of items."""
    await c.execute(
        """
        delete from superseded_record old using (
            select item_id, number, row_number() over (partition by item_id order by number desc) as place
              from superseded_record where item_id = any(%s)) ranked
         where old.item_id = ranked.item_id and old.number = ranked.number and place > %s
        """,
        [list(item_ids), kept],
    )


async def _retitle(c: Connection, item_ids: Sequence[int]) -> None:
    """Let titles that have changed be embedded; each is a new one."""
    await c.execute(
        """
        with named as (
            select id, words from item cross join lateral title_words(title, record, media_type) words
             where id = any(%(ids)s)
        ), unnamed as (
            delete from item_title using named where item_id = named.id and words = ''
        )
        insert into item_title (item_id, text_hash)
        select id, sha256(convert_to(words, 'UTF8')) from named where words <> ''
            on conflict (item_id) do update set id = excluded.id, text_hash = excluded.text_hash
         where item_title.text_hash <> excluded.text_hash
        """,
        {"ids": list(item_ids)},
    )


def _columns(documents: Sequence[Document]) -> list[list[object]]:
    return [
        [d.url for d in documents],
        [d.title for d in documents],
        [d.text for d in documents],
        [canonical_json(d.tags).decode() for d in documents],
        [d.written.facts().decode() for d in documents],
        [pack(d.written) for d in documents],
        [d.content_hash for d in documents],
        [d.record_hash for d in documents],
        [d.language for d in documents],
        [d.media_type for d in documents],
        [twins.written(d) for d in documents],
        ["\n".join(d.remarks) or None for d in documents],
    ]


def _check_columns(checks: Sequence[OwnCheck | None]) -> list[list[object]]:
    return [[check and check.body_hash for check in checks], [check and check.recipe for check in checks]]


async def uncut(c: Connection, *, after: int, chunker: int, limit: int) -> list[UncutItem]:
    """Return items behind an id, in order, whose passages an earlier version of the chunker made."""
    rows = await all_rows(
        c,
        "select id, url, content_hash, text from item where id > %s and chunker < %s order by id limit %s",
        [after, chunker, limit],
        binary=True,
    )
    return [UncutItem(*row) for row in rows]


async def hold_uncut(c: Connection, those: Sequence[UncutItem], *, chunker: int) -> list[int]:
    """Lock those of these items that still say the same and were not cut anew; returns their ids."""
    rows = await all_rows(
        c,
        "select item.id from item join unnest(%b::bigint[], %b::bytea[]) as read(id, content_hash)"
        " on item.id = read.id and item.content_hash = read.content_hash"
        " where chunker < %b::integer order by item.id for update of item",
        [[item.id for item in those], [item.content_hash for item in those], chunker],
    )
    return [item_id for (item_id,) in rows]


async def set_chunker(c: Connection, item_ids: Sequence[int], chunker: int) -> None:
    """Note which version of the chunker made the passages of these items."""
    await c.execute("update item set chunker = %s where id = any(%s)", [chunker, list(item_ids)])


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


async def touch(c: Connection, run_id: int, seen: Iterable[int]) -> None:
    """Note the check of the items that an incomplete run did reach, unless it is known well enough when that was."""
    ids = iter(seen)
    while batch := list(islice(ids, 50_000)):
        await c.execute(
            """
            update item_check set checked_at = now(), run_id = %s
             where item_id = any(%b::bigint[]) and run_id <> %s and checked_at < now() - make_interval(days => %s)
            """,
            [run_id, batch, run_id, _CHECKED_DAYS],
        )
        await c.execute(
            """
            insert into item_check (run_id, item_id, body_hash, recipe)
            select %s, id, body_hash, recipe from item
             where id = any(%b::bigint[]) and recipe is not null and updated_at < now() - make_interval(days => %s)
               and not exists (select from item_check where item_id = item.id)
            """,
            [run_id, batch, _CHECKED_DAYS],
        )
