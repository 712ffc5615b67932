"""Rules that say where a field stands in a page: a CSS selector or an XPath, read, checked, and found for a value.

`.product .amount | number`, `//span[@itemprop='price']`, `meta[itemprop=price] @content`, `.tag | all`,
`.details p | after Colour:`. A rule gives text; what it means is decided by the schema.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from turbohtml import Document, Element, parse

__all__ = ["FieldRule", "rules_for", "values_of"]

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
        """The texts that it finds, in their order; raises `ValueError` if it is no selector."""
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
    holders = [one for one in elements if _says(one.text, value)]
    inner = [one for one in holders if not any(_says(child.text, value) for child in one.select("*"))]
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
    """Whether a rule finds the value first."""
    if not rule.strip(" |number"):
        return False
    try:
        texts = FieldRule.parse(rule).read(page)
    except ValueError:
        return False
    return bool(texts) and _says(texts[0], value)


def _says(text: str, value: Any) -> bool:
    """Whether a text says this value, and hardly anything else."""
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
