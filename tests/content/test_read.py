import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.content.chunks import split
from rowen.content.readers import read, supported
from rowen.errors import ItemError
from rowen.model.files import MEDIA
from rowen.model.items import Document, Raw


def body(name: str, content: str | bytes, **facts: object) -> Document:
    raw = content.encode() if isinstance(content, str) else content
    return read(Raw(f"https://example.org/{name}", raw, name=name, **facts))  # type: ignore[arg-type]


def test_front_matter_is_taken_out_of_the_text():
    document = body(
        "a.md", '---\ntitle: "The title"\ntags:\n  - one\n  - two\nlang: de # German\nx: {a: 1}\n---\n# H\n\ntext\n'
    )

    assert (document.title, document.tags, document.language) == ("The title", ("one", "two"), "de")
    assert document.text == "# H\n\ntext"


def test_tags_in_front_matter_may_be_a_list_on_one_line():
    assert body("a.md", "---\ntags: [b, 'a']\nkeywords: c, d\n---\n").tags == ("a", "b", "c", "d")


def test_a_rule_at_the_top_is_no_front_matter():
    assert body("a.md", "---\n\ntext").text == "---\n\ntext"


@pytest.mark.parametrize(
    ("content", "told", "title"),
    [
        ("# First *one*\n\n# Second", "given", "First one"),
        ("## Only a second level\n", "given", "given"),
        ("no heading", "", "a.md"),
        ("```\n# code\n```\n\nReal\n====\n", "", "Real"),
    ],
)
def test_the_title_of_markdown_is_its_first_heading_then_the_given_one_then_the_name(content, told, title):
    assert body("a.md", content, title=told).title == title


def test_an_empty_file_is_a_document_with_the_title_of_its_name():
    for name in ("a.md", "a.py", "a.html", "a.csv", "a.json", "a.ipynb", "a.rst", "a.xml", "LICENSE"):
        document = body(name, b"")

        assert (document.title, document.text) == (name, "")


def test_everything_that_came_with_the_body_is_kept():
    raw = Raw(
        "https://example.org/x",
        b"# T\n",
        name="x.md",
        tags=("t",),
        record={"a": 1},
        language="fr",
        depth=3,
        etag='"e"',
        last_modified="yesterday",
    )

    document = read(raw)

    assert (document.url, document.tags, document.record, document.language) == (raw.url, ("t",), {"a": 1}, "fr")
    assert (document.depth, document.validators, document.media_type) == (3, raw.validators, "text/markdown")


def test_the_sources_language_comes_before_the_pages():
    html = '<html lang="en"><p>x'

    assert body("a.html", html).language == "en"
    assert body("a.html", html, language="de").language == "de"


def test_a_page_gives_links_tags_and_what_it_asks_of_a_crawler():
    html = (
        '<meta name="keywords" content="b, a"><meta name="robots" content="noindex"><link rel="canonical" href="/c">'
        '<p><a href="/x">x</a>'
    )

    document = body("a.html", html)

    assert (document.links, document.tags) == (("https://example.org/x",), ("a", "b"))
    assert document.record == {"noindex": True, "canonical": "https://example.org/c"}


def test_a_page_that_forbids_following_has_no_links():
    assert body("a.html", '<meta name="robots" content="nofollow"><a href="/x">x</a>').links == ()


@pytest.mark.parametrize(
    ("name", "told", "media_type"),
    [
        ("page", "text/html; charset=utf-8", "text/html"),
        ("readme.md", "text/plain", "text/markdown"),
        ("readme.md", "application/octet-stream", "text/markdown"),
        ("readme.md", "text/html", "text/html"),
        ("book.ipynb", "application/json", "application/x-ipynb+json"),
        ("data", "application/geo+json", "application/geo+json"),
        ("x.py", None, "text/x-python"),
        ("README", None, "text/markdown"),
        ("sub/Dockerfile", None, "text/x-docker"),
        ("feed", "application/atom+xml", "application/atom+xml"),
        ("cal", "text/calendar", "text/calendar"),
    ],
)
def test_the_media_type_comes_first_unless_it_says_nothing(name, told, media_type):
    assert body(name, "x", media_type=told).media_type == media_type
    assert supported(name, told)


@pytest.mark.parametrize(
    ("name", "told"), [("a.png", None), ("a", None), ("a.md", "image/png"), ("x.svg", "image/svg+xml")]
)
def test_what_is_no_text_is_refused_by_name(name, told):
    assert not supported(name, told)
    with pytest.raises(ItemError, match=f"{name} cannot be read") as caught:
        body(name, "x", media_type=told)
    assert caught.value.hint


def test_a_page_without_any_type_is_known_by_its_first_tag():
    assert body("page", "<!DOCTYPE html><title>T</title>").title == "T"


def test_a_binary_body_with_the_ending_of_text_is_refused():
    with pytest.raises(ItemError, match=r"a\.md is binary"):
        body("a.md", b"\x7fELF\x00\x01")


def test_a_charset_may_stand_in_the_media_type():
    assert body("a", b"\xe4", media_type="text/plain; charset=iso-8859-1").text == "ä"


def test_plain_text_has_no_headings_of_hashes():
    assert split(body("a.txt", "# comment\n\nvalue").text)[0].heading == ()


def test_llms_txt_is_markdown():
    assert body("llms.txt", "# Site\n").title == "Site"


def test_source_code_is_fenced_with_its_language():
    assert body("a.rs", "fn main() {}\r\n").text == "```rust\nfn main() {}\n```"


def test_every_row_of_a_csv_file_is_in_the_table():
    rows = "\n".join(f'{i};"a|b; {i}"' for i in range(1_000))

    document = body("a.csv", "id;name\n" + rows + "\n")

    assert document.text.startswith("| id | name |\n| --- | --- |\n| 0 | a\\|b; 0 |")
    assert len(document.text.split("\n")) == 1_002
    assert all(chunk.text.startswith("| id | name |") for chunk in split(document.text))


def test_a_row_wider_than_its_head_loses_nothing():
    assert "| 1 | 2 | 3 |" in body("a.csv", "a,b\n1,2,3\n").text


def test_a_very_wide_csv_file_names_the_column_of_each_value():
    head = [f"column number {i}" for i in range(100)]
    row = [str(i) if i % 2 else "" for i in range(100)]

    document = body("a.csv", ",".join(head) + "\n" + ",".join(row) + "\n")

    assert "column number 99: 99" in document.text
    assert all(name in document.text for name in head)


def test_tabs_part_the_cells_of_a_tsv_file():
    assert body("a.tsv", "a\tb\n1,5\t2").text.endswith("| 1,5 | 2 |")


def test_minified_json_is_laid_out_without_touching_a_value():
    source = '{"a":[1.10,2e5,{"b":"x,{y}\\n"}],"big":' + "9" * 30 + ',"a":[[1,2],[3,4]],"fill":"' + "z" * 500 + '"}'

    text = body("a.json", source).text

    assert text.startswith('```json\n{\n  "a": [\n    1.10,\n    2e5,')
    assert "[1,2]" in text
    assert json.loads("\n".join(text.split("\n")[1:-1])) == json.loads(source)


def test_json_that_is_laid_out_or_broken_is_kept_as_it_is():
    for source in ('{\n "a": 1\n}', '{"a": ' + "x" * 600):
        assert body("a.json", source).text == f"```json\n{source}\n```"


def test_long_json_lines_stand_apart():
    row = json.dumps({"text": "x" * 500, "n": 1})

    assert body("a.jsonl", f"{row}\n{row}\n").text.count("\n\n{") == 1


def test_yaml_toml_and_xml_are_fenced():
    assert body("a.yml", "a: 1\n").text == "```yaml\na: 1\n```"
    assert body("a.toml", "a = 1\n").text == "```toml\na = 1\n```"
    assert body("a.xml", "<a>" + "<b/>" * 300 + "</a>").text.count("<b/>\n") == 300


def test_a_notebook_is_prose_code_and_the_beginning_of_its_output():
    cells = [
        {"cell_type": "markdown", "source": ["# Study\n", "Words."]},
        {
            "cell_type": "code",
            "source": "print(x)",
            "outputs": [
                {"output_type": "stream", "text": [f"line {i}\n" for i in range(50)]},
                {"data": {"text/plain": "42", "image/png": "AAAA"}},
            ],
        },
        {"cell_type": "code", "source": []},
    ]
    book = {"cells": cells, "metadata": {"language_info": {"name": "R"}}, "nbformat": 4}

    document = body("a.ipynb", json.dumps(book))

    assert document.title == "Study"
    assert document.text.startswith("# Study\nWords.\n\n```r\nprint(x)\n```\n\n```text\nline 0\n")
    assert "…\n```\n\n```text\n42\n```" in document.text
    assert "line 20" not in document.text
    assert "AAAA" not in document.text


def test_a_notebook_that_is_none_is_kept_as_text():
    assert body("a.ipynb", "[1, 2]").text == "```json\n[1, 2]\n```"
    assert body("a.ipynb", '{"cells": 3, "metadata": []}').text == ""


SEEDS = [
    b"# a\n",
    b"a,b\n",
    b"<p>",
    b".. note::\n\n   x\n",
    b'{"a": [',
    b"---\n",
    b"```\n",
    b"| a |\n|---|\n",
    b">>> x\n",
]
SEEDS += [
    b"\xff\xfe",
    b"\x00",
    b"\xe9",
    b"\n",
    b" ",
    b'"""',
    b"def f():\n  x\n",
    b":a: b\n",
    b"===\nT\n===\n",
    b'"',
    b"\r",
]
SEEDS += [b'{"cells": [{"cell_type": "code", "source": 1}]}', b"<table><td>", b"\\", b"`", b"*", b"_", b"|", b"+--+\n"]


@given(
    st.binary(max_size=400) | st.lists(st.sampled_from(SEEDS), max_size=30).map(b"".join),
    st.sampled_from(sorted(MEDIA)) | st.sampled_from(["md", "rst", "csv", "json", "ipynb", "html", "py", "xml"]),
    st.none() | st.sampled_from(["utf-8", "latin-1", "utf-16", "nonsense"]),
)
def test_any_bytes_under_any_ending_give_a_document_or_a_named_error(content, ending, charset):
    raw = Raw(f"https://example.org/x.{ending}", content, name=f"x.{ending}", charset=charset)
    start = time.process_time()
    try:
        document = read(raw)
    except ItemError:
        return

    assert read(raw) == document
    assert all(len(chunk.text) <= 1500 for chunk in split(document.text))
    assert time.process_time() - start < 20
