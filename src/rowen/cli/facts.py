"""Sources, hits and items as JSON objects."""

from typing import Any

from rowen.fetch.credentials import shown
from rowen.model.query import Hit
from rowen.model.run import Change
from rowen.model.source import Source

__all__ = ["change_fact", "hit_fact", "source_fact"]


def source_fact(source: Source) -> dict[str, Any]:
    """A source."""
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


def hit_fact(hit: Hit) -> dict[str, Any]:
    """An item that was found."""
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


def change_fact(change: Change) -> dict[str, Any]:
    """A line of the change log."""
    return {
        "number": change.number,
        "kind": change.kind,
        "url": change.url,
        "title": change.title,
        "source": change.source,
        "at": change.at,
        "run": change.run,
        "moved_from": change.moved_from,
    }
