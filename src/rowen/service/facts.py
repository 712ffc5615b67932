"""What the service returns as JSON objects: the one place where that is decided, so that every door says the same."""

from dataclasses import asdict
from functools import singledispatch
from typing import Any

from rowen.errors import RowenError
from rowen.fetch.credentials import shown
from rowen.model.database import DatabaseStatus, ServerStatus, Tidied
from rowen.model.embedding import EmbeddingEstimate, EmbeddingReport, ModelStatus
from rowen.model.export import Export
from rowen.model.library import Case, Entry, Overview, Revision
from rowen.model.query import Hit
from rowen.model.run import Change, Run
from rowen.model.source import AppliedSource, Source

__all__ = ["fact"]


@singledispatch
def fact(thing: Any) -> dict[str, Any]:
    """Anything that the service returns, as plain values; moments and paths stay what they are."""
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
    }


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


@fact.register(Change)
@fact.register(DatabaseStatus)
@fact.register(EmbeddingEstimate)
@fact.register(EmbeddingReport)
@fact.register(Export)
@fact.register(ModelStatus)
@fact.register(Overview)
@fact.register(Case)
@fact.register(ServerStatus)
@fact.register(Tidied)
def _plain(thing: Any) -> dict[str, Any]:
    return asdict(thing)


@fact.register
def _error(problem: RowenError) -> dict[str, Any]:
    return problem.to_json()
