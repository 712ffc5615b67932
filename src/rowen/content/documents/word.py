"""Reads Word documents: headings, paragraphs, lists, tables and footnotes, as their styles define them."""

import re
from collections import Counter
from collections.abc import Iterator
from enum import Enum, auto
from typing import NamedTuple
from xml.etree.ElementTree import Element

from rowen.content.base import Part
from rowen.content.documents import DamagedError
from rowen.content.documents.flow import Cell, TextFlow, TextRun, core_facts, inline, part_of
from rowen.content.documents.packages import ZipPackage, elements, whole

_BLOCKS = frozenset({"p", "tbl", "sdt"})
_BODY = frozenset({"body"})
_SKIPPED = frozenset({"del", "moveFrom", "Fallback", "pPr", "rPr", "sdtPr", "rt"})
_MARKS = {"tab": " ", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
# A span is an arbitrary number in an attribute; Word itself has at most 63 columns.
_WIDEST_SPAN = 50
_HEADING = re.compile(r"heading ([1-9])")
_CODE = re.compile(r".*\b(?:code|listing|preformatted|verbatim)\b(?s:.*)|macro text|plain text")
_QUOTE = re.compile(r"(?:intense )?quote|block ?text|quotations?")
_CONTENTS = re.compile(r"toc(?: \d| heading)|table of figures|index \d|contents heading")
# Word's own styles for inner items are separate lists, which differ from outer ones only in indentation.
_INNER_ITEM = re.compile(r"list (?:bullet|number) ([2-5])")
_LONGEST_LINEAGE = 16


def read_word(body: bytes) -> Part:
    """Return the text of a document without headers, footers, comments, table of contents and deleted text."""
    package = ZipPackage(body)
    main = package.main("word/document.xml", what="a Word document")
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
            (kind, note.get("id", "")): note
            for kind in ("footnote", "endnote")
            for note in package.tree(paths.get(kind + "s", f"{folder}/{kind}s.xml")).iter(kind)
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
            raise DamagedError("is not a Word document.")
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
        style = self._styles.style_of(paragraph)
        runs = list(self._runs(paragraph, TextRun("")))
        html = inline(runs, plain=style.kind is ParagraphKind.HEADING)
        match style.kind:
            case ParagraphKind.HEADING:
                flow.heading(style.level, html)
            case ParagraphKind.CODE:
                flow.code("".join(run.text for run in runs))
            case ParagraphKind.QUOTE:
                flow.quote(html)
            case ParagraphKind.ITEM if html:
                flow.item(style.level, html, number=self._number(style))
            case ParagraphKind.TEXT:
                flow.paragraph(html)
        # Notes follow their paragraph, since the document is cut into chunks.
        noted, self._noted = self._noted, []
        for note in noted:
            self._note_number += 1
            words = [run for part in note.iter("p") for run in (*self._runs(part, TextRun("")), TextRun(" "))]
            flow.paragraph(inline([TextRun(str(self._note_number), raised=True), TextRun(" "), *words]))

    def _number(self, item: "ParagraphStyle") -> int | None:
        """Return the next number in a list; it continues after a paragraph, and restarts after a higher-level item."""
        if item.numbers == "bullet":
            return None
        for deeper in range(item.level + 1, 9):
            del self._counted[item.list_id, deeper]
        self._counted[item.list_id, item.level] += 1
        return self._counted[item.list_id, item.level]

    def _cell(self, cell: Element) -> Cell:
        properties = cell.find("tcPr")
        flow = TextFlow()
        for block in cell:
            self._write(block, flow)
        # A cell that continues the cell above is left empty.
        is_merged = properties is not None and properties.find("vMerge") is not None
        continues = is_merged and setting(properties, "vMerge") != "restart"
        span = min(_WIDEST_SPAN, max(1, whole(setting(properties, "gridSpan"), 1)))
        return Cell("" if continues else flow.html(), span)

    def _runs(self, parent: Element, base: TextRun) -> Iterator[TextRun]:
        for child in parent:
            match child.tag:
                case "t":
                    yield base._replace(text=child.text or "")
                case "r":
                    properties = child.find("rPr")
                    if properties is None:
                        yield from self._runs(child, base)
                    elif not _is_on(properties, "vanish"):
                        style = base._replace(
                            bold=base.bold or _is_on(properties, "b"),
                            italic=base.italic or _is_on(properties, "i"),
                            raised=setting(properties, "vertAlign") == "superscript",
                        )
                        yield from self._runs(child, style)
                case "hyperlink":
                    kind, address = self._targets.get(child.get("r:id", ""), ("", ""))
                    yield from self._runs(child, base._replace(href=address if kind == "hyperlink" else ""))
                case "footnoteReference" | "endnoteReference":
                    note = self._notes.pop((child.tag.removesuffix("Reference"), child.get("id", "")), None)
                    if note is not None:
                        self._noted.append(note)
                        yield base._replace(text=str(self._note_number + len(self._noted)), raised=True)
                case mark if mark in _MARKS:
                    yield base._replace(text="" if child.get("type") == "page" else _MARKS[mark])
                case tag if tag not in _SKIPPED:
                    yield from self._runs(child, base)
                    if tag == "p":
                        yield TextRun("\n")


def _is_on(properties: Element, name: str) -> bool:
    switch = properties.find(name)
    return switch is not None and switch.get("val", "true") not in ("0", "false", "off", "none")


def _own(parent: Element, name: str) -> Iterator[Element]:
    """Yield the rows or cells of a table, also inside content controls, but not of nested tables."""
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


_KINDS = (
    (_CODE.fullmatch, ParagraphKind.CODE),
    (_QUOTE.fullmatch, ParagraphKind.QUOTE),
    (_CONTENTS.fullmatch, ParagraphKind.CONTENTS),
)


class ParagraphStyle(NamedTuple):
    """The role of a paragraph; for a list item also `list_id`, and the number format in `numbers` (or `bullet`)."""

    kind: ParagraphKind = ParagraphKind.TEXT
    level: int = 0
    list_id: str = ""
    numbers: str = ""


class WordStyles:
    """The paragraph styles and list numberings of one document."""

    def __init__(self, package: ZipPackage, styles: str, numbering: str) -> None:
        entries = (entry for entry in package.tree(styles).iter("style") if entry.get("type") == "paragraph")
        self._styles = {entry.get("styleId", ""): entry for entry in entries}
        root = package.tree(numbering)
        self._numbers = {entry.get("numId", ""): setting(entry, "abstractNumId") for entry in root.iter("num")}
        self._formats = {
            (entry.get("abstractNumId", ""), level.get("ilvl", "")): setting(level, "numFmt")
            for entry in root.iter("abstractNum")
            for level in entry.iter("lvl")
        }

    def style_of(self, paragraph: Element) -> ParagraphStyle:
        """Return the role of a paragraph from its own properties, its style and the ancestors of the style."""
        own = paragraph.find("pPr")
        lineage: list[Element] = []
        style_id = setting(own, "pStyle")
        while style_id in self._styles and len(lineage) < _LONGEST_LINEAGE:
            lineage.append(self._styles[style_id])
            style_id = setting(lineage[-1], "basedOn")
        names = [setting(style, "name").lower() for style in lineage]
        for name in names:
            if heading := _HEADING.fullmatch(name):
                return ParagraphStyle(ParagraphKind.HEADING, int(heading[1]))
            if name == "title":
                return ParagraphStyle(ParagraphKind.HEADING, 1)
            for matches, kind in _KINDS:
                if matches(name):
                    return ParagraphStyle(kind)
        properties = [each for each in (own, *(style.find("pPr") for style in lineage)) if each is not None]
        outline = whole(next((level for each in properties if (level := setting(each, "outlineLvl"))), ""), 9)
        if 0 <= outline < 9:
            return ParagraphStyle(ParagraphKind.HEADING, outline + 1)
        return self._list_style(properties, names)

    def _list_style(self, properties: list[Element], names: list[str]) -> ParagraphStyle:
        numbering = next((entry for each in properties if (entry := each.find("numPr")) is not None), None)
        list_id = setting(numbering, "numId")
        level = setting(numbering, "ilvl") or "0"
        numbers = self._formats.get((self._numbers.get(list_id, ""), level), "bullet")
        if list_id in ("", "0") or numbers == "none":
            return ParagraphStyle()
        inner = next((int(match[1]) - 1 for name in names if (match := _INNER_ITEM.fullmatch(name))), 0)
        return ParagraphStyle(ParagraphKind.ITEM, min(8, max(inner, whole(level))), list_id, numbers)


def setting(properties: Element | None, name: str) -> str:
    """Return the value of a property; an empty string if it is not set."""
    entry = properties.find(name) if properties is not None else None
    return entry.get("val", "") if entry is not None else ""
