"""Words for people: snippets, sizes, times, and `--since`."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.interfaces.cli.output import clean
from rowen.model.dates import parse_since as parse
from rowen.model.passages import marked, pattern, snippet
from rowen.model.search import Query
from rowen.model.wording import age, count, seconds, size

LONG = "\n\n".join(f"Paragraph {n} about fences and rain." for n in range(20)) + "\n\nThe goats ate the paint.\n\nEnd."


def test_the_snippet_is_the_part_with_the_words() -> None:
    lines = snippet(LONG, pattern(Query.parse("goat paint")))

    assert lines == ["… Paragraph 19 about fences and rain.", "The goats ate the paint.", "End."]


def test_a_short_passage_is_shown_whole_without_heading_marks_and_fences() -> None:
    text = "# Goats\n\nThey eat\npaint.\n\n```python\nfeed(goat)\n```\n"

    assert snippet(text, None) == ["They eat paint.", "feed(goat)"]
    assert snippet("# Only a heading", None) == ["Only a heading"]


def test_escapes_are_not_shown_but_in_code() -> None:
    text = "\\[hay.mow\\] is \\<dry\\>, see `\\[a`.\n\n```\n\\[b\n```"

    assert snippet(text, None) == ["[hay.mow] is <dry>, see `\\[a`.", "\\[b"]


def test_lists_and_tables_keep_their_lines() -> None:
    assert snippet("Buy:\n- hay\n- salt", None) == ["Buy:", "- hay", "- salt"]


def test_words_are_highlighted_in_their_usual_forms_and_common_ones_are_not() -> None:
    wanted = pattern(Query.parse("the mowing of hay"))

    shown = [text for text, style in marked("They mowed the hay of Hayfield Lane", wanted) if style]

    assert shown == ["mowed", "hay"]
    assert marked("Hayfield", pattern(Query.parse("hay*"))) == [("Hayfield", True)]


@given(st.text(max_size=400), st.text(max_size=30))
def test_any_text_and_any_query_give_a_snippet_that_reads_back_whole(text: str, words: str) -> None:
    wanted = pattern(Query.parse(words))
    # Whatever the text is, a paragraph before it is shown.
    lines = [*snippet(text, wanted), *snippet(f"hay\n\n{text}", wanted)]

    assert lines
    for line in lines:
        assert len(line) <= 100
        assert "".join(piece for piece, _ in marked(line, wanted)) == line


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("0", 0),
        ("4711", 4711),
        ("90s", timedelta(seconds=90)),
        ("30min", timedelta(minutes=30)),
        ("30m", timedelta(minutes=30)),
        ("2h", timedelta(hours=2)),
        ("1d", timedelta(days=1)),
        ("1D", timedelta(days=1)),
        ("2w", timedelta(weeks=2)),
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T10:00:00+02:00", datetime(2026, 1, 31, 8, tzinfo=UTC)),
    ],
)
def test_since_reads_numbers_times_and_dates(typed: str, meant: object) -> None:
    assert parse(typed) == meant


@pytest.mark.parametrize("typed", ["900000d", "9999999w", "365001d"])
def test_since_refuses_dates_out_of_range(typed: str) -> None:
    with pytest.raises(ValueError, match="too long ago"):
        parse(typed)


@pytest.mark.parametrize("typed", ["", "-1", "1x", "d", "31.1.2026", "²"])
def test_since_refuses_anything_else(typed: str) -> None:
    with pytest.raises(ValueError, match="isoformat"):
        parse(typed)


def test_numbers_are_written_for_people() -> None:
    assert [count(1, "file"), count(0, "file"), count(1200, "file")] == ["1 file", "0 files", "1,200 files"]
    assert [size(0), size(999), size(1_000), size(12_345), size(999_600), size(3.2e9)] == [
        *("0 B", "999 B", "1.0 kB", "12 kB", "1.0 MB", "3.2 GB"),
    ]
    assert [seconds(0.014), seconds(0.42), seconds(125), seconds(7300)] == ["0.01 s", "0.4 s", "2 min 5 s", "2 h 1 min"]


def test_ages_are_rounded_down() -> None:
    now = datetime(2026, 7, 2, tzinfo=UTC)

    assert age(None, now) == "never"
    assert age(now - timedelta(seconds=5), now) == "just now"
    assert age(now - timedelta(minutes=119), now) == "1 h ago"
    assert age(now - timedelta(days=3), now) == "3 d ago"


def test_no_name_can_control_the_terminal() -> None:
    assert clean("a\x1b[2Jb\x9bc\td\u202ee") == "a�[2Jb�c\td�e"
