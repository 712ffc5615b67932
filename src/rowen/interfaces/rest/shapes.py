"""What answers look like, for the OpenAPI document; made from the facts themselves, so that they cannot drift apart.

Routes answer with `service/facts.py`; a test compares its words with these shapes.
"""

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from types import GenericAlias
from typing import Annotated, Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from rowen.model.access import AccessToken, AuditLine, NewToken
from rowen.model.changes import Change, FieldDiff, ItemDiff
from rowen.model.extraction import Evidence, Extracted, Extraction, ExtractionReport, SourceSchema
from rowen.model.items import Case, Entry, HeldDeletion, ItemDetail, ItemLine, Passage, Revision
from rowen.model.models import CostLine, ModelStatus
from rowen.model.push import AnnouncedDocument, Poked, PushAccess, PushVerdict, Subscription
from rowen.model.queue import Job, LiveWorker, QueueDepth
from rowen.model.rdf import StatementReport, StatementSummary, StatementTarget
from rowen.model.runs import Run, RunStats
from rowen.model.schemas import Schema, SchemaChange, SchemaComparison, SchemaUse
from rowen.model.search import Hit, SavedNews, SavedSearch, Twin
from rowen.model.sources import AppliedSource, Following, FoundVersion, Overview, Preview, Source
from rowen.model.status import CircuitStatus, Health, Savings, TroubleGroup
from rowen.model.webhooks import Delivery, Webhook, WebhookFilter

__all__ = ["SHAPES", "list_shape", "page_shape", "shape"]

# A field of a TypedDict may have any name. Before Python 3.12 pydantic takes only this one.
Shape = Any
_typed_dict: Any = TypedDict


def _list(of: Shape) -> Shape:
    return GenericAlias(list, (of,))


def _fields(kind: type, *, without: Sequence[str] = ()) -> dict[str, Any]:
    """The fields of a dataclass or named tuple with their types; all are always there."""
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else list(hints)
    return {name: hints[name] for name in names if name not in without}


def _made(name: str, about: str | None, parts: dict[str, Any]) -> Shape:
    made = _typed_dict(name, parts)
    made.__doc__ = (about or "").partition("\n")[0]
    made.__pydantic_config__ = ConfigDict(extra="forbid")
    return made


def _shape_of(kind: type, *, without: Sequence[str] = (), **more: Any) -> Shape:
    return _made(kind.__name__, kind.__doc__, _fields(kind, without=without) | more)


class BeforeAfter(BaseModel):
    """What something was, and what it is now."""

    before: str
    after: str


class Explanation(BaseModel):
    """How a ranking came about."""

    model_config = ConfigDict(extra="allow")

    question_ms: float | None = None
    search_ms: float | None = None
    model: str | None = None


_PREVIEWED = _made(
    "PreviewedItem",
    "One of the first items of a source that is not kept.",
    {"url": str, "title": str, "text": str, "tags": list[str], "language": str | None},
)


_PASSAGE = _made("KeptPassage", "A part of an item.", {"heading": list[str], "anchor": str | None, "text": str})
_DETAIL = {
    "etag": str | None,
    "last_modified": str | None,
    "body_hash": str | None,
    "depth": int,
    "links": int,
    "passages": _list(_PASSAGE),
}


def _found_shapes() -> dict[str, Shape]:
    further = _shape_of(Passage, without=("anchor", "score", "similarity"), link=str)
    hit = _shape_of(Hit, without=("further", "twins"), link=str, further=_list(further), twins=_list(_shape_of(Twin)))
    return {
        "Hit": hit,
        "Answer": _made(
            "Answer",
            "What a search found, best first.",
            {
                "items": _list(hit),
                "corrections": dict[str, str],
                "notes": list[str],
                "explanation": Explanation | None,
                "next": str | None,
            },
        ),
    }


def _fact_shapes() -> dict[str, Shape]:
    evidence = _shape_of(Evidence)
    return {
        "Extracted": _shape_of(Extracted, without=("evidence",), evidence=_list(evidence)),
        "Extraction": _shape_of(
            Extraction,
            without=("evidence", "diff"),
            diff=list[dict[str, Any]],
            evidence=_list(evidence),
        ),
        "SourceSchema": _shape_of(SourceSchema, state=str),
        "ExtractionReport": _shape_of(ExtractionReport, avoided=int),
        "Costs": _made(
            "Costs",
            "What paid calls cost since a moment, and what was avoided.",
            {
                "since": datetime,
                "usd": float,
                "avoided_usd": float,
                "lines": _list(_shape_of(CostLine)),
            },
        ),
    }


def _all_shapes() -> dict[str, Shape]:
    run = _made(
        "Run",
        Run.__doc__,
        {"run": int, "total_found": int, **_fields(Run, without=("id", "stats")), **_fields(RunStats)},
    )
    plain = (
        *(AccessToken, AnnouncedDocument, AuditLine, Case, Change, Delivery, Following, Health, HeldDeletion, Job),
        *(FoundVersion, ModelStatus, Overview, Poked, PushAccess, PushVerdict, SavedNews, SchemaUse, StatementReport),
        *(CircuitStatus, StatementSummary, Subscription, TroubleGroup),
    )
    special = {
        # These two are parts of others as well, which name them as they are.
        "LiveWorker": LiveWorker,
        "QueueDepth": QueueDepth,
        "Source": _shape_of(Source, without=("id", "cursor")),
        "Run": run,
        "Entry": _shape_of(Entry, without=("id",)),
        "Revision": _shape_of(Revision, without=("text",), characters=int),
        "FieldDiff": _shape_of(FieldDiff, without=("fields",), fields=list[dict[str, Any]]),
        "ItemDetail": _made("ItemDetail", ItemDetail.__doc__, _DETAIL),
        "ItemLine": _shape_of(ItemLine, without=("place",)),
        "Savings": _shape_of(Savings, rungs=dict[str, int]),
        "Preview": _shape_of(Preview, without=("items",), items=_list(_PREVIEWED)),
        "ItemDiff": _shape_of(ItemDiff, without=("title",), title=BeforeAfter),
        "AppliedSource": _shape_of(AppliedSource, without=("changes",), changes=dict[str, Any], deed=str),
        "StatementTarget": _shape_of(StatementTarget, without=("id", "source_id")),
        "Webhook": _shape_of(Webhook, without=("id", "ahead", "wants", "replays"), **_fields(WebhookFilter)),
        "SavedSearch": _shape_of(SavedSearch, without=("id",)),
        "Schema": _shape_of(Schema, without=("hash",)),
        "SchemaComparison": _shape_of(SchemaComparison, without=("changes",), changes=_list(_shape_of(SchemaChange))),
        "NewToken": _made("NewToken", NewToken.__doc__, _fields(AccessToken) | {"secret": str}),
    }
    return {kind.__name__: _shape_of(kind) for kind in plain} | special | _found_shapes() | _fact_shapes()


SHAPES = _all_shapes()
"""All shapes, by the name of the fact."""


def shape(name: str) -> Shape:
    """The shape of a fact."""
    return SHAPES[name]


def page_shape(name: str) -> Shape:
    """A part of a list of facts."""
    ahead = Field(description="what `after` is for the next part; null after the last")
    return _made(
        f"{name}Page", "A part of a list.", {"items": _list(SHAPES[name]), "next": Annotated[str | None, ahead]}
    )


def list_shape(name: str) -> Shape:
    """A whole list of facts."""
    return _made(f"{name}List", "A whole list.", {"items": _list(SHAPES[name])})
