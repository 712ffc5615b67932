"""`rowen add` and `rowen sync` say what an address was found to be."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.cli.conftest import Cli
from tests.portals.ckan import CkanPortal
from tests.portals.site import Site


@pytest.fixture
def portal() -> Iterator[CkanPortal]:
    with closing(CkanPortal()) as portal:
        portal.make("a")
        yield portal


@pytest.fixture
def near(cli: Cli) -> Cli:
    cli.environment |= {"ROWEN_ALLOW_ADDRESSES": "127.0.0.0/8", "ROWEN_HOST_DELAY_S": "0", "ROWEN_FETCH_TRIES": "1"}
    return cli


def test_add_says_what_it_found_and_how_to_have_it_otherwise(near: Cli, portal: CkanPortal) -> None:
    done = near("add", portal.url, "--name", "farm")
    again = near("add", portal.url, "--kind", "web", "--name", "site")

    assert (done.code, done.out) == (0, f"farm\tadded\tckan\t{portal.url}\n")
    assert f"Found a CKAN portal at {portal.url}: kind ckan." in done.err
    assert "--kind web" in done.err
    assert (again.out, "Found" in again.err) == (f"site\tadded\tweb\t{portal.url}\n", False)


def test_sync_of_an_address_says_so_too_and_only_the_first_time(near: Cli, portal: CkanPortal) -> None:
    done = near("sync", portal.url, "--json")
    again = near("sync", portal.url, "--json")

    assert "Found a CKAN portal" in done.err
    assert [(fact["kind"], fact["created"]) for fact in done.facts] == [("ckan", 1)]
    assert ("Found" in again.err, again.facts[0]["unchanged"]) == (False, 1)


def test_an_address_that_is_down_is_not_added(near: Cli) -> None:
    with closing(Site()) as site:
        site.down = True
        done = near("add", site.url, "--json")

    assert done.code == 1
    assert "answered with status 503" in done.error["error"]
    assert near("sources", "--json").facts == []


def test_nothing_is_asked_where_that_is_switched_off(near: Cli, portal: CkanPortal) -> None:
    done = near("add", portal.url, ROWEN_PROBE="false")

    assert ("\tweb\t" in done.out, portal.log) == (True, [])
