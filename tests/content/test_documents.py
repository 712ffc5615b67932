"""Office files and books become Markdown that people would want to read."""

import pytest

from rowen.content.chunks import split
from rowen.content.readers import is_document, read, supported
from rowen.errors import ItemError
from rowen.model.items import Document, Raw
from tests.content.office_files import (
    Sheet,
    docx,
    epub,
    item,
    opendocument,
    packed,
    paragraph,
    pptx,
    run,
    shape,
    style,
    xlsx,
)
from tests.content.office_files import core as core_properties


def body(name: str, content: bytes, media_type: str | None = None) -> Document:
    return read(Raw(f"https://example.org/{name}", content, name=name, media_type=media_type))


def test_a_word_document_keeps_headings_lists_tables_code_and_quotes():
    cells = "<w:tr>" + "".join(f"<w:tc>{paragraph(text)}</w:tc>" for text in ("Field", "Tons")) + "</w:tr>"
    cells += "<w:tr>" + "".join(f"<w:tc>{paragraph(text)}</w:tc>" for text in ("North", "12 | 5")) + "</w:tr>"
    content = (
        paragraph("The hay book", "Title")
        + paragraph("First cut", "heading1")
        + f"<w:p>{run('The ')}{run('fi', '<w:i/>')}{run('rst', '<w:i/>')}{run(' cut of 3 * 4 < 13 & more')}</w:p>"
        + paragraph("When to mow", "Myheading")
        + item("dry days", 1)
        + item("nested", 1, 1)
        + item("Mow", 2)
        + paragraph("between")
        + item("Turn", 2)
        + f"<w:tbl>{cells}</w:tbl>"
        + paragraph("def hay():", "SourceCode")
        + paragraph("    mow()", "SourceCode")
        + paragraph("Make hay.", "Quote")
        + paragraph("Depth", "Deep")
    )

    document = body("a.docx", docx(content, properties=core_properties("", "Ada", "hay; rowen", "en_GB")))

    assert document.title == "The hay book"
    assert (document.tags, document.language, document.record) == (("hay", "rowen"), "en-GB", {"authors": ["Ada"]})
    assert document.text.split("\n\n") == [
        "# The hay book",
        "# First cut",
        "The *first* cut of 3 * 4 < 13 & more",
        "# When to mow",
        "- dry days\n  - nested\n1. Mow",
        "between",
        "2. Turn",
        "| Field | Tons |\n| --- | --- |\n| North | 12 \\| 5 |",
        "```\ndef hay():\n    mow()\n```",
        "> Make hay.",
        "#### Depth",
    ]


def test_what_word_does_not_show_is_left_out():
    content = (
        "<w:sdt><w:sdtPr><w:docPartObj><w:docPartGallery w:val='Table of Contents'/></w:docPartObj></w:sdtPr>"
        f"<w:sdtContent>{paragraph('Contents 1')}</w:sdtContent></w:sdt>"
        + paragraph("First … 1", "toc1")
        + f"<w:p>{run('seen')}<w:del>{run('deleted')}</w:del>{run('hidden', '<w:vanish/>')}"
        f"<w:ins>{run(' added')}</w:ins><w:r><w:instrText>PAGE</w:instrText></w:r></w:p>"
    )

    assert body("a.docx", docx(content)).text == "seen added"


def test_a_footnote_stands_below_its_paragraph():
    notes = f'<w:footnote w:id="2">{paragraph("A note.")}</w:footnote>'
    content = f'<w:p>{run("Words")}<w:r><w:footnoteReference w:id="2"/></w:r></w:p>' + paragraph("After.")

    assert body("a.docx", docx(content, notes=notes)).text == "Words^1\n\n^1 A note.\n\nAfter."


def test_links_of_a_word_document_are_kept_and_scripts_are_not():
    content = (
        f'<w:p><w:hyperlink r:id="a">{run("hay")}</w:hyperlink> <w:hyperlink r:id="b">{run("x")}</w:hyperlink></w:p>'
    )

    document = body("a.docx", docx(content, links={"a": "https://example.org/hay", "b": "javascript:alert(1)"}))

    assert document.text == "[hay](https://example.org/hay)x"
    assert document.links == ("https://example.org/hay",)


def test_text_boxes_are_read_once():
    box = f"<w:txbxContent>{paragraph('boxed')}</w:txbxContent>"
    content = (
        '<w:p><w:r><mc:AlternateContent xmlns:mc="urn:mc">'
        f"<mc:Choice>{box}</mc:Choice><mc:Fallback>{box}</mc:Fallback></mc:AlternateContent></w:r></w:p>"
    )

    assert body("a.docx", docx(content)).text == "boxed"


def test_a_table_of_one_cell_is_only_a_frame():
    assert body("a.docx", docx(f"<w:tbl><w:tr><w:tc>{paragraph('Note')}</w:tc></w:tr></w:tbl>")).text == "Note"


def test_merged_cells_keep_their_columns():
    head = '<w:tr><w:tc><w:tcPr><w:gridSpan w:val="2"/></w:tcPr>' + paragraph("wide") + "</w:tc></w:tr>"
    rows = head + "".join(
        f"<w:tr><w:tc><w:tcPr><w:vMerge{start}/></w:tcPr>{paragraph('tall')}</w:tc><w:tc>{paragraph(text)}</w:tc></w:tr>"
        for start, text in ((' w:val="restart"', "a"), ("", "b"))
    )

    assert body("a.docx", docx(f"<w:tbl>{rows}</w:tbl>")).text == "| wide |  |\n| --- | --- |\n| tall | a |\n|  | b |"


def test_styles_that_are_based_on_each_other_end():
    circle = style("A", based_on="B") + style("B", based_on="A")
    space = 'xmlns:w="urn:w"'
    members = {
        "word/document.xml": f"<w:document {space}><w:body>{paragraph('x', 'A')}</w:body></w:document>",
        "word/styles.xml": f"<w:styles {space}>{circle}</w:styles>",
    }

    assert body("a.docx", packed(members)).text == "x"


def test_a_workbook_is_a_heading_a_sheet_and_tables_of_what_the_cells_show():
    rows = (
        '<row r="1"><c r="A1" t="s"><v>0</v></c></row>'
        '<row r="3"><c r="B3" t="s"><v>1</v></c><c r="C3" t="inlineStr"><is><t>Tons</t></is></c>'
        '<c r="D3" t="s"><v>2</v></c><c r="F3" t="str"><v>Wet</v></c></row>'
        '<row r="4"><c r="B4" t="s"><v>3</v></c><c r="C4"><v>12.300000000000001</v></c>'
        '<c r="D4" s="1"><v>45413</v></c><c r="F4" t="b"><v>1</v></c></row>'
        '<row r="5"><c r="B5" t="e"><v>#N/A</v></c><c r="C5" s="2"><v>0.07</v></c>'
        '<c r="D5" s="3"><v>45413.5</v></c></row>'
    )
    sheets = [Sheet("Harvest & more", rows), Sheet("Empty", ""), Sheet("Secret", rows, "hidden")]
    code = '<numFmt numFmtId="200" formatCode="yyyy\\-mm\\-dd hh:mm"/>'

    document = body(
        "a.xlsx",
        xlsx(sheets, texts=["# All fields", "Field", "Day", "a|b\nc"], formats=[0, 14, 9, 200], codes=code),
    )

    assert (document.title, document.record) == ("Hay figures", {"authors": ["Ada"]})
    assert document.text == (
        "## Harvest & more\n\n\\# All fields\n\n| Field | Tons | Day | Wet |\n| --- | --- | --- | --- |\n"
        "| a\\|b c | 12.3 | 2024-05-01 | TRUE |\n| #N/A | 7% | 2024-05-01 12:00:00 |  |"
    )


@pytest.mark.parametrize(
    ("code", "value", "shown"),
    [
        ('0.00" days"', "3", "3"),
        ("[Red]0.0", "3", "3"),
        ("[h]:mm", "1.5", "1.5"),
        ("d. mmmm yyyy", "1", "1900-01-01"),
        ("d. mmmm yyyy", "61", "1900-03-01"),
        ("hh:mm", "0.75", "18:00:00"),
        ("General", "45413", "45413"),
        ("yyyy", "1e9", "1e9"),
    ],
)
def test_a_number_is_a_date_where_its_format_shows_one(code, value, shown):
    quoted = code.replace('"', "&quot;")
    rows = f'<row><c s="0"><v>{value}</v></c></row>'
    book = xlsx([Sheet("S", rows)], formats=[170], codes=f'<numFmt numFmtId="170" formatCode="{quoted}"/>')

    assert body("a.xlsx", book).text == f"## S\n\n{shown}"


def test_a_presentation_is_a_heading_a_slide_with_its_points_and_notes():
    cells = [[f"<a:tc>{shape(cell)}</a:tc>" for cell in row] for row in (("a", "b|c"), ("1", "2"))]
    rows = "".join(f"<a:tr>{''.join(row)}</a:tr>" for row in cells)
    table = f"<p:graphicFrame><a:tbl>{rows}</a:tbl></p:graphicFrame>"
    slides = [
        shape("The hay deck", "ctrTitle") + shape("by Ada", "subTitle"),
        shape("dry days\n\tnights", "body") + shape("When to mow", "title") + shape("7", "sldNum"),
        table,
        "",
        shape("hidden", "title"),
    ]

    document = body("a.pptx", pptx(slides, notes={1: "Say 3 * 4."}))

    assert document.title == "The hay deck"
    assert document.text.split("\n\n") == [
        "## The hay deck",
        "by Ada",
        "## When to mow",
        "- dry days\n  - nights",
        "Notes: Say 3 * 4.",
        "## Slide 3",
        "| a | b\\|c |\n| --- | --- |\n| 1 | 2 |",
    ]


ODT = """<office:text><text:tracked-changes><text:p>deleted</text:p></text:tracked-changes>
<text:table-of-content><text:p>Contents</text:p></text:table-of-content>
<text:h text:outline-level="1">First cut</text:h>
<text:section><text:p>The <text:span text:style-name="I">first</text:span> cut has<text:s text:c="2"/>a
<text:a xlink:href="https://example.org/hay">link</text:a>.<text:note><text:note-citation>1</text:note-citation>
<text:note-body><text:p>A note.</text:p></text:note-body></text:note></text:p></text:section>
<text:list text:style-name="L"><text:list-item><text:p>dry</text:p><text:list><text:list-item><text:p>inner</text:p>
</text:list-item></text:list></text:list-item></text:list>
<table:table><table:table-row><table:table-cell table:number-columns-spanned="2"><text:p>a</text:p></table:table-cell>
<table:covered-table-cell/></table:table-row><table:table-row><table:table-cell><text:p>1</text:p></table:table-cell>
<table:table-cell><text:p>2</text:p></table:table-cell></table:table-row></table:table>
<text:p text:style-name="Preformatted_20_Text">code<text:s text:c="3"/>here</text:p></office:text>"""
ODF_STYLES = """<style:style style:name="I"><style:text-properties fo:font-style="italic"/></style:style>
<text:list-style style:name="L"><text:list-level-style-number text:level="1" style:num-format="1"/></text:list-style>"""


def test_an_opendocument_text_keeps_its_structure():
    meta = "<dc:title>Hay</dc:title><meta:keyword>rowen</meta:keyword><dc:creator>Ada</dc:creator>"

    document = body("a.odt", opendocument(ODT, styles=ODF_STYLES, meta=meta))

    assert (document.title, document.tags, document.record) == ("Hay", ("rowen",), {"authors": ["Ada"]})
    assert document.text.split("\n\n") == [
        "# First cut",
        "The *first* cut has a [link](https://example.org/hay).^1",
        "^1 A note.",
        "1. dry\n   - inner",
        "| a |  |\n| --- | --- |\n| 1 | 2 |",
        "```\ncode   here\n```",
    ]


def test_an_opendocument_presentation_is_a_heading_a_slide():
    page = (
        "<office:presentation><draw:page>"
        "<draw:frame presentation:class='title'><draw:text-box><text:p>When to mow</text:p></draw:text-box>"
        "</draw:frame>"
        "<draw:frame><draw:text-box><text:list><text:list-item><text:p>dry</text:p></text:list-item></text:list>"
        "</draw:text-box></draw:frame><presentation:notes><draw:frame><draw:text-box><text:p>Say it.</text:p>"
        "</draw:text-box></draw:frame></presentation:notes></draw:page><draw:page/></office:presentation>"
    )

    document = body("a.odp", opendocument(page))

    assert (document.title, document.text) == ("When to mow", "## When to mow\n\n- dry\n\nNotes: Say it.")


def test_an_opendocument_sheet_shows_repeated_cells_and_ends_where_its_cells_do():
    hidden = '<style:style style:name="H"><style:table-properties table:display="false"/></style:style>'
    sheets = (
        "<office:spreadsheet><table:table table:name='Hay'>"
        "<table:table-row><table:table-cell><text:p>Field</text:p></table:table-cell>"
        "<table:table-cell table:number-columns-repeated='2'><text:p>x</text:p></table:table-cell></table:table-row>"
        "<table:table-row table:number-rows-repeated='2'><table:table-cell office:value='1'/>"
        "<table:table-cell table:number-columns-repeated='16000'/></table:table-row>"
        "<table:table-row table:number-rows-repeated='1048573'><table:table-cell/></table:table-row></table:table>"
        "<table:table table:name='No' table:style-name='H'><table:table-row><table:table-cell><text:p>secret</text:p>"
        "</table:table-cell></table:table-row></table:table></office:spreadsheet>"
    )

    assert body("a.ods", opendocument(sheets, styles=hidden)).text == (
        "## Hay\n\n| Field | x | x |\n| --- | --- | --- |\n| 1 |  |  |\n| 1 |  |  |"
    )


def test_a_book_is_its_chapters_in_the_order_of_the_spine():
    chapters = {
        "one.xhtml": '<html><head><title/></head><body id="content"><h1 id="c1">First</h1><p>Mow, see '
        '<a href="two.xhtml#x">below</a> or <a href="https://example.org/">here</a>.</p>'
        "<aside>A remark.</aside></body></html>",
        "two.xhtml": "<html><body><p>Rowen.</p></body></html>",
    }

    document = body("a.epub", epub(chapters, contents={"one.xhtml": "I", "two.xhtml": "Second cut"}))

    assert (document.title, document.language, document.tags) == ("The hay book", "en-GB", ("Farming",))
    assert document.record == {"authors": ["Ada Meadow"]}
    assert document.links == ("https://example.org/",)
    assert document.text.split("\n\n") == [
        "# First",
        "Mow, see below or [here](https://example.org/).",
        "A remark.",
        "# Second cut",
        "Rowen.",
    ]


RTF = rb"""{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0\fcharset0 Times;}{\f1\fcharset204 Arial;}}
{\stylesheet{\s1 heading 1;}{\s2 Normal;}}{\info{\title Hay \'e4}{\author Ada}{\keywords hay, rowen}}
{\header Top}\pard\s1 First cut\par\pard The {\i first} cut \u8211? r\'fcckw\'e4rts {\v hidden}\f1\'cc\f0\par
{\listtext\bullet\tab}dry\par\pard{\listtext 1.\tab}mow\par\pard\trowd\intbl a\cell b|c\cell\row\intbl 1\cell 2\cell\row
\pard {\field{\*\fldinst HYPERLINK "https://example.org/"}{\fldrslt link}} {\pict 0011}\u-10179?\u-8704?\par
\pard noted{\footnote A note.}\par}"""


def test_rich_text_is_read_in_its_code_pages():
    document = body("a.rtf", RTF)

    assert (document.title, document.tags, document.record) == ("Hay ä", ("hay", "rowen"), {"authors": ["Ada"]})
    assert document.text.split("\n\n") == [
        "# First cut",
        "The *first* cut – rückwärts М",
        "- dry\n1. mow",
        "| a | b\\|c |\n| --- | --- |\n| 1 | 2 |",
        "[link](https://example.org/) 😀",
        "noted",
        "A note.",
    ]


def test_rich_text_may_hold_raw_bytes():
    assert body("a.rtf", rb"{\rtf1 a{\pict\bin3 }}}}b}").text == "ab"


SAMPLES = {
    "a.docx": docx(paragraph("First cut", "heading1") + paragraph("Words.")),
    "a.xlsx": xlsx([Sheet("Hay", '<row r="1"><c><v>1</v></c><c><v>2</v></c></row>')]),
    "a.pptx": pptx([shape("First cut", "title") + shape("Words.", "body")]),
    "a.odt": opendocument(ODT, styles=ODF_STYLES),
    "a.ods": opendocument("<table:table table:name='Hay'/>"),
    "a.odp": opendocument("<draw:page><draw:frame/></draw:page>"),
    "a.epub": epub({"one.xhtml": "<h1>First cut</h1><p>Words."}),
    "a.rtf": RTF,
}


@pytest.mark.parametrize("name", SAMPLES)
def test_the_same_bytes_give_the_same_text(name):
    first, second = body(name, SAMPLES[name]), body(name, SAMPLES[name])

    assert first == second
    assert split(first.text) == split(second.text)


@pytest.mark.parametrize("name", SAMPLES)
def test_documents_are_known_by_type_by_ending_and_behind_vague_types(name):
    known = body(name, SAMPLES[name]).media_type

    for told in (None, known, "application/octet-stream", "application/zip", "application/msword"):
        if told == known or supported(name, told):
            assert body(name, SAMPLES[name], told).media_type == known
            assert is_document(Raw("https://example.org/", b"", name=name, media_type=told))
    assert supported(name, "application/zip")
    assert body("download", SAMPLES[name], known).media_type == known
    assert not is_document(Raw("https://example.org/", b"", name="a.md"))


@pytest.mark.parametrize("name", SAMPLES)
def test_a_document_under_the_ending_of_another_is_told_by_name(name):
    ending = name.rpartition(".")[2][:2]
    others = [content for other, content in SAMPLES.items() if other.rpartition(".")[2][:2] != ending]

    for content in [*others, b"# Hay"]:
        with pytest.raises(ItemError, match=rf"^{name} is "):
            body(name, content)
    assert others


def test_a_document_without_words_is_no_failure():
    assert (body("a.docx", docx("")).title, body("a.docx", docx("")).text) == ("a.docx", "")
    assert body("a.pptx", pptx([])).text == ""
    assert body("a.xlsx", xlsx([])).title == "Hay figures"
