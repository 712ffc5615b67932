"""Retrieval sets: documents, questions, and which document answers which question how well."""

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["RetrievalSet", "beir", "cranfield", "load", "questions"]


@dataclass(frozen=True, slots=True)
class RetrievalSet:
    """Documents by name as (title, text), or a folder that holds them; questions, each with its graded answers."""

    name: str
    documents: dict[str, tuple[str, str]]
    questions: list[tuple[str, dict[str, float]]]
    folder: Path | None = None


def load(path: Path) -> RetrievalSet:
    """The set in a folder, in the form of Cranfield (SMART) or of BEIR, or the questions of a JSON file."""
    if path.is_file():
        return questions(path)
    return beir(path) if (path / "corpus.jsonl").exists() else cranfield(path)


def cranfield(folder: Path) -> RetrievalSet:
    """1,400 abstracts and 225 questions; every grade counts as an answer, as in published figures."""
    documents = {
        number: (_line(fields.get("T", "")), fields.get("W", ""))
        for number, fields in _smart(folder / "cran.all.1400")
        if fields.get("W", "").strip()
    }
    grades: dict[int, dict[str, float]] = {}
    for row in (folder / "cranqrel").read_text().splitlines():
        question, document, *_ = row.split()
        if document in documents:
            grades.setdefault(int(question), {})[document] = 1.0
    # The judgements count questions by their place, not by their number.
    asked = enumerate((_line(fields["W"]) for _, fields in _smart(folder / "cran.qry")), 1)
    return RetrievalSet("cranfield", documents, [(text, grades[place]) for place, text in asked if place in grades])


def beir(folder: Path) -> RetrievalSet:
    """A set as BEIR gives them out: corpus.jsonl, queries.jsonl, qrels/test.tsv."""
    documents = {row["_id"]: (row.get("title", ""), row["text"]) for row in _rows(folder / "corpus.jsonl")}
    texts = {row["_id"]: row["text"] for row in _rows(folder / "queries.jsonl")}
    grades: dict[str, dict[str, float]] = {}
    with (folder / "qrels" / "test.tsv").open(newline="") as judged:
        for row in csv.DictReader(judged, delimiter="\t"):
            grades.setdefault(row["query-id"], {})[row["corpus-id"]] = float(row["score"])
    asked = [(texts[number], answers) for number, answers in grades.items() if any(answers.values())]
    return RetrievalSet(folder.name, documents, asked)


def questions(path: Path) -> RetrievalSet:
    """Questions over an installed documentation: `{"folder": …, "questions": [{"question": …, "answers": {…}}]}`."""
    told = json.loads(path.read_text("utf-8"))
    asked = [
        (row["question"], {page: float(grade) for page, grade in row["answers"].items()}) for row in told["questions"]
    ]
    return RetrievalSet(path.stem, {}, asked, Path(told["folder"]))


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _smart(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    for record in re.split(r"^\.I +", path.read_text("utf-8", "replace"), flags=re.MULTILINE)[1:]:
        number, _, rest = record.partition("\n")
        parts = re.split(r"^\.([A-Z])\s*\n", rest, flags=re.MULTILINE)
        yield number.strip(), dict(zip(parts[1::2], parts[2::2], strict=True))


def _line(text: str) -> str:
    return " ".join(text.split())
