"""The measures and the loaders of the quality bench."""

import json
from pathlib import Path

import pytest
from bench.quality.measures import ndcg, recall, reciprocal_rank
from bench.quality.sets import load

GRADES = {"a": 3.0, "b": 1.0, "c": 0.0}


def test_the_best_order_measures_one_and_a_worse_one_less() -> None:
    assert ndcg(["a", "b", "x"], GRADES) == 1
    assert ndcg(["b", "a", "x"], GRADES) == pytest.approx((1 + 3 / 1.58496) / (3 + 1 / 1.58496), rel=1e-4)
    assert ndcg(["x", "c"], GRADES) == 0


def test_rank_and_recall_count_good_answers_only() -> None:
    assert reciprocal_rank(["c", "b"], GRADES) == 0.5
    assert recall(["c", "b"], GRADES) == 0.5
    assert recall(["x"] * 10 + ["a", "b"], GRADES) == 0


def test_cranfield_is_read_by_place_and_not_by_number(tmp_path: Path) -> None:
    (tmp_path / "cran.all.1400").write_text(".I 1\n.T\nwings\n.A\nx\n.B\ny\n.W\nof\nbirds\n.I 2\n.T\n\n.W\n")
    (tmp_path / "cran.qry").write_text(".I 001\n.W\nwhat flies\n.I 004\n.W\nwhat\nswims\n")
    (tmp_path / "cranqrel").write_text("2 1 3\n2 2 1\n")

    given = load(tmp_path)

    assert given.documents == {"1": ("wings", "of\nbirds\n")}
    assert given.questions == [("what swims", {"1": 1.0})]


def test_sets_in_the_form_of_beir_are_read(tmp_path: Path) -> None:
    (tmp_path / "qrels").mkdir()
    (tmp_path / "corpus.jsonl").write_text('{"_id": "d1", "title": "T", "text": "x"}\n{"_id": "d2", "text": "y"}\n')
    (tmp_path / "queries.jsonl").write_text('{"_id": "q1", "text": "why"}\n{"_id": "q2", "text": "unjudged"}\n')
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td2\t1\nq1\td1\t0\n")

    given = load(tmp_path)

    assert given.documents == {"d1": ("T", "x"), "d2": ("", "y")}
    assert given.questions == [("why", {"d2": 1.0, "d1": 0.0})]


def test_the_questions_over_documentation_are_graded_and_differ() -> None:
    path = Path(__file__).parent.parent / "bench" / "quality" / "python_docs.json"
    told = json.loads(path.read_text("utf-8"))["questions"]

    assert len({row["question"] for row in told}) == len(told) >= 60
    assert all(set(row["answers"].values()) <= {1, 2, 3} and 3 in row["answers"].values() for row in told)
    assert len(load(path).questions) == len(told)
