"""What goes wrong with repositories on GitHub: limits, nonsense, tricks, and what is not there any more."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiohttp import web

from rowen.connectors.github import GitHub
from tests.conftest import House
from tests.portals.git import LFS
from tests.portals.github import Portal, blob_sha, costs, errors, paths, sync


@pytest.fixture(autouse=True)
def _github(kinds: Callable[[Any], None]) -> None:
    kinds(GitHub)


@pytest.fixture
def portal() -> Iterator[Portal]:
    portal = Portal()
    yield portal
    portal.close()


async def test_what_the_rate_limit_lets_through_is_kept_and_the_next_run_goes_on(house: House, portal: Portal) -> None:
    for number in range(30):
        portal.repository.put(f"{number:02}.md", f"# Page {number}")
    portal.allowed = 12

    first = await sync(house, portal)
    portal.allowed = None
    second = await sync(house, portal)

    assert (first.status, first.complete, first.tally.created) == ("partial", False, 10)
    assert "until 2030-03-17 17:46:40 UTC" in (first.error or "")
    assert "token" in (first.error or "")
    assert (second.status, second.tally.created, second.tally.unchanged) == ("completed", 21, 10)
    assert second.tally.requests == 2 + 21


@pytest.mark.parametrize(
    ("status", "headers", "text"),
    [
        (429, {"Retry-After": "3600"}, ""),
        (403, {"Retry-After": "60"}, ""),
        (403, {}, "You have exceeded a secondary rate limit"),
    ],
)
async def test_every_form_of_the_rate_limit_leaves_what_is_held(
    house: House, portal: Portal, status: int, headers: dict[str, str], text: str
) -> None:
    await sync(house, portal)
    portal.repository.put("new.md", "new")
    portal.said["/git/blobs/"] = lambda: web.Response(status=status, headers=headers, text=text)

    run = await sync(house, portal)

    assert (run.status, run.tally.deleted, run.tally.failed) == ("partial", 0, 0)
    assert "rate limit" in (run.error or "")
    assert paths(house) == {"always.md"}


async def test_a_rate_limit_at_the_first_request_fails_the_run_and_says_until_when(
    house: House, portal: Portal
) -> None:
    await sync(house, portal)
    portal.allowed = 0

    run = await sync(house, portal)

    assert (run.status, run.tally.requests) == ("failed", 1)
    assert "until 2030-03-17" in (run.error or "")


@pytest.mark.parametrize("place", ["/commits/", "/git/trees/"])
@pytest.mark.parametrize(
    "body", ["<html>Unicorn!</html>", "{", "[]", '{"tree": 1}', "null", "[" * 100_000], ids=lambda body: body[:9]
)
async def test_an_answer_that_makes_no_sense_fails_the_run_and_deletes_nothing(
    house: House, portal: Portal, place: str, body: str
) -> None:
    await sync(house, portal)
    portal.repository.put("new.md", "new")
    portal.said[place] = lambda: web.Response(text=body, content_type="text/html")

    run = await sync(house, portal)

    assert (run.status, run.tally.deleted) == ("failed", 0)
    assert paths(house) == {"always.md"}


async def test_rows_that_make_no_sense_leave_the_others_and_delete_nothing(house: House, portal: Portal) -> None:
    portal.repository.put("other.md", "other")
    await sync(house, portal)
    good = {"path": "new.md", "mode": "100644", "type": "blob", "sha": blob_sha(b"new"), "size": 3}
    rows = [good, None, 3, {}, {"path": "x.md"}, {"path": "\ud800.md", "type": "blob", "mode": "100644", "sha": "1"}]
    portal.repository.put("new.md", "new")
    portal.said["/git/trees/"] = lambda: web.json_response({"tree": rows, "truncated": False})

    run = await sync(house, portal)

    assert (run.status, run.complete, run.tally.created, run.tally.deleted) == ("partial", False, 1, 0)
    assert paths(house) == {"always.md", "other.md", "new.md"}


async def test_paths_that_climb_out_are_no_part_of_the_source(house: House, portal: Portal) -> None:
    body = b"# Good"
    names = ["../up.md", "/etc/abs.md", "a/../../b.md", "a//b.md", "./c.md", ".git/hooks.md", "good.md"]
    rows = [{"path": name, "mode": "100644", "type": "blob", "sha": blob_sha(body), "size": 6} for name in names]
    portal.said["/git/trees/"] = lambda: web.json_response({"tree": rows, "truncated": False})
    portal.said["/git/blobs/"] = lambda: web.Response(body=body)

    await sync(house, portal, hidden=True)

    assert paths(house) == {"good.md"}


async def test_a_blob_that_is_another_one_fails_alone(house: House, portal: Portal) -> None:
    portal.repository.put("a.md", "# A")
    portal.said[f"/git/blobs/{blob_sha(b'# A')}"] = lambda: web.Response(text="something else")

    run = await sync(house, portal)
    portal.said.clear()
    again = await sync(house, portal)

    assert (run.tally.created, run.tally.failed, run.complete) == (1, 1, True)
    assert (again.tally.created, again.tally.failed, again.tally.requests) == (1, 0, 3)


async def test_pointers_and_huge_blobs_fail_with_a_reason_and_are_not_asked_for_again(
    house: House, portal: Portal
) -> None:
    portal.repository.put("data.csv", LFS)
    portal.repository.put("huge.txt", b"word " * 1000)

    first = await sync(house, portal, max_bytes=1000)
    again = await sync(house, portal)
    portal.repository.put("more.md", "more")
    more = await sync(house, portal)

    assert (first.tally.created, first.tally.failed, first.tally.requests) == (1, 2, 4)
    assert "Git LFS" in errors(house)[0]
    assert "larger than 1,000 bytes" in errors(house)[1]
    assert (costs(again), again.tally.failed, again.tally.unchanged) == ((1, 1), 2, 1)
    assert (more.tally.created, more.tally.failed, more.tally.requests) == (1, 2, 3)


async def test_a_blob_larger_than_its_tree_says_is_cut_off(house: House, portal: Portal) -> None:
    body = b"word " * 1000
    row = {"path": "a.md", "mode": "100644", "type": "blob", "sha": blob_sha(body), "size": 5}
    portal.said["/git/trees/"] = lambda: web.json_response({"tree": [row], "truncated": False})
    portal.said["/git/blobs/"] = lambda: web.Response(body=body)

    run = await sync(house, portal, max_bytes=1000)

    assert (run.tally.failed, "larger than 1,000" in errors(house)[0]) == (1, True)


@pytest.mark.parametrize("how", ["emptied", "missing ref", "missing repository", "forbidden", "down"])
async def test_a_source_that_is_not_there_deletes_nothing(house: House, portal: Portal, how: str) -> None:
    portal.repository.refs["dev"] = {"dev.md": ("100644", b"# Dev")}
    await sync(house, portal, ref="dev")
    status = {"missing repository": 404, "forbidden": 403, "down": 503}.get(how)
    if status:
        portal.said["/commits/"] = lambda: web.Response(status=status, text="{}")
    elif how == "emptied":
        portal.repository.empty = True
    else:
        del portal.repository.refs["dev"]

    run = await sync(house, portal)

    assert (run.status == "failed", run.tally.deleted) == (how != "emptied", 0)
    assert paths(house) == {"dev.md"}


async def test_a_raw_host_that_is_behind_is_found_out_by_the_sha(house: House, portal: Portal) -> None:
    portal.said["/raw/"] = lambda: web.Response(text="# What it was yesterday")

    run = await sync(house, portal, raw_url=f"{portal.web}/raw")

    assert (run.tally.created, run.tally.requests) == (1, 4)
    assert house.query("select title from item") == [("Always",)]
