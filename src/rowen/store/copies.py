"""Items that say the same, word for word: one text in several sources, or twice in one."""

from collections.abc import Sequence
from typing import NamedTuple

from rowen.model.twins import DATASET
from rowen.store.database import Connection
from rowen.store.rows import all_rows

__all__ = ["CopiedItem", "Copies", "copies"]

# A sentence, as for twins: shorter texts ("No description.") are the same for different things.
_ENOUGH_CHARACTERS = 40
# How many passages of one text are looked at: an opening that more items share is boilerplate, and few are copies.
_MOST_LOOKED_AT = 200


class CopiedItem(NamedTuple):
    """One of several items with the same text."""

    id: int
    url: str
    title: str
    source: str


class Copies(NamedTuple):
    """All items with one text, by source and URL; `name` is that of the text."""

    name: str
    items: tuple[CopiedItem, ...]


# The first passage leads to others that have it, by the index; then the whole texts are compared. Datasets of a series
# are described alike, and only their titles tell the place or the year.
_COPIES = """
select asked.id, left(encode(sha256(convert_to(asked.text, 'UTF8')), 'hex'), 16),
       item.id, item.url, item.title, source.name
  from item asked
 cross join lateral (select text_hash from chunk where item_id = asked.id order by position limit 1) opening
 cross join lateral (select item_id from chunk where text_hash = opening.text_hash limit %(looked_at)s) other
  join item on item.id = other.item_id and item.text = asked.text
       and (item.title = asked.title or asked.media_type is distinct from %(dataset)s)
  join source on source.id = item.source_id
 where asked.id = any(%(items)s) and length(asked.text) >= %(characters)s
 group by asked.id, asked.text, item.id, source.id
 order by asked.id, source.name, item.url
"""


async def copies(c: Connection, item_ids: Sequence[int]) -> dict[int, Copies]:
    """The items that have the same text as each of these, itself among them; those without a copy are left out."""
    rows = await all_rows(
        c,
        _COPIES,
        {"items": list(item_ids), "characters": _ENOUGH_CHARACTERS, "looked_at": _MOST_LOOKED_AT, "dataset": DATASET},
    )
    found: dict[int, Copies] = {}
    for asked, name, *item in rows:
        found[asked] = Copies(name, (*(found[asked].items if asked in found else ()), CopiedItem(*item)))
    return {asked: those for asked, those in found.items() if len(those.items) > 1}
