"""Retrieval sets: documents, questions, and which document answers which question how well."""

import csv
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["HALVES", "JudgedQuestion", "RetrievalSet", "beir", "load", "questions", "smart", "squad"]

HALVES = ("tuning", "held out")
"""Constants are chosen on the first half and reported on the other; a question belongs to one of them for good."""


class JudgedQuestion(NamedTuple):
    """A question, and how well each document answers it."""

    number: str
    text: str
    grades: dict[str, float]

    @property
    def half(self) -> str:
        """The half that it belongs to, by the hash of its number."""
        return HALVES[hashlib.sha256(self.number.encode()).digest()[0] & 1]


@dataclass(frozen=True, slots=True)
class RetrievalSet:
    """Documents by name as (title, text), or a folder that holds them; and questions."""

    name: str
    documents: dict[str, tuple[str, str]]
    questions: list[JudgedQuestion]
    folder: Path | None = None
    include: tuple[str, ...] = ()


_PROJECT = Path(__file__).parents[2]


def load(path: Path) -> RetrievalSet:
    """Return the set in a folder (BEIR's form, or a classic set) or in a JSON file (SQuAD's form, or questions)."""
    if path.is_file():
        contents = json.loads(path.read_text("utf-8"))
        return squad(path.stem, contents["data"]) if "data" in contents else questions(path, contents)
    if (path / "corpus.jsonl").exists():
        return beir(path)
    if (path / "doc-text").exists():
        return npl(path)
    return lisa(path) if (path / "lisa.all.txt").exists() else smart(path)


class _Files(NamedTuple):
    """The three files of a set in the form of SMART, and whether judgements count questions by their place."""

    name: str
    documents: str
    questions: str
    judgements: str
    by_place: bool = False


# Every grade counts as an answer, as in published figures. Those of Cranfield count questions by place, not by number.
_SMART = (
    _Files("cranfield", "cran.all.1400", "cran.qry", "cranqrel", by_place=True),
    _Files("cisi", "CISI.ALL", "CISI.QRY", "CISI.REL"),
    _Files("medline", "MED.ALL", "MED.QRY", "MED.REL"),
    _Files("cacm", "cacm.all", "query.text", "qrels.text"),
)


def smart(folder: Path) -> RetrievalSet:
    """A classic set in the form of SMART: Cranfield, CISI, Medline or CACM."""
    files = next((files for files in _SMART if (folder / files.documents).exists()), _SMART[0])
    documents = {
        number: (_line(fields.get("T", "")), fields.get("W", ""))
        for number, fields in _smart(folder / files.documents)
        if fields.get("W", "").strip() or (fields.get("T", "").strip() and not files.by_place)
    }
    grades: dict[int, dict[str, float]] = {}
    for row in (folder / files.judgements).read_text().splitlines():
        question, document, *_ = row.split()
        if document.lstrip("0") in documents:
            grades.setdefault(int(question), {})[document.lstrip("0")] = 1.0
    told = [(int(number), _line(fields.get("W", ""))) for number, fields in _smart(folder / files.questions)]
    asked = enumerate((text for _, text in told), 1) if files.by_place else told
    return RetrievalSet(files.name, documents, _judged(dict(asked), grades))


def npl(folder: Path) -> RetrievalSet:
    """11,429 abstracts of physics without titles, and 93 questions."""
    documents = {number: ("", text) for number, text in _slashed(folder / "doc-text")}
    grades = {
        int(number): {document: 1.0 for document in rows.split() if document in documents}
        for number, rows in _slashed(folder / "rlv-ass")
    }
    asked = {int(number): _line(text).lower() for number, text in _slashed(folder / "query-text")}
    return RetrievalSet("npl", documents, _judged(asked, grades))


def lisa(folder: Path) -> RetrievalSet:
    """6,004 abstracts of library science, and 35 long questions."""
    documents = {}
    for record in re.split(
        r"^\*{20,}\s*$", (folder / "lisa.all.txt").read_text("utf-8", "replace"), flags=re.MULTILINE
    ):
        head, _, body = record.strip().partition("\n")
        title, _, text = re.sub(r"\n[ \t]+\n", "\n\n", body).partition("\n\n")
        if head.startswith("Document"):
            documents[head.split()[1]] = (_line(title), text)
    told = (folder / "lisa.queries.txt").read_text("utf-8", "replace").split("#")
    asked = {int(number): _line(text) for number, _, text in (one.strip().partition("\n") for one in told) if number}
    numbers = iter((folder / "lisa.relevance.txt").read_text().split())
    grades: dict[int, dict[str, float]] = {}
    for number in numbers:
        grades[int(number)] = dict.fromkeys(islice(numbers, int(next(numbers))), 1.0)
    return RetrievalSet("lisa", documents, _judged(asked, grades))


def _judged(asked: Mapping[int, str], grades: Mapping[int, dict[str, float]]) -> list[JudgedQuestion]:
    return [JudgedQuestion(str(number), text, grades[number]) for number, text in asked.items() if grades.get(number)]


def beir(folder: Path) -> RetrievalSet:
    """A set as BEIR gives them out: corpus.jsonl, queries.jsonl, qrels/test.tsv."""
    documents = {row["_id"]: (row.get("title", ""), row["text"]) for row in _rows(folder / "corpus.jsonl")}
    texts = {row["_id"]: row["text"] for row in _rows(folder / "queries.jsonl")}
    grades: dict[str, dict[str, float]] = {}
    with (folder / "qrels" / "test.tsv").open(newline="") as judged:
        for row in csv.DictReader(judged, delimiter="\t"):
            grades.setdefault(row["query-id"], {})[row["corpus-id"]] = float(row["score"])
    asked = [
        JudgedQuestion(number, texts[number], answers) for number, answers in grades.items() if any(answers.values())
    ]
    return RetrievalSet(folder.name, documents, asked)


def squad(name: str, articles: Sequence[Mapping[str, Any]]) -> RetrievalSet:
    """Return a set in the form of SQuAD, as XQuAD has it for twelve languages: which paragraph answers a question?"""
    paragraphs = [paragraph for article in articles for paragraph in article["paragraphs"]]
    asked = [
        JudgedQuestion(question["id"], question["question"], {f"{number:05}": 1.0})
        for number, paragraph in enumerate(paragraphs)
        for question in paragraph["qas"]
    ]
    documents = {f"{number:05}": ("", paragraph["context"]) for number, paragraph in enumerate(paragraphs)}
    return RetrievalSet(name, documents, asked)


def questions(path: Path, contents: Mapping[str, Any]) -> RetrievalSet:
    """Return questions over a documentation that is installed or lies in this project.

    The form is `{"folder": …, "include": […], "questions": [{"question": …, "answers": {…}}]}`.
    """
    asked = [
        JudgedQuestion(row["question"], row["question"], {page: float(grade) for page, grade in row["answers"].items()})
        for row in contents["questions"]
    ]
    return RetrievalSet(path.stem, {}, asked, _PROJECT / contents["folder"], tuple(contents["include"]))


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _smart(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    for record in re.split(r"^\.I +", path.read_text("utf-8", "replace"), flags=re.MULTILINE)[1:]:
        number, _, rest = record.partition("\n")
        parts = re.split(r"^\.([A-Z])\s*\n", rest, flags=re.MULTILINE)
        yield number.strip(), dict(zip(parts[1::2], parts[2::2], strict=True))


def _slashed(path: Path) -> Iterator[tuple[str, str]]:
    """Records of a number and a text, each ended by a slash on a line of its own."""
    for record in re.split(r"^\s*/\s*$", path.read_text("utf-8", "replace"), flags=re.MULTILINE):
        number, _, text = record.strip().partition("\n")
        if number:
            yield number.strip(), text


def _line(text: str) -> str:
    return " ".join(text.split())
