"""The change log, differences between two versions of an item, and published changes."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from difflib import SequenceMatcher
from hashlib import sha256
from typing import Any, Literal, NamedTuple, TypeAlias

from rowen.model.hashes import data_hash
from rowen.model.wording import brief

ChangeKind: TypeAlias = Literal[
    "created", "updated", "amended", "deleted", "moved", "failing", "recovered", "extracted", "matched"
]


@dataclass(frozen=True, slots=True)
class Change:
    """One numbered line of the append-only change log.

    For extracted facts, `schema` is the name of their schema, and `diff` lists the changed fields as JSON pointers
    with values.
    """

    number: int
    kind: ChangeKind
    url: str
    title: str
    source: str
    at: datetime
    run: int | None = None
    moved_from: str | None = None
    schema: str | None = None
    diff: list[dict[str, Any]] | None = None

    def __repr__(self) -> str:
        return brief(self, str(self.number), self.kind, self.title, self.url)


FieldOp: TypeAlias = Literal["added", "removed", "changed"]


class FieldChange(NamedTuple):
    """One field that differs between two versions, identified by its JSON pointer (RFC 6901)."""

    op: FieldOp
    path: str
    before: Any = None
    after: Any = None

    def to_json(self) -> dict[str, Any]:
        """Return the change as plain values; a value that is absent is left out."""
        values: dict[str, Any] = {"op": self.op, "path": self.path}
        if self.op != "added":
            values["before"] = self.before
        if self.op != "removed":
            values["after"] = self.after
        return values


def differences(before: Any, after: Any, path: str = "") -> Iterator[FieldChange]:
    """Yield the differences between two values: objects are compared by key, lists by position."""
    if type(before) is type(after) and isinstance(before, dict | list):
        if isinstance(before, list):
            before, after = dict(enumerate(before)), dict(enumerate(after))
        for name in [*before, *(name for name in after if name not in before)]:
            place = f"{path}/{_escaped(name)}"
            if name not in after:
                yield FieldChange("removed", place, before=before[name])
            elif name not in before:
                yield FieldChange("added", place, after=after[name])
            else:
                yield from differences(before[name], after[name], place)
    elif data_hash(before) != data_hash(after):
        yield FieldChange("changed", path, before, after)


def leaves(data: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the leaf values of data with their JSON pointers."""
    if isinstance(data, dict):
        for name, inner in data.items():
            yield from leaves(inner, f"{path}/{_escaped(name)}")
    elif isinstance(data, list):
        for number, inner in enumerate(data):
            yield from leaves(inner, f"{path}/{number}")
    else:
        yield path, data


def flattened(data: Any, path: str = "") -> dict[str, Any]:
    """Return nested data as one row with names such as `offer.price`; a list stays one value."""
    if not isinstance(data, Mapping):
        return {path or "value": data}
    made: dict[str, Any] = {}
    for name, inner in data.items():
        made |= flattened(inner, f"{path}.{name}" if path else str(name))
    return made


def _escaped(name: str) -> str:
    return str(name).replace("~", "~0").replace("/", "~1")


DiffForm: TypeAlias = Literal["unified", "html"]
LineKind: TypeAlias = Literal["same", "removed", "added"]

# Lines of context, as in patches: enough to find the place; twice as many would distract from the change.
_CONTEXT = 3
# Longer lines are not compared by word: the time grows with the square of the length, and such lines are data.
_LONGEST_LINE = 4_000
# Lines with a smaller share of equal words are shown as removed and added, which is easier to read.
_LEAST_ALIKE = 0.4
_WORD = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class DiffPiece:
    """A part of a line; `changed` says whether it differs in the other version."""

    text: str
    changed: bool = False


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One unchanged, removed or added line, with its line number before and after."""

    kind: LineKind
    pieces: tuple[DiffPiece, ...]
    older: int | None = None
    newer: int | None = None

    @property
    def text(self) -> str:
        """The whole line."""
        return "".join(piece.text for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Hunk:
    """Changed lines with the unchanged lines around them."""

    lines: tuple[DiffLine, ...]


@dataclass(frozen=True, slots=True)
class ItemDiff:
    """The differences between two revisions of an item; revision 0 is empty."""

    url: str
    source: str
    older: int
    newer: int
    title: tuple[str, str]
    tags_added: tuple[str, ...]
    tags_removed: tuple[str, ...]
    hunks: tuple[Hunk, ...]


@dataclass(frozen=True, slots=True)
class FieldDiff:
    """The changed fields of an item's record, or of its facts under a schema (`of`).

    `older_at` and `newer_at` are the times at which the two versions were last written; `older_at` is None if there is
    no older version.
    """

    url: str
    source: str
    of: str
    older_at: datetime | None
    newer_at: datetime
    fields: tuple[FieldChange, ...]


def hunks_of(before: str, after: str) -> tuple[Hunk, ...]:
    """Return the differences between two texts as hunks."""
    older, newer = before.splitlines(), after.splitlines()
    hunks: list[Hunk] = []
    for group in SequenceMatcher(None, older, newer).get_grouped_opcodes(_CONTEXT):
        lines: list[DiffLine] = []
        for tag, first, last, start, end in group:
            removed, added = older[first:last], newer[start:end]
            if tag == "equal":
                places = range(len(removed))
                lines += [DiffLine("same", (DiffPiece(removed[n]),), first + n + 1, start + n + 1) for n in places]
                continue
            # Only if as many lines were added as removed, it is clear which line replaced which.
            pairs = [_pieces(*pair) for pair in zip(removed, added, strict=False)] if len(removed) == len(added) else []
            for n, text in enumerate(removed):
                lines.append(DiffLine("removed", pairs[n][0] if pairs else (DiffPiece(text, True),), first + n + 1))
            for n, text in enumerate(added):
                pieces = pairs[n][1] if pairs else (DiffPiece(text, True),)
                lines.append(DiffLine("added", pieces, newer=start + n + 1))
        hunks.append(Hunk(tuple(lines)))
    return tuple(hunks)


def _pieces(before: str, after: str) -> tuple[tuple[DiffPiece, ...], tuple[DiffPiece, ...]]:
    """Divide two lines into equal and different pieces."""
    whole = (DiffPiece(before, True),), (DiffPiece(after, True),)
    if max(len(before), len(after)) > _LONGEST_LINE:
        return whole
    older, newer = _WORD.findall(before), _WORD.findall(after)
    matcher = SequenceMatcher(None, older, newer, autojunk=False)
    if matcher.ratio() < _LEAST_ALIKE:
        return whole
    removed: list[DiffPiece] = []
    added: list[DiffPiece] = []
    for tag, first, last, start, end in matcher.get_opcodes():
        changed = tag != "equal"
        removed += [DiffPiece("".join(older[first:last]), changed)] if last > first else []
        added += [DiffPiece("".join(newer[start:end]), changed)] if end > start else []
    return tuple(removed), tuple(added)


FeedForm: TypeAlias = Literal["atom", "json"]

EARLIER_CHARS = 65_536
"""The maximum length of a text that is compared for a feed or a message; feed readers show only the first screen of a
change.
"""


@dataclass(frozen=True, slots=True)
class Publication:
    """One document: its bytes, its media type, and whether it is immutable."""

    body: bytes
    media_type: str
    immutable: bool = False

    @property
    def etag(self) -> str:
        """The validator; equal bytes have the same validator."""
        return f'"{sha256(self.body).hexdigest()[:32]}"'


@dataclass(frozen=True, slots=True)
class PublishedChange:
    """A line of the change log; it includes the item's content if no later line concerns the item.

    `text` is None if the item was deleted or has changed since. `before` is the replaced version as title, text and
    tags; None if that version is not stored, or one of the texts is too long to be compared.
    """

    change: Change
    text: str | None = None
    tags: tuple[str, ...] = ()
    language: str | None = None
    media_type: str | None = None
    record: Mapping[str, Any] | None = None
    revision: int = 0
    before: tuple[str, str, tuple[str, ...]] | None = None


@dataclass(frozen=True, slots=True)
class LogSpan:
    """A span of consecutive lines of the log, its number among spans of that length, and the times of its ends."""

    number: int
    first_at: datetime
    last_at: datetime
