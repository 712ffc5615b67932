"""Word documents: headings, paragraphs, lists, tables and footnotes, as their styles define them."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from xml.etree.ElementTree import Element

from rowen.content.base import Part
from rowen.content.documents import DamagedError
from rowen.content.documents.flow import Cell, TextFlow, TextRun, core_facts, inline, part_of
from rowen.content.documents.packages import ZipPackage, elements, whole

__all__ = ["read_word", "setting"]

_BLOCKS = frozenset({"p", "tbl", "sdt"})
_BODY = frozenset({"body"})
_SKIPPED = frozenset({"del", "moveFrom", "Fallback", "pPr", "rPr", "sdtPr", "rt"})
_MARKS = {"tab": " ", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
# A span is a number in an attribute, which may be any; Word itself stops at 63 columns.
_WIDEST_SPAN = 50
_HEADING = re.compile(r"heading ([1-9])")
_CODE = re.compile(r".*\b(?:code|listing|preformatted|verbatim)\b(?s:.*)|macro text|plain text")
_QUOTE = re.compile(r"(?:intense )?quote|block ?text|quotations?")
_CONTENTS = re.compile(r"toc(?: \d| heading)|table of figures|index \d|contents heading")
# Word's own styles for inner items are lists of their own, told from outer ones by their indentation alone.
_INNER_ITEM = re.compile(r"list (?:bullet|number) ([2-5])")
_LONGEST_LINEAGE = 16


def read_word(body: bytes) -> Part:
    """Return the text of a document without its headers, footers, comments, contents and deleted words."""
    package = ZipPackage(body)
    main = package.main("word/document.xml", what="Word document")
    return part_of(_Document(package, main).html(), core_facts(package))


class _Document:
    def __init__(self, package: ZipPackage, main: str) -> None:
        self._package = package
        self._main = main
        self._targets = package.targets(main)
        folder = main.rpartition("/")[0]
        paths = dict(self._targets.values())
        self._styles = WordStyles(
            package, paths.get("styles", f"{folder}/styles.xml"), paths.get("numbering", f"{folder}/numbering.xml")
        )
        self._notes = {
            (kind, each.get("id", "")): each
            for kind in ("footnote", "endnote")
            for each in package.tree(paths.get(kind + "s", f"{folder}/{kind}s.xml")).iter(kind)
        }
        self._counted: Counter[tuple[str, int]] = Counter()
        self._noted: list[Element] = []
        self._note_number = 0

    def html(self) -> str:
        flow = TextFlow()
        is_document = False
        for block in elements(self._package.pieces(self._main), _BLOCKS, opened=_BODY):
            is_document = is_document or block.tag in _BODY
            self._write(block, flow)
        if not is_document:
            raise DamagedError("is no Word document.")
        return flow.html()

    def _write(self, block: Element, flow: TextFlow) -> None:
        match block.tag:
            case "p":
                self._paragraph(block, flow)
            case "tbl":
                flow.table([[self._cell(cell) for cell in _own(row, "tc")] for row in _own(block, "tr")])
            case "sdt" if setting(block.find("sdtPr/docPartObj"), "docPartGallery") == "Table of Contents":
                return
            case "sdt" | "sdtContent" | "ins" | "customXml" | "smartTag" | "moveTo":
                for inner in block:
                    self._write(inner, flow)

    def _paragraph(self, paragraph: Element, flow: TextFlow) -> None:
        look = self._styles.look(paragraph)
        runs = list(self._runs(paragraph, TextRun("")))
        html = inline(runs, plain=look.kind is ParagraphKind.HEADING)
        match look.kind:
            case ParagraphKind.HEADING:
                flow.heading(look.level, html)
            case ParagraphKind.CODE:
                flow.code("".join(run.text for run in runs))
            case ParagraphKind.QUOTE:
                flow.quote(html)
            case ParagraphKind.ITEM if html:
                flow.item(look.level, html, number=self._number(look.list_id, look.level, look.numbers))
            case ParagraphKind.TEXT:
                flow.paragraph(html)
        self._end_notes(flow)

    def _number(self, list_id: str, level: int, numbers: str) -> int | None:
        """Return the next number of a list. It continues after other paragraphs, and restarts below another item."""
        if numbers == "bullet":
            return None
        for deeper in range(level + 1, 9):
            del self._counted[list_id, deeper]
        self._counted[list_id, level] += 1
        return self._counted[list_id, level]

    def _cell(self, cell: Element) -> Cell:
        properties = cell.find("tcPr")
        flow = TextFlow()
        for block in cell:
            self._write(block, flow)
        # A cell that goes on from the row above repeats nothing.
        merged = properties is not None and properties.find("vMerge") is not None
        goes_on = merged and setting(properties, "vMerge") != "restart"
        span = min(_WIDEST_SPAN, max(1, whole(setting(properties, "gridSpan"), 1)))
        return Cell("" if goes_on else flow.html(), span)

    def _runs(self, parent: Element, look: TextRun) -> Iterator[TextRun]:
        for child in parent:
            match child.tag:
                case "t":
                    yield look._replace(text=child.text or "")
                case "r":
                    if (own := _look(child, look)) is not None:
                        yield from self._runs(child, own)
                case "hyperlink":
                    kind, address = self._targets.get(child.get("r:id", ""), ("", ""))
                    yield from self._runs(child, look._replace(href=address if kind == "hyperlink" else ""))
                case "footnoteReference" | "endnoteReference":
                    yield from self._reference(child, look)
                case mark if mark in _MARKS:
                    yield look._replace(text="" if child.get("type") == "page" else _MARKS[mark])
                case tag if tag not in _SKIPPED:
                    yield from self._runs(child, look)
                    if tag == "p":
                        yield TextRun("\n")

    def _reference(self, reference: Element, look: TextRun) -> Iterator[TextRun]:
        kind = reference.tag.removesuffix("Reference")
        note = self._notes.pop((kind, reference.get("id", "")), None)
        if note is not None:
            self._noted.append(note)
            yield look._replace(text=str(self._note_number + len(self._noted)), raised=True)

    def _end_notes(self, flow: TextFlow) -> None:
        """Write notes below their paragraph, not at the end of a document that is cut into chunks."""
        noted, self._noted = self._noted, []
        for note in noted:
            self._note_number += 1
            words = [run for paragraph in note.iter("p") for run in (*self._runs(paragraph, TextRun("")), TextRun(" "))]
            flow.paragraph(inline([TextRun(str(self._note_number), raised=True), TextRun(" "), *words]))


def _look(run: Element, look: TextRun) -> TextRun | None:
    """Return a run's look; none if it is hidden."""
    properties = run.find("rPr")
    if properties is None:
        return look
    if _is_on(properties, "vanish"):
        return None
    return look._replace(
        bold=look.bold or _is_on(properties, "b"),
        italic=look.italic or _is_on(properties, "i"),
        raised=setting(properties, "vertAlign") == "superscript",
    )


def _is_on(properties: Element, name: str) -> bool:
    found = properties.find(name)
    return found is not None and found.get("val", "true") not in ("0", "false", "off", "none")


def _own(parent: Element, name: str) -> Iterator[Element]:
    """Rows or cells of a table, also those inside of content controls, but none of a table in a cell."""
    for child in parent:
        if child.tag == name:
            yield child
        elif child.tag in ("sdt", "sdtContent", "ins", "customXml"):
            yield from _own(child, name)


class ParagraphKind(Enum):
    """The kinds of paragraphs."""

    TEXT = auto()
    HEADING = auto()
    ITEM = auto()
    CODE = auto()
    QUOTE = auto()
    CONTENTS = auto()


@dataclass(frozen=True, slots=True)
class CharacterStyle:
    """The role of a paragraph; for an item also `list_id` and the format of numbers, `bullet` for none."""

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
        """Return the role of a paragraph by its properties, then by its style and the ancestors of that."""
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
    """Return the value of one property, empty if it is not set."""
    found = properties.find(name) if properties is not None else None
    return found.get("val", "") if found is not None else ""
