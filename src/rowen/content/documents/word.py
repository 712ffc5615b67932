"""Word documents: headings, paragraphs, lists, tables and footnotes, as their styles tell them."""

from collections import Counter
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from rowen.content.base import Part
from rowen.content.documents import DamagedError
from rowen.content.documents.facts import core_facts, part_of
from rowen.content.documents.flow import Cell, TextFlow, TextRun, inline
from rowen.content.documents.markup import elements, whole
from rowen.content.documents.packages import ZipPackage
from rowen.content.documents.word_styles import ParagraphKind, WordStyles, setting

__all__ = ["read_word"]

_BLOCKS = frozenset({"p", "tbl", "sdt"})
_BODY = frozenset({"body"})
_SKIPPED = frozenset({"del", "moveFrom", "Fallback", "pPr", "rPr", "sdtPr", "rt"})
_MARKS = {"tab": " ", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
# A span is a number in an attribute, which may be any; Word itself stops at 63 columns.
_WIDEST_SPAN = 50


def read_word(body: bytes) -> Part:
    """The text of a document without its headers, footers, comments, contents and deleted words."""
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
        """Numbers go on where other paragraphs stand between two items, and begin anew below another item."""
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
        """Notes stand below the paragraph that they belong to, not at the end of a document that is cut into chunks."""
        noted, self._noted = self._noted, []
        for note in noted:
            self._note_number += 1
            words = [run for paragraph in note.iter("p") for run in (*self._runs(paragraph, TextRun("")), TextRun(" "))]
            flow.paragraph(inline([TextRun(str(self._note_number), raised=True), TextRun(" "), *words]))


def _look(run: Element, look: TextRun) -> TextRun | None:
    """A run's look; none if it is hidden."""
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
