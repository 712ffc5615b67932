"""Which outcome an observation has, by comparing hashes. Pure: the rows to compare with are handed in."""

from dataclasses import dataclass

from rowen.harvest.recipes import Recipes
from rowen.model.item import Document, Raw, Unchanged, Validators
from rowen.model.run import Outcome
from rowen.store.items import Check, Stored

__all__ = ["Verdict", "judge", "recheck", "same_body", "unread_check"]


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


def judge(document: Document, stored: Stored | None, recipes: Recipes) -> Verdict:
    """The outcome of a document that was read."""
    if stored is None:
        return Verdict(outcome=Outcome.CREATED, write_item=True, write_chunks=True, write_check=True)
    recut = stored.chunker != recipes.chunker
    checked = _check_differs(document, stored, recipes)
    if document.record_hash == stored.record_hash:
        return Verdict(outcome=Outcome.UNCHANGED, write_item=recut, write_chunks=recut, write_check=checked)
    if document.content_hash == stored.content_hash:
        return Verdict(outcome=Outcome.AMENDED, write_item=True, write_chunks=recut, write_check=checked)
    reread = not _is_current(stored, recipes) and _same_source_body(document.validators, stored)
    outcome = Outcome.AMENDED if reread else Outcome.UPDATED
    return Verdict(outcome=outcome, write_item=True, write_chunks=True, write_check=checked, revised=True)


def _is_current(stored: Stored, recipes: Recipes) -> bool:
    return recipes.is_current(stored.recipe, is_body=stored.body_hash is not None)


def _same_source_body(validators: Validators, stored: Stored) -> bool:
    return validators.body_hash is not None and validators.body_hash == stored.body_hash


def _check_differs(document: Document, stored: Stored, recipes: Recipes) -> bool:
    recipe = recipes.of(document)
    if stored.recipe == recipes.old and _is_current(stored, recipes):
        # It says the same in the words of an earlier release.
        recipe = recipes.old
    held = (stored.etag, stored.last_modified, stored.body_hash, stored.depth, stored.links, stored.recipe)
    seen = document.validators
    links = "\n".join(document.links)
    return held != (seen.etag, seen.last_modified, seen.body_hash, document.depth, links, recipe)


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
