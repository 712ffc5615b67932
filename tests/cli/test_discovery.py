"""`rowen add` and `rowen sync` say what an address was found to be."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from tests.cli.conftest import Cli
from tests.portals.ckan import CkanPortal
from tests.portals.packages import PythonIndex
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


def test_add_reports_the_detected_kind_and_how_to_choose_another(near: Cli, portal: CkanPortal) -> None:
    done = near("add", portal.url, "--name", "farm")
    again = near("add", portal.url, "--kind", "web", "--name", "site")

    assert (done.code, done.out) == (0, f"farm\tadded\tckan\t{portal.url}\n")
    assert f"Found a CKAN portal at {portal.url}: kind ckan." in done.err
    assert "--kind web" in done.err
    assert (again.out, "Found" in again.err) == (f"site\tadded\tweb\t{portal.url}\n", False)


def test_sync_reports_the_detected_kind_only_the_first_time(near: Cli, portal: CkanPortal) -> None:
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


def test_no_request_is_sent_if_probing_is_disabled(near: Cli, portal: CkanPortal) -> None:
    done = near("add", portal.url, ROWEN_PROBE="false")

    assert ("\tweb\t" in done.out, portal.log) == (True, [])


def test_an_address_that_was_never_there_is_not_kept(near: Cli) -> None:
    with closing(Site()) as site:
        done = near("sync", f"{site.url}/nowhere/", ROWEN_PROBE="false")
        folder = near("sync", "./not/here")

    assert (done.code, near("sources", "--json").facts) == (1, [])
    assert "Nothing was added." in done.err
    assert (folder.code, "./not/here" in folder.err) == (2, True)


def test_doctor_reports_a_source_whose_items_all_fail(near: Cli) -> None:
    with closing(Site()) as site:
        site.put("/", "Hay", "All about hay.", links=("/mow",))
        site.put("/mow", "Mowing", "How to mow.")
        near("add", f"{site.url}/", "--kind", "web", "--name", "hay", "--option", "select=main")
        near("sync", "hay")
        site.pages = {
            path: replace(page, body=page.body.replace(b"main>", b"div>")) for path, page in site.pages.items()
        }
        done = near("doctor", "--json")

    ill = {fact["check"]: fact for fact in done.facts}["source hay"]
    assert (done.code, ill["ok"]) == (1, False)
    assert "The selector 'main' matches nothing" in ill["found"]


def test_doctor_checks_that_sources_can_be_read(near: Cli) -> None:
    with closing(CkanPortal()) as portal, closing(Site()) as site:
        portal.make("a")
        near("add", portal.url, "--name", "farm")
        near("add", f"{site.url}/nowhere", "--kind", "web", "--name", "lost")
        portal.log.clear()
        well = {fact["check"]: fact for fact in near("doctor", "--json").facts}
    asked = len(portal.log)
    near("pause", "lost")
    done = near("doctor", "--json")
    ill = {fact["check"]: fact for fact in done.facts}

    assert (well["source farm"]["ok"], well["source farm"]["found"]) == (True, "can be read")
    assert asked <= 10
    assert (well["source lost"]["ok"], "404" in well["source lost"]["found"]) == (False, True)
    assert (done.code, ill["source farm"]["ok"]) == (1, False)
    assert (ill["source lost"]["ok"], ill["source lost"]["found"]) == (True, "paused, not checked")


def test_a_package_that_does_not_exist_is_not_added_and_one_that_nobody_can_ask_for_is(near: Cli) -> None:
    with closing(PythonIndex()) as index:
        typo = near("add", "pypi:hya", "--option", f"registry={index.url}")
        index.down = True
        down = near("add", "pypi:hay", "--option", f"registry={index.url}")

    assert (typo.code, typo.out) == (1, "")
    assert "there is no package 'hya'. Nothing was added." in " ".join(typo.err.split())
    assert (down.code, down.out) == (0, "hay\tadded\tpypi\tpkg:pypi/hay\n")
    assert "Nobody could tell whether there is pypi:hay" in down.err
