"""The line at the end of every sync."""

from datetime import UTC, datetime
from typing import Any

import pytest

from rowen.interfaces.cli.summary import exit_code, line, worst
from rowen.model.runs import Run, RunStats
from rowen.operations.summary import remarks


def run(status: str = "completed", *, kind: str = "files", error: str | None = None, **counts: Any) -> Run:
    at = datetime(2026, 7, 1, tzinfo=UTC)
    return Run(7, "docs", kind, "incremental", status, status == "completed", at, at, RunStats(**counts), error)  # type: ignore[arg-type]


def plain(run: Run) -> str:
    return "".join(text for text, _ in line(run))


def test_counts_cost_and_avoided_work_are_in_one_line() -> None:
    text = plain(
        run(
            created=3, updated=1, unchanged=96, bytes=12_345, chunks_written=5, seconds=0.42,
            stopped_at_validator=90, stopped_at_body=6, chunks_kept=410,
        )
    )  # fmt: skip

    assert text == (
        "docs  3 created · 1 updated · 96 unchanged — read 12 kB in 0.4 s, wrote 5 passages;"
        " spared reading 90 files, parsing 6 files, rewriting 410 passages"
    )


def test_outcomes_without_items_are_omitted() -> None:
    assert plain(run(unchanged=1200, seconds=0.05)) == "docs  1,200 unchanged — read nothing in 0.05 s"
    assert plain(run(seconds=1)) == "docs  nothing there — read nothing in 1.0 s"


def test_requests_and_embeddings_are_costs() -> None:
    text = plain(run(kind="ckan", created=1, requests=3, bytes=10, embedded=2, embeddings_reused=1, seconds=61))

    assert text == ("docs  1 created — 3 requests, read 10 B in 1 min 1 s, embedded 2; spared embedding 1 passage")


def test_items_not_requested_or_beyond_a_limit_are_counted() -> None:
    assert plain(run(unchanged=1, not_asked=599)).startswith("docs  1 unchanged · 599 not asked for one by one — ")
    assert plain(run(created=1000, truncated=3412)).startswith("docs  1,000 created · 3,412 or more beyond the limit")


def test_a_dry_run_that_was_stopped_does_not_claim_to_have_kept_anything() -> None:
    [remark] = remarks(run("cancelled"), dry=True)

    assert remark == "docs: stopped early; nothing was stored."


def test_a_run_that_did_not_complete_says_so_first() -> None:
    assert plain(run("cancelled", created=1)).startswith("docs  cancelled: 1 created")


def test_an_unremarkable_run_gets_no_remark() -> None:
    assert list(remarks(run(created=5, unchanged=3))) == []


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (run(unchanged=9, deletions_held=40), "`rowen sync docs --accept-deletions`"),
        (run(deletions_held=40), "the source came up empty, so all 40 files were kept"),
        (run(failed=1, created=2), "1 file could not be read. `rowen quarantine docs` says why."),
        (run("partial", error="Connection lost."), "not seen whole (Connection lost), so what was not seen was kept"),
        (run("cancelled"), "the next sync continues from there"),
        (run(created=1, embeddings_pending=4), "4 texts found by words only so far; `rowen embed`"),
    ],
)
def test_a_remark_names_the_next_step(made: Run, said: str) -> None:
    [remark] = remarks(made)

    assert remark.startswith("docs: ")
    assert said in remark


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (run(created=1), 0),
        (run(created=1, failed=1), 3),
        (run(deletions_held=9), 5),
        (run("partial", created=1), 3),
        (run("partial", created=1, error="broke off"), 1),
        (run("failed", error="gone"), 1),
        (run("cancelled", created=1), 130),
    ],
)
def test_the_exit_code_follows_the_run(made: Run, code: int) -> None:
    assert exit_code(made) == code


def test_of_several_exit_codes_the_worst_counts() -> None:
    assert worst([]) == 0
    assert worst([0, 3]) == 3
    assert worst([3, 4, 0]) == 4
    assert worst([1, 5, 4]) == 1
    assert worst([0, 130, 1]) == 130
