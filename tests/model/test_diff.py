"""Diffs tell both texts, line by line and word by word."""

from hypothesis import given
from hypothesis import strategies as st

from rowen.model.changes import DiffLine, hunks_of

LINES = st.lists(st.sampled_from(["hay", "barley and oats", "", "a b c d", "a b x d", "  indented", "é́"]), max_size=25)


@given(LINES, LINES)
def test_what_was_removed_and_added_turns_one_text_into_the_other(before: list[str], after: list[str]) -> None:
    lines = [line for hunk in hunks_of("\n".join(before), "\n".join(after)) for line in hunk.lines]

    rebuilt = "\n".join(before).splitlines()
    for line in reversed([line for line in lines if line.kind == "removed"]):
        assert line.older is not None
        assert rebuilt.pop(line.older - 1) == line.text
    for line in (line for line in lines if line.kind == "added"):
        assert line.newer is not None
        rebuilt.insert(line.newer - 1, line.text)

    assert rebuilt == "\n".join(after).splitlines()


def test_within_a_line_only_the_words_that_differ_are_marked() -> None:
    (hunk,) = hunks_of("Nine perches for nine hens.", "Ten perches for nine hens.")

    removed, added = hunk.lines

    assert [piece.text for piece in removed.pieces if piece.changed] == ["Nine"]
    assert [piece.text for piece in added.pieces if piece.changed] == ["Ten"]
    assert added.text == "Ten perches for nine hens."


def test_lines_that_have_little_in_common_are_told_whole() -> None:
    (hunk,) = hunks_of("Nine perches for nine hens.", "Prices rose by half in March, as in every year before.")

    assert [len(line.pieces) for line in hunk.lines] == [1, 1]


def test_only_some_lines_around_a_change_are_shown() -> None:
    before = [f"line {number}" for number in range(100)]
    after = [*before[:50], "something else", *before[51:]]

    (hunk,) = hunks_of("\n".join(before), "\n".join(after))

    assert hunk.lines[0] == DiffLine("same", hunk.lines[0].pieces, 48, 48)
    assert len(hunk.lines) == 8
