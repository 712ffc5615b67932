import time

import pytest

from rowen.content.chunks import split
from rowen.content.rst import read_rst


def test_sections_become_headings_in_the_order_of_their_first_use():
    text = "=====\nTitle\n=====\n\nA\n-\n\nFirst\n-----\n\ntext\n\nDeep\n~~~~\n\nmore\n\nSecond\n------\n\nend"

    part = read_rst(text)

    assert part.title == "Title"
    assert [line for line in part.text.split("\n") if line.startswith("#")] == [
        "# Title",
        "## First",
        "### Deep",
        "## Second",
    ]


def test_passages_know_their_section():
    text = "Top\n===\n\n" + "a" * 1400 + "\n\nSub\n---\n\n" + "b" * 1400

    assert [chunk.heading for chunk in split(read_rst(text).text)] == [("Top",), ("Top", "Sub")]


@pytest.mark.parametrize(
    ("source", "markdown"),
    [
        ("``code`` and *this* and **that**", "`code` and *this* and **that**"),
        ("`words <http://e.com/>`_", "[words](http://e.com/)"),
        ("see Docs_\n\n.. _Docs: http://e.com/d", "see [Docs](http://e.com/d)"),
        ("see `the docs`_\n\n.. _the docs: http://e.com/d", "see [the docs](http://e.com/d)"),
        (":func:`~os.path.join` in :mod:`os`", "`join` in `os`"),
        (":ref:`the text <label>`, :pep:`8`", "the text, PEP 8"),
        ("|name| is\n\n.. |name| replace:: Rowen", "Rowen is"),
        ("text [1]_\n\n.. [1] The note\n   goes on.", "text [1]\n\n[1] The note goes on."),
        ("# no heading", "\\# no heading"),
        ("wrapped\nparagraph", "wrapped paragraph"),
        (r"not\_a\ target", "not_atarget"),
    ],
)
def test_inline_markup_becomes_markdown(source: str, markdown: str):
    assert read_rst(source).text == markdown


def test_literal_blocks_and_code_blocks_become_fences():
    text = (
        "Like this::\n\n    $ run\n\n      deep\n\n.. code-block:: python\n   :linenos:\n\n   x = 1\n\n>>> 1 + 1\n2\n"
    )

    assert read_rst(text).text == (
        "Like this:\n\n```\n$ run\n\n  deep\n```\n\n```python\nx = 1\n```\n\n```pycon\n>>> 1 + 1\n2\n```"
    )


def test_callouts_say_what_they_are():
    text = ".. note:: Mind this.\n\n.. versionadded:: 3.2\n   The option.\n\n.. warning::\n\n   - one\n"

    assert read_rst(text).text == "**Note:** Mind this.\n\n**New in version 3.2:** The option.\n\n**Warning:**\n\n- one"


def test_a_described_function_keeps_its_signature_and_fields():
    text = ".. py:function:: f(a, b)\n   :noindex:\n\n   Adds.\n\n   :param a: first\n   :returns: sum\n"

    assert read_rst(text).text == "`f(a, b)`\n\nAdds.\n\n- **param a:** first\n- **returns:** sum"


def test_lists_nest():
    text = "* one\n  goes on\n\n  more\n* two\n\n  * inner\n\n#. first\n#. second"

    assert read_rst(text).text == "- one goes on\n\n  more\n- two\n\n  - inner\n1. first\n1. second"


def test_both_kinds_of_tables_become_tables():
    simple = "=== ===\nA   B\n=== ===\n1   2\n    3\n=== ==="
    grid = "+---+---+\n| A | B |\n+===+===+\n| 1 | 2 |\n|   | 3 |\n+---+---+"

    assert read_rst(simple).text == read_rst(grid).text == "| A | B |\n| --- | --- |\n| 1 | 2 3 |"


def test_comments_and_what_only_a_builder_reads_are_left_out():
    text = ".. a comment\n   of two lines\n\n.. toctree::\n\n   page\n\n.. _target:\n\n.. index:: word\n\ntext"

    assert read_rst(text).text == "text"


@pytest.mark.parametrize(
    "text",
    [
        "=\n" * 30_000,
        "* " * 30_000,
        "".join(" " * i + "* a\n" for i in range(1_500)),
        ".. a::\n" * 30_000,
        ":a" * 100_000,
        "`" * 100_000,
        "``a" * 50_000,
        "=== ===\n\n" * 20_000,
        "+--+\n" * 30_000,
        "a\n--\n" * 30_000,
        "|" * 100_000,
    ],
    ids=lambda text: repr(text[:8]),
)
def test_hostile_texts_are_read_in_bounded_time(text: str):
    start = time.process_time()

    read_rst(text)

    assert time.process_time() - start < 20
