"""Store passages, of which only the changed ones are written, and the versions of their hashes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rowen.model.hashes import Hash, canonical_json
from rowen.store.database import Connection
from rowen.store.rows import affected, all_rows, column, number, tuples_of

if TYPE_CHECKING:
    from rowen.model.passages import Chunk


class OutdatedItem(NamedTuple):
    """An item whose passages an earlier version of Rowen created."""

    id: int
    url: str
    content_hash: Hash
    language: str | None
    title: str
    text: str


async def outdated(c: Connection, *, after: int, chunker: int, limit: int) -> list[OutdatedItem]:
    """Return items after an id, in order, whose passages an earlier version of Rowen created."""
    return await tuples_of(
        c,
        OutdatedItem,
        "select id, url, content_hash, language, title, text from item where id > %s and chunker < %s"
        " order by id limit %s",
        [after, chunker, limit],
        binary=True,
    )


async def lock_outdated(c: Connection, items: Sequence[OutdatedItem], *, chunker: int) -> list[int]:
    """Lock the items that are still unchanged and outdated; return their ids."""
    query = """
        select item.id from item join unnest(%b::bigint[], %b::bytea[]) as read(id, content_hash)
            on item.id = read.id and item.content_hash = read.content_hash
         where chunker < %b::integer order by item.id for update of item
    """
    return await column(c, query, [[item.id for item in items], [item.content_hash for item in items], chunker])


async def set_chunker(c: Connection, languages: Mapping[int, str | None], chunker: int) -> None:
    """Store the languages of items and the version of their passages; index passages again if the language changed."""
    ids, codes = list(languages), list(languages.values())
    query = """
        select id from item join unnest(%b::bigint[], %b::text[]) as new(id, language) using (id)
         where text_config(text_language) <> text_config(new.language)
    """
    other = await column(c, query, [ids, codes])
    statement = """
        update item set chunker = %s, text_language = new.language
          from unnest(%b::bigint[], %b::text[]) as new(id, language) where item.id = new.id
    """
    await c.execute(statement, [chunker, ids, codes])
    await retitle(c, other)


class StoredPassage(NamedTuple):
    """A stored passage; it stays unchanged if a new passage has the same `exact_hash`, the hash of its exact text.

    `text_hash` is read from the database; a version of Rowen with another hash function may have written it.
    """

    id: int
    position: int
    exact_hash: Hash
    text_hash: Hash
    heading: tuple[str, ...]
    anchor: str | None
    language: str | None


class NewPassage(NamedTuple):
    """A passage at its position in an item; `language` is set if it differs from the item's."""

    item_id: int
    position: int
    chunk: Chunk
    language: str | None


async def of_items(c: Connection, item_ids: Sequence[int]) -> dict[int, list[StoredPassage]]:
    """Return the passages of these items, in order, without their texts."""
    passages: dict[int, list[StoredPassage]] = {item_id: [] for item_id in item_ids}
    query = """
        select item_id, id, position, sha256(convert_to(text, 'UTF8')), text_hash, heading, anchor, language
          from chunk where item_id = any(%s) order by item_id, position
    """
    rows = await all_rows(c, query, [list(item_ids)], binary=True)
    for item_id, *columns, heading, anchor, language in rows:
        passages[item_id].append(StoredPassage._make([*columns, tuple(heading), anchor, language]))
    return passages


async def insert(c: Connection, passages: Sequence[NewPassage]) -> None:
    """Store new passages, and queue them for the word count; their items must be stored already."""
    if not passages:
        return
    await c.execute(
        """
        with stored as (
        insert into chunk (item_id, position, heading, anchor, text, text_hash, language, tsv)
        select new.item_id, new.position, path.heading, new.anchor, new.text, new.text_hash, new.language,
               passage_tsv(coalesce(new.language, item.text_language), item.title, path.heading, new.text)
          from unnest(%b::bigint[], %b::bigint[], %b::text[], %b::text[], %b::text[], %b::bytea[], %b::text[])
               as new(item_id, position, heading, anchor, text, text_hash, language)
          join item on item.id = new.item_id
          cross join lateral (select array(select jsonb_array_elements_text(new.heading::jsonb)) as heading) path
         order by new.item_id, new.position
        returning id
        )
        insert into term_change (chunk_id) select id from stored
        """,
        [
            [new.item_id for new in passages],
            [new.position for new in passages],
            [canonical_json(new.chunk.heading).decode() for new in passages],
            [new.chunk.anchor for new in passages],
            [new.chunk.text for new in passages],
            [new.chunk.text_hash for new in passages],
            [new.language for new in passages],
        ],
    )


async def move(c: Connection, positions: Sequence[tuple[int, int]]) -> None:
    """Change the positions of stored passages."""
    if positions:
        statement = """
            update chunk set position = new.position from unnest(%b::bigint[], %b::bigint[]) as new(id, position)
             where chunk.id = new.id
        """
        await c.execute(statement, [list(column) for column in zip(*positions, strict=True)])


async def rehash(c: Connection, hashes: Sequence[tuple[int, Hash]]) -> None:
    """Change the text hashes of stored passages."""
    if hashes:
        statement = """
            update chunk set text_hash = new.text_hash from unnest(%b::bigint[], %b::bytea[]) as new(id, text_hash)
             where chunk.id = new.id
        """
        await c.execute(statement, [list(column) for column in zip(*hashes, strict=True)])


async def set_languages(c: Connection, languages: Sequence[tuple[int, str | None]]) -> None:
    """Change the languages of stored passages, and index them again."""
    if languages:
        statement = """
            update chunk set language = new.language, tsv = passage_tsv(
                       coalesce(new.language, item.text_language), item.title, chunk.heading, chunk.text)
              from unnest(%b::bigint[], %b::text[]) as new(id, language), item
             where chunk.id = new.id and item.id = chunk.item_id
        """
        await c.execute(statement, [list(column) for column in zip(*languages, strict=True)])


async def delete(c: Connection, passage_ids: Sequence[int]) -> None:
    """Delete passages."""
    if passage_ids:
        await c.execute("delete from chunk where id = any(%s)", [list(passage_ids)])


async def retitle(c: Connection, item_ids: Sequence[int]) -> int:
    """Index the passages of these items again, after a change of title or language; return the number of passages."""
    if not item_ids:
        return 0
    statement = """
        update chunk set tsv = passage_tsv(
                   coalesce(chunk.language, item.text_language), item.title, chunk.heading, chunk.text)
          from item where item.id = chunk.item_id and item.id = any(%s)
    """
    return await affected(c, statement, [list(item_ids)])


PASSAGE_HASHES = "passages"
"""The name under which the version of passages and their text hashes, `CHUNKER_VERSION`, is stored."""


async def hash_version(c: Connection, name: str) -> int:
    """Return the version that computed all stored hashes named `name`, or 0 if it is unknown."""
    return await number(c, "select version from hash_version where name = %s", [name])


async def set_hash_version(c: Connection, name: str, version: int) -> None:
    """Store that this version or a later one computed all hashes named `name`."""
    statement = """
        insert into hash_version (name, version) values (%s, %s)
        on conflict (name) do update set version = greatest(hash_version.version, excluded.version)
    """
    await c.execute(statement, [name, version])
