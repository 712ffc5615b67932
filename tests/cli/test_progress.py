"""The line beside a bar: how far a source is, how fast it goes, how long it will take."""

from rowen.interfaces.cli.summary import progress_words
from rowen.model.runs import RunStats


def test_a_crawl_tells_pages_known_done_rate_and_time_left() -> None:
    told = progress_words(RunStats(created=30, known=120), total=120, elapsed_s=15.0)

    assert told == "30 created · 30 of 120 known · 2.0/s · 45 s left"


def test_what_is_all_there_needs_no_time() -> None:
    assert progress_words(RunStats(created=30), total=30, elapsed_s=15.0) == "30 created · 2.0/s"


def test_nothing_is_guessed_before_anything_was_seen() -> None:
    assert progress_words(RunStats(known=5), total=5, elapsed_s=9.0) == "0 of 5 known"


def test_a_rate_is_told_only_when_it_means_something() -> None:
    assert progress_words(RunStats(created=3, known=9), total=9, elapsed_s=0.1) == "3 created · 3 of 9 known"
