"""The datasets of all sources as one catalog: page by page, each dataset once, however many portals list it."""

from collections.abc import Iterator, Mapping
from typing import Any

from rowen.model.catalog import CatalogPage, CatalogPlace, ListedDataset
from rowen.model.twins import DATASET
from rowen.store import twins
from rowen.store.database import Connection
from rowen.store.packed import whole
from rowen.store.rows import all_rows

__all__ = ["counts", "page_of_datasets"]

# Written out, since the index of datasets is found by this very condition.
_IS_DATASET = f"item.media_type = '{DATASET}'"


async def counts(c: Connection) -> dict[int, int]:
    """How many datasets each source lists that lists any, in the order of their numbers.

    Those of several portals count as often as they are listed.
    """
    rows = await all_rows(c, f"select source_id, count(*) from item where {_IS_DATASET} group by 1 order by 1".encode())  # noqa: S608 (a constant)
    return dict(rows)


# As many of each source as a page has at most, and of those the first: each source has its datasets in order.
_PAGE = f"""
select item.id, item.source_id, item.key, source.name, item.url, item.title, item.text, item.tags, item.language,
       item.updated_at, item.record - 'source', item.source_record
  from (select listed.* from unnest(%(sources)s::bigint[]) as holder(source_id)
         cross join lateral (
               select id, source_id, key from item
                where item.source_id = holder.source_id and {_IS_DATASET}
                  and key > case when holder.source_id = %(first)s then %(key)s::bytea else '' end
                order by key limit %(limit)s) listed
         order by source_id, key limit %(limit)s) place
  join item on item.id = place.id
  join source on source.id = item.source_id
 order by item.source_id, item.key
"""  # noqa: S608 (a constant)


async def page_of_datasets(
    c: Connection, held: Mapping[int, int], *, after: CatalogPlace | None, limit: int, merged: bool = True
) -> CatalogPage:
    """Datasets of sources that hold so many, source by source, those after a place.

    Of those that several portals list, the original stands for all, unless they are not merged: a source keeps its own.
    """
    first, key = after or CatalogPlace(0, b"")
    sources = list(_enough(held, first, limit))
    rows = await all_rows(c, _PAGE.encode(), {"sources": sources, "first": first, "key": key, "limit": limit + 1})
    kept, more = rows[:limit], len(rows) > limit
    copies: set[int] = set()
    if merged:
        groups = await twins.groups(c, [row[0] for row in kept])
        copies = {number for number, group in groups.items() if group.original.id != number}
    datasets = tuple(
        ListedDataset(key, name, url, title, text, tuple(tags), language, updated_at, _facts(record, packed))
        for number, _, key, name, url, title, text, tags, language, updated_at, record, packed in kept
        if number not in copies
    )
    return CatalogPage(datasets, CatalogPlace(*kept[-1][1:3]) if more else None)


def _facts(record: Mapping[str, Any], packed: bytes | None) -> dict[str, Any]:
    """A record without the one that it was taken from."""
    return {name: value for name, value in whole(record, packed).items() if name != "source"}


def _enough(held: Mapping[int, int], first: int, limit: int) -> Iterator[int]:
    """The sources from one on that have a page together; of the first one some may have been passed already."""
    wanted = limit + 1
    for source_id, count in held.items():
        if source_id >= first and wanted > 0:
            wanted -= count if source_id > first else 0
            yield source_id
