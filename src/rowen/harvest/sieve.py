"""Which outcome an observation has, by comparing hashes. Pure: the rows to compare with are handed in."""

from dataclasses import dataclass
from typing import NamedTuple

from rowen.model.hashes import Hash
from rowen.model.item import Document, Raw, Unchanged, Validators
from rowen.model.run import Outcome
from rowen.store.items import Check, Stored

__all__ = ["Recipe", "Verdict", "judge", "recheck", "same_body", "unread_check"]


class Recipe(NamedTuple):
    """How items become what is stored: `reading` covers options and readers, `chunker` the cutting of text.

    Under another recipe a rebuild would store something else, so nothing stored proves an item unchanged.
    """

    reading: Hash
    chunker: int


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


def same_body(raw: Raw, stored: Stored | None, recipe: Recipe) -> bool:
    """Whether a body need not be parsed: it is the one that we hold, read as we would read it now."""
    return (
        stored is not None
        and stored.body_hash == raw.body_hash
        and stored.recipe == recipe.reading
        and stored.chunker == recipe.chunker
    )


def judge(document: Document, stored: Stored | None, recipe: Recipe) -> Verdict:
    """The outcome of a document that was read."""
    if stored is None:
        return Verdict(outcome=Outcome.CREATED, write_item=True, write_chunks=True, write_check=True)
    recut = stored.chunker != recipe.chunker
    checked = _check_differs(document, stored, recipe)
    if document.record_hash == stored.record_hash:
        return Verdict(outcome=Outcome.UNCHANGED, write_item=recut, write_chunks=recut, write_check=checked)
    if document.content_hash == stored.content_hash:
        return Verdict(outcome=Outcome.AMENDED, write_item=True, write_chunks=recut, write_check=checked)
    reread = stored.recipe != recipe.reading and _same_source_body(document.validators, stored)
    outcome = Outcome.AMENDED if reread else Outcome.UPDATED
    return Verdict(outcome=outcome, write_item=True, write_chunks=True, write_check=checked, revised=True)


def _same_source_body(validators: Validators, stored: Stored) -> bool:
    return validators.body_hash is not None and validators.body_hash == stored.body_hash


def _check_differs(document: Document, stored: Stored, recipe: Recipe) -> bool:
    held = (stored.etag, stored.last_modified, stored.body_hash, stored.depth, stored.links, stored.recipe)
    seen = document.validators
    links = "\n".join(document.links)
    return held != (seen.etag, seen.last_modified, seen.body_hash, document.depth, links, recipe.reading)


def unread_check(raw: Raw, stored: Stored) -> Check | None:
    """The check to write for a body that was not parsed, if its validators or depth are others."""
    if (stored.etag, stored.last_modified, stored.depth) == (raw.etag, raw.last_modified, raw.depth):
        return None
    return Check(stored.id, raw.etag, raw.last_modified, raw.body_hash, raw.depth, None)


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
    return Check(stored.id, now.etag, now.last_modified, now.body_hash, depth, None)
