"""Items whose source gave them other identifiers, all at once: a new host, a new scheme of URLs.

Where most records of a group are new, and most of these say what an item says that the run has not met, the source
has not deleted everything and begun again. The items are known by their new keys from then on, with their history.
Only a source that is being shown whole is believed so, or one that says in the same breath that the items are gone:
what is merely new since yesterday says nothing about those that it resembles. In a whole walk it is right even where
it is wrong: should an item turn up under its old key after all, it is created there again.

Only datasets are matched. Of a page or a file, an origin may say under its old key that it is unchanged, after it was
taken for another; a catalog shows its records anew.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from rowen.harvest.seen import Seen
from rowen.model.hashes import Hash
from rowen.model.item import Document
from rowen.model.source import Source
from rowen.store import items, moves
from rowen.store.database import Database
from rowen.store.items import Stored
from rowen.store.moves import Trait

__all__ = ["Movers"]

# Below that, records that look alike are more likely copies than moves: two new records with an old title are common.
LEAST = 3
# A new scheme of identifiers moves nearly all records of a group at once; half leaves room for records that are new.
SHARE = 0.5
MOST_HELD = 200_000
"""A larger source is matched by its texts alone: titles and resources of more would not fit in memory."""

# Shorter titles are words such as "Budget", which many records share.
_LEAST_TITLE = 8


class Movers:
    """Finds the items that the new documents of a run were before; `trusted` once the source is being shown whole."""

    def __init__(self, database: Database, source: Source, *, held: int, seen: Seen) -> None:
        self._database = database
        self._source = source
        self.trusted = False
        self._held = held
        self._seen = seen
        self._by_mark: dict[bytes, list[Trait]] | None = None
        self._taken: set[int] = set()

    async def find(
        self, new: Sequence[tuple[Hash, Document]], *, fetched: int, gone: Sequence[Hash]
    ) -> dict[Hash, tuple[str, Stored]]:
        """For the key of a new document, the URL that it had before and what is stored of it."""
        if not self._held or len(new) < LEAST or len(new) < SHARE * fetched:
            return {}
        matched = self._match(await (self._marks() if self.trusted else self._marks_of_gone(gone)), new)
        if len(matched) < SHARE * len(new):
            return {}
        self._taken.update(trait.id for trait in matched.values())
        async with self._database.connection() as c:
            stored = await items.stored(c, self._source.id, [trait.key for trait in matched.values()])
        return {
            key: (trait.url, stored[trait.key])
            for key, trait in matched.items()
            if trait.key in stored and self._seen.add(trait.id)
        }

    def _match(self, by_mark: dict[bytes, list[Trait]], new: Sequence[tuple[Hash, Document]]) -> dict[Hash, Trait]:
        matched: dict[Hash, Trait] = {}
        used: set[int] = set()
        for key, document in new:
            for mark in _marks_of(document.content_hash, document.title, _resources(document)):
                left = [one for one in by_mark.get(mark, ()) if self._is_free(one) and one.id not in used]
                if len(left) == 1 or (left and mark == document.content_hash):
                    matched[key] = left[0]
                    used.add(left[0].id)
                    break
        return matched

    def _is_free(self, trait: Trait) -> bool:
        return trait.id not in self._taken and trait.id not in self._seen

    async def _marks_of_gone(self, gone: Sequence[Hash]) -> dict[bytes, list[Trait]]:
        by_mark: dict[bytes, list[Trait]] = {}
        if gone:
            async with self._database.connection() as c:
                for trait in await moves.traits_of(c, self._source.id, gone):
                    self._note(by_mark, trait)
        return by_mark

    async def _marks(self) -> dict[bytes, list[Trait]]:
        if self._by_mark is None:
            self._by_mark = {}
            async with self._database.connection() as c:
                async for batch in moves.traits(c, self._source.id):
                    for trait in batch:
                        self._note(self._by_mark, trait)
        return self._by_mark

    def _note(self, by_mark: dict[bytes, list[Trait]], trait: Trait) -> None:
        slim = trait._replace(title="", resources=[])
        marks = _marks_of(trait.content_hash, trait.title, trait.resources)
        for mark in marks if self._held <= MOST_HELD else marks[:1]:
            by_mark.setdefault(mark, []).append(slim)


def _marks_of(content_hash: Hash, title: str, resources: Sequence[str]) -> list[bytes]:
    """What a record may be recognised by, the surest first: all it says, its files, its title."""
    marks = [content_hash]
    if urls := sorted(filter(None, resources)):
        marks.append(_mark("resources", *urls))
    if len(title) >= _LEAST_TITLE:
        marks.append(_mark("title", title))
    return marks


def _mark(*parts: str) -> bytes:
    return sha256("\x00".join(parts).encode("utf-8", "replace")).digest()[:16]


def _resources(document: Document) -> list[str]:
    listed: Any = document.record.get("resources")
    if not isinstance(listed, list):
        return []
    return [str(one.get("url") or "") for one in listed if isinstance(one, dict)]
