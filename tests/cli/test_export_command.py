"""rowen export: a folder that is there whole, or not at all."""

import csv
import io
import json
import subprocess
import sys

from tests.cli.conftest import PATIENCE_S, Cli

KILLED_IN_THE_MIDDLE = """
import os, signal, sys
from rowen.interfaces.cli import main
from rowen.publish.formats import TextWriter

write = TextWriter.write

def write_and_die(self, rows):
    write(self, rows)
    self._out.flush()
    os.kill(os.getpid(), signal.SIGKILL)

TextWriter.write = write_and_die
sys.argv = ["rowen", "export", "jsonl", "--to", "out"]
main()
"""


def test_an_export_reports_its_files(docs: Cli) -> None:
    done = docs("export", "jsonl", "--to", "out")
    [fact] = docs("export", "csv", "--to", "table", "--previous", "out", "--json").facts

    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("out\t3 items of 1 source, ")
    assert (fact["to"], fact["form"], fact["items"], fact["sources"]) == ("table", "csv", 3, 1)
    assert fact["changes"] == {"created": 0, "updated": 0, "amended": 0, "deleted": 0}
    assert sorted(path.name for path in (docs.folder / "table").iterdir()) == [
        *("changelog.md", "changes.jsonl", "coverage.json", "docs.csv", "identity.csv", "manifest.json", "report.md")
    ]


def test_without_a_folder_one_is_named_by_format_and_time(docs: Cli) -> None:
    done = docs("export", "sqlite", "--source", "docs")

    assert done.code == 0
    [folder] = docs.folder.glob("rowen-sqlite-*")
    assert done.out.startswith(f"{folder.name}\t3 items")


def test_changes_are_counted(docs: Cli) -> None:
    docs("export", "jsonl", "--to", "before")
    docs.write({"docs/new.md": "# New\n"})
    docs("sync")

    done = docs("export", "jsonl", "--to", "after", "--previous", "before")

    assert done.out.endswith("; 1 created\n")


def test_errors_have_their_codes(docs: Cli) -> None:
    docs("export", "jsonl", "--to", "out")

    assert docs("export", "jsonl", "--to", "out").code == 5
    assert docs("export", "xml", "--to", "other").code == 2
    assert docs("export", "jsonl", "--to", "other", "--source", "nowhere").code == 4
    assert not (docs.folder / "other").exists()


def test_a_killed_export_leaves_no_half_snapshot_and_the_next_one_clears_up(docs: Cli) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_IN_THE_MIDDLE], cwd=docs.folder, env=docs.environment, timeout=PATIENCE_S
    )
    left = [path.name for path in docs.folder.iterdir() if "out" in path.name]

    done = docs("export", "jsonl", "--to", "out")

    assert killed.returncode == -9
    assert [name.startswith(".out.partial-") for name in left] == [True]
    assert done.code == 0
    assert [path.name for path in docs.folder.iterdir() if "out" in path.name] == ["out"]
    assert json.loads((docs.folder / "out/manifest.json").read_text())["items"] == 3


def test_items_are_written_to_stdout_up_to_the_limit(docs: Cli) -> None:
    few, all_of_them = docs("export", "jsonl", "--to", "-", "--limit", "2"), docs("export", "jsonl", "--to", "-")
    array = docs("export", "json", "--to", "-", "--limit", "2")
    table = docs("export", "csv", "--to", "-", "--excel")
    refused = docs("export", "parquet", "--to", "-"), docs("export", "jsonl", "--to", "-", "--since", "0")

    assert (len(few.facts), len(all_of_them.facts), few.facts[0]["source"]) == (2, 3, "docs")
    assert all_of_them.facts[:2] == few.facts == json.loads(array.out)
    assert [row["title"] for row in csv.DictReader(io.StringIO(table.out.removeprefix("\ufeff")))] == [
        fact["title"] for fact in all_of_them.facts
    ]
    assert table.out.startswith("\ufeffsource,")
    assert [(one.code, one.out) for one in refused] == [(2, ""), (2, "")]
    assert "These can: jsonl, json, csv." in refused[0].err
