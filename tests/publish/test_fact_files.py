"""Facts as files: a column for each field that any of them has."""

import csv
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rowen.model.extraction import Extraction
from rowen.publish.formats import FactFiles

AT = datetime(2026, 3, 5, tzinfo=UTC)


def facts(number: int, data: dict[str, Any]) -> Extraction:
    return Extraction("shop", f"https://shop.example/{number}", "lamp@1.0.0", 1, data, (), "model", "m", AT)


ROWS = [
    facts(1, {"name": "One"}),
    facts(2, {"offer": {"price": 5}, "url": "/x"}),
    facts(3, {"name": "Three", "tags": [1]}),
]


def test_no_column_is_lost_that_the_first_row_does_not_have(tmp_path: Path) -> None:
    files = FactFiles("csv", tmp_path)
    files.write(ROWS[:1])
    files.write(ROWS[1:])
    files.close()

    with (tmp_path / "lamp.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[-4:] == ["name", "offer.price", "data.url", "tags"]
    assert [(row["name"], row["offer.price"], row["data.url"], row["tags"]) for row in rows] == [
        ("One", "", "", ""),
        ("", "5", "/x", ""),
        ("Three", "", "", "[1]"),
    ]


def test_lines_have_the_data_as_it_is(tmp_path: Path) -> None:
    files = FactFiles("jsonl", tmp_path)
    files.write(ROWS)
    files.close()

    lines = [json.loads(line) for line in (tmp_path / "lamp.jsonl").read_text().splitlines()]
    assert [line["data"] for line in lines] == [row.data for row in ROWS]
    assert files.rows == 3
