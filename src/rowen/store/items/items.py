"""Store items and their quarantine: compare a batch with the stored rows in one query, and write only differences.

The source record of a dataset is most of what a catalog stores. It is compressed beside the facts taken from it, since
only whole records are ever requested. The server's own compression needs five times the processor time and half as
much space again in the log and on disk: it looks back 4 kB, and a record repeats itself at a greater distance. Data
that queries read (facts, addresses of files, RDF statements) stays JSON, and so do all records stored by earlier
versions.
"""

import json
import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

from rowen.model import datasets
from rowen.model.datasets import DATASET, USUAL
from rowen.model.hashes import Hash, RecordJson, canonical_json
from rowen.model.items import Document, Failed
from rowen.store.database import Connection
from rowen.store.rows import all_rows, column, number, tuples_of

LEVEL = 1
"""The fastest level that finds repetitions: level 3 takes half as long again for 2 % less data, -1 gives 30 % more."""


def pack(written: RecordJson) -> bytes | None:
    """Return the part of a record that is stored compressed; None if there is none."""
    if not written.is_parted:
        return None
    packed: bytes = _compressor().compress(written.apart(), _zstd().ZstdCompressor.FLUSH_FRAME)
    return packed


def unpacked(packed: bytes) -> dict[str, Any]:
    """Return the compressed part of a record."""
    part: dict[str, Any] = json.loads(_zstd().decompress(packed))
    return part


def whole(facts: Mapping[str, Any], packed: bytes | None) -> Mapping[str, Any]:
    """Return the whole record, from its facts and its compressed part, if it has one."""
    return facts if packed is None else {**facts, **unpacked(packed)}


FACTS_JSON = "convert_to((case when source_record is null then record else record - 'resources' end)::text, 'UTF8')"
"""The SQL of the facts for `whole_json`, as bytes: decoding 16 kB to text and back takes longer than the rest of an
export."""


def whole_json(facts: bytes, packed: bytes | None) -> bytes:
    """Return a record as JSON in UTF-8, without parsing it."""
    if packed is None:
        return facts
    apart: bytes = _zstd().decompress(packed)
    return b"%b,%b" % (facts[:-1], apart[1:]) if facts != b"{}" else apart


@cache
def _compressor() -> Any:
    return _zstd().ZstdCompressor(level=LEVEL)


def _zstd() -> Any:
    """Import zstd when the first record is read: most commands read none."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


# Age at which an incomplete run updates the stored time of a check: complete runs come about once a week, and
# the time is shown in days. Otherwise each run of a source that is never read whole would write all its rows.
_CHECKED_DAYS = 7


class StoredItem(NamedTuple):
    """The stored values of an item, to be compared with an observation."""

    id: int
    title: str
    language: str | None
    text_language: str | None
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


class InlineCheck(NamedTuple):
    """A check without validators or links, stored in the item's own row."""

    body_hash: Hash | None
    recipe: Hash


class ItemContent(NamedTuple):
    """The content of an item as it is stored."""

    title: str
    text: str
    tags: list[str]


class KnownItem(NamedTuple):
    """The validators and links of an item, for conditional requests."""

    key: Hash
    id: int
    url: str
    etag: str | None
    last_modified: str | None
    body_hash: Hash | None
    depth: int
    links: str
    content_hash: Hash


class CurrentReading(NamedTuple):
    """The valid recipes, the single recipe that older versions stored for a run, and the version of the chunker."""

    recipes: list[Hash]
    old: Hash
    chunker: int


class ItemCheck(NamedTuple):
    """A check to be stored; `links` None leaves the stored links, `recipe` None means that no reader was used."""

    item_id: int
    etag: str | None
    last_modified: str | None
    body_hash: Hash | None
    depth: int
    links: str | None
    recipe: Hash | None


# Keys are sent as one byte string: an array of them costs the driver ten times as much.
_KEYS = "array(select substring(%(keys)b from n * 32 + 1 for 32) from generate_series(0, %(count)s - 1) as n)"


def _joined_keys(keys: Sequence[Hash]) -> dict[str, object]:
    return {"keys": b"".join(keys), "count": len(keys)}


async def count(c: Connection, source_id: int) -> int:
    """Return the number of items of a source."""
    return await number(c, "select count(*) from item where source_id = %s", [source_id])


# The check of an item: a row of `item_check` overrides the columns of the item.
_CHECK = """
       cross join lateral (
           select item_check.item_id is not null as apart, coalesce(item_check.recipe, item.recipe) as recipe,
                  case when item_check.item_id is null then item.body_hash else item_check.body_hash end as body_hash,
                  case when item.recipe is not null then coalesce(depth, 0) else depth end as depth,
                  case when item.recipe is not null then coalesce(links, '') else links end as links
       ) as checked
"""
_STORED = f"""
select item.key, item.id, title, language, text_language, content_hash, record_hash, chunker,
       checked.recipe, etag, last_modified, checked.body_hash, checked.depth, checked.links, checked.apart
  from item left join item_check on item_id = item.id {_CHECK}
 where source_id = %(source)s
"""  # noqa: S608 (a constant)


async def find_stored(c: Connection, source_id: int, keys: Sequence[Hash]) -> dict[Hash, StoredItem]:
    """Return the stored items with these keys."""
    rows = await all_rows(
        c, _STORED + f" and key = any({_KEYS})", {"source": source_id, **_joined_keys(keys)}, binary=True
    )
    return {key: StoredItem(*rest) for key, *rest in rows}


async def source_records(c: Connection, ids: Sequence[int]) -> dict[int, Any]:
    """Return the source records of some datasets."""
    rows = await all_rows(
        c, "select id, record -> 'source', source_record from item where id = any(%s)", [list(ids)], binary=True
    )
    return {item_id: own if packed is None else unpacked(packed).get("source") for item_id, own, packed in rows}


async def contents(c: Connection, item_ids: Sequence[int]) -> dict[int, ItemContent]:
    """Return the contents of these items."""
    rows = await all_rows(c, "select id, title, text, tags from item where id = any(%s)", [list(item_ids)], binary=True)
    return {item_id: ItemContent(*rest) for item_id, *rest in rows}


# The validators and links of items. Validators stored under an outdated recipe or chunker prove nothing; the old
# recipe, of whole runs, covers records.
_KNOWN = f"""
select item.key, item.id, item.url, proof.etag, proof.last_modified, proof.body_hash,
       coalesce(checked.depth, 0), coalesce(checked.links, ''), content_hash
  from item left join item_check on item_id = item.id {_CHECK}
       left join lateral (
           select item_check.etag, item_check.last_modified, checked.body_hash
            where chunker = %(chunker)s
              and (checked.recipe = any(%(recipes)s) or (checked.recipe = %(old)s and checked.body_hash is null))
       ) as proof on true
 where source_id = %(source)s
"""  # noqa: S608 (a constant)


async def known(c: Connection, source_id: int, keys: Sequence[Hash], reading: CurrentReading) -> list[tuple[Any, ...]]:
    """Return rows of `KnownItem` with these keys, without validators from other recipes or chunkers."""
    values = {"source": source_id, **reading._asdict(), **_joined_keys(keys)}
    return await all_rows(c, _KNOWN + f" and key = any({_KEYS})", values, binary=True)


async def every_known(
    c: Connection, source_id: int, reading: CurrentReading, *, batch: int = 2000
) -> AsyncIterator[list[KnownItem]]:
    """Yield all items of a source by id, each batch with its own query."""
    statement = _KNOWN + " and item.id > %(after)s order by item.id limit %(batch)s"
    values = {"source": source_id, **reading._asdict(), "after": 0, "batch": batch}
    while rows := await tuples_of(c, KnownItem, statement, values, binary=True):
        values["after"] = rows[-1].id
        yield rows


def _columns(documents: Sequence[Document], checks: Sequence[InlineCheck | None]) -> list[list[object]]:
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
        [d.text_language for d in documents],
        [d.media_type for d in documents],
        [datasets.written(d) for d in documents],
        ["\n".join(d.remarks) or None for d in documents],
        [check and check.body_hash for check in checks],
        [check and check.recipe for check in checks],
    ]


async def insert(
    c: Connection, source_id: int, documents: Sequence[tuple[Hash, Document, InlineCheck | None]], *, chunker: int
) -> dict[Hash, int]:
    """Store new items with their inline checks; return their ids."""
    if not documents:
        return {}
    keys, contents, checks = zip(*documents, strict=True)
    statement = """
        with fresh as (
        insert into item (source_id, chunker, key, url, title, text, tags, record, source_record,
                          content_hash, record_hash, language, text_language, media_type, twins, remarks, body_hash,
                          recipe)
        select %s, %s, key, url, title, text, array(select jsonb_array_elements_text(tags::jsonb)), record::jsonb,
               source_record, content_hash, record_hash, language, text_language, media_type, twins::bigint[],
               remarks, body_hash,
               recipe
          from unnest(%b::bytea[], %b::text[], %b::text[], %b::text[], %b::text[], %b::text[], %b::bytea[],
                      %b::bytea[], %b::bytea[], %b::text[], %b::text[], %b::text[], %b::text[], %b::text[],
                      %b::bytea[], %b::bytea[])
               as new(key, url, title, text, tags, record, source_record, content_hash, record_hash, language,
                      text_language, media_type, twins, remarks, body_hash, recipe)
        returning key, id, title_words(title, record, media_type) as words
        ), titled as (
        insert into item_title (item_id, text_hash)
        select id, sha256(convert_to(words, 'UTF8')) from fresh where words <> ''
        )
        select key, id from fresh
    """
    rows = await all_rows(c, statement, [source_id, chunker, list(keys), *_columns(contents, checks)], binary=True)
    return dict(rows)


async def update(
    c: Connection,
    documents: Sequence[tuple[int, Document, bool, InlineCheck | None]],
    *,
    chunker: int,
    revisions_kept: int,
) -> None:
    """Replace stored items; the flag of an item tells whether its content changed, which starts a new revision.

    A new inline check replaces the stored one. Changed titles are embedded again.
    """
    if not documents:
        return
    ids, contents, revised, checks = (list(column) for column in zip(*documents, strict=True))
    statement = """
        with new as (
            select * from unnest(%b::bigint[], %b::boolean[], %b::text[], %b::text[], %b::text[], %b::text[],
                                 %b::text[], %b::bytea[], %b::bytea[], %b::bytea[], %b::text[], %b::text[],
                                 %b::text[], %b::text[], %b::text[], %b::bytea[], %b::bytea[])
                as new(id, revised, url, title, text, tags, record, source_record, content_hash, record_hash,
                       language, text_language, media_type, twins, remarks, body_hash, recipe)
        ), superseded as (
            insert into superseded_record (item_id, record, source_record, at)
            select item.id, item.record, item.source_record, item.updated_at from item join new on new.id = item.id
             where item.record_hash <> new.record_hash and %b::integer > 0
               and (item.record <> new.record::jsonb or item.source_record is distinct from new.source_record)
        )
        update item set url = new.url, title = new.title, text = new.text,
               tags = array(select jsonb_array_elements_text(new.tags::jsonb)), record = new.record::jsonb,
               source_record = new.source_record, content_hash = new.content_hash, record_hash = new.record_hash,
               language = new.language, text_language = new.text_language, media_type = new.media_type,
               twins = new.twins::bigint[], remarks = new.remarks,
               chunker = %s, revision = revision + new.revised::integer, updated_at = now(),
               body_hash = case when new.recipe is null then item.body_hash else new.body_hash end,
               recipe = coalesce(new.recipe, item.recipe)
          from new where item.id = new.id
    """
    await c.execute(statement, [ids, revised, *_columns(contents, checks), revisions_kept, chunker])
    await c.execute(
        """
        delete from superseded_record old using (
            select item_id, number, row_number() over (partition by item_id order by number desc) as place
              from superseded_record where item_id = any(%s)) ranked
         where old.item_id = ranked.item_id and old.number = ranked.number and place > %s
        """,
        [ids, revisions_kept],
    )
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
        {"ids": ids},
    )


async def keep_revisions(c: Connection, item_ids: Sequence[int], *, revisions_kept: int) -> None:
    """Copy the texts that are about to be replaced into the revisions, and delete the oldest revisions."""
    if not item_ids or not revisions_kept:
        return
    ids = list(item_ids)
    statement = """
        insert into revision (item_id, number, content_hash, title, text, tags, at)
        select id, revision, content_hash, title, text, tags, updated_at from item where id = any(%s)
    """
    await c.execute(statement, [ids])
    await c.execute(
        "delete from revision using item where item.id = any(%s) and revision.item_id = item.id"
        " and revision.number <= item.revision - %s",
        [ids, revisions_kept],
    )


async def store_checks(c: Connection, run_id: int, rows: Sequence[ItemCheck]) -> None:
    """Store validators, links, depth and recipe."""
    if not rows:
        return
    columns: list[list[object]] = [list(column) for column in zip(*rows, strict=True)]
    statement = """
        insert into item_check (run_id, item_id, etag, last_modified, body_hash, depth, links, recipe)
        select %s, item_id, etag, last_modified, body_hash, depth, coalesce(links, ''), coalesce(recipe, '')
          from unnest(%b::bigint[], %b::text[], %b::text[], %b::bytea[], %b::integer[], %b::text[], %b::bytea[])
               as new(item_id, etag, last_modified, body_hash, depth, links, recipe)
        on conflict (item_id) do update
           set run_id = excluded.run_id, checked_at = now(), recipe = excluded.recipe, etag = excluded.etag,
               last_modified = excluded.last_modified, body_hash = excluded.body_hash, depth = excluded.depth,
               links = case when excluded.item_id = any(%s) then item_check.links else excluded.links end
    """
    await c.execute(statement, [run_id, *columns, [row.item_id for row in rows if row.links is None]])


async def touch(c: Connection, run_id: int, seen: Iterable[int]) -> None:
    """Update the check time of items that an incomplete run reached, unless it is recent."""
    ids = iter(seen)
    while batch := list(islice(ids, 50_000)):
        statement = """
            update item_check set checked_at = now(), run_id = %s
             where item_id = any(%b::bigint[]) and run_id <> %s and checked_at < now() - make_interval(days => %s)
        """
        await c.execute(statement, [run_id, batch, run_id, _CHECKED_DAYS])
        await c.execute(
            """
            insert into item_check (run_id, item_id, body_hash, recipe)
            select %s, id, body_hash, recipe from item
             where id = any(%b::bigint[]) and recipe is not null and updated_at < now() - make_interval(days => %s)
               and not exists (select from item_check where item_id = item.id)
            """,
            [run_id, batch, _CHECKED_DAYS],
        )


PAYLOAD_KEPT_BYTES = 64 * 1024
"""Enough to see what is wrong with a record; the payloads of thousands of records must not outgrow the items."""


class QuarantineRow(NamedTuple):
    """A quarantined item, with the number of tries and the times of the first and last try."""

    key: Hash
    url: str
    tries: int
    first_at: datetime
    last_at: datetime


async def quarantined_keys(c: Connection, source_id: int) -> set[Hash]:
    """Return the keys of a source's quarantined items."""
    return set(await column(c, "select key from quarantine where source_id = %s", [source_id]))


async def quarantined(c: Connection, source_id: int) -> list[QuarantineRow]:
    """Return the quarantined items of a source, ordered by their last try, oldest first."""
    return await tuples_of(
        c,
        QuarantineRow,
        "select key, url, tries, first_at, last_at from quarantine where source_id = %s order by last_at, url",
        [source_id],
    )


async def count_unread(c: Connection, source_id: int) -> int:
    """Return how many quarantined items have no stored version."""
    query = """
        select count(*) from quarantine where source_id = %s and not exists
               (select from item where item.source_id = quarantine.source_id and item.key = quarantine.key)
    """
    return await number(c, query, [source_id])


async def quarantine(c: Connection, source_id: int, cases: Sequence[tuple[Hash, Failed]]) -> None:
    """Add items to the quarantine; count another try of items that are in it."""
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


async def release_quarantined(c: Connection, source_id: int, released: Sequence[Hash]) -> None:
    """Remove items from quarantine that were read or are gone."""
    if released:
        await c.execute("delete from quarantine where source_id = %s and key = any(%s)", [source_id, list(released)])


RECORD_KIND = f"case when item.media_type = '{DATASET}' then coalesce(item.record ->> 'record_kind', '{USUAL}') end"
"""The SQL of an item's record kind, equal to `record_kind_of`."""
