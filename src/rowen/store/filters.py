"""Which items may answer: the filters of a search as a condition on `item`."""

from typing import Any

from rowen.model.condition import Condition
from rowen.model.query import Filters, language_code
from rowen.model.source import Source
from rowen.store.database import Connection
from rowen.store.rows import all_rows

__all__ = ["condition", "languages", "sources"]

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
    "record_kinds": "item.record_kind = any(%(record_kinds)s::text[])",
    "publisher": "position(lower(%(publisher)s) in lower(item.record ->> 'publisher')) > 0",
    "since": _MODIFIED.format(sign=">=", name="since"),
    "until": _MODIFIED.format(sign="<=", name="until"),
    "path": "starts_with(case when starts_with(%(path)s, '/')"
    " then substring(item.url from '^[a-z][a-z0-9+.-]*://[^/]*(/.*)$') else item.url end, %(path)s)",
    "without_item": "item.id <> %(without_item)s",
}

# A field of the facts in force of an item; each entry of a list is looked at.
_WHERE = (
    "exists (select from extraction_check held join extraction on extraction.id = held.extraction_id"
    " cross join lateral (select extraction.data::jsonb #> %(where_path_{number})s::text[] as found) field"
    " cross join lateral jsonb_array_elements(case jsonb_typeof(found) when 'array' then found"
    " else jsonb_build_array(found) end) entry"
    " where held.source_id = item.source_id and held.key = item.key and held.state <> 'gone' and {compared})"
)


def condition(filters: Filters) -> tuple[str, dict[str, Any]]:
    """A condition, empty where everything may answer, and its parameters."""
    given = {
        "source_ids": None if filters.source_ids is None else list(filters.source_ids),
        "tags": [tag.lower() for tag in filters.tags] or None,
        "languages": [language_code(code) for code in filters.languages] or None,
        "record_kinds": list(filters.record_kinds) or None,
        "publisher": filters.publisher,
        "since": filters.since,
        "until": filters.until,
        "path": filters.path,
        "without_item": filters.without_item,
    }
    values: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    told = [_CONDITIONS[name] for name in values]
    for number, one in enumerate(filters.where):
        told.append(_WHERE.format(number=number, compared=_compared(one, number)))
        values |= {f"where_path_{number}": list(one.path), f"where_value_{number}": one.value}
    return " and ".join(told), values


def _compared(condition: Condition, number: int) -> str:
    """A comparison of a field; a list satisfies it if one of its entries does."""
    if condition.sign == "exists":
        return "jsonb_typeof(entry) <> 'null'"
    value = f"%(where_value_{number})s"
    if condition.sign == "~":
        return f"position(lower({value}::text) in lower(entry #>> '{{}}')) > 0"
    sign = "<>" if condition.sign == "!=" else condition.sign
    text = f"lower(entry #>> '{{}}') {sign} lower({value}::text)"
    if not isinstance(condition.value, float):
        return f"jsonb_typeof(entry) <> 'null' and {text}"
    return (
        "case jsonb_typeof(entry) when 'number' then (entry #>> '{}')::double precision"
        f" {sign} {value}::double precision when 'null' then false else {text} end"
    )


async def sources(c: Connection) -> list[Source]:
    """All sources, without what must be counted."""
    rows = await all_rows(c, "select id, name, kind, url, version from source order by name")
    return [Source(number, name, kind, url, version=version) for number, name, kind, url, version in rows]


async def languages(c: Connection) -> list[str]:
    """The languages that items are in, found by hopping over their index."""
    rows = await all_rows(
        c,
        """
        with recursive held(code) as (
            (select language from item where language is not null order by language limit 1)
            union all
            select (select language from item where language > held.code order by language limit 1)
              from held where held.code is not null
        )
        select code from held where code is not null
        """,
    )
    return [code for (code,) in rows]
