"""What the styles and numberings of a Word document make of a paragraph."""

import re
from dataclasses import dataclass
from enum import Enum, auto
from xml.etree.ElementTree import Element

from rowen.content.documents.markup import whole
from rowen.content.documents.packages import ZipPackage

__all__ = ["CharacterStyle", "ParagraphKind", "WordStyles", "setting"]

_HEADING = re.compile(r"heading ([1-9])")
_CODE = re.compile(r".*\b(?:code|listing|preformatted|verbatim)\b(?s:.*)|macro text|plain text")
_QUOTE = re.compile(r"(?:intense )?quote|block ?text|quotations?")
_CONTENTS = re.compile(r"toc(?: \d| heading)|table of figures|index \d|contents heading")
# Word's own styles for inner items are lists of their own, told from outer ones by their indentation alone.
_INNER_ITEM = re.compile(r"list (?:bullet|number) ([2-5])")
_LONGEST_LINEAGE = 16


class ParagraphKind(Enum):
    """What a paragraph is."""

    TEXT = auto()
    HEADING = auto()
    ITEM = auto()
    CODE = auto()
    QUOTE = auto()
    CONTENTS = auto()


@dataclass(frozen=True, slots=True)
class CharacterStyle:
    """What a paragraph is; `list_id` and the format of numbers, `bullet` for none, where it is an item."""

    kind: ParagraphKind = ParagraphKind.TEXT
    level: int = 0
    list_id: str = ""
    numbers: str = ""


class WordStyles:
    """The styles and numberings of one document."""

    def __init__(self, package: ZipPackage, styles: str, numbering: str) -> None:
        found = (each for each in package.tree(styles).iter("style") if each.get("type") == "paragraph")
        self._styles = {each.get("styleId", ""): each for each in found}
        root = package.tree(numbering)
        self._numbers = {each.get("numId", ""): setting(each, "abstractNumId") for each in root.iter("num")}
        self._formats = {
            (each.get("abstractNumId", ""), level.get("ilvl", "")): setting(level, "numFmt")
            for each in root.iter("abstractNum")
            for level in each.iter("lvl")
        }

    def look(self, paragraph: Element) -> CharacterStyle:
        """What a paragraph is, by its own properties, then by its style and those that the style is based on."""
        own = paragraph.find("pPr")
        lineage = self._lineage(setting(own, "pStyle"))
        names = [setting(style, "name").lower() for style in lineage]
        properties = [each for each in (own, *(style.find("pPr") for style in lineage)) if each is not None]
        return (
            self._by_name(names) or self._by_outline(properties) or self._by_list(properties, names) or CharacterStyle()
        )

    def _by_name(self, names: list[str]) -> CharacterStyle | None:
        for name in names:
            if found := _HEADING.fullmatch(name):
                return CharacterStyle(ParagraphKind.HEADING, int(found[1]))
            if name == "title":
                return CharacterStyle(ParagraphKind.HEADING, 1)
            for is_of, kind in (
                (_CODE.fullmatch, ParagraphKind.CODE),
                (_QUOTE.fullmatch, ParagraphKind.QUOTE),
                (_CONTENTS.fullmatch, ParagraphKind.CONTENTS),
            ):
                if is_of(name):
                    return CharacterStyle(kind)
        return None

    def _by_outline(self, properties: list[Element]) -> CharacterStyle | None:
        level = whole(next((told for each in properties if (told := setting(each, "outlineLvl"))), ""), 9)
        return CharacterStyle(ParagraphKind.HEADING, level + 1) if 0 <= level < 9 else None

    def _by_list(self, properties: list[Element], names: list[str]) -> CharacterStyle | None:
        told = next((each for one in properties if (each := one.find("numPr")) is not None), None)
        list_id = setting(told, "numId")
        if list_id in ("", "0"):
            return None
        level = setting(told, "ilvl") or "0"
        numbers = self._formats.get((self._numbers.get(list_id, ""), level), "bullet")
        inner = next((int(found[1]) - 1 for name in names if (found := _INNER_ITEM.fullmatch(name))), 0)
        depth = min(8, max(inner, whole(level)))
        return CharacterStyle(ParagraphKind.ITEM, depth, list_id, numbers) if numbers != "none" else None

    def _lineage(self, style_id: str) -> list[Element]:
        lineage: list[Element] = []
        while style_id in self._styles and len(lineage) < _LONGEST_LINEAGE:
            lineage.append(self._styles[style_id])
            style_id = setting(lineage[-1], "basedOn")
        return lineage


def setting(properties: Element | None, name: str) -> str:
    """The value of one property, empty if it is not set."""
    found = properties.find(name) if properties is not None else None
    return found.get("val", "") if found is not None else ""
