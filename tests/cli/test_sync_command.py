"""rowen sync: counts on stdout, talk on stderr, and the exit code that tells."""

import json
import shutil

from tests.cli.conftest import Cli

DOCUMENTED = {
    *("source", "kind", "mode", "status", "complete"),
    *("created", "updated", "amended", "unchanged", "deleted", "failed", "skipped"),
    *("requests", "not_modified", "bytes", "embedded", "embeddings_reused", "embeddings_pending"),
    *("deletions_held", "seconds"),
}


def test_a_folder_is_added_and_read_with_no_configuration(cli: Cli) -> None:
    cli.write({"docs/a.md": "# A\n\nOne.\n"})

    done = cli("sync", "./docs")

    assert done.code == 0
    assert done.out.startswith("docs  1 created — read 10 B in ")
    assert not done.err


def test_json_has_every_documented_field_also_with_the_flag_after_the_command(docs: Cli) -> None:
    done = docs("sync", "docs", "--json")

    [fact] = done.facts
    assert done.code == 0
    assert fact.keys() >= DOCUMENTED
    assert (fact["source"], fact["kind"], fact["status"], fact["complete"]) == ("docs", "files", "completed", True)
    assert (fact["unchanged"], fact["bytes"], fact["rows_written"]) == (3, 0, 0)


def test_the_second_sync_reports_the_avoided_work(docs: Cli) -> None:
    assert "3 unchanged — read nothing in" in (done := docs("sync")).out
    assert "spared reading 3 files" in done.out


def test_a_sync_without_sources_suggests_the_next_step(cli: Cli) -> None:
    done = cli("sync")

    assert done.code == 0
    assert not done.out
    assert "rowen sync ./folder" in done.err


def test_failed_items_give_3_and_lead_to_the_quarantine(cli: Cli) -> None:
    cli.write({"docs/good.md": "# Good\n", "docs/large.md": "x" * 200})
    cli("add", "./docs", "--option", "max_bytes=100")

    done = cli("sync", "docs")
    cases = cli("quarantine", "docs", "--json")

    assert done.code == 3
    assert "1 created · 1 failed" in done.out
    assert "`rowen quarantine docs` says why" in done.err
    [case] = cases.facts
    assert case.keys() >= {"source", "url", "error", "hint", "tries"}
    assert "larger than 100 bytes" in case["error"]


def test_a_vanished_root_gives_1_and_deletes_nothing(docs: Cli) -> None:
    shutil.move(docs.folder / "docs", docs.folder / "elsewhere")

    done = docs("sync", "--json")
    listed = docs("sources", "--json")

    assert done.code == 1
    assert done.facts[0]["status"] == "failed"
    assert "left untouched" in done.error["hint"]
    assert done.error["source"] == "docs"
    assert listed.facts[0]["items"] == 3


def test_many_deletions_are_held_back_until_they_are_accepted(docs: Cli) -> None:
    (docs.folder / "docs/hay.md").unlink()
    (docs.folder / "docs/hens.md").unlink()

    held = docs("sync", ROWEN_DELETION_FLOOR="1")
    accepted = docs("sync", "docs", "--accept-deletions", ROWEN_DELETION_FLOOR="1")

    assert held.code == 5
    assert "2 files vanished and were kept" in held.err
    assert "`rowen sync docs --accept-deletions`" in held.err
    assert "2 deleted" in accepted.out


def test_a_dry_run_stores_nothing(docs: Cli) -> None:
    docs.write({"docs/new.md": "# New\n"})
    (docs.folder / "docs/hay.md").unlink()

    dry = docs("sync", "--dry-run")

    assert dry.code == 0
    assert "would be: 1 created · 2 unchanged · 1 deleted" in dry.out
    assert docs("sources", "--json").facts[0]["items"] == 3


def test_one_bad_name_does_not_stop_the_others_and_the_worst_counts(docs: Cli) -> None:
    done = docs("sync", "docs", "nowhere", "--json")

    assert done.code == 4
    assert [fact["source"] for fact in done.facts] == ["docs"]
    assert done.error == {
        "error": "There is no source named 'nowhere'.",
        "code": "not_found",
        "hint": "`rowen sources` lists them.",
        "actions": [{"action": "sources", "target": None, "options": {}}],
        "retryable": False,
        "exit_code": 4,
        "source": "nowhere",
    }


def test_the_name_of_a_folder_without_a_slash_is_explained(cli: Cli) -> None:
    cli.write({"docs/a.md": "# A\n"})

    done = cli("sync", "docs")

    assert done.code == 4
    assert "`rowen sync ./docs`" in done.err


def test_a_paused_source_is_omitted_and_refused_by_name(docs: Cli) -> None:
    assert docs("pause", "docs").code == 0

    everything, named = docs("sync"), docs("sync", "docs")

    assert (everything.code, named.code) == (0, 5)
    assert "All sources are paused" in everything.err
    assert "`rowen resume docs`" in named.err


def test_with_json_all_output_is_json(docs: Cli) -> None:
    (docs.folder / "docs/hay.md").unlink()

    done = docs("sync", "docs", "nothere", "--json", ROWEN_DELETION_FLOOR="0")
    said = [json.loads(line) for line in done.err.splitlines()]

    assert (done.code, len(done.facts)) == (5, 1)
    assert all(one.keys() & {"error", "remark"} for one in said)
    assert {"not_found"} == {one["code"] for one in said if "error" in one}


def test_quiet_leaves_the_data_and_the_errors(docs: Cli) -> None:
    (docs.folder / "docs/hay.md").unlink()

    done = docs("-q", "sync", "docs", "nowhere", ROWEN_DELETION_FLOOR="0")

    assert done.out.startswith("docs")
    assert done.err.splitlines() == [
        "Error: There is no source named 'nowhere'.",
        "  `rowen sources` lists them.",
    ]


def test_verbose_logs_what_happened(docs: Cli) -> None:
    done = docs("sync", "-v", "--json")

    assert len(done.facts) == 1
    assert "run closed" in done.err
