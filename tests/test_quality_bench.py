"""The measures and the loaders of the quality bench."""

import json
from pathlib import Path

import pytest
from bench.quality.__main__ import sentence
from bench.quality.measures import ndcg, recall, reciprocal_rank
from bench.quality.sets import JudgedQuestion, load

BENCH = Path(__file__).parent.parent / "bench" / "quality"
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
    assert given.questions == [("2", "what swims", {"1": 1.0})]


def test_sets_in_the_form_of_beir_are_read(tmp_path: Path) -> None:
    (tmp_path / "qrels").mkdir()
    (tmp_path / "corpus.jsonl").write_text('{"_id": "d1", "title": "T", "text": "x"}\n{"_id": "d2", "text": "y"}\n')
    (tmp_path / "queries.jsonl").write_text('{"_id": "q1", "text": "why"}\n{"_id": "q2", "text": "unjudged"}\n')
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td2\t1\nq1\td1\t0\n")

    given = load(tmp_path)

    assert given.documents == {"d1": ("T", "x"), "d2": ("", "y")}
    assert given.questions == [("q1", "why", {"d2": 1.0, "d1": 0.0})]


def test_other_classic_sets_are_read_by_number(tmp_path: Path) -> None:
    (tmp_path / "cacm.all").write_text(".I 1\n.T\nAlgol\n.B\nx\n.I 20\n.T\nSorting\n.W\nby merging\n")
    (tmp_path / "query.text").write_text(".I 7\n.W\nhow to\nsort\n.N\nsomebody\n.I 8\n.A\nsomebody\n")
    (tmp_path / "qrels.text").write_text("07 0020  0 0\n")

    given = load(tmp_path)

    assert given.documents == {"1": ("Algol", ""), "20": ("Sorting", "by merging\n")}
    assert given.questions == [("7", "how to sort", {"20": 1.0})]


def test_quotes_and_dashes_of_a_question_are_no_operators() -> None:
    assert sentence('the "Mars-I" text -- and -not*') == "the  Mars-I  text  and not "


def test_npl_is_read(tmp_path: Path) -> None:
    (tmp_path / "doc-text").write_text("1\ncompact memories\nof bits\n   /\n2\nwaves\n   /\n")
    (tmp_path / "query-text").write_text("1\nUSE OF WAVES\n/\n2\nUNJUDGED\n/\n")
    (tmp_path / "rlv-ass").write_text("1\n  2  9\n   /\n")

    given = load(tmp_path)

    assert given.documents == {"1": ("", "compact memories\nof bits"), "2": ("", "waves")}
    assert given.questions == [("1", "use of waves", {"2": 1.0})]


def test_lisa_is_read(tmp_path: Path) -> None:
    stars = "*" * 44
    (tmp_path / "lisa.all.txt").write_text(f"Document  1\nUSERS OF\nLIBRARIES.\n     \nWHO THEY ARE.\n{stars}\n")
    (tmp_path / "lisa.queries.txt").write_text("1\nI AM INTERESTED\nIN USERS. #\n")
    (tmp_path / "lisa.relevance.txt").write_text("           1           1        1         \n")

    given = load(tmp_path)

    assert given.documents == {"1": ("USERS OF LIBRARIES.", "WHO THEY ARE.")}
    assert given.questions == [("1", "I AM INTERESTED IN USERS.", {"1": 1.0})]


def test_halves_depend_on_nothing_but_the_question() -> None:
    halves = [JudgedQuestion(str(n), "", {}).half for n in range(200)]

    assert halves[:6] == ["held out", "held out", "tuning", "tuning", "held out", "held out"]
    assert 80 < halves.count("tuning") < 120


@pytest.mark.parametrize(("name", "least"), [("python_docs", 60), ("rowen_docs", 40)])
def test_the_questions_over_documentation_are_graded_and_differ(name: str, least: int) -> None:
    path = BENCH / f"{name}.json"
    told = json.loads(path.read_text("utf-8"))["questions"]

    assert len({row["question"] for row in told}) == len(told) >= least
    assert all(set(row["answers"].values()) <= {1, 2, 3} and 3 in row["answers"].values() for row in told)
    assert len(load(path).questions) == len(told)


def test_the_questions_over_our_own_documentation_name_pages_that_are_there() -> None:
    given = load(BENCH / "rowen_docs.json")

    assert given.folder is not None
    assert [
        page for question in given.questions for page in question.grades if not (given.folder / f"{page}.md").exists()
    ] == []
