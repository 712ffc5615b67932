"""Lines of the change log about some words: those whose titles have them, or whose items have them now.

Neither titles nor lines have an index of words, which each change would have to pay for. Common words stand in the
newest lines, and are found by walking back. Rare ones are looked up in the passages, and their items then in the log.
"""

import re
from collections.abc import Mapping
from typing import Any

from rowen.store.database import Connection
from rowen.store.rows import all_rows, one

__all__ = ["LOOKED_THROUGH", "numbers_about"]

LOOKED_THROUGH = 50_000
"""Lines of the log that are looked through for some words, in 50 ms; a million would take a second."""
# Lines whose items are looked at one by one, at 13 µs each: a word that every twentieth item has fills a page of 50.
_FIRST_WALK = 1_000
_NEXT_WALK = 4_000
# One line in so many is enough to walk on: a page of 50 is full after ten thousand lines, in the time of a scan.
_COMMON = 200
# Items with the words are listed as long as they are no more than this: each costs two looks, some 10 µs.
_MOST_ITEMS = 8_000

_TITLE = (
    "lower(title) like any(%(parts)s) and to_tsvector('simple', title) @@ websearch_to_tsquery('simple', %(query)s)"
)
_WALK = """
with asked as materialized (
    select config, websearch_to_tsquery(config, words_apart(%(query)s)) as query from text_configs() as config
)
select number from change
 where number > %(above)s and number < %(below)s and {where} and (
       {title} or exists (
           select from item join asked on asked.config = text_config(item.language)
             join chunk on chunk.item_id = item.id and chunk.tsv @@ asked.query
            where item.source_id = change.source_id and item.key = change.key))
 order by number desc limit %(limit)s
"""
# A word that means the same in several languages is looked up once.
_ITEMS = """
select configs::text[], array(select item_id from chunk where tsv @@ query limit %(most)s)
  from (select websearch_to_tsquery(config, words_apart(%(query)s)) as query, array_agg(config) as configs
          from text_configs() as config group by 1) asked
"""
_SCAN = """
with held as materialized (
    select item.source_id, item.key from unnest(%(items)s::bigint[], %(configs)s::regconfig[]) as found(id, config)
      join item on item.id = found.id and (found.config is null or text_config(item.language) = found.config)
)
select number from change
 where number > %(above)s and number < %(below)s and {where} and (
       {title} or (source_id, key) in (select source_id, key from held))
 order by number desc limit %(limit)s
"""


# What stands for a query that any text may answer, such as one that only says what is not wanted.
_ANYTHING = "T"


async def numbers_about(
    c: Connection, query: str, *, before: int | None, limit: int, where: str, values: Mapping[str, Any]
) -> list[int]:
    """The newest lines about some words that fit, newest first, among so many before a number or before the end."""
    row = await one(
        c, "select querytree(websearch_to_tsquery('simple', %s)), coalesce(max(number), 0) from change", [query]
    )
    tree, last = row or ("", 0)
    if not tree:
        return []
    below = min(before or last + 1, last + 1)
    above = max(0, below - 1 - LOOKED_THROUGH)
    asked = {**values, "query": query, "parts": _parts(tree)}
    found = await _walked(c, where, asked, above=max(above, below - 1 - _FIRST_WALK), below=below, limit=limit)
    rest = {"above": above, "below": max(above + 1, below - _FIRST_WALK), "limit": limit - len(found)}
    if rest["limit"] <= 0 or rest["below"] == above + 1:
        return found
    if tree == _ANYTHING or len(found) * _COMMON >= _FIRST_WALK or (items := await _items(c, query)) is None:
        return found + await _walked_on(c, where, asked, **rest)
    return found + await _numbers(c, _SCAN, where, {**asked, **items, **rest})


def _parts(tree: str) -> list[str]:
    """Patterns of which a title that answers has one: of its words that are all needed, the longest."""
    if tree == _ANYTHING:
        return ["%"]
    words = [word.replace("''", "'").replace("\\\\", "\\") for word in re.findall(r"'((?:[^']|'')+)'", tree)]
    needed = words if "|" in tree else [max(words, key=len)]
    return ["%" + re.sub(r"([%_\\])", r"\\\1", word) + "%" for word in needed]


async def _items(c: Connection, query: str) -> dict[str, list[Any]] | None:
    """The items that have the words now, with the configuration that their language must have; None if too many."""
    items: list[int] = []
    configs: list[str | None] = []
    rows = await all_rows(c, _ITEMS, {"query": query, "most": _MOST_ITEMS + 1})
    for names, found in rows:
        if len(found) > _MOST_ITEMS:
            return None
        for name in names if len(rows) > 1 else [None]:
            items += found
            configs += [name] * len(found)
    return {"items": items, "configs": configs}


async def _walked(
    c: Connection, where: str, asked: Mapping[str, Any], *, above: int, below: int, limit: int
) -> list[int]:
    return await _numbers(c, _WALK, where, {**asked, "above": above, "below": below, "limit": limit})


async def _walked_on(
    c: Connection, where: str, asked: Mapping[str, Any], *, above: int, below: int, limit: int
) -> list[int]:
    """Walk back, some lines at a time, until there are enough."""
    found: list[int] = []
    while below > above + 1 and len(found) < limit:
        stop = max(above, below - 1 - _NEXT_WALK)
        found += await _walked(c, where, asked, above=stop, below=below, limit=limit - len(found))
        below = stop + 1
    return found


async def _numbers(c: Connection, statement: str, where: str, values: Mapping[str, Any]) -> list[int]:
    rows = await all_rows(c, statement.format(where=where, title=_TITLE).encode(), values)
    return [number for (number,) in rows]
