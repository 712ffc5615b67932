"""Every operation is declared once: what interfaces derive from the declaration."""

import inspect
from pathlib import Path

import pytest

import rowen
from rowen import Rowen, UsageError
from rowen.operations import GROUPS, VERBS
from rowen.operations.registry import operations, signature_of, validated
from tests.conftest import ScratchDatabase


@pytest.mark.parametrize("name", operations())
def test_an_operation_has_a_summary_and_a_schema_of_its_parameters(name: str) -> None:
    signature = signature_of(name)

    assert operations()[name].summary
    assert signature.json_schema()


def test_the_verbs_of_the_client_take_the_parameters_of_their_operations() -> None:
    wrong = []
    for verb, group in VERBS.items():
        method = inspect.signature(getattr(Rowen, verb)).parameters.values()
        operation = inspect.signature(operations()[f"{group}.{verb}"].function).parameters.values()
        if [(one.name, one.default) for one in method if one.kind is not one.VAR_KEYWORD] != [
            (one.name, one.default) for one in operation if one.kind is not one.VAR_KEYWORD
        ]:
            wrong.append(verb)

    assert wrong == []


@pytest.mark.parametrize(
    ("values", "named"), [({"words": "x", "limit": 0}, "limit"), ({"words": "x", "limt": 1}, "limt"), ({}, "words")]
)
def test_an_error_in_untrusted_input_names_the_parameter(values: dict[str, object], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        validated("items.search", values)


def test_no_caller_decides_how_far_it_reaches() -> None:
    for name in ("sources.add", "sources.edit", "sources.declare", "sources.preview", "extraction.extract"):
        with pytest.raises(UsageError, match="reach"):
            validated(name, {"reach": 3})


def test_the_blocking_client_offers_every_operation(database: ScratchDatabase, tmp_path: Path) -> None:
    (tmp_path / "hay.md").write_text("# Hay")
    with rowen.open_blocking(database.settings()) as r:
        missing = [
            name for name in operations() if not callable(getattr(getattr(r, name.split(".")[0]), name.split(".")[1]))
        ]
        r.sync(str(tmp_path))
        [source] = r.sources.list()
        run = r.runs.get(1)
        changes = list(r.changes(since=0))
        followed = next(iter(r.changes.follow(since=0)))

    assert missing == []
    assert set(GROUPS) <= set(dir(r))
    assert (source.items, run.status, followed.number) == (1, "completed", changes[0].number)
