"""PDF: pages under headings that lead to them."""

import sys

import pytest

from rowen.content.chunks import split
from rowen.content.documents import pdf as reader
from rowen.content.documents.pdf import Bookmark, markdown
from rowen.content.readers import read
from rowen.errors import ItemError
from rowen.model.items import Document, Raw
from tests.content.office_files import pdf

LOCKED = f"/ID[<00><00>]/Encrypt<</Filter/Standard/V 1/R 2/P -4/O<{'00' * 32}>/U<{'00' * 32}>>>"


def body(content: bytes) -> Document:
    return read(Raw("https://example.org/a.pdf", content, media_type="application/pdf"))


def test_each_page_is_a_heading_whose_anchor_opens_it_in_a_viewer():
    document = body(pdf([["Making hay", "Mow it.", "# dry it"], ["Rowen", "Again."]]))

    assert document.text == (
        "## Page 1 {#page=1}\n\nMaking hay\nMow it.\n\n\\# dry it\n\n## Page 2 {#page=2}\n\nRowen\nAgain."
    )
    assert split(document.text)[-1].anchor in ("page=1", "page=2")
    assert document.record == {"pages": 2}


def test_the_outline_gives_the_headings_where_their_words_stand():
    pages = [["Cover"], ["1 First cut", "Mow.", "Second", "cut", "Mow again."], ["Bale."]]

    document = body(pdf(pages, outline=[("First cut", 1), ("Second cut", 1), ("Not to be found", 2)]))

    assert document.text.split("\n\n") == [
        "###### Page 1 {#page=1}",
        "Cover",
        "# First cut {#page=2}",
        "Mow.",
        "# Second cut {#page=2}",
        "Mow again.",
        "# Not to be found {#page=3}",
        "Bale.",
    ]


@pytest.mark.parametrize(
    ("info", "title"),
    [
        ("/Title(The hay book)", "The hay book"),
        ("/Title(Microsoft Word - The hay book)", "The hay book"),
        ("/Title(Microsoft Word - hay_v3.docx)", "Written large"),
        ("/Title(untitled)", "Written large"),
        ("", "Written large"),
    ],
)
def test_the_title_is_the_authors_or_what_is_written_largest(info, title):
    assert body(pdf([["Written large", "small"]], info=info)).title == title


def test_author_and_keywords_are_kept_and_dates_are_not():
    document = body(pdf([["Hay"]], info="/Author(Ada)/Keywords(hay, rowen)/CreationDate(D:20240501)"))

    assert (document.tags, document.record) == (("hay", "rowen"), {"authors": ["Ada"], "pages": 1})


def test_what_repeats_at_the_ends_of_pages_is_kept_once_and_numbers_never():
    pages = [f"The hay book\nwords of page {n}, all different {'x' * n}\nFarm press, {n}\n{n}" for n in range(1, 6)]

    text = markdown(pages, [])

    assert (text.count("The hay book"), text.count("Farm press"), text.count("all different")) == (1, 1, 5)
    assert not any(line.isdigit() for line in text.split("\n"))


def test_words_that_were_cut_at_the_end_of_a_line_are_whole_again():
    assert markdown(["ex\ufffeactly D\ufffenormalised … and 1\ufffe2"], []).endswith("exactly D-normalised … and 1-2")


def test_a_short_line_that_ends_a_sentence_ends_the_paragraph():
    lines = "A line that is as long as lines go here\nends.\nAnother line as long as lines go here\n• point"

    assert markdown([lines], []).endswith("here\nends.\n\nAnother line as long as lines go here\n\n- point")


def test_dots_that_lead_to_a_number_are_cut_short():
    assert markdown(["First cut . . . . . . . . . . 7\nSecond...............9"], []).endswith("cut … 7\nSecond … 9")


def test_a_bookmark_beyond_the_last_page_is_no_heading():
    assert markdown(["words"], [Bookmark(7, 0, "Nowhere")]).endswith("Page 1 {#page=1}\n\nwords")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (pdf([["", ""]]), "has no text layer"),
        (pdf([["Hay"]], more=LOCKED), "is encrypted"),
        (pdf([["Hay"]], kids="2 0 R"), "is damaged"),
        (pdf([["Hay"]])[:60], "is damaged"),
        (b"%PDF-1.7", "is damaged"),
        (b"", "is damaged"),
        (b"<html>not a PDF</html>", "is damaged"),
    ],
)
def test_a_pdf_that_cannot_be_read_says_why(content, why):
    with pytest.raises(ItemError, match=rf"^a\.pdf {why}"):
        body(content)


def test_an_outline_that_leads_back_to_itself_ends():
    assert "Mow." in body(pdf([["Hay", "Mow."]], outline=[("Hay", 0)], loop=True)).text


def test_a_pdf_that_lost_its_end_is_pieced_together():
    whole = pdf([["Hay", "Mow."]])

    assert "Mow." in body(whole[: whole.index(b"startxref")]).text


def test_pages_beyond_the_limit_are_counted_not_read(monkeypatch):
    monkeypatch.setattr(reader, "MOST_PAGES", 2)

    document = body(pdf([[f"Page of {word}"] for word in ("hay", "straw", "rowen", "chaff")]))

    assert document.text.endswith("*2 more pages were left out.*")
    assert document.record == {"pages": 4, "truncated": True}


def test_without_the_extra_the_error_names_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "pypdfium2", None)

    with pytest.raises(ItemError, match=r"a\.pdf is a PDF") as caught:
        body(pdf([["Hay"]]))

    assert caught.value.hint
    assert "pypdfium2" in caught.value.hint
