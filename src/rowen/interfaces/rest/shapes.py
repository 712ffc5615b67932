"""Schemas of answers for the OpenAPI document, derived from the types of facts, and an example of each."""

import json
from datetime import UTC, datetime
from functools import cache
from types import GenericAlias
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict, is_typeddict

from rowen.interfaces.rest.answers import encoded
from rowen.model.access import AccessToken, AuditLine, NewToken, Scope
from rowen.model.changes import Change, DiffLine, DiffPiece, FieldChange, FieldDiff, Hunk, ItemDiff
from rowen.model.extraction import Evidence, Extracted, Extraction, ExtractionReport, SourceSchema
from rowen.model.items import (
    Case,
    Document,
    Entry,
    ItemDetail,
    ItemLine,
    Passage,
    PendingDeletion,
    Revision,
    Validators,
)
from rowen.model.models import CostLine, Costs, ModelStatus
from rowen.model.push import AnnouncedDocument, Poked, PushAccess, PushVerdict, Subscription
from rowen.model.queue import Job, LiveWorker, QueueDepth
from rowen.model.rdf import StatementReport, StatementSummary, StatementTarget
from rowen.model.runs import Run, RunStats
from rowen.model.schemas import Schema, SchemaChange, SchemaComparison, SchemaUse
from rowen.model.search import Hit, SavedNews, SavedSearch
from rowen.model.sources import AppliedSource, Following, FoundVersion, Overview, Preview, Source
from rowen.model.status import CircuitStatus, FailingSource, Health, Savings, TroubleGroup
from rowen.model.webhooks import Delivery, Webhook, WebhookFilter
from rowen.operations.facts import FORMS, PLAIN, fact, names_of

# A field of a TypedDict may have any name. Before Python 3.12, pydantic requires this TypedDict.
Shape = Any
_typed_dict: Any = TypedDict


def _made(name: str, about: str | None, parts: dict[str, Any]) -> Shape:
    made = _typed_dict(name, parts)
    made.__doc__ = (about or "").partition("\n")[0]
    made.__pydantic_config__ = ConfigDict(extra="forbid")
    return made


def _list(of: Shape) -> Shape:
    return GenericAlias(list, (of,))


@cache
def _shape_of(kind: type) -> Shape:
    """Return the schema of a dataclass, a named tuple or a typed dictionary; all its fields are required."""
    # In the document, further passages of a result have the same schema as the first passage.
    return _made(kind.__name__.removeprefix("Further"), kind.__doc__, _types_of(kind))


def _types_of(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    if is_typeddict(kind):
        return hints
    form = FORMS.get(kind, PLAIN)
    types: dict[str, Any] = {}
    for name in names_of(kind):
        if name == form.inlined:
            types |= _types_of(hints[name])
        else:
            computed = form.values[name][0] if name in form.values else None
            declared = hints[name] if name in hints else computed or get_type_hints(getattr(kind, name).fget)["return"]
            types[name] = _shaped(computed or declared)
    return types


def _shaped(hint: Any) -> Any:
    """Return a type in which each type with its own JSON form is replaced by the schema of that form."""
    if hint in FORMS or is_typeddict(hint) or (isinstance(hint, type) and hasattr(hint, "_fields")):
        return _shape_of(hint)
    if get_origin(hint) in (list, tuple) and (shaped := _shaped(get_args(hint)[0])) is not get_args(hint)[0]:
        return _list(shaped)
    return hint


class Explanation(BaseModel):
    """How a ranking came about."""

    model_config = ConfigDict(extra="allow")

    question_ms: float | None = None
    search_ms: float | None = None
    model: str | None = None


_ANSWER = {
    "items": _list(_shape_of(Hit)),
    "corrections": dict[str, str],
    "notes": list[str],
    "explanation": Explanation | None,
    "next": str | None,
}
_KINDS = (
    *(AccessToken, AnnouncedDocument, AppliedSource, AuditLine, Case, Change, CircuitStatus, Costs, Delivery, Entry),
    *(Extracted, Extraction, ExtractionReport, FieldDiff, Following, FoundVersion, Health, Hit, ItemDetail, ItemDiff),
    *(ItemLine, Job, ModelStatus, NewToken, Overview, Poked, Preview, PushAccess, PushVerdict, Revision, SavedNews),
    *(SavedSearch, Savings, Schema, SchemaComparison, SchemaUse, Source, SourceSchema, StatementReport),
    *(StatementSummary, StatementTarget, Subscription, TroubleGroup, Webhook),
)
_RUN = {**_types_of(Run), **_types_of(RunStats)}

SHAPES: dict[str, Shape] = {
    **{kind.__name__: _shape_of(kind) for kind in _KINDS},
    "Answer": _made("Answer", "What a search found, best first.", _ANSWER),
    "HeldDeletion": _made("HeldDeletion", PendingDeletion.__doc__, _types_of(PendingDeletion)),
    "Run": _made(
        "Run",
        Run.__doc__,
        {"run": int, "total_found": int, **{name: kind for name, kind in _RUN.items() if name not in ("id", "stats")}},
    ),
    # These two schemas are also parts of other schemas, which refer to them by name.
    "LiveWorker": LiveWorker,
    "QueueDepth": QueueDepth,
}
"""All schemas of answers, by the name of the fact."""


def shape(name: str) -> Shape:
    """Return the schema of a fact."""
    return SHAPES[name]


def page_shape(name: str) -> Shape:
    """Return the schema of a page of a list."""
    ahead = Field(description="The `after` of the next page; null after the last.")
    return _made(
        f"{name}Page", "A part of a list.", {"items": _list(SHAPES[name]), "next": Annotated[str | None, ahead]}
    )


def list_shape(name: str) -> Shape:
    """Return the schema of a whole list."""
    return _made(f"{name}List", "A whole list.", {"items": _list(SHAPES[name])})


Responses = dict[int | str, dict[str, Any]]

_AT = datetime(2026, 3, 14, 9, 26, 53, tzinfo=UTC)
_SITE = "https://docs.example.org/guide/"
_PAGE = f"{_SITE}haymaking"
_SCHEMA = {"type": "object", "properties": {"price": {"type": "number"}}, "required": ["price"]}
_PRICE = FieldChange("changed", "/price", 12.0, 14.5)

_THINGS: dict[str, Any] = {
    "AccessToken": AccessToken("dashboard", Scope.READ, _AT, _AT.replace(month=6), _AT),
    "AnnouncedDocument": AnnouncedDocument(
        "https://council.example.org/minutes/7", _PAGE, "v2", "2026-03-14", "stored", run=42, job=311, visited_at=_AT
    ),
    "AppliedSource": AppliedSource("guide", "added", "web", _SITE, {"schedule": (None, "every 6h")}, 0, "every 6h"),
    "AuditLine": AuditLine(17, _AT, "ci", "192.0.2.7", "POST", "/api/v1/sources/guide/sync", 202, "5f2b9c1de04a7788"),
    "SourceSchema": SourceSchema("shop", "product@1.0.0", "warn", False, {}, ("price<100",), 4711, 0, 120, 0),
    "Case": Case("guide", f"{_SITE}broken", "The server answered 500.", None, 3, _AT, _AT),
    "Change": Change(4711, "updated", _PAGE, "Haymaking", "guide", _AT, 42),
    "CircuitStatus": CircuitStatus("host", "portal.example.org", "open", 5, 1, _AT, _AT, "worker-1:4711"),
    "Costs": Costs(_AT, (CostLine("shop", "extract", "product@1.0.0", "small-1", 12, 0, 30_000, 900, 0.02, 108),)),
    "Delivery": Delivery("builds", 4711, _AT, 204, None, 0.08),
    "Entry": Entry(
        *(9, "guide", _PAGE, "Haymaking", "# Haymaking\n\nCut it dry.", ["field"], {"author": "Ada"}),
        *("en", "text/html", [], 3, _AT, _AT, _AT),
    ),
    "Extracted": Extracted(
        *("https://shop.example.org/rake", "product@1.0.0", {"price": 14.5}, "structured"),
        evidence=(Evidence("/price", "number", "14.50 €", 210),),
    ),
    "Extraction": Extraction(
        *("shop", "https://shop.example.org/rake", "product@1.0.0", 2, {"price": 14.5}, (_PRICE,), "structured", None),
        _AT,
        content_hash="5f2b9c1d" * 8,
    ),
    "ExtractionReport": ExtractionReport(
        "shop", "product@1.0.0", looked_at=12, changed=1, same=11, calls=1, tokens=900
    ),
    "FieldDiff": FieldDiff(_PAGE, "guide", "record", _AT, _AT, (_PRICE,)),
    "Following": Following("news", "feed", "following", _AT, _AT, polling_s=3600.0),
    "Health": Health(QueueDepth(1, 2, 1), 1, failing=[FailingSource("portal", 4, _AT, _AT, "It answered 503.")]),
    "FoundVersion": FoundVersion("flask", "flask-3", "3.1.2", ("2.3.3", "3.1.2")),
    "HeldDeletion": PendingDeletion("guide", f"{_SITE}old", "Old page", _AT, False, None),
    "Hit": Hit(
        *(_PAGE, "Haymaking", "guide", ("Haymaking",), "Cut it dry, on the third day without rain.", 0.031),
        anchor="haymaking",
        words=("dry",),
        similarity=0.71,
        keyword_rank=1,
        vector_rank=2,
        kind="web",
    ),
    "ItemDiff": ItemDiff(
        *(_PAGE, "guide", 2, 3, ("Haymaking", "Haymaking"), (), ()),
        (Hunk((DiffLine("removed", (DiffPiece("Cut it "), DiffPiece("wet", True)), 3, None),)),),
    ),
    "ItemDetail": ItemDetail(
        Validators('"5f2b9c1d"', "Sat, 14 Mar 2026 09:26:53 GMT"),
        depth=1,
        links=7,
        passages=(Passage("Cut it dry.", ("Haymaking",), "haymaking", 1.0),),
    ),
    "ItemLine": ItemLine(_PAGE, "Haymaking", "en", 3, _AT),
    "Job": Job(311, "sync", "guide", "running", 10, 1, 0, _AT, None, _AT, None, "barn:7", 42, 118, 121),
    "LiveWorker": LiveWorker(
        1, "barn", 4120, "0.5.0", {"sync": 4, "deliver": 4, "extract": 2, "statements": 2}, _AT, _AT, 1
    ),
    "ModelStatus": ModelStatus("minilm-int8", "active", 384, 355, 0, 0, False, None),
    "NewToken": NewToken(AccessToken("dashboard", Scope.READ, _AT, _AT.replace(month=6)), "rowen_…"),
    "Overview": Overview("guide", "web", _SITE, "active", 118, 1, 0, "completed", _AT, _AT, None, 0, 1.0, 0.04),
    "Poked": Poked("guide", 312, 1),
    "Preview": Preview(_SITE, "web", _SITE, "guide", (Document(_PAGE, "Haymaking", "Cut it dry."),), more=True),
    "PushAccess": PushAccess("call", "https://rowen.example.org/push/call/guide", "whsec_…"),
    "PushVerdict": PushVerdict(202, "taken", (Poked("guide", 312, 1),)),
    "QueueDepth": QueueDepth(1, 2, 1),
    "Revision": Revision(3, _AT, "Haymaking", "# Haymaking\n\nCut it dry.", ["field"]),
    "Run": Run(
        *(42, "guide", "web", "incremental", "completed", True, _AT, _AT),
        RunStats(updated=1, unchanged=117, requests=118, not_modified=117, bytes=4810, seconds=9.2),
    ),
    "SavedNews": SavedNews(5, "matches", 4711, "guide", _PAGE, "Haymaking", _AT),
    "SavedSearch": SavedSearch(1, "dry hay", "dry hay", ("guide",), 3, 4711, _AT),
    "Savings": Savings(_AT, runs=12, validator=1404, paid=3, requests=1416, bytes=58_000, bytes_spared=21_000_000),
    "Schema": Schema("product", "1.0.0", _SCHEMA, created_at=_AT),
    "SchemaComparison": SchemaComparison(
        "product@1.0.0", "product@1.1.0", "compatible", (SchemaChange("/properties/colour", "added", False),)
    ),
    "SchemaUse": SchemaUse("product@1.0.0", ("shop",), 12),
    "Source": Source(
        *(1, "guide", "web", _SITE, {"max_pages": 500}, "every 6h"),
        created_at=_AT,
        items=118,
        last_run_at=_AT,
        last_complete_at=_AT,
        due_at=_AT,
        stale=0.04,
    ),
    "StatementReport": StatementReport("https://store.example.org/sparql", 3, 41, 7, 4711),
    "StatementSummary": StatementSummary("council", {"agenda": 12, "item": 310}, 9_120, {"date": 3}, {"blank": 41}, 0),
    "StatementTarget": StatementTarget(
        *(1, 1, "council", "https://store.example.org/sparql", "http://example.org/graphs/public"),
        headers={"Authorization": "Bearer env:STORE_KEY"},
        state="active",
        number=4711,
        told_at=_AT,
        waiting=0,
        failures=0,
        failing_since=None,
        next_try_at=None,
        last_error=None,
    ),
    "Subscription": Subscription("news", "https://news.example.org/feed", "https://hub.example.org/", "active", _AT),
    "TroubleGroup": TroubleGroup("The server answered 500.", None, 3, f"{_SITE}broken"),
    "Webhook": Webhook(
        *(1, "builds", "https://ci.example.org/hook", ("env:HOOK_SECRET",), WebhookFilter(("guide",)), 4711),
        *("active", 0, None, None, None, _AT),
    ),
}


def _plain(thing: Any) -> Any:
    return json.loads(encoded(thing if isinstance(thing, dict) else fact(thing)))


EXAMPLES = {name: _plain(thing) for name, thing in _THINGS.items()}
EXAMPLES["Answer"] = {
    "items": [EXAMPLES["Hit"]],
    "corrections": {},
    "notes": [],
    "explanation": {"search_ms": 4.2, "question_ms": 1.1, "model": "minilm-int8"},
    "next": None,
}
"""An example of each fact in the form in which it is sent."""


def example(name: str) -> dict[str, Any]:
    """Return an example of a fact for the responses of a route."""
    return {"content": {"application/json": {"example": EXAMPLES[name]}}}


def list_example(name: str) -> dict[str, Any]:
    """Return an example of a whole list."""
    return {"content": {"application/json": {"example": {"items": [EXAMPLES[name]]}}}}


def page_example(name: str) -> dict[str, Any]:
    """Return an example of a page of a list."""
    return {"content": {"application/json": {"example": {"items": [EXAMPLES[name]], "next": None}}}}
