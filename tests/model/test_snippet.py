"""The lines of a passage that show why it was found, and the words in them."""

import pytest

from rowen.model.passages import marked, pattern, snippet
from rowen.model.search import Query

FILLER = [f"Paragraph {number} has other words." for number in range(12)]


def wanted(line: str, query: str) -> list[str]:
    """The words of a line that are marked."""
    return [piece for piece, is_wanted in marked(line, pattern(Query.parse(query))) if is_wanted]


def shown(text: str, query: str = "hay") -> list[str]:
    return snippet(text, pattern(Query.parse(query)))


@pytest.mark.parametrize(
    ("query", "line", "words"),
    [
        (
            "harvest",
            "Harvests, harvested and harvesting; a HARVEST.",
            ["Harvests", "harvested", "harvesting", "HARVEST"],
        ),
        ("stories", "A story of stories.", ["story", "stories"]),
        ("hay", "hay haystack hays", ["hay", "hays"]),
        ("ox", "ox oxen box", ["ox"]),
        ("where is the hay", "Where the hay is.", ["hay"]),
        ("to be or not", "To be, or not", ["To", "be", "or", "not"]),
        ('"dry hay"', "dry wet hay", ["dry", "hay"]),
        ("hayst*", "hay haystack haystacks", ["haystack", "haystacks"]),
        ("c++", "c or d", ["c"]),
        ("全文検索", "日本語の全文検索です", ["全文", "検索"]),
    ],
)
def test_the_words_of_a_query_are_marked_in_their_usual_forms(query: str, line: str, words: list[str]) -> None:
    assert wanted(line, query) == words


def test_a_query_of_excluded_words_only_marks_nothing() -> None:
    assert pattern(Query.parse("-hay")) is None
    assert marked("hay", None) == [("hay", False)]
    assert marked("", None) == []


def test_a_short_passage_is_shown_whole() -> None:
    assert shown("One line.\n\nAnother line.") == ["One line.", "Another line."]


@pytest.mark.parametrize(
    ("place", "first", "last"), [(0, "Hay is dry.", " …"), (6, "… Paragraph 5", " …"), (12, "… Paragraph 10", "dry.")]
)
def test_the_lines_around_the_wanted_word_are_shown_and_what_is_left_out_is_told(
    place: int, first: str, last: str
) -> None:
    lines = shown("\n\n".join([*FILLER[:place], "Hay is dry.", *FILLER[place:]]))

    assert len(lines) == 3
    assert lines[0].startswith(first)
    assert lines[-1].endswith(last)
    assert [line for line in lines if "Hay is dry." in line]


def test_lines_with_different_wanted_words_go_before_those_with_one_of_them_often() -> None:
    often, different = "Hay hay hay hay.", "Hay and straw."

    lines = shown("\n\n".join([*FILLER[:3], often, *FILLER[3:9], different, *FILLER[9:]]), "hay straw")

    assert different in lines[1]


def test_without_a_wanted_word_the_beginning_is_shown() -> None:
    assert shown("\n\n".join(FILLER), "nothing") == [*FILLER[:2], f"{FILLER[2]} …"]
    assert snippet("\n\n".join(FILLER), None) == [*FILLER[:2], f"{FILLER[2]} …"]


def test_markup_headings_and_rulers_are_left_out() -> None:
    text = "# Title\n\nSee [the hay](https://example.org/hay).\n\n---\n\n| a | b |\n|---|---|\n"

    assert shown(text) == ["See the hay.", "a  b"]


def test_a_passage_of_headings_only_shows_them() -> None:
    assert [line.lstrip("# ") for line in shown("# Hay\n\n## Straw")] == ["Hay", "Straw"]


def test_paragraphs_are_filled_and_lists_and_code_are_not() -> None:
    assert shown("one\ntwo\n- three\n- four") == ["one two", "- three", "- four"]


def test_escaped_marks_are_shown_as_they_are_meant() -> None:
    assert shown(r"A \[mark\] and a \<tag\>.") == ["A [mark] and a <tag>."]


def test_a_word_longer_than_a_line_is_cut_and_nothing_of_it_is_lost() -> None:
    lines = snippet("x" * 250, None, width=96)

    assert [len(line) for line in lines] == [96, 96, 58]
