"""Every kind joins the machine: see `kinds`."""

import os
from unittest.mock import patch

import pytest

from tests import seeds
from tests.conftest import Server
from tests.portals.opendatasoft import ChangingOpenDataSoft
from tests.refresh.explore import explore, play
from tests.refresh.kinds import KINDS
from tests.refresh.longlived import LongLivedMachine
from tests.refresh.machine import Machine, Script, Step
from tests.refresh.soak import summary
from tests.refresh.workers import WorkerMachine

# For each kind: two or three new examples in each build. Twice as long costs a build of 2 cores two minutes more.
SECONDS = float(os.environ.get("ROWEN_TEST_REFRESH_S", "6"))

# Their runs are side by side, and none of them is one of a script.
SEVERAL_AT_ONCE = (LongLivedMachine, WorkerMachine)

# Seeds of a record that is edited, and of one that is created, while it cannot be read.
EDITED, NEW = 8, 0

# The worlds that can be asked for what was modified.
FILTERED = ["arcgis-hub", "arcgis-portal", "ckan", "csw", "dcat", "oai-without-tombstones", "opendatasoft", "socrata"]
FILTERED += ["oai", "sparql"]


def fails_for_three_runs(seed: int) -> Script:
    """One record cannot be read; later another one is edited, and nothing else happens."""
    first = Step("a_run", {"full": False, "accept": True})
    return Script(None, (first, Step("a_record_fails_for_a_while", {"seed": seed, "runs": 3})))


@pytest.mark.parametrize("kind", KINDS)
def test_refreshing_equals_rebuilding_after_anything(server: Server, template: str, kind: str) -> None:
    explore(kind, server, template, seconds=SECONDS)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if KINDS[kind].machine not in SEVERAL_AT_ONCE])
def test_a_record_that_failed_in_three_runs_and_recovers_is_read_by_the_next(
    server: Server, template: str, kind: str, request: pytest.FixtureRequest
) -> None:
    if why := KINDS[kind].unfit.get("a_record_fails_for_a_while"):
        request.applymarker(pytest.mark.xfail(reason=why, strict=True))

    for seed in (EDITED, NEW):
        played = play(kind, fails_for_three_runs(seed), server, template)

        assert played.counts["failed records"] > 0
        played.confirm()


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("kind", FILTERED)
def test_a_filter_that_breaks_and_lies_for_some_runs_leaves_the_index_right(
    server: Server, template: str, kind: str, number: int
) -> None:
    seed = next(seeds.numbers(f"filter {kind} {number}"))
    run = Step("a_run", {"full": False, "accept": True})
    broken = Step("the_filter_fails_for_a_while", {"seed": seed, "runs": 4})
    played = play(kind, Script(seed, (run, broken, run, broken)), server, template)

    assert played.counts["runs"] >= 10
    played.confirm()


def test_a_record_that_a_clean_run_cannot_read_is_named_with_its_reason_in_the_summary(
    server: Server, template: str
) -> None:
    with patch.object(ChangingOpenDataSoft, "heal", lambda world: world.spoil("n1")):
        played = play("opendatasoft", Script(None, ()), server, template, seed=1)

    assert any("The record is no object." in line for line in summary([played], 1.0, 1))


def test_a_script_is_drawn_from_its_seed_and_can_be_written_down() -> None:
    scripts = [Machine.draw(seed) for seed in range(200)]

    assert scripts == [Machine.draw(seed) for seed in range(200)]
    assert [Script.parse(str(script)) for script in scripts] == scripts
    assert {step.name for script in scripts for step in script.steps} == set(Machine.draws)
