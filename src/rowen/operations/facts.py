"""The JSON form of all results of operations, and records without contact details."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

from typing_extensions import TypedDict

from rowen.errors import RowenError
from rowen.model.access import NewToken
from rowen.model.changes import FieldChange, FieldDiff, ItemDiff
from rowen.model.extraction import Extracted, Extraction, ExtractionReport, ModelScore, SourceSchema
from rowen.model.items import Entry, ItemDetail, ItemLine, Revision
from rowen.model.models import Costs
from rowen.model.rdf import StatementTarget
from rowen.model.runs import Run
from rowen.model.schemas import Schema
from rowen.model.search import Hit, SavedSearch, Twin
from rowen.model.sources import AppliedSource, Overview, Preview, Source
from rowen.model.status import Savings, Status
from rowen.model.webhooks import Webhook
from rowen.net.credentials import shown


class BeforeAfter(TypedDict):
    """A value before and after a change."""

    before: str
    after: str


class PreviewedItem(TypedDict):
    """One of the first items of a source that is only previewed."""

    url: str
    title: str
    text: str
    tags: list[str]
    language: str | None


class KeptPassage(TypedDict):
    """One passage of an item."""

    heading: list[str]
    anchor: str | None
    text: str


class FurtherPassage(TypedDict):
    """A matching part of an item's text: a passage, or several adjacent passages."""

    text: str
    heading: tuple[str, ...]
    words: tuple[str, ...]
    link: str


class JsonForm(NamedTuple):
    """The differences between the JSON form of a type and its fields."""

    fields: str = ""
    """The names of the fields in their order; if empty, all fields."""
    without: str = ""
    adds: str = ""
    """The names of properties that are added to the fields."""
    inlined: str = ""
    """The name of a field whose own fields are added instead of it."""
    values: Mapping[str, tuple[Any, Callable[[Any], Any]]] = {}
    """Functions that compute values, with the types of the results; None stands for the type of the field."""


def _stale(thing: Source | Overview) -> float | None:
    """Return a share rounded to a thousandth; more digits would differ in each response without a meaning."""
    return None if thing.stale is None else round(thing.stale, 3)


_HIT = "url title source heading text score link anchor passages kind language record_kind held words similarity"
_SOURCE = (
    "name kind url state options schedule version items deletions_held created_at last_run_at last_complete_at"
    " truncated due_at failures failing_since stale"
)

FORMS: Mapping[type, JsonForm] = {
    AppliedSource: JsonForm(
        "source action deed kind url changes items schedule",
        values={
            # The original name of `action`, kept for compatibility.
            "deed": (str, lambda applied: applied.action),
            "changes": (
                dict[str, Any],
                lambda applied: {
                    name: {"before": before, "after": after} for name, (before, after) in applied.changes.items()
                },
            ),
        },
    ),
    Costs: JsonForm("since usd avoided_usd lines"),
    Entry: JsonForm(without="id"),
    Extracted: JsonForm(
        # Data may be a Pydantic model.
        values={"data": (None, lambda e: e.data.model_dump(mode="json") if hasattr(e.data, "model_dump") else e.data)}
    ),
    Extraction: JsonForm(
        values={"diff": (list[dict[str, Any]], lambda extraction: [change.to_json() for change in extraction.diff])}
    ),
    ExtractionReport: JsonForm(adds="avoided"),
    FieldDiff: JsonForm(
        values={"fields": (list[dict[str, Any]], lambda diff: [field.to_json() for field in diff.fields])}
    ),
    Hit: JsonForm(
        f"{_HIT} keyword_rank vector_rank further twins",
        values={
            "further": (
                list[FurtherPassage],
                lambda hit: [
                    {"heading": list(p.heading), "text": p.text, "link": hit.link_to(p.anchor), "words": list(p.words)}
                    for p in hit.further
                ],
            ),
        },
    ),
    ItemDetail: JsonForm(
        "etag last_modified body_hash depth links passages",
        values={
            "etag": (str | None, lambda detail: detail.validators and detail.validators.etag),
            "last_modified": (str | None, lambda detail: detail.validators and detail.validators.last_modified),
            "body_hash": (
                str | None,
                lambda detail: (
                    detail.validators.body_hash.hex() if detail.validators and detail.validators.body_hash else None
                ),
            ),
            "passages": (
                list[KeptPassage],
                lambda detail: [
                    {"heading": list(p.heading), "anchor": p.anchor, "text": p.text} for p in detail.passages
                ],
            ),
        },
    ),
    ItemDiff: JsonForm(
        values={"title": (BeforeAfter, lambda diff: {"before": diff.title[0], "after": diff.title[1]})},
    ),
    ItemLine: JsonForm(without="place"),
    NewToken: JsonForm(inlined="token"),
    Overview: JsonForm(values={"stale": (None, _stale)}),
    Preview: JsonForm(
        "address kind url name more kept_as trouble items",
        values={
            "items": (
                list[PreviewedItem],
                lambda preview: [
                    {"url": i.url, "title": i.title, "text": i.text, "tags": list(i.tags), "language": i.language}
                    for i in preview.items
                ],
            )
        },
    ),
    Revision: JsonForm(without="text", values={"characters": (int, lambda revision: len(revision.text))}),
    Savings: JsonForm(values={"rungs": (dict[str, int], lambda savings: dict(savings.rungs))}),
    SavedSearch: JsonForm(without="id"),
    Schema: JsonForm(without="hash", values={"definition": (None, lambda schema: dict(schema.definition))}),
    Source: JsonForm(
        _SOURCE, values={"options": (None, lambda source: shown(source.options)), "stale": (None, _stale)}
    ),
    SourceSchema: JsonForm(adds="state"),
    StatementTarget: JsonForm(
        "source endpoint graph state number told_at waiting failures failing_since next_try_at last_error headers",
        values={"headers": (None, lambda target: shown({"headers": target.headers})["headers"])},
    ),
    Status: JsonForm(adds="needs"),
    Twin: JsonForm(),
    Webhook: JsonForm(
        "name url secrets after state failures failing_since next_try_at last_error created_at waiting form wants",
        inlined="wants",
    ),
}
"""The types whose JSON form differs from their fields, or whose schema has a name of its own in lists."""

PLAIN = JsonForm()


def names_of(kind: type) -> list[str]:
    """Return the field names in the JSON form of a dataclass or named tuple."""
    form = FORMS.get(kind, PLAIN)
    declared = [field.name for field in fields(kind)] if is_dataclass(kind) else kind._fields  # type: ignore[attr-defined]
    without = form.without.split()
    names = form.fields.split() or [name for name in declared if name not in without]
    return [*names, *form.adds.split(), *(name for name in form.values if name not in names)]


def fact(thing: Any) -> dict[str, Any]:
    """Return the JSON form of a result as plain values; datetimes and paths are not converted."""
    match thing:
        case RowenError() | Run():
            return thing.to_json()
        case ModelScore():
            return {**thing.to_json(), "pages": [fact(page) for page in thing.pages]}
    kind = type(thing)
    if not is_dataclass(kind):
        raise TypeError(f"{kind.__name__} has no JSON form")
    form = FORMS.get(kind, PLAIN)
    plain: dict[str, Any] = {}
    for name in names_of(kind):
        if name == form.inlined:
            plain |= fact(getattr(thing, name))
        else:
            plain[name] = form.values[name][1](thing) if name in form.values else _plain(getattr(thing, name))
    return plain


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return fact(value)
    if isinstance(value, FieldChange):
        return value.to_json()
    if isinstance(value, list | tuple):
        if hasattr(value, "_fields"):
            return {name: _plain(getattr(value, name)) for name in value._fields}
        return [_plain(part) for part in value]
    return value


_HIDDEN = "(hidden)"
# Fields in which catalogs name a contact person, such as `vcard:fn`, `maintainer` in CKAN, `individualName` in ISO
# 19115. Authors and publishers are kept, since a dataset is cited by them.
_PEOPLE = frozenset(
    {"contactname", "contactperson", "familyname", "firstname", "fn", "givenname", "hasfn", "individualname"}
    | {"lastname", "maintainer", "maintainername", "surname"}
)


def redacted(value: Any, keys: Sequence[str]) -> Any:
    """Return a record without contact details and credentials, at any depth.

    Values are hidden if the name of their key contains one of `keys`, and so are the names of contacts.
    """
    return _redacted(value, keys, of_contact=False) if keys else value


def redacted_at(path: str, value: Any, keys: Sequence[str]) -> Any:
    """Return the value at a path (JSON Pointer), redacted like the same value inside the whole record."""
    parts = path.split("/")
    for part in reversed(parts):
        value = {part: value}
    value = redacted(value, keys)
    for part in parts:
        value = value[part] if isinstance(value, Mapping) else value
    return value


def _redacted(value: Any, keys: Sequence[str], *, of_contact: bool) -> Any:
    if isinstance(value, list | tuple):
        return [_redacted(part, keys, of_contact=of_contact) for part in value]
    if not isinstance(value, Mapping):
        return value
    shown_fields = {}
    for name, field in value.items():
        plain, last = (re.sub(r"[^a-z0-9]", "", text.lower()) for text in (name, re.split(r"[:#/]", name)[-1]))
        is_person = last in _PEOPLE or (last == "contact" and isinstance(field, str)) or (of_contact and last == "name")
        if not is_person and not any(key in plain for key in keys):
            shown_fields[name] = _redacted(field, keys, of_contact=of_contact or "contact" in last)
        else:
            # An absent value needs no redaction; callers may know whether a value exists.
            shown_fields[name] = field if field in (None, "", [], {}) else _HIDDEN
    return shown_fields
