"""The page on where ideas come from: each of its statements has a verdict, a command or a reason, and a test."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.docs.markdown import ROOT

PAGE = ROOT / "docs" / "origins.md"
SYSTEMS = (
    "Harvester of open data portals with embeddings",
    "Two-hash rule",
    "Documentation indexer with conditional refresh",
    "LDES harvester for councils",
    "Scraper with language models",
)
VERDICTS = {"as described", "better", "differs"}
LEAST_STATEMENTS = 280
_TEST = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
# A test that is left out where a program or a setting is missing shows nothing there.
_SKIPS = re.compile(r"mark\.(skip|xfail|live|real_model)|\bneeds_")


class Row(NamedTuple):
    """One line of a table."""

    system: str
    statement: str
    verdict: str
    reason: str
    test: str


def sections() -> dict[str, str]:
    """What stands below each heading of the second level."""
    parts = re.split(r"^## (.+)$", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def table() -> list[Row]:
    """All statements, with the system that each is about."""
    found = []
    for system, text in sections().items():
        if system == "Old names":
            continue
        lines = [line for line in text.splitlines() if line.startswith("|")]
        for line in lines[2:]:
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            found.append(Row(system, *cells))
    return found


@cache
def named_tests(path: Path) -> dict[str, bool]:
    """The tests of a file, by name, and whether each is skipped somewhere."""
    tree = ast.parse(path.read_text("utf-8"))
    marks = [ast.unparse(node) for node in tree.body if isinstance(node, ast.Assign)]
    all_skipped = any(mark.startswith("pytestmark") and _SKIPS.search(mark) for mark in marks)
    return {
        node.name: all_skipped or _is_skipped(node)
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def _is_skipped(test: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    calls = [ast.unparse(node.func) for node in ast.walk(test) if isinstance(node, ast.Call)]
    decorators = [ast.unparse(one) for one in test.decorator_list]
    marks = [one for one in decorators if not one.startswith("pytest.mark.parametrize")]
    return any(map(_SKIPS.search, marks)) or "pytest.skip" in calls or "pytest.importorskip" in calls


def test_the_five_systems_and_their_old_names_have_a_section_each() -> None:
    assert tuple(sections()) == (*SYSTEMS, "Old names")
    assert {row.system for row in table()} == set(SYSTEMS)
    assert sections()["Old names"].count("| old name | in Rowen |") == len(SYSTEMS)


def test_every_statement_stands_once_with_a_verdict_and_how_or_why() -> None:
    rows = table()

    assert len(rows) >= LEAST_STATEMENTS
    assert [row for row in rows if row.verdict not in VERDICTS] == []
    assert [row for row in rows if not row.reason] == []
    statements = [(row.system, row.statement) for row in rows]
    assert len(set(statements)) == len(statements)
    assert all(row.statement for row in rows)


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_statement_names_a_test_that_is_there_and_is_not_skipped(system: str) -> None:
    wrong = {}
    for row in table():
        named = _TEST.fullmatch(row.test)
        if row.system != system:
            continue
        if named is None:
            wrong[row.statement] = f"{row.test} is no test"
            continue
        path = ROOT / "tests" / named[1]
        tests = named_tests(path) if path.is_file() else {}
        if named[2] not in tests:
            wrong[row.statement] = f"there is no {row.test}"
        elif tests[named[2]]:
            wrong[row.statement] = f"{row.test} may be skipped"

    assert wrong == {}


def test_a_skipped_test_is_seen() -> None:
    """Files with tests that are skipped where something is missing."""
    assert all(named_tests(ROOT / "tests" / "net" / "test_tls.py").values())
    rendering = named_tests(ROOT / "tests" / "connectors" / "test_web_render.py")
    assert {True, False} == set(rendering.values())


def test_old_names_lead_to_modules_that_are_there() -> None:
    modules = re.findall(r"`([\w/]+\.py)`", sections()["Old names"])

    assert len(modules) > 5
    assert [module for module in modules if not (ROOT / "src" / "rowen" / module).is_file()] == []
