"""What the markup of a page says for programs: JSON-LD, microdata, OpenGraph, the data of frameworks, tables.

Only fields that somebody wants are kept, so that a counter or a time stamp beside them does not make a page new.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from turbohtml import Document

from rowen.content.rules import values_of
from rowen.model.items import FactsWanted, plain_name
from rowen.model.text import finite

__all__ = ["facts_in"]

# Products with all their variants have some 20 kB; what is beyond is not about this page alone.
_MOST_CHARS = 50_000
# A product, its offers, their prices: three levels, and the wrappers of frameworks around them.
_DEEPEST = 12
# Of the data of a framework, the objects that have some of the fields; a page is about the first ones.
_MOST_NODES = 20
_LEAST_FIELDS = 2
_META = ("og:", "product:", "article:", "book:", "event:")


def facts_in(page: Document, wanted: FactsWanted) -> dict[str, Any]:
    """The nodes that have wanted fields, and what rules found; empty where there is nothing."""
    names = frozenset(wanted.names)
    nodes: list[Any] = []
    size = 0
    for node in _pruned(page, names) if names else ():
        size += len(json.dumps(node))
        if size > _MOST_CHARS or len(nodes) == _MOST_NODES:
            break
        if node not in nodes:
            nodes.append(node)
    found: dict[str, Any] = {"nodes": nodes} if nodes else {}
    fields = values_of(page, wanted.rules)
    return {**found, "fields": fields} if fields else found


def _pruned(page: Document, names: frozenset[str]) -> Iterator[Any]:
    for node in (*_json_ld(page), *_microdata(page), *_meta(page), *_tables(page, names)):
        kept = _kept(node, names, 0)
        if isinstance(kept, dict) and kept.keys() - {"@type"}:
            yield kept
    for node in _framework_data(page, names):
        yield _kept(node, names, 0)


def _kept(value: Any, names: frozenset[str], depth: int) -> Any:
    """A value without the fields that nobody wants; None if nothing is left."""
    if depth > _DEEPEST:
        return None
    if isinstance(value, dict):
        made = {}
        for name, one in value.items():
            is_wanted = plain_name(str(name)) in names
            kept = one if name == "@type" else _kept(one, names, depth + 1)
            if name == "@type" or (kept is not None and (is_wanted or isinstance(kept, dict | list))):
                made[str(name)] = kept
        return made if made.keys() - {"@type"} else None
    if isinstance(value, list):
        items = [kept for one in value if (kept := _kept(one, names, depth + 1)) is not None]
        return items or None
    # What no float can hold is no amount, and would be one to nobody who reads it.
    return None if isinstance(value, int | float) and finite(value) is None else value


def _json_ld(page: Document) -> Iterator[Any]:
    waiting: list[Any] = list(page.json_ld())
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, dict) and isinstance(node.get("@graph"), list):
            waiting += node["@graph"]
        elif isinstance(node, dict):
            yield node


def _microdata(page: Document) -> Iterator[dict[str, Any]]:
    for item in page.microdata():
        yield _item(item, 0)


def _item(item: Any, depth: int) -> dict[str, Any]:
    """An item of microdata in the shape of JSON-LD."""
    made: dict[str, Any] = {"@type": str(item.type or "").rpartition("/")[2]}
    for name, values in item.properties.items():
        if depth < _DEEPEST:
            plain = [_item(one, depth + 1) if hasattr(one, "properties") else one for one in values]
            made[name] = plain[0] if len(plain) == 1 else plain
    return made


def _meta(page: Document) -> Iterator[dict[str, Any]]:
    found: dict[str, Any] = {}
    for element in page.select("meta[property][content]"):
        name = (element.attr("property") or "").lower()
        if name.startswith(_META):
            found.setdefault(name, element.attr("content") or "")
    if found:
        yield found


def _tables(page: Document, names: frozenset[str]) -> Iterator[dict[str, Any]]:
    """Tables of two columns whose first one names fields, and those whose head does."""
    for rows in page.tables()[:_MOST_NODES]:
        pairs = [row for row in rows if len(row) == 2 and plain_name(row[0]) in names]
        if len(pairs) >= _LEAST_FIELDS:
            yield {row[0].strip().rstrip(":"): row[1] for row in pairs}
        elif len(rows) > 1 and sum(plain_name(cell) in names for cell in rows[0]) >= _LEAST_FIELDS:
            yield {"rows": [dict(zip(rows[0], row, strict=False)) for row in rows[1:]]}
    for node in page.select("dl")[:_MOST_NODES]:
        terms, told = node.select("dt"), node.select("dd")
        if len(terms) == len(told):
            found = {term.text.strip().rstrip(":"): one.text.strip() for term, one in zip(terms, told, strict=True)}
            if sum(plain_name(name) in names for name in found) >= _LEAST_FIELDS:
                yield found


def _framework_data(page: Document, names: frozenset[str]) -> Iterator[Mapping[str, Any]]:
    """Objects in the data that a framework left in the page, as far as they have some of the fields themselves."""
    script = page.select_one("script#__NEXT_DATA__")
    if script is None:
        return
    try:
        waiting: list[tuple[Any, int]] = [(json.loads(script.text), 0)]
    except (ValueError, RecursionError):
        return
    while waiting:
        value, depth = waiting.pop(0)
        if depth > _DEEPEST:
            continue
        if isinstance(value, dict):
            direct = [name for name, one in value.items() if plain_name(name) in names and not isinstance(one, dict)]
            if len(direct) >= _LEAST_FIELDS:
                yield value
            waiting += [(one, depth + 1) for one in value.values()]
        elif isinstance(value, list):
            waiting += [(one, depth + 1) for one in value]
