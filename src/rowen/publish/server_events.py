"""The change log as server-sent events, which a browser or a program goes on with by the last number it saw."""

import json

from rowen.model.changes import Change

__all__ = ["MEDIA_TYPE_EVENTS", "event", "last_seen"]

MEDIA_TYPE_EVENTS = "text/event-stream; charset=utf-8"


def event(change: Change) -> bytes:
    """One line of the log; its number is the id that a client sends again as `Last-Event-ID`."""
    told = {
        "number": change.number,
        "kind": change.kind,
        "url": change.url,
        "title": change.title,
        "source": change.source,
        "at": change.at.isoformat(),
        "moved_from": change.moved_from,
        "schema": change.schema,
        "diff": change.diff,
    }
    # JSON on one line: a line break inside would end the field.
    return f"id: {change.number}\nevent: {change.kind}\ndata: {json.dumps(told)}\n\n".encode()


def last_seen(last_event_id: str | None) -> int | None:
    """The number behind a `Last-Event-ID`; None if there is none, or none of ours."""
    # A bigint has 19 digits; more would be an error of the database.
    told = (last_event_id or "").strip()
    return int(told) if told.isascii() and told.isdigit() and len(told) <= 18 else None
