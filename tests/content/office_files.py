"""Small documents of every format, written by hand: only what a reader has to see."""

import io
import zipfile
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

RELS = "http://schemas.openxmlformats.org/package/2006/relationships"
KIND = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
SLIDE = "http://schemas.openxmlformats.org/presentationml/2006/main"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
ODF = "urn:oasis:names:tc:opendocument:xmlns:"
DC = "http://purl.org/dc/elements/1.1/"
CORE = "http://schemas.openxmlformats.org/package/2006/metadata/core-properties"
OPF = "http://www.idpf.org/2007/opf"


def packed(members: Mapping[str, str | bytes]) -> bytes:
    """A zip archive that is the same every time."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def relations(*targets: tuple[str, str, str]) -> str:
    """Relationships as (id, kind, target); a target with a scheme is outside of the file."""
    outside = ' TargetMode="External"'
    inner = "".join(
        f'<Relationship Id="{name}" Type="{KIND}/{kind}" Target="{escape(target)}"{outside if ":" in target else ""}/>'
        for name, kind, target in targets
    )
    return f'<Relationships xmlns="{RELS}">{inner}</Relationships>'


def core(title: str = "", author: str = "", keywords: str = "", language: str = "") -> str:
    return (
        f'<c:coreProperties xmlns:c="{CORE}" xmlns:dc="{DC}"><dc:title>{title}</dc:title><dc:creator>{author}'
        f"</dc:creator><c:keywords>{keywords}</c:keywords><dc:language>{language}</dc:language></c:coreProperties>"
    )


def style(name: str, properties: str = "", based_on: str = "") -> str:
    """A style of Word whose id is its name without spaces, as in a program of another language."""
    base = f'<w:basedOn w:val="{based_on}"/>' if based_on else ""
    return (
        f'<w:style w:type="paragraph" w:styleId="{name.replace(" ", "")}"><w:name w:val="{name}"/>{base}'
        f"<w:pPr>{properties}</w:pPr></w:style>"
    )


def paragraph(text: str, style_id: str = "", properties: str = "") -> str:
    named = f'<w:pStyle w:val="{style_id}"/>' if style_id else ""
    return f"<w:p><w:pPr>{named}{properties}</w:pPr>{run(text)}</w:p>"


def run(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{escape(text)}</w:t></w:r>'


def item(text: str, list_id: int, level: int = 0) -> str:
    return paragraph(text, properties=f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{list_id}"/></w:numPr>')


def docx(body: str, *, notes: str = "", properties: str = "", links: Mapping[str, str] | None = None) -> bytes:
    """A Word document; list 1 has bullets, list 2 numbers."""
    space = f'xmlns:w="{WORD}" xmlns:r="{KIND}"'
    names = ("heading 1", "heading 2", "Title", "Source Code", "Quote", "toc 1")
    styles = "".join(map(style, names))
    styles += style("My heading", based_on="heading1") + style("Deep", '<w:outlineLvl w:val="3"/>')
    levels = [
        "".join(f'<w:lvl w:ilvl="{n}"><w:numFmt w:val="{kind}"/></w:lvl>' for n in range(3))
        for kind in ("bullet", "decimal")
    ]
    numbering = "".join(
        f'<w:abstractNum w:abstractNumId="{n}">{level}</w:abstractNum><w:num w:numId="{n}">'
        f'<w:abstractNumId w:val="{n}"/></w:num>'
        for n, level in enumerate(levels, 1)
    )
    outside = [(name, "hyperlink", target) for name, target in (links or {}).items()]
    return packed(
        {
            "_rels/.rels": relations(("r1", "officeDocument", "word/document.xml")),
            "word/_rels/document.xml.rels": relations(("s", "styles", "styles.xml"), *outside),
            "word/document.xml": f"<w:document {space}><w:body>{body}</w:body></w:document>",
            "word/styles.xml": f"<w:styles {space}>{styles}</w:styles>",
            "word/numbering.xml": f"<w:numbering {space}>{numbering}</w:numbering>",
            "word/footnotes.xml": f"<w:footnotes {space}>{notes}</w:footnotes>",
            "docProps/core.xml": properties or core(),
        }
    )


class Sheet(NamedTuple):
    """A sheet's rows as XML."""

    name: str
    rows: str
    state: str = "visible"


def xlsx(
    sheets: Sequence[Sheet], *, texts: Sequence[str] = (), formats: Sequence[int] = (0,), codes: str = ""
) -> bytes:
    """A workbook with shared texts, and the number formats of its styles 0, 1, 2 …"""
    names = "".join(
        f'<sheet name="{escape(each.name)}" sheetId="{n}" r:id="s{n}" state="{each.state}"/>'
        for n, each in enumerate(sheets)
    )
    shared = "".join(f"<si><t>{escape(text)}</t></si>" for text in texts)
    styles = "".join(f'<xf numFmtId="{number}"/>' for number in formats)
    members = {
        "_rels/.rels": relations(("r1", "officeDocument", "/xl/workbook.xml")),
        "xl/_rels/workbook.xml.rels": relations(
            *((f"s{n}", "worksheet", f"worksheets/sheet{n}.xml") for n in range(len(sheets)))
        ),
        "xl/workbook.xml": f'<workbook xmlns="{SHEET}" xmlns:r="{KIND}"><sheets>{names}</sheets></workbook>',
        "xl/sharedStrings.xml": f'<sst xmlns="{SHEET}">{shared}</sst>',
        "xl/styles.xml": f'<styleSheet xmlns="{SHEET}"><numFmts>{codes}</numFmts>'
        f"<cellXfs>{styles}</cellXfs></styleSheet>",
        "docProps/core.xml": core("Hay figures", "Ada"),
    }
    for n, each in enumerate(sheets):
        members[f"xl/worksheets/sheet{n}.xml"] = (
            f'<worksheet xmlns="{SHEET}"><sheetData>{each.rows}</sheetData></worksheet>'
        )
    return packed(members)


def shape(text: str, place: str | None = None) -> str:
    """A shape of a slide: each line a paragraph, its tabs the level."""
    holder = f'<p:ph type="{place}"/>' if place else ("<p:ph/>" if place == "" else "")
    lines = "".join(
        f'<a:p><a:pPr lvl="{len(line) - len(line.lstrip())}"/><a:r><a:t>{escape(line.strip())}</a:t></a:r></a:p>'
        for line in text.split("\n")
    )
    return f"<p:sp><p:nvSpPr><p:nvPr>{holder}</p:nvPr></p:nvSpPr><p:txBody>{lines}</p:txBody></p:sp>"


def pptx(slides: Sequence[str], *, notes: Mapping[int, str] | None = None) -> bytes:
    """A presentation of slides given as their shapes."""
    space = f'xmlns:p="{SLIDE}" xmlns:a="{DRAWING}" xmlns:r="{KIND}"'
    entries = "".join(f'<p:sldId id="{256 + n}" r:id="s{n}"/>' for n in range(len(slides)))
    members = {
        "_rels/.rels": relations(("r1", "officeDocument", "ppt/presentation.xml")),
        "ppt/presentation.xml": f"<p:presentation {space}><p:sldIdLst>{entries}</p:sldIdLst></p:presentation>",
        "ppt/_rels/presentation.xml.rels": relations(
            *((f"s{n}", "slide", f"slides/slide{n}.xml") for n in range(len(slides)))
        ),
        "docProps/core.xml": core("PowerPoint Presentation"),
    }
    for n, shapes in enumerate(slides):
        shown = ' show="0"' if "hidden" in shapes else ""
        members[f"ppt/slides/slide{n}.xml"] = (
            f"<p:sld {space}{shown}><p:cSld><p:spTree>{shapes}</p:spTree></p:cSld></p:sld>"
        )
        if notes and n in notes:
            members[f"ppt/slides/_rels/slide{n}.xml.rels"] = relations(("n", "notesSlide", "../notes/n.xml"))
            members["ppt/notes/n.xml"] = f"<p:notes {space}>{shape(notes[n], 'body')}</p:notes>"
    return packed(members)


def opendocument(body: str, *, styles: str = "", meta: str = "", manifest: str = "") -> bytes:
    """An OpenDocument file whose body is given with the usual prefixes."""
    prefixes = ("office", "text", "table", "draw", "style", "presentation", "meta", "manifest")
    space = " ".join(f'xmlns:{prefix}="{ODF}{prefix}:1.0"' for prefix in prefixes)
    space += f' xmlns:fo="{ODF}xsl-fo-compatible:1.0" xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:dc="{DC}"'
    return packed(
        {
            "content.xml": f"<office:document-content {space}><office:automatic-styles>{styles}"
            f"</office:automatic-styles><office:body>{body}</office:body></office:document-content>",
            "meta.xml": f"<office:document-meta {space}>{meta}</office:document-meta>",
            "META-INF/manifest.xml": f"<manifest:manifest {space}>{manifest}</manifest:manifest>",
        }
    )


def epub(chapters: Mapping[str, str], *, contents: Mapping[str, str] | None = None, locked: str = "") -> bytes:
    """A book whose chapters are given as whole pages, by their file names."""
    items = "".join(
        f'<item id="c{n}" href="{escape(name)}" media-type="application/xhtml+xml"/>' for n, name in enumerate(chapters)
    )
    spine = "".join(f'<itemref idref="c{n}"/>' for n in range(len(chapters)))
    points = "".join(
        f'<navPoint><navLabel><text>{label}</text></navLabel><content src="{name}"/></navPoint>'
        for name, label in (contents or {}).items()
    )
    members = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": '<container><rootfile full-path="OEBPS/book.opf"/></container>',
        "OEBPS/book.opf": f'<package xmlns="{OPF}" xmlns:dc="{DC}"><metadata><dc:title>The hay book</dc:title>'
        "<dc:creator>Ada Meadow</dc:creator><dc:language>en-GB</dc:language><dc:subject>Farming</dc:subject></metadata>"
        f'<manifest>{items}<item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/></manifest>'
        f"<spine>{spine}</spine></package>",
        "OEBPS/toc.ncx": f'<!DOCTYPE ncx PUBLIC "-//NISO//DTD ncx 2005-1//EN" "x.dtd"><ncx>{points}</ncx>',
        **{f"OEBPS/{name}": page for name, page in chapters.items()},
    }
    if locked:
        members["META-INF/encryption.xml"] = f'<encryption><CipherReference URI="OEBPS/{locked}"/></encryption>'
    return packed(members)


def pdf(
    pages: Sequence[Sequence[str]],
    *,
    info: str = "",
    outline: Sequence[tuple[str, int]] = (),
    more: str = "",
    kids: str | None = None,
    loop: bool = False,
) -> bytes:
    """A PDF of lines, the first of each page in large letters; `outline` gives titles and their pages."""
    count = len(pages)
    first_mark = 5 + 2 * count
    numbers = [5 + 2 * n for n in range(count)]
    objects = {
        1: f"<</Type/Catalog/Pages 2 0 R/Outlines {first_mark} 0 R>>" if outline else "<</Type/Catalog/Pages 2 0 R>>",
        2: f"<</Type/Pages/Kids[{kids or ' '.join(f'{n} 0 R' for n in numbers)}]/Count {count}>>",
        3: "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        4: f"<<{info}>>",
    }
    for number, lines in zip(numbers, pages, strict=True):
        content = _content(lines)
        objects[number] = (
            "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F 3 0 R>>>>"
            f"/Contents {number + 1} 0 R>>"
        )
        objects[number + 1] = f"<</Length {len(content)}>>stream\n{content}\nendstream"
    if outline:
        objects[first_mark] = f"<</First {first_mark + 1} 0 R/Last {first_mark + len(outline)} 0 R>>"
    for n, (title, page) in enumerate(outline, first_mark + 1):
        following = n if loop else n + 1
        after = f"/Next {following} 0 R" if loop or n < first_mark + len(outline) else ""
        objects[n] = f"<</Title({title})/Parent {first_mark} 0 R/Dest[{numbers[page]} 0 R/Fit]{after}>>"
    return _file(objects, f"/Root 1 0 R/Info 4 0 R{more}")


def _content(lines: Sequence[str]) -> str:
    shown = [
        f"/F {24 if n == 0 else 12} Tf 1 0 0 1 50 {740 - 20 * n} Tm ({line}) Tj" for n, line in enumerate(lines) if line
    ]
    return f"BT {' '.join(shown)} ET"


def _file(objects: Mapping[int, str], trailer: str) -> bytes:
    out = b"%PDF-1.4\n"
    places = []
    for number, content in sorted(objects.items()):
        places.append(len(out))
        out += f"{number} 0 obj\n{content}\nendobj\n".encode("latin-1")
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    tail = f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n<</Size {size}{trailer}>>\n"
    return out + f"{tail}startxref\n{len(out)}\n%%EOF\n".encode("latin-1")
