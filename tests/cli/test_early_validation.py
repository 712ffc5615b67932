"""What is wrong is told before anything is made or asked."""

from contextlib import closing
from pathlib import Path

from tests.cli.conftest import Cli
from tests.portals.site import Site

NEAR = {"ROWEN_ALLOW_ADDRESSES": "127.0.0.0/8", "ROWEN_HOST_DELAY_S": "0"}


def alone(tmp_path: Path) -> Cli:
    """The command of somebody who has no database yet."""
    return Cli(tmp_path, {"ROWEN_HOME": str(tmp_path / "home"), **NEAR})


def test_a_missing_path_creates_no_database(tmp_path: Path) -> None:
    rowen = alone(tmp_path)

    synced, named, added = rowen("sync", "./nothere"), rowen("sync", "nothere"), rowen("add", "./nothere")

    assert (synced.code, named.code, added.code) == (2, 4, 2)
    assert "'./nothere' cannot be read" in synced.err
    assert "There is no source named 'nothere'" in named.err
    assert "'./nothere' cannot be read" in added.err
    assert not any(tmp_path.iterdir())


def test_an_unknown_option_costs_no_request(tmp_path: Path) -> None:
    with closing(Site()) as site:
        done = alone(tmp_path)("add", site.url, "--option", "max_pagez=3")

        assert site.log == []

    assert done.code == 2
    assert "No kind of source has an option 'max_pagez'" in done.err
    assert "Did you mean 'max_pages' (of " in done.err
    assert not any(tmp_path.iterdir())


def test_options_are_checked_against_the_kind_that_was_given(tmp_path: Path) -> None:
    with closing(Site()) as site:
        done = alone(tmp_path)("add", site.url, "--kind", "web", "--option", "page_size=3")

        assert site.log == []

    assert done.code == 2
    assert "Kind 'web' has no option 'page_size'" in done.err
