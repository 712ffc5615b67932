"""The sieve: decide the outcome of each observation by comparing hashes with stored rows, without I/O.

A recipe is a hash over the kind, the options that affect reading and, for a body, the name and version of its format.
It is stored with each item's check. An item is current if the present readers could have produced its recipe, so that
a new version of one format does not affect items of other formats.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from rowen.content import readers
from rowen.model.datasets import DATASET
from rowen.model.hashes import DOCUMENT_VERSION, Hash, canonical_json, unmarked
from rowen.model.items import Document, Raw, Unchanged, Validators
from rowen.model.runs import Outcome
from rowen.store.items.items import ItemCheck, ItemContent, StoredItem


@dataclass(frozen=True, slots=True)
class Recipes:
    """The recipes of one run: `records` for items that arrive as documents, `bodies` by format for parsed bodies.

    `old` is the single recipe that a run had before each format got its own version. It is still current for records,
    which no reader processes; a body is read again, since the HTML reader has another version now.
    """

    records: Hash
    bodies: Mapping[str, Hash]
    old: Hash
    current: frozenset[Hash]
    chunker: int

    def of(self, document: Document) -> Hash:
        """Return the recipe of a document; a document with a body hash was parsed from a body."""
        if document.validators.body_hash is None or document.media_type == DATASET:
            return self.records
        return self.bodies[readers.reader_of(document.media_type or "").format]

    def is_current(self, recipe: Hash | None, *, is_body: bool) -> bool:
        """Return whether an item stored with a recipe would be read the same way now."""
        return recipe in self.current or (recipe == self.old and not is_body)


def recipes(kind: str, reading: Mapping[str, Any]) -> Recipes:
    """Return the recipes of a source of this kind with these reading options."""
    # The first version is left out, so that recipes from before versions had numbers stay current.
    documents = [] if DOCUMENT_VERSION == 1 else [f"document {DOCUMENT_VERSION}"]
    base = [kind, readers.VERSION, dict(reading), *documents]
    records = _hash([kind, dict(reading), *documents])
    bodies = {reader.name: _hash([*base, reader.name, reader.versions, reader.taken]) for reader in readers.formats()}
    old = _hash([kind, readers.VERSION_BEFORE_FORMATS, dict(reading)])
    if documents:
        # No item of an earlier document version is current, so the old recipe must not match any.
        old = _hash([kind, dict(reading), *documents, "old"])
    return Recipes(records, bodies, old, frozenset({records, *bodies.values()}), readers.CHUNKER_VERSION)


def _hash(parts: list[Any]) -> Hash:
    return sha256(canonical_json(parts)).digest()[:16]


_FENCES = ("```", "~~~")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The writes that a document needs; `revised` means that its text replaces an earlier one.

    A change caused by Rowen's own readers, not by the source, is stored and logged as amended at most.
    """

    outcome: Outcome
    write_item: bool
    write_chunks: bool
    write_check: bool
    revised: bool = False


def same_body(raw: Raw, stored: StoredItem | None, recipes: Recipes) -> bool:
    """Return whether a body equals the stored one and would be read the same way, so that parsing can be skipped."""
    return (
        stored is not None
        and stored.body_hash == raw.body_hash
        and _is_current(stored, recipes)
        and stored.chunker == recipes.chunker
    )


def judge(document: Document, stored: StoredItem | None, recipes: Recipes, *, same_record: bool = False) -> Verdict:
    """Return the verdict on a document; `same_record` means that the source's own record equals the stored one."""
    if stored is None:
        return Verdict(outcome=Outcome.CREATED, write_item=True, write_chunks=True, write_check=True)
    recut = stored.chunker != recipes.chunker
    checked = _check_differs(document, stored, recipes)
    if document.record_hash == stored.record_hash:
        return Verdict(outcome=Outcome.UNCHANGED, write_item=recut, write_chunks=recut, write_check=checked)
    if document.content_hash == stored.content_hash:
        # A passage has a language of its own only if it differs from its item's.
        relabel = recut or document.language != stored.language
        return Verdict(outcome=Outcome.AMENDED, write_item=True, write_chunks=relabel, write_check=checked)
    body = document.validators.body_hash
    same_source = same_record or (body is not None and body == stored.body_hash)
    reread = same_source and not _is_current(stored, recipes)
    outcome = Outcome.AMENDED if reread else Outcome.UPDATED
    return Verdict(outcome=outcome, write_item=True, write_chunks=True, write_check=checked, revised=True)


def is_reread(document: Document, stored: StoredItem, recipes: Recipes) -> bool:
    """Return whether a document differs from the stored one, which was read with an outdated recipe."""
    return document.content_hash != stored.content_hash and not _is_current(stored, recipes)


def only_markup_differs(document: Document, stored: ItemContent) -> bool:
    """Return whether a document has the stored words line by line, so that only links or markup differ.

    Inside a code fence every character counts.
    """
    before, now = stored.text.split("\n"), document.text.split("\n")
    if len(before) != len(now) or (stored.title, sorted(set(stored.tags))) != (
        document.title,
        sorted(set(document.tags)),
    ):
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
    """Return a line's indentation and its words; `words_of` would take an indented list item for code.

    Spaces within inline code are normalized, since they depend on line breaks in the page's source.
    """
    from rowen.model.passages import words_of

    body = line.lstrip()
    words = words_of(body)
    return len(line) - len(body), " ".join(words.split()) if "`" in body else words


def _is_current(stored: StoredItem, recipes: Recipes) -> bool:
    return recipes.is_current(stored.recipe, is_body=stored.body_hash is not None)


def _check_differs(document: Document, stored: StoredItem, recipes: Recipes) -> bool:
    recipe = recipes.of(document)
    if stored.recipe == recipes.old and _is_current(stored, recipes):
        # An equivalent recipe of an earlier release.
        recipe = recipes.old
    seen = document.validators
    body = stored.body_hash
    if body is not None and unmarked(body) == seen.body_hash:
        # A record that was fetched individually has no hash of its bytes.
        body = seen.body_hash
    before = (stored.etag, stored.last_modified, body, stored.depth, stored.links, stored.recipe)
    links = "\n".join(document.links)
    return before != (seen.etag, seen.last_modified, seen.body_hash, document.depth, links, recipe)


def unread_check(raw: Raw, stored: StoredItem) -> ItemCheck | None:
    """Return the check to store for an unparsed body; None if its validators and depth are unchanged."""
    if (stored.etag, stored.last_modified, stored.depth) == (raw.etag, raw.last_modified, raw.depth):
        return None
    return ItemCheck(stored.id, raw.etag, raw.last_modified, raw.body_hash, raw.depth, None, stored.recipe)


def recheck(unchanged: Unchanged, stored: StoredItem) -> ItemCheck | None:
    """Return the check to store for an unchanged item; None if its validators and depth are unchanged."""
    now = unchanged.validators or Validators(stored.etag, stored.last_modified, stored.body_hash)
    depth = stored.depth or 0 if unchanged.depth is None else unchanged.depth
    before = (stored.etag, stored.last_modified, stored.body_hash, stored.depth)
    if before == (now.etag, now.last_modified, now.body_hash, depth):
        return None
    return ItemCheck(stored.id, now.etag, now.last_modified, now.body_hash, depth, None, stored.recipe)
