"""Which items may answer: the filters of a search as a condition on `item`."""

from typing import Any

from rowen.model.query import Filters
from rowen.model.source import Source
from rowen.store.database import Connection
from rowen.store.rows import all_rows

__all__ = ["condition", "sources"]

# A catalog tells when its dataset was modified; of everything else we know when it changed here.
_MODIFIED = (
    "case when item.record ->> 'modified' ~ '^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}'"
    " then left(item.record ->> 'modified', 10) {sign} %({name})s::timestamptz::date::text"
    " else item.updated_at {sign} %({name})s::timestamptz end"
)

_CONDITIONS = {
    "source_ids": "item.source_id = any(%(source_ids)s::bigint[])",
    "tags": "exists (select from unnest(item.tags) tag where lower(tag) = any(%(tags)s::text[]))",
    "languages": "exists (select from unnest(%(languages)s::text[]) code"
    " where starts_with(lower(replace(item.language, '_', '-')) || '-', code || '-'))",
    "publisher": "position(lower(%(publisher)s) in lower(item.record ->> 'publisher')) > 0",
    "since": _MODIFIED.format(sign=">=", name="since"),
    "until": _MODIFIED.format(sign="<=", name="until"),
    "path": "starts_with(case when starts_with(%(path)s, '/')"
    " then substring(item.url from '^[a-z][a-z0-9+.-]*://[^/]*(/.*)$') else item.url end, %(path)s)",
    "without_item": "item.id <> %(without_item)s",
}


def condition(filters: Filters) -> tuple[str, dict[str, Any]]:
    """A condition, empty where everything may answer, and its parameters."""
    given = {
        "source_ids": None if filters.source_ids is None else list(filters.source_ids),
        "tags": [tag.lower() for tag in filters.tags] or None,
        "languages": [code.lower().replace("_", "-") for code in filters.languages] or None,
        "publisher": filters.publisher,
        "since": filters.since,
        "until": filters.until,
        "path": filters.path,
        "without_item": filters.without_item,
    }
    values = {name: value for name, value in given.items() if value is not None}
    return " and ".join(_CONDITIONS[name] for name in values), values


async def sources(c: Connection) -> list[Source]:
    """All sources, without what must be counted."""
    rows = await all_rows(c, "select id, name, kind, url, version from source order by name")
    return [Source(number, name, kind, url, version=version) for number, name, kind, url, version in rows]
