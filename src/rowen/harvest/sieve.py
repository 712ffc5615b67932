"""By which recipe an item is read, and which stored recipes still count.

A recipe is a hash over the kind, the options that matter for reading and, for a body, the name and version of its
format. It is kept with each item's check. An item is current if the present readers could have given its recipe: a new
version of one format leaves all items of other formats alone.


Which outcome an observation has, by comparing hashes. Pure: the rows to compare with are handed in.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from rowen.content import readers
from rowen.model.hashes import DOCUMENT_VERSION, Hash, canonical_json, unmarked
from rowen.model.item import Document, Raw, Unchanged, Validators
from rowen.model.run import Outcome
from rowen.model.twins import DATASET
from rowen.store.items import Check, Said, Stored

__all__ = [
    "Recipes",
    "Verdict",
    "is_reread",
    "judge",
    "only_markup_differs",
    "recheck",
    "recipes",
    "same_body",
    "unread_check",
]


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


_FENCES = ("```", "~~~")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is to be done with a document that was read; `revised` says that its text superseded another.

    What only our own reading changed, not the source, is stored, and announced as amended at most.
    """

    outcome: Outcome
    write_item: bool
    write_chunks: bool
    write_check: bool
    revised: bool = False


def same_body(raw: Raw, stored: Stored | None, recipes: Recipes) -> bool:
    """Whether a body need not be parsed: it is the one that we hold, read as we would read it now."""
    return (
        stored is not None
        and stored.body_hash == raw.body_hash
        and _is_current(stored, recipes)
        and stored.chunker == recipes.chunker
    )


def judge(document: Document, stored: Stored | None, recipes: Recipes, *, same_record: bool = False) -> Verdict:
    """The outcome of a document that was read; `same_record` tells that its source's own record is the stored one."""
    if stored is None:
        return Verdict(outcome=Outcome.CREATED, write_item=True, write_chunks=True, write_check=True)
    recut = stored.chunker != recipes.chunker
    checked = _check_differs(document, stored, recipes)
    if document.record_hash == stored.record_hash:
        return Verdict(outcome=Outcome.UNCHANGED, write_item=recut, write_chunks=recut, write_check=checked)
    if document.content_hash == stored.content_hash:
        return Verdict(outcome=Outcome.AMENDED, write_item=True, write_chunks=recut, write_check=checked)
    same_source = same_record or _same_source_body(document.validators, stored)
    reread = same_source and not _is_current(stored, recipes)
    outcome = Outcome.AMENDED if reread else Outcome.UPDATED
    return Verdict(outcome=outcome, write_item=True, write_chunks=True, write_check=checked, revised=True)


def is_reread(document: Document, stored: Stored, recipes: Recipes) -> bool:
    """Whether a record says something else than what is stored, which another reading made of it."""
    return document.content_hash != stored.content_hash and not _is_current(stored, recipes)


def only_markup_differs(document: Document, said: Said) -> bool:
    """Whether a document has the words of the one that is stored, line by line: links lead elsewhere, marks differ.

    Inside a fence every letter counts.
    """
    before, now = said.text.split("\n"), document.text.split("\n")
    if len(before) != len(now) or (said.title, sorted(set(said.tags))) != (document.title, sorted(set(document.tags))):
        return False
    fence = ""
    for old, new in zip(before, now, strict=True):
        body = old.lstrip()
        if old != new and (fence or body.startswith(_FENCES) or _plain(old) != _plain(new)):
            return False
        if fence:
            fence = "" if body.startswith(fence) else fence
        elif body.startswith(_FENCES):
            fence = body[:3]
    return True


def _plain(line: str) -> tuple[int, str]:
    """How far a line is indented, and its words: alone, what is indented in a list would be taken for code.

    Within inline code, how many spaces there are depends on where the source of a page breaks its lines.
    """
    from rowen.model.words import words_of

    body = line.lstrip()
    words = words_of(body)
    return len(line) - len(body), " ".join(words.split()) if "`" in body else words


def _is_current(stored: Stored, recipes: Recipes) -> bool:
    return recipes.is_current(stored.recipe, is_body=stored.body_hash is not None)


def _same_source_body(validators: Validators, stored: Stored) -> bool:
    return validators.body_hash is not None and validators.body_hash == stored.body_hash


def _check_differs(document: Document, stored: Stored, recipes: Recipes) -> bool:
    recipe = recipes.of(document)
    if stored.recipe == recipes.old and _is_current(stored, recipes):
        # It says the same in the words of an earlier release.
        recipe = recipes.old
    seen = document.validators
    body = seen.body_hash if _is_same_record(seen.body_hash, stored.body_hash) else stored.body_hash
    held = (stored.etag, stored.last_modified, body, stored.depth, stored.links, stored.recipe)
    links = "\n".join(document.links)
    return held != (seen.etag, seen.last_modified, seen.body_hash, document.depth, links, recipe)


def _is_same_record(seen: Hash | None, held: Hash | None) -> bool:
    """Whether a record that was asked for by itself says what the held one does, which has a mark of its bytes too."""
    return seen is not None and held is not None and unmarked(held) == seen


def unread_check(raw: Raw, stored: Stored) -> Check | None:
    """The check to write for a body that was not parsed, if its validators or depth are others."""
    if (stored.etag, stored.last_modified, stored.depth) == (raw.etag, raw.last_modified, raw.depth):
        return None
    return Check(stored.id, raw.etag, raw.last_modified, raw.body_hash, raw.depth, None, stored.recipe)


def recheck(unchanged: Unchanged, stored: Stored) -> Check | None:
    """The check to write for an unchanged item whose origin now answers with other validators."""
    now = unchanged.validators or Validators(stored.etag, stored.last_modified, stored.body_hash)
    depth = stored.depth or 0 if unchanged.depth is None else unchanged.depth
    if (stored.etag, stored.last_modified, stored.body_hash, stored.depth) == (
        now.etag,
        now.last_modified,
        now.body_hash,
        depth,
    ):
        return None
    return Check(stored.id, now.etag, now.last_modified, now.body_hash, depth, None, stored.recipe)
