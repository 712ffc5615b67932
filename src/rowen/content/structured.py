"""Reads structured data in the markup of a page: JSON-LD, microdata, OpenGraph, framework data and tables.

Only requested fields are stored, so that a counter or a time stamp beside them does not change the item.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from turbohtml import Document, Element, parse

from rowen.model.items import FactsWanted, plain_name
from rowen.model.text import finite

# A product with all its variants has about 20 kB; larger data is not only about this page.
_MOST_CHARS = 50_000
# A product, its offers and their prices are three levels; frameworks wrap them in further levels.
_DEEPEST = 12
# Maximum number of objects with requested fields in a framework's data; a page is about the first objects.
_MOST_NODES = 20
_LEAST_FIELDS = 2
_META = ("og:", "product:", "article:", "book:", "event:")
_FILTERS = frozenset({"text", "number", "date", "url", "all"})
_ATTRIBUTE = re.compile(r"(.*\S)\s+@([A-Za-z][\w:-]*)", re.DOTALL)
# A field is a name, a price or at most a paragraph; a rule that matches more no longer fits the page.
_LONGEST = 2_000
_MOST = 200
# Length of a number with its currency and a label; longer texts contain other numbers as well.
_LONGEST_NUMBER = 60
_NUMBER = re.compile(r"\d[\d.,'’\u00a0\u202f ]*")
# Elements that are searched for a rule; pages with more are long lists, and the fields of the page come first.
_MOST_ELEMENTS = 20_000
_STABLE = re.compile(r"[A-Za-z][A-Za-z_-]{2,40}")


def facts_in(page: Document, wanted: FactsWanted) -> dict[str, Any]:
    """Return the nodes that have requested fields, and the values that rules match; empty if there are none."""
    names = frozenset(wanted.names)
    nodes: list[Any] = []
    size = 0
    for node in _wanted_nodes(page, names) if names else ():
        size += len(json.dumps(node))
        if size > _MOST_CHARS or len(nodes) == _MOST_NODES:
            break
        if node not in nodes:
            nodes.append(node)
    fields = values_of(page, wanted.rules)
    return {**({"nodes": nodes} if nodes else {}), **({"fields": fields} if fields else {})}


def _wanted_nodes(page: Document, names: frozenset[str]) -> Iterator[Any]:
    microdata = (_item(item, 0) for item in page.microdata())
    for node in (*_json_ld(page), *microdata, *_meta(page), *_tables(page, names)):
        wanted = _wanted(node, names, 0)
        if isinstance(wanted, dict) and wanted.keys() - {"@type"}:
            yield wanted
    for node in _framework_data(page, names):
        yield _wanted(node, names, 0)


def _wanted(value: Any, names: frozenset[str], depth: int) -> Any:
    """Return a value with only the requested fields; None if nothing is left."""
    if depth > _DEEPEST:
        return None
    if isinstance(value, dict):
        fields = {}
        for name, inner in value.items():
            field = inner if name == "@type" else _wanted(inner, names, depth + 1)
            is_wanted = plain_name(str(name)) in names or isinstance(field, dict | list)
            if name == "@type" or (field is not None and is_wanted):
                fields[str(name)] = field
        return fields if fields.keys() - {"@type"} else None
    if isinstance(value, list):
        return [field for inner in value if (field := _wanted(inner, names, depth + 1)) is not None] or None
    # A number outside the range of floats is not an amount.
    return None if isinstance(value, int | float) and finite(value) is None else value


def _json_ld(page: Document) -> Iterator[Any]:
    waiting: list[Any] = list(page.json_ld())
    while waiting:
        match waiting.pop(0):
            case list(nodes) | {"@graph": list(nodes)}:
                waiting += nodes
            case dict(node):
                yield node


def _item(item: Any, depth: int) -> dict[str, Any]:
    """Return a microdata item in the form of JSON-LD."""
    node: dict[str, Any] = {"@type": str(item.type or "").rpartition("/")[2]}
    for name, values in item.properties.items() if depth < _DEEPEST else ():
        plain = [_item(value, depth + 1) if hasattr(value, "properties") else value for value in values]
        node[name] = plain[0] if len(plain) == 1 else plain
    return node


def _meta(page: Document) -> Iterator[dict[str, Any]]:
    node: dict[str, Any] = {}
    for element in page.select("meta[property][content]"):
        name = (element.attr("property") or "").lower()
        if name.startswith(_META):
            node.setdefault(name, element.attr("content") or "")
    if node:
        yield node


def _tables(page: Document, names: frozenset[str]) -> Iterator[dict[str, Any]]:
    """Yield the fields of tables whose first column or head names requested fields."""
    for rows in page.tables()[:_MOST_NODES]:
        pairs = [row for row in rows if len(row) == 2 and plain_name(row[0]) in names]
        if len(pairs) >= _LEAST_FIELDS:
            yield {row[0].strip().rstrip(":"): row[1] for row in pairs}
        elif len(rows) > 1 and sum(plain_name(cell) in names for cell in rows[0]) >= _LEAST_FIELDS:
            yield {"rows": [dict(zip(rows[0], row, strict=False)) for row in rows[1:]]}
    for node in page.select("dl")[:_MOST_NODES]:
        terms, values = node.select("dt"), node.select("dd")
        if len(terms) == len(values):
            pairs_of = zip(terms, values, strict=True)
            fields = {term.text.strip().rstrip(":"): value.text.strip() for term, value in pairs_of}
            if sum(plain_name(name) in names for name in fields) >= _LEAST_FIELDS:
                yield fields


def _framework_data(page: Document, names: frozenset[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the objects in a framework's data that have several of the requested fields."""
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
            fields = [name for name, inner in value.items() if plain_name(name) in names and type(inner) is not dict]
            if len(fields) >= _LEAST_FIELDS:
                yield value
            waiting += [(inner, depth + 1) for inner in value.values()]
        elif isinstance(value, list):
            waiting += [(inner, depth + 1) for inner in value]


class FieldRule(NamedTuple):
    """A parsed rule: a selector or XPath, an attribute, and a filter."""

    place: str
    attribute: str | None = None
    filter: str = "text"
    label: str = ""

    @classmethod
    def parse(cls, text: str) -> "FieldRule":
        """Parse a rule in linear time; raise `ValueError` if it is invalid."""
        if len(text) > _LONGEST:
            raise ValueError(f"a rule may have {_LONGEST:,} characters")
        place, bar, last = text.rpartition("|")
        name, _, label = last.strip().partition(" ")
        has_filter = bar and (last.strip() in _FILTERS or (name == "after" and bool(label)))
        place, name, label = (place.strip(), name, label.strip()) if has_filter else (text.strip(), "text", "")
        match = _ATTRIBUTE.fullmatch(place) if not place.startswith("/") else None
        rule = cls(match[1], match[2], name, label) if match else cls(place, None, name, label)
        if not rule.place:
            raise ValueError("a rule names a place in the page")
        # Test the rule on a single element, which detects invalid rules cheaply. On the five nodes of an empty page, a
        # nested XPath of 157 characters took 2.7 s.
        rule.read(Element("p"))
        return rule

    def read(self, page: Document | Element) -> list[str]:
        """Return the texts that the rule matches, in order; raise `ValueError` if its selector is invalid."""
        try:
            matches: Any = page.xpath(self.place) if self.place.startswith("/") else page.select(self.place)
        except TypeError as problem:
            # An XPath with operands of wrong types, such as a path from a number or a union of strings.
            raise ValueError(str(problem)) from None
        texts = []
        for match in (matches if isinstance(matches, list) else [matches])[:_MOST]:
            if isinstance(match, Element):
                match = match.attr(self.attribute) if self.attribute else match.text
            text = " ".join(str(match or "").split())[:_LONGEST]
            texts.append(text.partition(self.label)[2].strip() if self.label else text)
        return list(filter(None, texts))


def values_of(page: Document, rules: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return the values that rules match, by rule name; rules that are invalid or match nothing are left out."""
    values: dict[str, Any] = {}
    for name, text in rules:
        try:
            rule = FieldRule.parse(text)
            texts = rule.read(page)
        except ValueError:
            continue
        if texts:
            values[name] = texts if rule.filter == "all" else texts[0]
    return values


def rules_for(html: str, values: Mapping[str, Any]) -> dict[str, str | None]:
    """Return rules that match the given values in a page, if stable rules exist.

    A value is mapped to None if its text is not in the page. It is left out if no rule matches it although its text is
    in the page.
    """
    page = parse(html)
    page.remove("script,style,noscript,template")
    elements = page.select("body *")[:_MOST_ELEMENTS]
    whole = " ".join((body.text if (body := page.select_one("body")) is not None else page.text).split()).casefold()
    rules: dict[str, str | None] = {}
    for name, value in values.items():
        rule = next((rule for rule in _candidates(page, elements, value) if _matches(page, rule, value)), None)
        is_absent = isinstance(value, str) and " ".join(value.split()).casefold() not in whole
        if rule is not None or is_absent:
            rules[name] = rule
    return rules


def _candidates(page: Document, elements: list[Element], value: Any) -> Iterator[str]:
    """Yield rules for the elements that contain a value: the innermost elements, the most specific rule first.

    Elements with a label before the value follow, such as `Colour: red`.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    holders = [element for element in elements if _has_value(element.text, value)]
    inner = [holder for holder in holders if not any(_has_value(child.text, value) for child in holder.select("*"))]
    for element in inner[:_MOST]:
        for place in _places(page, element):
            yield place + (" | number" if is_number else "")
    if not isinstance(value, str):
        return
    for text, element in sorted(
        ((" ".join(each.text.split()), each) for each in elements), key=lambda pair: len(pair[0])
    ):
        label = text.removesuffix(value).rstrip()
        if label != text and label.endswith(":") and len(label) <= _LONGEST_NUMBER and "|" not in label:
            for place in _places(page, element):
                yield f"{place} | after {label}"


def _places(page: Document, element: Element) -> Iterator[str]:
    if name := element.attr("itemprop"):
        yield f"[itemprop={name}]" if _STABLE.fullmatch(name) else ""
    if (own := element.attr("id")) and _STABLE.fullmatch(own):
        yield f"#{own}"
    classes = [name for name in (element.attr("class") or "").split() if _STABLE.fullmatch(name)]
    for name in classes:
        yield f"{element.tag}.{name}"
    parent = element.parent
    above = (parent.attr("class") or "").split() if isinstance(parent, Element) else []
    for name in (name for name in above if _STABLE.fullmatch(name)):
        yield f".{name} > {element.tag}" + (f".{classes[0]}" if classes else "")
    if element.tag == "h1":
        yield "h1"
    yield element.css_path()


def _matches(page: Document, rule: str, value: Any) -> bool:
    """Return whether the first text that a rule matches is the value."""
    try:
        texts = FieldRule.parse(rule).read(page) if rule.strip(" |number") else []
    except ValueError:
        return False
    return bool(texts) and _has_value(texts[0], value)


def _has_value(text: str, value: Any) -> bool:
    """Return whether a text consists of a value; a number must be the only number in a short text."""
    words = " ".join(text.split())
    if not words or isinstance(value, bool):
        return False
    if not isinstance(value, int | float):
        return isinstance(value, str) and words.casefold() == " ".join(value.split()).casefold()
    numbers = _NUMBER.findall(words) if len(words) <= _LONGEST_NUMBER else []
    if len(numbers) != 1:
        return False
    digits = re.sub(r"[\s'’\u00a0\u202f]", "", numbers[0]).strip(".,")
    last = max(digits.rfind("."), digits.rfind(","))
    forms = {re.sub(r"[.,]", "", digits)}
    if last >= 0:
        forms.add(f"{re.sub('[.,]', '', digits[:last])}.{digits[last + 1 :]}")
    return float(value) in {float(form) for form in forms if form and len(form) <= 30}
