"""What the service returns has one JSON form, and what it advises has actions that an interface can offer."""

import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from inspect import getmembers
from typing import Any

import pytest

import rowen
from rowen import Complete, Failed, Fetched, NotFoundError, fact
from rowen.errors import Hint, action
from rowen.model.sources import Overview
from rowen.operations.facts import FORMS, names_of
from rowen.operations.summary import remarks, remarks_on_source
from tests.conftest import ScratchDatabase
from tests.portals.scripted import Scripted, page, shows

ADDRESS = "scripted:one"


@pytest.fixture(autouse=True)
def _scripted(kinds: Callable[[Any], None]) -> None:
    kinds(Scripted)


async def _everything(database: ScratchDatabase) -> list[Any]:
    """One of each thing that an interface may be given."""
    async with database.open() as r:
        shows(Fetched(page(1, "Hay.")), Failed("https://example.org/2", "No."), Complete())
        run = await r.sync(ADDRESS)
        return [
            run,
            await r.sources.get("one"),
            *await r.sources.overview(),
            await r.get("https://example.org/1"),
            *await r.items.history("https://example.org/1"),
            *await r.changes(),
            *await r.search("hay"),
            *await r.items.quarantine(),
            await r.database.status(),
            await r.database.tidy(),
        ]


async def test_everything_becomes_json(database: ScratchDatabase) -> None:
    things = await _everything(database)

    assert len(things) >= 10
    for thing in things:
        assert json.loads(json.dumps(fact(thing), default=str)), thing


def test_no_type_that_is_shown_is_left_out() -> None:
    shown = {"Run", "Source", "Overview", "Entry", "Revision", "Change", "Hit", "Case", "DatabaseStatus"}
    shown |= {
        "ServerStatus",
        "Tidied",
        "EmbeddingEstimate",
        "EmbeddingReport",
        "ModelStatus",
        "Export",
        "AppliedSource",
    }

    kinds = {name: kind for name, kind in getmembers(rowen, is_dataclass) if name in shown}
    assert kinds.keys() == shown
    assert [name for name, kind in kinds.items() if not names_of(kind)] == []


@pytest.mark.parametrize("kind", FORMS)
def test_a_form_names_only_fields_properties_and_computed_values(kind: type) -> None:
    known = {field.name for field in fields(kind)} | set(dir(kind)) | set(FORMS[kind].values)

    assert {*names_of(kind), *FORMS[kind].without.split()} <= known


def test_what_is_no_fact_is_refused() -> None:
    with pytest.raises(TypeError, match="object has no JSON form"):
        fact(object())


async def test_an_error_says_the_same_at_every_door(database: ScratchDatabase) -> None:
    async with database.open() as r:
        with pytest.raises(NotFoundError) as caught:
            await r.sources.get("nobody")

    assert fact(caught.value) == {
        "error": "There is no source named 'nobody'.",
        "code": "not_found",
        "hint": "`rowen sources` lists them.",
        "actions": [{"action": "sources", "target": None, "options": {}}],
        "retryable": False,
        "exit_code": 4,
    }


def test_a_hint_is_worded_by_its_door() -> None:
    hint = Hint(
        action("sync", "docs", accept_deletions=True), " lets them go; ", action("show", "docs"), " shows them."
    )

    assert hint == "`rowen sync docs --accept-deletions` lets them go; `rowen show docs` shows them."
    assert hint.worded(lambda one: f"[{one.name}]") == "[sync] lets them go; [show] shows them."
    assert pickle.loads(pickle.dumps(hint)).actions == hint.actions


@pytest.mark.parametrize("name", ["{}", "a{}b", "{0}", "{name}", "%s"])
def test_names_and_errors_of_any_form_can_be_told(name: str) -> None:
    overview = Overview(name, "files", "file:///x", "active", 3, 1, 2, "failed", None, None, "It said {}.")
    told = list(remarks_on_source(overview))

    assert len(told) == 3
    assert all(one.actions for one in told)


def test_a_hint_without_actions_may_hold_anything() -> None:
    assert Hint("The record says {}.") == "The record says {}."


async def test_a_partial_run_says_that_what_was_not_seen_was_kept(database: ScratchDatabase) -> None:
    def fails(_: Any) -> Iterator[Any]:
        yield Fetched(page(1))
        raise rowen.SourceError("The portal is down.")

    async with database.open() as r:
        shows(Fetched(page(1)), Fetched(page(2)), Complete())
        await r.sync(ADDRESS)
        Scripted.script = fails
        run = await r.sync(ADDRESS)
    [told] = list(remarks(run))

    assert "so what was not seen was kept" in told
    assert told.actions == (action("sync", "one"),)
