"""Find moves: items that get another key, because their source changed identifiers or redirects.

Moves are decided for two whole sets: the missing items, and the items that are new since the last complete run.

A redirect from a missing item to a new item is proof. If several items redirect to one, the item with the same content
moves; if none or several of them have the same content, none moves.

For datasets, evidence is taken in the order of its strength: the same files, the same title and date of issue, the
same text, and last the same title. Evidence counts only if exactly one missing item, one new item and no other item of
the source share it, so that items with equal titles are not confused. Items paired by stronger evidence are not
considered for weaker evidence. So the result depends on the two sets alone, not on their order.

Only datasets are matched by their content, since their identifier is a number assigned by the portal's software. A
page or file is identified by its URL: at another URL it is another item, unless the site redirects.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import NamedTuple

from rowen.model.datasets import DATASET
from rowen.model.hashes import Hash, canonical_json
from rowen.model.items import Document
from rowen.store.changes import LogLine, removal
from rowen.store.database import Connection
from rowen.store.rows import affected, all_rows, number, scalar

# Shorter titles are words such as "Budget", which several records have, though perhaps at different times.
_LEAST_TITLE = 8
# Bytes: a sentence. Shorter texts ("No description.") are the same for different things.
_LEAST_TEXT = 40
# Moves that are logged in one batch: some megabytes of memory.
_LINES_AT_ONCE = 5000


class Arrival(NamedTuple):
    """A new dataset that is not stored, as moves compare it; `traits` is the JSON of its date and file addresses."""

    title: str
    content_hash: Hash
    text_bytes: int
    traits: str


class FoundMoves(NamedTuple):
    """The number of moves; of the rows that this run created for them, how many have equal or other content."""

    moved: int = 0
    amended: int = 0
    updated: int = 0


def arrival(document: Document) -> Arrival:
    """Return the traits of a dataset that would be created, as in a dry run."""
    resources = document.record.get("resources")
    files = [file for file in resources if isinstance(file, dict)] if isinstance(resources, list) else []
    traits = {"issued": document.record.get("issued"), "resources": [{"url": file.get("url")} for file in files]}
    text_bytes = len(document.text.encode("utf-8", "replace"))
    return Arrival(document.title, document.content_hash, text_bytes, canonical_json(traits).decode())


_FILES = """(
    select sha256(convert_to(jsonb_agg(distinct url order by url)::text, 'UTF8'))
      from jsonb_path_query({record}, '$.resources[*].url') as url where url not in ('""', 'null')
)"""
_DAY = "nullif({record} ->> 'issued', '')"

_TABLES = """
create temporary table moving (
    id bigint primary key, is_new boolean not null, title text not null, files bytea, issued text,
    content_hash bytea not null, said bytea
) on commit drop;
create temporary table pair (old_id bigint primary key, new_id bigint not null unique, same boolean) on commit drop
"""

_INSERT = f"""
insert into moving (id, is_new, title, files, issued, content_hash, said)
select id, %(is_new)s, title, {_FILES.format(record="record")}, {_DAY.format(record="record")}, content_hash,
       case when text_bytes >= {_LEAST_TEXT} then content_hash end
  from
"""  # noqa: S608 (constants)
_ITEMS = """(
    select id, title, record, content_hash, octet_length(text) as text_bytes from item
     where source_id = %(source)s and media_type = %(dataset)s and
"""
_IS_MISSING = "exists (select from missing where missing.id = item.id)"
_IS_NEW = f"id > %(since)s and not {_IS_MISSING}"
_ARRIVALS = """(
    select -ordinal as id, title, record::jsonb, content_hash, text_bytes
      from unnest(%(titles)b::text[], %(records)b::text[], %(hashes)b::bytea[], %(sizes)b::bigint[])
           with ordinality as new(title, record, content_hash, text_bytes, ordinal)
) as arrived
"""


class _Evidence(NamedTuple):
    """Evidence of a move: columns that must be equal, a condition on both rows, and one for a third item with it.

    The evidence does not count if the third item exists.
    """

    same: str
    condition: str
    third: str


# A file shared with items of other titles is no evidence; but only if the titles differ all items must be checked.
_BY_FILES = _FILES.format(record="third.record") + " = old.files"
_BY_DAY = _DAY.format(record="third.record") + " = old.issued"
_EVIDENCE = (
    _Evidence("files", "old.title = new.title", f"third.title = old.title and {_BY_FILES}"),
    _Evidence("files", "old.title <> new.title", _BY_FILES),
    _Evidence("title, issued", "true", f"third.title = old.title and {_BY_DAY}"),
    _Evidence("said", "true", "third.content_hash = old.content_hash"),
    _Evidence(
        "title",
        f"length(old.title) >= {_LEAST_TITLE} and (old.issued = new.issued) is not false",
        "third.title = old.title",
    ),
)

_REDIRECTED = """
insert into pair (old_id, new_id, same)
with redirect as (
    select old.id as old_id, new.id as new_id, old.content_hash = new.content_hash as same
      from unnest(%(old)b::bytea[], %(new)b::bytea[]) as led(old_key, new_key)
      join item old on old.source_id = %(source)s and old.key = old_key
      join item new on new.source_id = %(source)s and new.key = new_key and new.id > %(since)s
     where exists (select from missing where missing.id = old.id)
       and not exists (select from missing where missing.id = new.id)
     union all
    select old.id, -1000000000 - ordinal, old.content_hash = arrived.content_hash
      from unnest(%(keys)b::bytea[], %(contents)b::bytea[])
           with ordinality as arrived(old_key, content_hash, ordinal)
      join item old on old.source_id = %(source)s and old.key = old_key
     where exists (select from missing where missing.id = old.id)
), judged as (
    select redirect.*, count(*) over by_target as rivals, count(*) filter (where same) over by_target as alike
      from redirect window by_target as (partition by new_id)
)
select old_id, new_id, same from judged where rivals = 1 or (same and alike = 1)
"""

_PAIR = """
insert into pair (old_id, new_id, same)
select old.id, new.id, old.content_hash = new.content_hash
  from (select min(id) filter (where not is_new) as old_id, min(id) filter (where is_new) as new_id
          from moving where ({same}) is not null group by {same} having count(*) = 2 and bool_or(is_new)
           and not bool_and(is_new)) as couple
  join moving old on old.id = old_id join moving new on new.id = new_id
 where {condition}
"""
_SHARED = """
delete from pair using moving old, item third
 where old.id = pair.old_id and third.source_id = %(source)s and third.id <= %(since)s and {third}
   and not exists (select from missing where missing.id = third.id)
"""


def is_arrival(item_id: int) -> bool:
    """Return whether an id stands for a dataset that is not stored."""
    return item_id < 0


async def find(
    c: Connection,
    source_id: int,
    *,
    arrivals: Sequence[Arrival],
    redirects: Mapping[Hash, Hash],
    redirected_arrivals: Sequence[tuple[Hash, Hash]],
    is_created: Callable[[int], bool],
) -> FoundMoves:
    """Find the missing items that have another key now, and remove them from the missing items.

    `redirects` maps old keys to new keys. `arrivals` are new datasets that are not stored, as in a dry run.
    `redirected_arrivals` are pairs of an old key and the content hash of its target, which is not stored either.
    """
    last_item = "select last_item from run where source_id = %s and complete order by id desc limit 1"
    values = {"source": source_id, "dataset": DATASET, "since": await number(c, last_item, [source_id])}
    has_datasets = arrivals or await scalar(c, f"select exists {_ITEMS}{_IS_NEW})".encode(), values)
    if not has_datasets and not redirects:
        return FoundMoves()
    for statement in _TABLES.split(";"):
        await c.execute(statement.encode())
    if redirects:
        keys, contents = zip(*redirected_arrivals, strict=True) if redirected_arrivals else ((), ())
        targets = {"old": list(redirects), "new": list(redirects.values())}
        await c.execute(_REDIRECTED, {**values, **targets, "keys": list(keys), "contents": list(contents)})
    if has_datasets:
        titles, hashes, sizes, traits = zip(*arrivals, strict=True) if arrivals else ((), (), (), ())
        columns = {"titles": list(titles), "records": list(traits), "hashes": list(hashes), "sizes": list(sizes)}
        await c.execute(f"{_INSERT}{_ITEMS}{_IS_MISSING}) as item".encode(), values | {"is_new": False})
        await c.execute(f"{_INSERT}{_ITEMS}{_IS_NEW}) as item".encode(), values | {"is_new": True})
        await c.execute(f"{_INSERT}{_ARRIVALS}".encode(), columns | {"is_new": True})
        await c.execute("analyze moving")
        for evidence in _EVIDENCE:
            pairs = _PAIR.format(same=evidence.same, condition=evidence.condition).encode()
            if await affected(c, pairs):
                await c.execute(_SHARED.format(third=evidence.third).encode(), values)
                await c.execute("delete from moving using pair where id = old_id")
                await c.execute("delete from moving using pair where id = new_id")
    await c.execute("delete from missing using pair where id = old_id")
    rows = await all_rows(c, "select new_id, same from pair", binary=True)
    same = [same for new_id, same in rows if is_created(new_id)]
    return FoundMoves(len(rows), sum(same), len(same) - sum(same))


# `alike` items have equal passages: the passages of the old row stay, those of the new row are deleted with it.
_MAKE_MOVES = (
    """
    create temporary table moved on commit drop as
    select pair.*, old.url as moved_from, old.revision as before,
           case when old.record ? 'rdfa'
                then array(select jsonb_array_elements_text(old.record -> 'rdfa' -> 'statements')) end as stated,
           not same or new.revision > 1 as revised,
           same and old.language is not distinct from new.language and old.chunker = new.chunker as alike
      from pair join item old on old.id = old_id join item new on new.id = new_id
    """,
    "analyze moved",
    "delete from chunk using moved where item_id = old_id and not alike",
    "update chunk set item_id = old_id from moved where item_id = new_id and not alike",
    "delete from item_title using moved where item_id = old_id",
    "update item_title set item_id = old_id from moved where item_id = new_id",
    "delete from item_check using moved where item_id = old_id",
    "update item_check set item_id = old_id from moved where item_id = new_id",
    "delete from item_gone using moved where item_id = old_id",
    "delete from item_held using moved where item_id = old_id",
    """
    insert into revision (item_id, number, content_hash, title, text, tags, at)
    select id, revision, content_hash, title, text, tags, updated_at from item join moved on id = old_id where revised
    union all
    select old_id, before + number, content_hash, title, text, tags, at from revision join moved on item_id = new_id
    """,
    """
    with folded as (delete from item using moved where id = new_id returning item.*, old_id, same, revised)
    update item set key = folded.key, url = folded.url, title = folded.title,
           text = case when same then item.text else folded.text end, tags = folded.tags, record = folded.record,
           source_record = folded.source_record, body_hash = folded.body_hash, recipe = folded.recipe,
           content_hash = folded.content_hash, record_hash = folded.record_hash, language = folded.language,
           text_language = folded.text_language, media_type = folded.media_type,
           twins = folded.twins, remarks = folded.remarks, chunker = folded.chunker,
           revision = item.revision + case when revised then folded.revision else 0 end, updated_at = now()
      from folded where item.id = folded.old_id
    """,
)


async def make(c: Connection, *, revisions_kept: int) -> None:
    """Carry out the moves that were found: the old item gets the new key, and the new row is merged into it."""
    for statement in _MAKE_MOVES:
        await c.execute(statement)
    await c.execute(
        "delete from revision using moved join item on item.id = old_id"
        " where item_id = old_id and revised and number < item.revision - %s",
        [revisions_kept],
    )


async def log_lines(c: Connection) -> AsyncIterator[list[LogLine]]:
    """Yield the lines of the change log for the moves, in batches in the order of ids."""
    query = """
        select old_id, key, url, title, content_hash, record_hash, moved_from, stated
          from moved join item on id = old_id where old_id > %s order by old_id limit %s
    """
    after = 0
    while rows := await all_rows(c, query, [after, _LINES_AT_ONCE]):
        after = rows[-1][0]
        yield [removal("moved", *move, stated=stated) for _, *move, stated in rows]
