"""PowerPoint presentations: one heading per slide, its points and tables, and the speaker's notes."""

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from rowen.content.base import Part
from rowen.content.documents import DamagedError
from rowen.content.documents.flow import Cell, TextFlow, TextRun, core_facts, inline, part_of
from rowen.content.documents.packages import ZipPackage, whole

__all__ = ["read_powerpoint"]

_TITLES = ("title", "ctrTitle")
_FURNITURE = ("sldNum", "dt", "ftr", "hdr", "sldImg")
_POINTS = ("body", "obj", "")


def read_powerpoint(body: bytes) -> Part:
    """Return the slides that are shown, in their order."""
    package = ZipPackage(body)
    main = package.main("ppt/presentation.xml", what="PowerPoint presentation")
    root = package.tree(main)
    if root.tag != "presentation":
        raise DamagedError("is no PowerPoint presentation.")
    flow = TextFlow()
    slides = package.targets(main)
    for number, entry in enumerate(root.iter("sldId"), 1):
        kind, path = slides.get(entry.get("r:id", ""), ("", ""))
        if kind == "slide":
            _Slide(package, path).write(flow, number)
    return part_of(flow.html(), core_facts(package))


class _Slide:
    def __init__(self, package: ZipPackage, path: str) -> None:
        self._package = package
        self._root = package.tree(path)
        self._targets = package.targets(path)

    def write(self, flow: TextFlow, number: int) -> None:
        if self._root.get("show") in ("0", "false"):
            return
        shapes = list(_shapes(self._root))
        titles = [shape for shape in shapes if _place(shape) in _TITLES]
        words = " ".join(inline(self._runs(part), plain=True) for shape in titles for part in shape.iter("p"))
        inner = TextFlow()
        for shape in shapes:
            if shape.tag == "tbl":
                inner.table([[self._cell(cell) for cell in row.iterfind("tc")] for row in shape.iterfind("tr")])
            elif _place(shape) not in (*_TITLES, *_FURNITURE):
                self._write_text(shape, inner)
        self._write_drawn(inner)
        self._write_notes(inner)
        flow.slide(number, words.strip(), inner)

    def _write_text(self, shape: Element, flow: TextFlow) -> None:
        paragraphs = [part for part in shape.iterfind("txBody/p") if any(part.itertext())]
        points = _place(shape) in _POINTS and len(paragraphs) > 1
        numbers: dict[int, int] = {}
        for paragraph in paragraphs:
            properties = paragraph.find("pPr")
            marks = {child.tag for child in properties} if properties is not None else set()
            level = min(8, max(0, whole(properties.get("lvl")))) if properties is not None else 0
            html = inline(self._runs(paragraph))
            numbers = {at: number for at, number in numbers.items() if at <= level}
            if "buAutoNum" in marks:
                numbers[level] = numbers.get(level, 0) + 1
                flow.item(level, html, number=numbers[level])
            elif "buChar" in marks or (points and "buNone" not in marks):
                flow.item(level, html)
            else:
                flow.paragraph(html)

    def _write_drawn(self, flow: TextFlow) -> None:
        """The words of a diagram, without the arrows between them."""
        for kind, path in self._targets.values():
            if kind == "diagramData":
                for point in self._package.tree(path).iter("pt"):
                    flow.item(0, inline(run for part in point.iter("p") for run in self._runs(part)))

    def _write_notes(self, flow: TextFlow) -> None:
        for kind, path in self._targets.values():
            if kind != "notesSlide":
                continue
            for shape in _shapes(self._package.tree(path)):
                if _place(shape) == "body":
                    words = [(*self._runs(part), TextRun("\n")) for part in shape.iter("p")]
                    html = inline(run for each in words for run in each)
                    flow.paragraph(f"Notes: {html}" if html else "")

    def _cell(self, cell: Element) -> Cell:
        if cell.get("hMerge") in ("1", "true"):
            return Cell("")
        runs = (run for part in cell.iter("p") for run in (*self._runs(part), TextRun(" ")))
        return Cell(inline(runs))

    def _runs(self, paragraph: Element) -> Iterator[TextRun]:
        for child in paragraph:
            match child.tag:
                case "r" | "fld":
                    yield self._run(child)
                case "br":
                    yield TextRun("\n")
                case "AlternateContent" | "Choice" | "m" | "oMathPara" | "oMath":
                    yield TextRun("".join(part.text or "" for part in child.iter("t")))

    def _run(self, run: Element) -> TextRun:
        text = "".join(part.text or "" for part in run.iterfind("t"))
        look = run.find("rPr")
        if look is None:
            return TextRun(text)
        link = look.find("hlinkClick")
        kind, address = self._targets.get(link.get("r:id", ""), ("", "")) if link is not None else ("", "")
        return TextRun(
            text,
            bold=look.get("b") in ("1", "true"),
            italic=look.get("i") in ("1", "true"),
            href=address if kind == "hyperlink" else "",
        )


def _shapes(root: Element) -> Iterator[Element]:
    """Shapes with text, and tables, also those in groups."""
    for child in root:
        if child.tag in ("sp", "tbl"):
            yield child
        elif child.tag != "Fallback":
            yield from _shapes(child)


def _place(shape: Element) -> str | None:
    """Return the role of a shape in the layout: `title`, `body` …; None for a free one."""
    found = shape.find("nvSpPr/nvPr/ph")
    return found.get("type", "") if found is not None else None
