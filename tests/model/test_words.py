"""The words of a Markdown passage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.model.passages import words_of

MARKS = [
    "a", "b c", "é", "0", ".", " ", "  ", "    ", "\t", "\n", "\n\n",
    "[", "]", "](", "](x)", "](x \"y\")", "![", "][", "][r]", ")", "(", "[r]: x/y\n", "<https://a.b>",
    "*", "**", "***", "_", "__", "~~", "~~~\n", "`", "``", "```\n", "```py\n", "\\", "\\[", "\\*",
    "<b>", "</b>", "<br>", "<", ">", "> ", "<!--", "-->",
    "# ", "## ", " ##", " {#i}", "|", "| ", " |\n", "|---|\n", "---\n", "===\n", "- ", "1. ",
]  # fmt: skip

markdown = st.lists(st.sampled_from(MARKS), max_size=60).map("".join)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("Plain words, 2 * 3, a_b and 5 < 6.", "Plain words, 2 * 3, a_b and 5 < 6."),
        ("See [the docs](https://example.org/a_(b)?c=1 'Docs').", "See the docs."),
        ("See [the docs](<https://example.org/a b>).", "See the docs."),
        ("[![build](https://ci/x.svg)](https://ci/) passes", "build passes"),
        ("![](photo.jpg) A photo", " A photo"),
        ("An [entry][1] of [many][].", "An entry of many."),
        ("Words\n\n[1]: https://example.org/ 'Home'\n[two]: <../b.md>", "Words"),
        ("[Note]: deprecated", "[Note]: deprecated"),
        ("[^1]: A footnote/remark.", "[^1]: A footnote/remark."),
        ("<https://example.org/> stays to be read", "https://example.org/ stays to be read"),
        ("**Bold**, *slanted*, ~~old~~ and _both **in** one_", "Bold, slanted, old and both in one"),
        ("2*3*4, *.py, a * b, snake_case_name, 中文**粗体**中文", "2*3*4, *.py, a * b, snake_case_name, 中文粗体中文"),
        ("## Install it ## {#setup}\n\nNow.", "Install it\n\nNow."),
        ("Title\n=====\n\nText\n\n---\n\nMore", "Title\n\nText\n\nMore"),
        ("| a | b |\n|---|:-:|\n| [c](d) | e \\| f |", "a  b\nc  e | f"),
        ("a | b\n--- | ---\nc | d", "a | b\nc | d"),
        ("> Quoted\n> > twice", "Quoted\ntwice"),
        ("- [one](1.md)\n- two\n1. three", "- one\n- two\n1. three"),
        ("H<sub>2</sub>O<br/>and <p class='x'>more</p>", "H2O and  more"),
        ("List<String> and <username> are no tags", "List<String> and <username> are no tags"),
        ("a <!-- not b --> c", "a  c"),
        ("<!--\nlicence\n\nof many lines\n-->\nText", "Text"),
        ("a <!-- without an end", "a <!-- without an end"),
        ("a\\_b \\*c\\* 1\\. \\[d\\](e) \\<b>", "a_b c 1. \\[d\\](e) \\<b>"),
        ("Call `run()` or `Vec<u8>` or `*args`.", "Call run() or `Vec<u8>` or `*args`."),
        ("`` a ` b `` and `open", "`` a ` b `` and `open"),
        ("```python\nprint(1)\n```", "print(1)"),
        ("```python\nx = a[0](b)  # [c](d)\n```", "```python\nx = a[0](b)  # [c](d)\n```"),
        ("Text:\n\n    x = a[0](b)\n\n[c](d)", "Text:\n\n    x = a[0](b)\n\nc"),
        ("- a\n\n    [b](c)", "- a\n\n    b"),
        ("values[0][1]", "values[0][1]"),
        ("[a](b c) [d](e", "[a](b c) [d](e"),
        ("", ""),
    ],
)  # fmt: skip
def test_words_are_what_a_reader_sees(source: str, words: str) -> None:
    assert words_of(source) == words
    assert words_of(words) == words


def test_only_the_address_of_a_link_differs() -> None:
    before = "## [Install](../1.0/install.html)\n\n| [a](x/1) |\n|---|\n\n![plan](1.png)\n\n[r]: https://a/1"

    after = before.replace("1", "2")

    assert words_of(before) == words_of(after) == "Install\n\na\n\nplan"


@given(markdown)
def test_the_words_of_words_are_the_same(source: str) -> None:
    words = words_of(source)

    assert words_of(words) == words


@given(markdown)
def test_nothing_is_added_and_nothing_changes_places(source: str) -> None:
    letters = iter(source)

    assert [letter for letter in "".join(words_of(source).split()) if letter not in letters] == []


@given(st.text("abcdé ,.;:!?()'\"", max_size=200))
def test_text_without_marks_is_its_own_words(source: str) -> None:
    assert words_of(source) == source


@given(markdown)
def test_code_in_a_fence_stays_letter_by_letter(source: str) -> None:
    code = source.replace("`", "'").strip("\n")

    assert code in words_of(f"before\n\n````\n{code}\n````\n\nafter")


def test_a_text_made_of_layers_loses_its_marks_in_few_passes() -> None:
    layers = "a"
    for _ in range(300):
        layers = f"[`{layers}`](b)" if len(layers) % 2 else f"*{layers}* \\\\"

    words = words_of(layers)

    assert words_of(words) == words
    assert "a" in words
