"""The datasets of all sources as one catalog: page by page, each dataset once, however many portals list it."""

from collections.abc import Mapping
from typing import Any

from rowen.model.catalog import CatalogPage, ListedDataset
from rowen.model.twins import DATASET
from rowen.store import twins
from rowen.store.database import Connection
from rowen.store.packed import whole
from rowen.store.rows import all_rows, scalar

__all__ = ["count_of", "page_of_datasets"]


async def page_of_datasets(c: Connection, *, after: bytes | None, limit: int, source: str | None = None) -> CatalogPage:
    """Datasets after a key. Of those that several portals list, the original stands for all; a source keeps its own."""
    rows = await all_rows(
        c,
        """
        select item.id, item.key, source.name, item.url, item.title, item.text, item.tags, item.language,
               item.updated_at, item.record - 'source', item.source_record
          from item join source on source.id = item.source_id
         where item.media_type = %(dataset)s and (%(after)s::bytea is null or item.key > %(after)s)
           and (%(source)s::text is null or source.name = %(source)s)
         order by item.key, item.id limit %(limit)s
        """,
        {"dataset": DATASET, "after": after, "source": source, "limit": limit + 1},
    )
    kept, more = rows[:limit], len(rows) > limit
    copies: set[int] = set()
    if source is None:
        groups = await twins.groups(c, [row[0] for row in kept])
        copies = {number for number, group in groups.items() if group.original.id != number}
    datasets = tuple(
        ListedDataset(key, name, url, title, text, tuple(tags), language, updated_at, _facts(record, packed))
        for number, key, name, url, title, text, tags, language, updated_at, record, packed in kept
        if number not in copies
    )
    return CatalogPage(datasets, kept[-1][1] if more else None)


def _facts(record: Mapping[str, Any], packed: bytes | None) -> dict[str, Any]:
    """A record without the one that it was taken from."""
    return {name: value for name, value in whole(record, packed).items() if name != "source"}


async def count_of(c: Connection, *, source: str | None = None) -> int:
    """How many listings of datasets there are; those of several portals count as often as they are listed."""
    return int(
        await scalar(
            c,
            "select count(*) from item join source on source.id = item.source_id"
            " where item.media_type = %s and (%s::text is null or source.name = %s)",
            [DATASET, source, source],
        )
    )
