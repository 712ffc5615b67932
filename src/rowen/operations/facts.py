"""The JSON form of everything that operations return, and records without contact details."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import singledispatch
from typing import Any

from rowen.errors import RowenError
from rowen.model.access import AccessToken, AuditLine, NewToken
from rowen.model.changes import Change, FieldDiff, ItemDiff
from rowen.model.extraction import Extracted, Extraction, ExtractionReport, ModelScore, SourceSchema
from rowen.model.items import Case, Entry, Export, ItemDetail, ItemLine, PendingDeletion, Revision
from rowen.model.models import Costs, EmbeddingEstimate, EmbeddingReport, FetchedModel, ModelStatus
from rowen.model.push import AnnouncedDocument, Poked, PushAccess, PushVerdict, Subscription
from rowen.model.queue import Job, LiveWorker, QueueDepth
from rowen.model.rdf import StatementFile, StatementReport, StatementSummary, StatementTarget
from rowen.model.runs import Run
from rowen.model.schemas import Schema, SchemaComparison, SchemaUse
from rowen.model.search import Hit, SavedNews, SavedSearch
from rowen.model.sources import AppliedSource, Following, FoundVersion, Overview, Preview, Source
from rowen.model.status import (
    CircuitStatus,
    DatabaseStatus,
    Health,
    Savings,
    ServerStatus,
    Status,
    Tidied,
    TroubleGroup,
)
from rowen.model.webhooks import Delivery, Webhook
from rowen.net.credentials import shown

__all__ = ["fact", "redacted", "redacted_at"]


@singledispatch
def fact(thing: Any) -> dict[str, Any]:
    """Return plain values for anything that an operation returns; datetimes and paths stay as they are."""
    raise TypeError(f"{type(thing).__name__} has no JSON form")


@fact.register
def _source(source: Source) -> dict[str, Any]:
    return {
        "name": source.name,
        "kind": source.kind,
        "url": source.url,
        "state": source.state,
        "options": shown(source.options),
        "schedule": source.schedule,
        "version": source.version,
        "items": source.items,
        "deletions_held": source.deletions_held,
        "created_at": source.created_at,
        "last_run_at": source.last_run_at,
        "last_complete_at": source.last_complete_at,
        "truncated": source.truncated,
        "due_at": source.due_at,
        "failures": source.failures,
        "failing_since": source.failing_since,
        "stale": _share(source.stale),
    }


@fact.register
def _overview(overview: Overview) -> dict[str, Any]:
    return {**asdict(overview), "stale": _share(overview.stale)}


def _share(stale: float | None) -> float | None:
    """Return a share rounded to a thousandth: more digits would change with each request and mean nothing."""
    return None if stale is None else round(stale, 3)


@fact.register
def _applied(applied: AppliedSource) -> dict[str, Any]:
    return {
        "source": applied.source,
        "action": applied.action,
        # The name that `action` had at first.
        "deed": applied.action,
        "kind": applied.kind,
        "url": applied.url,
        "changes": {name: {"before": before, "after": after} for name, (before, after) in applied.changes.items()},
        "items": applied.items,
        "schedule": applied.schedule,
    }


@fact.register
def _run(run: Run) -> dict[str, Any]:
    return run.to_json()


@fact.register
def _hit(hit: Hit) -> dict[str, Any]:
    return {
        "url": hit.url,
        "title": hit.title,
        "source": hit.source,
        "heading": list(hit.heading),
        "text": hit.text,
        "score": hit.score,
        "link": hit.link,
        "anchor": hit.anchor,
        "passages": hit.passages,
        "kind": hit.kind,
        "language": hit.language,
        "record_kind": hit.record_kind,
        "held": hit.held,
        "words": list(hit.words),
        "similarity": hit.similarity,
        "keyword_rank": hit.keyword_rank,
        "vector_rank": hit.vector_rank,
        "further": [
            {"heading": list(p.heading), "text": p.text, "link": hit.link_to(p.anchor), "words": list(p.words)}
            for p in hit.further
        ],
        "twins": [{"url": t.url, "title": t.title, "source": t.source, "original": t.original} for t in hit.twins],
    }


@fact.register
def _entry(entry: Entry) -> dict[str, Any]:
    plain = asdict(entry)
    del plain["id"]
    return plain


@fact.register
def _revision(revision: Revision) -> dict[str, Any]:
    return {
        "number": revision.number,
        "at": revision.at,
        "title": revision.title,
        "tags": revision.tags,
        "characters": len(revision.text),
    }


@fact.register
def _field_diff(diff: FieldDiff) -> dict[str, Any]:
    return {**asdict(diff), "fields": [field.to_json() for field in diff.fields]}


@fact.register
def _diff(diff: ItemDiff) -> dict[str, Any]:
    plain = asdict(diff)
    return {**plain, "title": {"before": diff.title[0], "after": diff.title[1]}}


@fact.register
def _webhook(webhook: Webhook) -> dict[str, Any]:
    plain = asdict(webhook)
    wants = plain.pop("wants")
    del plain["id"], plain["ahead"], plain["replays"]
    return {**plain, **wants}


@fact.register
def _saved(saved: SavedSearch) -> dict[str, Any]:
    plain = asdict(saved)
    del plain["id"]
    return plain


@fact.register
def _schema(schema: Schema) -> dict[str, Any]:
    return {
        "name": schema.name,
        "version": schema.version,
        "definition": dict(schema.definition),
        "bundled": schema.bundled,
        "created_at": schema.created_at,
    }


@fact.register
def _comparison(comparison: SchemaComparison) -> dict[str, Any]:
    return {**asdict(comparison), "changes": [change._asdict() for change in comparison.changes]}


@fact.register
def _extracted(found: Extracted) -> dict[str, Any]:
    return {**asdict(found), "data": _dumped(found.data), "evidence": [one._asdict() for one in found.evidence]}


@fact.register
def _extraction(one: Extraction) -> dict[str, Any]:
    told = {"diff": [change.to_json() for change in one.diff], "evidence": [place._asdict() for place in one.evidence]}
    return {**asdict(one), **told}


@fact.register
def _carried(carried: SourceSchema) -> dict[str, Any]:
    return {**asdict(carried), "state": carried.state}


@fact.register
def _extraction_report(report: ExtractionReport) -> dict[str, Any]:
    return {**asdict(report), "avoided": report.avoided}


@fact.register
def _score(score: ModelScore) -> dict[str, Any]:
    return {**score.to_json(), "pages": [asdict(page) for page in score.pages]}


@fact.register
def _state(state: Status) -> dict[str, Any]:
    return {**asdict(state), "needs": state.needs}


@fact.register
def _savings(savings: Savings) -> dict[str, Any]:
    return {**asdict(savings), "rungs": dict(savings.rungs)}


@fact.register
def _detail(detail: ItemDetail) -> dict[str, Any]:
    held = detail.validators
    return {
        "etag": held.etag if held else None,
        "last_modified": held.last_modified if held else None,
        "body_hash": held.body_hash.hex() if held and held.body_hash else None,
        "depth": detail.depth,
        "links": detail.links,
        "passages": [{"heading": list(p.heading), "anchor": p.anchor, "text": p.text} for p in detail.passages],
    }


@fact.register
def _item_line(line: ItemLine) -> dict[str, Any]:
    plain = asdict(line)
    del plain["place"]
    return plain


@fact.register
def _preview(preview: Preview) -> dict[str, Any]:
    items = [
        {"url": item.url, "title": item.title, "text": item.text, "tags": list(item.tags), "language": item.language}
        for item in preview.items
    ]
    rest = ("address", "kind", "url", "name", "more", "kept_as", "trouble")
    return {**{name: getattr(preview, name) for name in rest}, "items": items}


@fact.register
def _costs(costs: Costs) -> dict[str, Any]:
    lines = [line._asdict() for line in costs.lines]
    return {"since": costs.since, "usd": costs.usd, "avoided_usd": costs.avoided_usd, "lines": lines}


def _dumped(data: Any) -> Any:
    """Return data, which may be a Pydantic model, as plain values."""
    return data.model_dump(mode="json") if hasattr(data, "model_dump") else data


@fact.register
def _new_token(made: NewToken) -> dict[str, Any]:
    return {**asdict(made.token), "secret": made.secret}


@fact.register(AccessToken)
@fact.register(AuditLine)
@fact.register(Change)
@fact.register(CircuitStatus)
@fact.register(Delivery)
@fact.register(DatabaseStatus)
@fact.register(EmbeddingEstimate)
@fact.register(EmbeddingReport)
@fact.register(Export)
@fact.register(FetchedModel)
@fact.register(Health)
@fact.register(PendingDeletion)
@fact.register(Job)
@fact.register(LiveWorker)
@fact.register(ModelStatus)
@fact.register(SavedNews)
@fact.register(Following)
@fact.register(FoundVersion)
@fact.register(Case)
@fact.register(QueueDepth)
@fact.register(Poked)
@fact.register(PushAccess)
@fact.register(PushVerdict)
@fact.register(SchemaUse)
@fact.register(ServerStatus)
@fact.register(Subscription)
@fact.register(Tidied)
@fact.register(TroubleGroup)
def _plain(thing: Any) -> dict[str, Any]:
    return asdict(thing)


@fact.register
def _error(problem: RowenError) -> dict[str, Any]:
    return problem.to_json()


@fact.register
def _announced(document: AnnouncedDocument) -> dict[str, Any]:
    return asdict(document)


@fact.register
def _statement_summary(summary: StatementSummary) -> dict[str, Any]:
    return asdict(summary)


@fact.register
def _statement_report(report: StatementReport) -> dict[str, Any]:
    return asdict(report)


@fact.register
def _statement_target(target: StatementTarget) -> dict[str, Any]:
    told = asdict(target)
    return {name: value for name, value in told.items() if name not in ("id", "source_id", "headers")} | {
        "headers": shown({"headers": target.headers})["headers"]
    }


@fact.register
def _statement_file(file: StatementFile) -> dict[str, Any]:
    return asdict(file)


_HIDDEN = "(hidden)"
# Where catalogs name a person to write to, such as `vcard:fn`, `maintainer` of CKAN, `individualName` of ISO 19115.
# Authors and publishers stay: a dataset is cited by them.
_PEOPLE = frozenset(
    {"contactname", "contactperson", "familyname", "firstname", "fn", "givenname", "hasfn", "individualname"}
    | {"lastname", "maintainer", "maintainername", "surname"}
)


def redacted(value: Any, keys: Sequence[str]) -> Any:
    """Return a record without contact details and credentials, at any depth.

    Values of keys with one of these parts in their names are hidden, and the names of contacts.
    """
    return _shown(value, keys, of_contact=False) if keys else value


def redacted_at(path: str, value: Any, keys: Sequence[str]) -> Any:
    """Return the value at a path (JSON Pointer) of a record, redacted as within the whole record."""
    parts = path.split("/")
    for part in reversed(parts):
        value = {part: value}
    shown = redacted(value, keys)
    for part in parts:
        shown = shown[part] if isinstance(shown, Mapping) else shown
    return shown


def _shown(value: Any, keys: Sequence[str], *, of_contact: bool) -> Any:
    match value:
        case Mapping():
            return {name: _field(name, one, keys, of_contact=of_contact) for name, one in value.items()}
        case list() | tuple():
            return [_shown(one, keys, of_contact=of_contact) for one in value]
    return value


def _field(name: str, value: Any, keys: Sequence[str], *, of_contact: bool) -> Any:
    plain, last = _letters(name), _letters(re.split(r"[:#/]", name)[-1])
    is_person = last in _PEOPLE or (last == "contact" and isinstance(value, str)) or (of_contact and last == "name")
    if not is_person and not any(key in plain for key in keys):
        return _shown(value, keys, of_contact=of_contact or "contact" in last)
    # What is not there cannot be hidden; that it is there may be known.
    return value if value in (None, "", [], {}) else _HIDDEN


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
