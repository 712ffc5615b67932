"""What the markup of a page says for programs: JSON-LD, microdata, OpenGraph, the data of frameworks, tables.

Only fields that somebody wants are kept, so that a counter or a time stamp beside them does not make a page new.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from turbohtml import Document, Element, parse

from rowen.model.items import FactsWanted, plain_name
from rowen.model.text import finite

__all__ = ["FieldRule", "facts_in", "rules_for", "values_of"]

# Products with all their variants have some 20 kB; what is beyond is not about this page alone.
_MOST_CHARS = 50_000
# A product, its offers, their prices: three levels, and the wrappers of frameworks around them.
_DEEPEST = 12
# Of the data of a framework, the objects that have some of the fields; a page is about the first ones.
_MOST_NODES = 20
_LEAST_FIELDS = 2
_META = ("og:", "product:", "article:", "book:", "event:")
_FILTERS = frozenset({"text", "number", "date", "url", "all"})
_ATTRIBUTE = re.compile(r"(.*\S)\s+@([A-Za-z][\w:-]*)", re.DOTALL)
# A field is a name, a price, a paragraph at most; a rule that finds more has lost its place.
_LONGEST = 2_000
_MOST = 200
# Where a single number stands, with its currency and a label; longer texts have other numbers as well.
_LONGEST_NUMBER = 60
_NUMBER = re.compile(r"\d[\d.,'’\u00a0\u202f ]*")
# Elements that are looked at to find a rule; pages with more are long lists, and fields of a page stand above them.
_MOST_ELEMENTS = 20_000
_STABLE = re.compile(r"[A-Za-z][A-Za-z_-]{2,40}")


def facts_in(page: Document, wanted: FactsWanted) -> dict[str, Any]:
    """Return the nodes that have wanted fields, and what rules found; empty where there is nothing."""
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
    """Return a value without the fields that nobody wants; None if nothing is left."""
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
    """Return an item of microdata in the shape of JSON-LD."""
    made: dict[str, Any] = {"@type": str(item.type or "").rpartition("/")[2]}
    for name, values in item.properties.items():
        if depth < _DEEPEST:
            plain = [_item(value, depth + 1) if hasattr(value, "properties") else value for value in values]
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


class FieldRule(NamedTuple):
    """A rule in its parts."""

    place: str
    attribute: str | None = None
    filter: str = "text"
    label: str = ""

    @classmethod
    def parse(cls, text: str) -> "FieldRule":
        """Read a rule, in linear time; raises `ValueError` for what is none."""
        if len(text) > _LONGEST:
            raise ValueError(f"a rule may have {_LONGEST:,} characters")
        place, bar, last = text.rpartition("|")
        how, _, label = last.strip().partition(" ")
        named = bar and (last.strip() in _FILTERS or (how == "after" and bool(label)))
        place, how, label = (place.strip(), how, label.strip()) if named else (text.strip(), "text", "")
        found = _ATTRIBUTE.fullmatch(place)
        is_attribute = found is not None and not place.startswith("/")
        rule = cls(found[1], found[2], how, label) if found and is_attribute else cls(place, None, how, label)
        if not rule.place:
            raise ValueError("a rule names a place in the page")
        # Nothing stands below a single element: what is no rule is found out, and nothing else is evaluated. On the
        # five nodes of an empty page, a nested XPath of 157 characters took 2.7 s.
        rule.read(Element("p"))
        return rule

    def read(self, page: Document | Element) -> list[str]:
        """Return the texts that it finds, in their order; raise `ValueError` if it is no selector."""
        try:
            found: Any = page.xpath(self.place) if self.place.startswith("/") else page.select(self.place)
        except TypeError as problem:
            # An XPath whose parts do not fit: a path from a number, a union of texts.
            raise ValueError(str(problem)) from None
        found = found if isinstance(found, list) else [found]
        texts = (self._text(one) for one in found[:_MOST])
        return [text for text in texts if text]

    def _text(self, found: Any) -> str:
        if isinstance(found, Element):
            found = found.attr(self.attribute) if self.attribute else found.text
        text = " ".join(str(found or "").split())[:_LONGEST]
        return text.partition(self.label)[2].strip() if self.label else text


def values_of(page: Document, rules: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """What rules find, by the names that they have; what finds nothing, or is none any more, is left out."""
    found: dict[str, Any] = {}
    for name, text in rules:
        try:
            rule = FieldRule.parse(text)
            texts = rule.read(page)
        except ValueError:
            continue
        if texts:
            found[name] = texts if rule.filter == "all" else texts[0]
    return found


def rules_for(html: str, values: Mapping[str, Any]) -> dict[str, str | None]:
    """Rules that find these values in a page, as far as there are any that look as if they would last.

    None stands for a text that is nowhere in the page; a value that is there, but not by itself, is left out.
    """
    page = parse(html)
    page.remove("script,style,noscript,template")
    elements = page.select("body *")[:_MOST_ELEMENTS]
    whole = " ".join((body.text if (body := page.select_one("body")) is not None else page.text).split()).casefold()
    found: dict[str, str | None] = {}
    for name, value in values.items():
        rule = next((rule for rule in _candidates(page, elements, value) if _holds(page, rule, value)), None)
        is_absent = isinstance(value, str) and " ".join(value.split()).casefold() not in whole
        if rule is not None or is_absent:
            found[name] = rule
    return found


def _candidates(page: Document, elements: list[Element], value: Any) -> Iterator[str]:
    """Ways to the elements that say a value, the smallest element first, and of each the way that says most."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    holders = [element for element in elements if _says(element.text, value)]
    inner = [holder for holder in holders if not any(_says(child.text, value) for child in holder.select("*"))]
    suffix = " | number" if is_number else ""
    for element in inner[:_MOST]:
        for place in _ways(page, element):
            yield place + suffix
    if isinstance(value, str):
        yield from _labelled(page, elements, value)


def _labelled(page: Document, elements: list[Element], value: str) -> Iterator[str]:
    """Ways to elements that have a label before the value: `Colour: red`; the smallest one first."""
    told = sorted(((" ".join(one.text.split()), number) for number, one in enumerate(elements)), key=_length)
    for text, number in told:
        element = elements[number]
        label = text.removesuffix(value).rstrip()
        if label != text and label.endswith(":") and len(label) <= _LONGEST_NUMBER and "|" not in label:
            for place in _ways(page, element):
                yield f"{place} | after {label}"


def _length(told: tuple[str, int]) -> int:
    return len(told[0])


def _ways(page: Document, element: Element) -> Iterator[str]:
    if told := element.attr("itemprop"):
        yield f"[itemprop={told}]" if _STABLE.fullmatch(told) else ""
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


def _holds(page: Document, rule: str, value: Any) -> bool:
    """Return whether a rule finds the value first."""
    if not rule.strip(" |number"):
        return False
    try:
        texts = FieldRule.parse(rule).read(page)
    except ValueError:
        return False
    return bool(texts) and _says(texts[0], value)


def _says(text: str, value: Any) -> bool:
    """Return whether a text says this value, and hardly anything else."""
    words = " ".join(text.split())
    if isinstance(value, bool) or value is None:
        return False
    if isinstance(value, int | float):
        if not words or len(words) > _LONGEST_NUMBER:
            return False
        numbers = _NUMBER.findall(words)
        return len(numbers) == 1 and float(value) in _readings(numbers[0])
    return isinstance(value, str) and bool(words) and words.casefold() == " ".join(value.split()).casefold()


def _readings(written: str) -> set[float]:
    digits = re.sub(r"[\s'’\u00a0\u202f]", "", written).strip(".,")
    last = max(digits.rfind("."), digits.rfind(","))
    forms = {re.sub(r"[.,]", "", digits)}
    if last >= 0:
        forms.add(f"{re.sub('[.,]', '', digits[:last])}.{digits[last + 1 :]}")
    return {float(form) for form in forms if form and len(form) <= 30}
