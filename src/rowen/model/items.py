"""Items: the observations that connectors yield, and items as they are stored and shown."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from rowen.model.hashes import Hash, RecordJson, body_hash, content_hash, record_hash, storable, storable_cursor
from rowen.model.languages import item_language
from rowen.model.rdf import StatementProfile, StatementsWanted
from rowen.model.text import (
    header,
    language_within,
    letters,
    links_within,
    media_type_within,
    message,
    name_within,
    normalise,
    tags_within,
    title_within,
)
from rowen.model.url import address
from rowen.model.wording import brief, count

Cursor: TypeAlias = Any
"""The position at which a listing can be resumed: a JSON value that only its connector interprets."""


NoteName: TypeAlias = tuple[str, str]
"""The group and the name of a note, which is stored beside a cursor."""


_VOCABULARY = re.compile(r"https?://(?:www\.)?schema\.org/")


class FactsWanted(NamedTuple):
    """The facts to read from a page's markup: fields by name, and fields located by rules, as (schema, field)."""

    names: tuple[str, ...] = ()
    rules: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.names or self.rules)

    @property
    def is_linear(self) -> bool:
        """Whether its rules run in linear time on every page; XPaths and nested selectors can take exponential time."""
        return not any("(" in at or at.lstrip().startswith("/") for _, at in self.rules)


def plain_name(name: str) -> str:
    """Return the normal form of datePublished, date_published and https://schema.org/datePublished."""
    return re.sub(r"[^a-z0-9@]", "", _VOCABULARY.sub("", name).lower())


@dataclass(frozen=True, slots=True)
class Validators:
    """An origin's validators, stored exactly as received; a validator that cannot be sent back becomes None."""

    etag: str | None = None
    last_modified: str | None = None
    body_hash: Hash | None = None

    def __post_init__(self) -> None:
        if self.etag is not None:
            object.__setattr__(self, "etag", header(self.etag))
        if self.last_modified is not None:
            object.__setattr__(self, "last_modified", header(self.last_modified))


@dataclass(frozen=True, slots=True)
class Document:
    """The content of an item, ready to be stored: `text` is Markdown, `record` is the source's complete record.

    Text, title and tags are normalised here, once; the hashes cover exactly the stored form. `remarks` describe values
    that were truncated or left out (`model/text.py`).
    """

    url: str
    title: str
    text: str
    tags: tuple[str, ...] = ()
    record: Mapping[str, Any] = field(default_factory=dict)
    language: str | None = None
    media_type: str | None = None
    links: tuple[str, ...] = ()
    depth: int = 0
    validators: Validators = Validators()
    remarks: tuple[str, ...] = ()
    content_hash: Hash = field(init=False)
    record_hash: Hash = field(init=False)
    written: RecordJson = field(init=False, repr=False)

    def __post_init__(self) -> None:
        put = object.__setattr__
        remarks = list(self.remarks)
        put(self, "url", url := address(self.url))
        put(self, "title", title := title_within(_line(self.title), remarks))
        put(self, "text", text := normalise(self.text))
        tags = tuple(sorted({tag for raw in self.tags if (tag := _line(raw))})) if self.tags else ()
        put(self, "tags", tags := tags_within(tags, remarks))
        language, media_type = self.language, self.media_type
        if language or media_type:
            put(self, "language", language := language_within(letters(language) if language else language, remarks))
            media_type = letters(media_type) if media_type else media_type
            put(self, "media_type", media_type := media_type_within(media_type, remarks))
        if self.links:
            put(self, "links", links_within(tuple(map(address, self.links)), remarks))
        if remarks:
            put(self, "remarks", tuple(remarks))
        record, written = storable(self.record)
        content = content_hash(title, text, tags)
        put(self, "record", record)
        put(self, "content_hash", content)
        put(self, "record_hash", record_hash(content, url, language, media_type, written.whole(), remarks))
        put(self, "written", written)

    @property
    def text_language(self) -> str | None:
        """The language for indexing: the declared one, or the detected one if the declaration is plainly wrong."""
        return item_language(self.language, self.title, self.text)

    @property
    def record_json(self) -> str:
        """The record in the encoded form that the hash covers."""
        return self.written.whole().decode()


@dataclass(frozen=True, slots=True)
class Raw:
    """A body as the origin sent it, before it is parsed into a document.

    `name` is a file name; its ending determines the format if the media type does not. `title` is used if the body has
    no title. `select` and `ignore` are CSS selectors of the parts to keep and to drop. `facts` are read from the
    page's markup. `statements` says whether the page's RDFa is read, and `profile` has the shapes for validating it.
    """

    url: str
    body: bytes = field(repr=False)
    name: str = ""
    media_type: str | None = None
    charset: str | None = None
    title: str = ""
    tags: tuple[str, ...] = ()
    record: Mapping[str, Any] = field(default_factory=dict)
    language: str | None = None
    depth: int = 0
    etag: str | None = None
    last_modified: str | None = None
    select: str | None = None
    ignore: str | None = None
    facts: FactsWanted | None = None
    statements: StatementsWanted | None = None
    profile: StatementProfile | None = field(default=None, repr=False)
    body_hash: Hash = field(init=False)

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "url", address(self.url))
        put(self, "etag", header(self.etag))
        put(self, "last_modified", header(self.last_modified))
        put(self, "body_hash", body_hash(self.body))

    @property
    def validators(self) -> Validators:
        """The origin's validators together with the hash of the body."""
        return Validators(self.etag, self.last_modified, self.body_hash)


@dataclass(frozen=True, slots=True)
class Fetched:
    """The item was read. The harvest parses a `Raw` only if its body differs from the stored body."""

    item: Document | Raw


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The item equals the stored item; `validators` and `depth` are set if they changed.

    `by_body` says that the body was received and has the stored hash.
    """

    url: str
    validators: Validators | None = None
    depth: int | None = None
    by_body: bool = False


@dataclass(frozen=True, slots=True)
class Gone:
    """The origin reports the item as deleted. The run deletes it, unless too many items are deleted at once."""

    url: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Redirected:
    """The item stored under `url` is now found at `to`. If `to` is a new item, it is the same item under a new URL."""

    url: str
    to: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The item exists but could not be read: its last good copy is kept, and the error is stored in quarantine.

    If `keeps_copy` is False, the copy is deleted: the source's options now exclude the item, so a rebuild would not
    have it either.
    """

    url: str
    error: str
    hint: str | None = None
    payload: bytes | None = field(default=None, repr=False)
    keeps_copy: bool = True

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "url", name_within(address(self.url)))
        put(self, "error", message(self.error))
        put(self, "hint", message(self.hint) if self.hint else None)


@dataclass(frozen=True, slots=True)
class Skipped:
    """The item was not read and is unchanged: a circuit was open, or the response did not belong to the item."""

    url: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Everything yielded before has been read: a later run may resume from `cursor`.

    `version` is the version of the whole source; None keeps the previous version. `notes` are stored beside the
    cursor, by group and name; they hold state that is too large to be rewritten at each checkpoint. A value of None
    deletes a note. Notes belong to the cursor: a walk without a cursor has no notes.
    """

    cursor: Cursor
    version: str | None = None
    notes: Mapping[NoteName, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cursor", storable_cursor(self.cursor))
        object.__setattr__(self, "version", letters(self.version) if self.version else None)


@dataclass(frozen=True, slots=True)
class Complete:
    """The whole source was read: items that were not yielded are deleted. `expected` is the source's own count.

    `beyond` counts known items beyond a configured limit; with any, the run ends normally but is not complete.
    `generated` counts skipped files that a documentation generator wrote for its own search. With `keeps_unseen`,
    items that the source no longer shows are kept: a feed is a window, not a listing.
    """

    expected: int | None = None
    beyond: int = 0
    generated: int = 0
    keeps_unseen: bool = False


@dataclass(frozen=True, slots=True)
class Incomplete:
    """The source was not read completely: the run is partial, and deletes no unseen item.

    `some_failed` says that unreadable items are the only reason.
    """

    why: str
    some_failed: bool = False


@dataclass(frozen=True, slots=True)
class FellBack:
    """A cheaper method failed or gave wrong results, so the whole source is checked instead."""

    why: str


@dataclass(frozen=True, slots=True)
class Proved:
    """The source's list of changes and its item count prove that all items that were not read are unchanged."""


@dataclass(frozen=True, slots=True)
class Namesakes:
    """The number of records that have the same identifier as a different record.

    `shared` counts records that are stored as separate items; `dropped` counts records that are left out, since
    nothing distinguishes them permanently.
    """

    shared: int = 0
    dropped: int = 0

    def __bool__(self) -> bool:
        return bool(self.shared or self.dropped)


Observation: TypeAlias = (
    Fetched
    | Unchanged
    | Gone
    | Redirected
    | Failed
    | Skipped
    | Checkpoint
    | FellBack
    | Namesakes
    | Proved
    | Complete
    | Incomplete
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One stored item, or the last copy of a withdrawn item."""

    id: int
    source: str
    url: str
    title: str
    text: str
    tags: list[str]
    record: Mapping[str, Any]
    language: str | None
    media_type: str | None
    remarks: list[str]
    revision: int
    created_at: datetime
    updated_at: datetime
    checked_at: datetime
    withdrawn_at: datetime | None = None

    def __repr__(self) -> str:
        return brief(self, self.title, self.source, self.url, count(len(self.text), "character"))


@dataclass(frozen=True, slots=True)
class Revision:
    """One distinct text of an item."""

    number: int
    at: datetime
    title: str
    text: str
    tags: list[str]


@dataclass(frozen=True, slots=True)
class PendingDeletion:
    """An item that its source no longer shows, and whose deletion is pending.

    `told` says that the source reported the deletion; `kept_at` is the time at which a user decided to keep the item.
    """

    source: str
    url: str
    title: str
    since: datetime
    told: bool
    kept_at: datetime | None


@dataclass(frozen=True, slots=True)
class Case:
    """One item that could not be read."""

    source: str
    url: str
    error: str
    hint: str | None
    tries: int
    first_at: datetime
    last_at: datetime

    @property
    def place(self) -> tuple[datetime, str, str]:
        """The position in the list, after which the next page begins."""
        return self.last_at, self.url, self.source


@dataclass(frozen=True, slots=True)
class ItemLine:
    """One item in a list; `place` is the position after which the next page begins."""

    url: str
    title: str
    language: str | None
    revision: int
    updated_at: datetime
    place: str = ""


@dataclass(frozen=True, slots=True)
class Passage:
    """One matching part of an item's text: a passage, or several adjacent passages."""

    text: str
    heading: tuple[str, ...]
    anchor: str | None
    score: float
    words: tuple[str, ...] = ()
    similarity: float | None = None


@dataclass(frozen=True, slots=True)
class ItemDetail:
    """Stored facts about an item other than its text: its validators and its passages.

    `validators` is None if the item was never checked again, such as a withdrawn item.
    """

    validators: Validators | None = None
    depth: int = 0
    links: int = 0
    passages: tuple[Passage, ...] = ()


@dataclass(frozen=True, slots=True)
class Export:
    """The result of an export; `changes` counts the differences from an earlier snapshot, and is None without one.

    `withdrawn` counts the last copies of deleted items, if they were requested.
    """

    to: Path
    form: str
    items: int
    copies: int
    sources: int
    bytes: int
    last_change: int
    changes: dict[str, int] | None = None
    withdrawn: int | None = None


def _line(text: str) -> str:
    return " ".join((text if text.isascii() and text.isprintable() else normalise(text)).split())
