"""By which recipe an item is read, and which stored recipes still count.

A recipe is a hash over the kind, the options that matter for reading and, for a body, the name and version of its
format. It is kept with each item's check. An item is current if the present readers could have given its recipe: a new
version of one format leaves all items of other formats alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from rowen.content import readers
from rowen.model.hashes import DOCUMENT_VERSION, Hash, canonical_json
from rowen.model.item import Document
from rowen.model.twins import DATASET

__all__ = ["Recipes", "recipes"]


@dataclass(frozen=True, slots=True)
class Recipes:
    """The recipes of one run: `records` for items that come as documents, `bodies` by format for those that are read.

    Until formats got versions of their own, a run had one recipe for all items, `old`. It still counts for a record,
    which no reader has touched; a body is read again, since the reader of HTML has another version now.
    """

    records: Hash
    bodies: Mapping[str, Hash]
    old: Hash
    current: frozenset[Hash]
    chunker: int

    def of(self, document: Document) -> Hash:
        """The recipe of a document: what has the hash of a body was read from one."""
        if document.validators.body_hash is None or document.media_type == DATASET:
            return self.records
        return self.bodies[readers.reader_of(document.media_type or "").format]

    def is_current(self, recipe: Hash | None, *, is_body: bool) -> bool:
        """Whether an item that was stored under a recipe would be read in the same way now."""
        return recipe in self.current or (recipe == self.old and not is_body)


def recipes(kind: str, reading: Mapping[str, Any]) -> Recipes:
    """The recipes of a source of this kind, with those of its options that matter for reading."""
    # The first version stands in no recipe: those of before it had a number stay current.
    documents = [] if DOCUMENT_VERSION == 1 else [f"document {DOCUMENT_VERSION}"]
    told = [kind, readers.VERSION, dict(reading), *documents]
    known = readers.formats()
    records = _hash([kind, dict(reading), *documents])
    bodies = {one.name: _hash([*told, one.name, one.versions, one.taken]) for one in known}
    old = _hash([kind, readers.VERSION_BEFORE_FORMATS, dict(reading)])
    if documents:
        # No item of an earlier version of documents is current: the old recipe must match none of them.
        old = _hash([kind, dict(reading), *documents, "old"])
    return Recipes(records, bodies, old, frozenset({records, *bodies.values()}), readers.CHUNKER_VERSION)


def _hash(told: list[Any]) -> Hash:
    return sha256(canonical_json(told)).digest()[:16]
