"""Documents made to harm: each is refused with a reason, or read within its limits."""

import random
import struct
import time
import zipfile
from io import BytesIO

import pytest

from rowen.content.documents import flow, packages
from rowen.content.documents.packages import elements
from rowen.content.readers import read
from rowen.errors import ItemError
from rowen.model.items import Document, Raw
from tests.content.office_files import Sheet, docx, epub, opendocument, packed, paragraph, pdf, relations, xlsx
from tests.content.test_documents import SAMPLES
from tests.hostile.clock import costs_at_most

ALL = {**SAMPLES, "a.pdf": pdf([["Hay", "Mow."], ["Rowen"]], outline=[("Hay", 0)])}
WORD = '<w:document xmlns:w="urn:w"><w:body>{}</w:body></w:document>'


def body(name: str, content: bytes) -> Document:
    return read(Raw(f"https://example.org/{name}", content, name=name))


def word(main: str) -> bytes:
    return packed({"word/document.xml": main})


def test_a_zip_bomb_is_refused_by_what_it_unpacks_to(monkeypatch):
    monkeypatch.setattr(packages, "MOST_UNPACKED_BYTES", 1 << 20)
    bomb = word(WORD.format(" " * (8 << 20)))

    with pytest.raises(ItemError, match=r"^a\.docx unpacks to more than 1 MB") as caught:
        body("a.docx", bomb)

    assert len(bomb) < 20_000
    assert "bomb" in (caught.value.hint or "")


def test_a_bomb_of_many_small_members_is_refused_by_their_sum(monkeypatch):
    monkeypatch.setattr(packages, "MOST_UNPACKED_BYTES", 1 << 20)
    page = "<p>" + "x" * 300_000

    with pytest.raises(ItemError, match="unpacks to more"):
        body("a.epub", epub({f"{n}.xhtml": page for n in range(10)}))


@pytest.mark.parametrize("declared", [0, 10, 0x7FFFFFFF])
def test_a_member_that_lies_about_its_size_is_damaged(declared):
    content = bytearray(word(WORD.format(paragraph("Hay") * 1_000)))
    at = content.index(b"PK\x01\x02")
    struct.pack_into("<I", content, at + 24, declared)

    try:
        document = body("a.docx", bytes(content))
    except ItemError:
        return
    assert document.text.count("Hay") == 1_000


@pytest.mark.parametrize(
    "declaration",
    [
        '<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">',
        '<!ENTITY b SYSTEM "file:///etc/passwd">',
        '<!ENTITY % b SYSTEM "file:///etc/passwd"> %b;',
    ],
)
def test_entities_are_refused(declaration):
    main = f"<!DOCTYPE x [{declaration}]>" + WORD.format("<w:p><w:r><w:t>&b;</w:t></w:r></w:p>")

    with pytest.raises(ItemError, match="declares entities"):
        body("a.docx", word(main))
    with pytest.raises(ItemError, match="declares entities"):
        body("a.docx", packed({"word/document.xml": f'<?xml version="1.0" encoding="UTF-16"?>{main}'.encode("utf-16")}))


@pytest.mark.parametrize("encoding", ["nonsense", "shift_jis", "utf-16"])
def test_an_encoding_that_does_not_fit_is_damage(encoding):
    with pytest.raises(ItemError, match=r"^a\.docx is damaged"):
        body("a.docx", word(f'<?xml version="1.0" encoding="{encoding}"?>' + WORD.format("")))


def test_deep_nesting_is_refused_before_it_costs_anything():
    deep = "<w:ins>" * 100_000 + "</w:ins>" * 100_000

    with costs_at_most(5):
        with pytest.raises(ItemError, match="too deeply nested"):
            body("a.docx", word(WORD.format(f"<w:p>{deep}</w:p>")))
        with pytest.raises(ItemError, match="too deeply nested"):
            body("a.rtf", rb"{\rtf1" + b"{" * 100_000)


def test_nesting_up_to_the_limit_is_read():
    depth = packages.DEEPEST - 6
    deep = "<w:ins>" * depth + "<w:r><w:t>Hay</w:t></w:r>" + "</w:ins>" * depth

    assert body("a.docx", word(WORD.format(f"<w:p>{deep}</w:p>"))).text == "Hay"


def test_a_million_elements_too_many_are_refused(monkeypatch):
    monkeypatch.setattr(packages, "MOST_ELEMENTS", 1_000)

    with pytest.raises(ItemError, match="too large"):
        body("a.docx", word(WORD.format("<w:p/>" * 1_001)))


def test_a_workbook_without_end_is_cut_and_says_so(monkeypatch):
    monkeypatch.setattr(flow, "MOST_CHARS", 10_000)
    rows = "".join(f'<row r="{n}"><c t="s"><v>0</v></c><c><v>{n}</v></c></row>' for n in range(1, 5_000))

    document = body("a.xlsx", xlsx([Sheet("One", rows), Sheet("Two", rows)], texts=["hay " * 20]))

    assert len(document.text) < 11_000
    assert document.text.endswith("it is too large.*")
    assert document.record["truncated"] is True
    assert "Two" not in document.text


def test_cells_far_apart_do_not_fill_the_space_between_them():
    letters = [f"{a}{b}{c}" for a in "AB" for b in "ABCDEFGHIJ" for c in "ABCDEFGHIJ"]
    rows = "".join(
        f'<row r="{n}"><c r="A{n}"><v>{n}</v></c><c r="{column}{n}"><v>1</v></c></row>'
        for n, column in enumerate(letters, 1)
    )

    assert len(body("a.xlsx", xlsx([Sheet("Far", rows)])).text) < 5_000


@pytest.mark.parametrize("reference", ["ZZZZ1", "XFE1", "1", "", "$$", "Ä1", "A" * 1000])
def test_a_column_that_excel_does_not_have_is_the_next_one(reference):
    rows = f'<row><c r="A1"><v>1</v></c><c r="{reference}"><v>2</v></c></row>'

    assert "| 1 | 2 |" in body("a.xlsx", xlsx([Sheet("S", rows)])).text


def test_cells_that_are_repeated_a_billion_times_are_not():
    cell = "<table:table-cell table:number-columns-repeated='999999999'><text:p>x</text:p></table:table-cell>"
    row = f"<table:table-row table:number-rows-repeated='999999999'>{cell}</table:table-row>"
    start = time.process_time()

    document = body("a.ods", opendocument(f"<table:table table:name='S'>{row * 100}</table:table>"))

    assert document.record["truncated"] is True
    assert len(document.text) <= 1.5 * flow.MOST_CHARS
    assert time.process_time() - start < 30


def test_paths_that_lead_out_of_the_archive_lead_nowhere():
    members = {
        "_rels/.rels": relations(("r", "officeDocument", "../../../../../../etc/passwd")),
        "../../evil": "x",
        "word/_rels/document.xml.rels": relations(("s", "styles", "file:///etc/passwd")),
        "word/document.xml": WORD.format(paragraph("Hay")),
    }

    assert body("a.docx", packed(members)).text == "Hay"
    assert (
        body("a.epub", epub({"../../../etc/passwd": "", "/etc/passwd": "", "%2e%2e/%2e%2e/etc/passwd": ""})).text == ""
    )


def test_encrypted_and_old_files_say_what_to_do():
    office = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)
    flagged = bytearray(word(WORD.format("")))
    flagged[flagged.index(b"PK\x01\x02") + 8] |= 1
    locked = opendocument("", manifest="<manifest:file-entry><manifest:encryption-data/></manifest:file-entry>")

    for name, content in (("a.docx", office), ("a.docx", bytes(flagged)), ("a.odt", locked)):
        with pytest.raises(ItemError, match="is encrypted") as caught:
            body(name, content)
        assert "password" in (caught.value.hint or "")
    with pytest.raises(ItemError, match="is locked by its publisher"):
        body("a.epub", epub({"one.xhtml": "x"}, locked="one.xhtml"))


def test_other_methods_of_packing_are_refused():
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("word/document.xml", WORD.format(""))

    with pytest.raises(ItemError, match="packed by a method"):
        body("a.docx", out.getvalue())


def test_a_chapter_that_is_no_text_is_named():
    with pytest.raises(ItemError, match=r"a\.epub has a chapter that cannot be read: OEBPS/one\.xhtml"):
        body("a.epub", packed_epub_with(bytes(range(256)) * 4))


def packed_epub_with(chapter: bytes) -> bytes:
    with zipfile.ZipFile(BytesIO(epub({"one.xhtml": ""}))) as book:
        members = {name: book.read(name) for name in book.namelist()}
    return packed({**members, "OEBPS/one.xhtml": chapter})


@pytest.mark.parametrize("name", ALL)
def test_a_truncated_document_is_refused_or_read_as_far_as_it_goes(name):
    content = ALL[name]
    ends = range(0, len(content), max(1, len(content) // 60))

    assert len(ends) >= 60
    for end in ends:
        _read_or_refuse(name, content[:end])


@pytest.mark.parametrize("name", ALL)
def test_flipped_bytes_cost_the_document_and_nothing_else(name):
    chance = random.Random(name)
    for _ in range(150):
        content = bytearray(ALL[name])
        for _ in range(chance.randint(1, 8)):
            content[chance.randrange(len(content))] = chance.randrange(256)
        _read_or_refuse(name, bytes(content))


@pytest.mark.parametrize("name", [name for name in ALL if name not in ("a.pdf", "a.rtf")])
def test_shuffled_markup_costs_the_document_and_nothing_else(name):
    chance = random.Random(name)
    with zipfile.ZipFile(BytesIO(ALL[name])) as archive:
        members = {each: archive.read(each).decode() for each in archive.namelist()}
    for _ in range(100):
        broken = dict(members)
        victim = chance.choice([each for each in members if members[each]])
        text = broken[victim]
        start = chance.randrange(len(text))
        broken[victim] = chance.choice(
            [
                text[:start] + text[start + chance.randrange(40) :],
                text.replace(
                    chance.choice(['"1"', '"0"', "val", "r:id", "<w:p>", "text:"]), chance.choice(['"-9"', "x", ""])
                ),
                text.replace("1", "999999999999"),
            ]
        )
        _read_or_refuse(name, packed(broken))


def _read_or_refuse(name: str, content: bytes) -> None:
    try:
        body(name, content)
    except ItemError as problem:
        refusal = str(problem)
    else:
        return
    assert refusal.startswith(name)


def test_large_xml_is_read_piece_by_piece():
    pieces = (piece for piece in [b"<a>", *[b"<b><c/></b>"] * 1_000, b"</a>"])

    assert sum(len(each) for each in elements(pieces, frozenset({"b"}))) == 1_000


def test_what_is_well_formed_by_accident_is_a_document_without_words():
    assert body("a.docx", docx("<w:tbl/><w:sdt/><w:p/><w:tbl><w:tr/></w:tbl>")).text == ""
