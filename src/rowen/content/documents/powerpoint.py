"""Reads PowerPoint presentations: a heading for each slide, its points and tables, and the speaker's notes."""

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from rowen.content.base import Part
from rowen.content.documents import DamagedError
from rowen.content.documents.flow import Cell, TextFlow, TextRun, core_facts, inline, part_of
from rowen.content.documents.packages import ZipPackage, whole

_TITLES = ("title", "ctrTitle")
_FURNITURE = ("sldNum", "dt", "ftr", "hdr", "sldImg")
_POINTS = ("body", "obj", "")


def read_powerpoint(body: bytes) -> Part:
    """Return the visible slides, in order."""
    package = ZipPackage(body)
    main = package.main("ppt/presentation.xml", what="a PowerPoint presentation")
    root = package.tree(main)
    if root.tag != "presentation":
        raise DamagedError("is not a PowerPoint presentation.")
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
        for kind, path in self._targets.values():
            if kind == "diagramData":
                # The text of a diagram, without its arrows.
                for point in self._package.tree(path).iter("pt"):
                    inner.item(0, inline(run for part in point.iter("p") for run in self._runs(part)))
        for kind, path in self._targets.values():
            for shape in _shapes(self._package.tree(path)) if kind == "notesSlide" else ():
                if _place(shape) == "body":
                    html = inline(run for part in shape.iter("p") for run in (*self._runs(part), TextRun("\n")))
                    inner.paragraph(f"Notes: {html}" if html else "")
        flow.slide(number, words.strip(), inner)

    def _write_text(self, shape: Element, flow: TextFlow) -> None:
        paragraphs = [part for part in shape.iterfind("txBody/p") if any(part.itertext())]
        is_list = _place(shape) in _POINTS and len(paragraphs) > 1
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
            elif "buChar" in marks or (is_list and "buNone" not in marks):
                flow.item(level, html)
            else:
                flow.paragraph(html)

    def _cell(self, cell: Element) -> Cell:
        if cell.get("hMerge") in ("1", "true"):
            return Cell("")
        runs = (run for part in cell.iter("p") for run in (*self._runs(part), TextRun(" ")))
        return Cell(inline(runs))

    def _runs(self, paragraph: Element) -> Iterator[TextRun]:
        for child in paragraph:
            match child.tag:
                case "r" | "fld":
                    text = "".join(part.text or "" for part in child.iterfind("t"))
                    style = child.find("rPr")
                    if style is None:
                        yield TextRun(text)
                        continue
                    link = style.find("hlinkClick")
                    target = self._targets.get(link.get("r:id", "")) if link is not None else None
                    yield TextRun(
                        text,
                        bold=style.get("b") in ("1", "true"),
                        italic=style.get("i") in ("1", "true"),
                        href=target[1] if target and target[0] == "hyperlink" else "",
                    )
                case "br":
                    yield TextRun("\n")
                case "AlternateContent" | "Choice" | "m" | "oMathPara" | "oMath":
                    yield TextRun("".join(part.text or "" for part in child.iter("t")))


def _shapes(root: Element) -> Iterator[Element]:
    """Yield the shapes and tables, including those in groups."""
    for child in root:
        if child.tag in ("sp", "tbl"):
            yield child
        elif child.tag != "Fallback":
            yield from _shapes(child)


def _place(shape: Element) -> str | None:
    """Return the role of a shape in the layout, such as `title` or `body`; None if it has none."""
    placeholder = shape.find("nvSpPr/nvPr/ph")
    return placeholder.get("type", "") if placeholder is not None else None
