"""The index as its users see it: without ids, times and the order in which things were stored."""

import re
from typing import Any

from tests.conftest import ScratchDatabase

# Behind the hash of what a record says stands one of its bytes, which also tell what moves by itself.
_ITEMS = """
select source.kind, item.url, item.title, item.text, item.tags, item.record, item.language, item.text_language,
       item.media_type, item.remarks,
       encode(item.key, 'hex'), encode(item.content_hash, 'hex'), encode(item.record_hash, 'hex'),
       item.twins, coalesce(item_check.depth, 0), coalesce(item_check.links, ''),
       left(encode(case when item_check.item_id is null then item.body_hash else item_check.body_hash end, 'hex'), 64),
       (select json_agg(json_build_array(chunk.heading, chunk.anchor, chunk.text, encode(chunk.text_hash, 'hex'),
                                         chunk.language, chunk.tsv::text) order by chunk.position)
          from chunk where chunk.item_id = item.id),
       (select encode(item_title.text_hash, 'hex') from item_title where item_title.item_id = item.id)
  from item join source on source.id = item.source_id left join item_check on item_id = item.id
 order by source.kind, item.url
"""


def index_of(database: ScratchDatabase) -> list[tuple[Any, ...]]:
    """Everything that a search or an export could show."""
    return database.query(_ITEMS)


def replayed(database: ScratchDatabase) -> dict[str, str]:
    """What a reader of the change log would believe: URL → content hash."""
    held: dict[str, str] = {}
    numbers = []
    for number, kind, url, content, moved_from in database.query(
        "select number, kind, url, encode(content_hash, 'hex'), moved_from from change order by number"
    ):
        numbers.append(number)
        if kind in ("failing", "recovered", "extracted", "matched"):
            # These tell of a source, or of the facts of an item, which stay the same item.
            continue
        if kind == "moved":
            # It was created under its new URL before it was recognised.
            assert url in held, (number, url)
            del held[moved_from]
            held[url] = content
            continue
        assert (kind == "created") == (kind != "deleted" and url not in held), (number, kind, url)
        if kind == "deleted":
            del held[url]
        else:
            held[url] = content
    assert numbers == list(range(1, len(numbers) + 1)), "the log has gaps"
    return held


def contents(database: ScratchDatabase) -> dict[str, str]:
    """URL → content hash of what is stored."""
    return dict(database.query("select url, encode(content_hash, 'hex') from item"))


def titles(database: ScratchDatabase) -> dict[str, str]:
    """The titles of all items, by the name that ends each URL, whatever stands before it."""
    found = database.query("select url, title from item")
    return {re.split(r"[/=]|%3A", url.rstrip("/"))[-1]: title for url, title in found}
