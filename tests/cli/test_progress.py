"""The line beside a bar: how far a source is, how fast it goes, how long it will take."""

from rowen.interfaces.cli.summary import progress_words
from rowen.model.runs import RunStats


def test_a_crawl_tells_pages_known_done_rate_and_time_left() -> None:
    told = progress_words(RunStats(created=30, known=120), total=120, elapsed_s=15.0)

    assert told == "30 created · 30 of 120 known · 2.0/s · 45 s left"


def test_a_finished_crawl_has_no_time_left() -> None:
    assert progress_words(RunStats(created=30), total=30, elapsed_s=15.0) == "30 created · 2.0/s"


def test_no_estimate_before_the_first_item() -> None:
    assert progress_words(RunStats(known=5), total=5, elapsed_s=9.0) == "0 of 5 known"


def test_a_rate_is_shown_only_after_half_a_second() -> None:
    assert progress_words(RunStats(created=3, known=9), total=9, elapsed_s=0.1) == "3 created · 3 of 9 known"
