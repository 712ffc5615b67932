"""What goes wrong with repositories on GitHub: limits, nonsense, tricks, and what is not there any more."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiohttp import web

from rowen.connectors.github import GitHub
from tests.conftest import ScratchDatabase
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


async def test_what_the_rate_limit_lets_through_is_kept_and_the_next_run_goes_on(
    database: ScratchDatabase, portal: Portal
) -> None:
    for number in range(30):
        portal.repository.put(f"{number:02}.md", f"# Page {number}")
    portal.allowed = 12

    first = await sync(database, portal)
    portal.allowed = None
    second = await sync(database, portal)

    assert (first.status, first.complete, first.stats.created) == ("partial", False, 10)
    assert "until 2030-03-17 17:46:40 UTC" in (first.error or "")
    assert "token" in (first.error or "")
    assert (second.status, second.stats.created, second.stats.unchanged) == ("completed", 21, 10)
    assert second.stats.requests == 2 + 21


@pytest.mark.parametrize(
    ("status", "headers", "text"),
    [
        (429, {"Retry-After": "3600"}, ""),
        (403, {"Retry-After": "60"}, ""),
        (403, {}, "You have exceeded a secondary rate limit"),
    ],
)
async def test_every_form_of_the_rate_limit_keeps_the_stored_items(
    database: ScratchDatabase, portal: Portal, status: int, headers: dict[str, str], text: str
) -> None:
    await sync(database, portal)
    portal.repository.put("new.md", "new")
    portal.said["/git/blobs/"] = lambda: web.Response(status=status, headers=headers, text=text)

    run = await sync(database, portal)

    assert (run.status, run.stats.deleted, run.stats.failed) == ("partial", 0, 0)
    assert "rate limit" in (run.error or "")
    assert paths(database) == {"always.md"}


async def test_a_rate_limit_at_the_first_request_fails_the_run_and_says_until_when(
    database: ScratchDatabase, portal: Portal
) -> None:
    await sync(database, portal)
    portal.allowed = 0

    run = await sync(database, portal)

    assert (run.status, run.stats.requests) == ("failed", 1)
    assert "until 2030-03-17" in (run.error or "")


@pytest.mark.parametrize("place", ["/commits/", "/git/trees/"])
@pytest.mark.parametrize(
    "body", ["<html>Unicorn!</html>", "{", "[]", '{"tree": 1}', "null", "[" * 100_000], ids=lambda body: body[:9]
)
async def test_an_answer_that_makes_no_sense_fails_the_run_and_deletes_nothing(
    database: ScratchDatabase, portal: Portal, place: str, body: str
) -> None:
    await sync(database, portal)
    portal.repository.put("new.md", "new")
    portal.said[place] = lambda: web.Response(text=body, content_type="text/html")

    run = await sync(database, portal)

    assert (run.status, run.stats.deleted) == ("failed", 0)
    assert paths(database) == {"always.md"}


async def test_rows_that_make_no_sense_leave_the_others_and_delete_nothing(
    database: ScratchDatabase, portal: Portal
) -> None:
    portal.repository.put("other.md", "other")
    await sync(database, portal)
    good = {"path": "new.md", "mode": "100644", "type": "blob", "sha": blob_sha(b"new"), "size": 3}
    rows = [good, None, 3, {}, {"path": "x.md"}, {"path": "\ud800.md", "type": "blob", "mode": "100644", "sha": "1"}]
    portal.repository.put("new.md", "new")
    portal.said["/git/trees/"] = lambda: web.json_response({"tree": rows, "truncated": False})

    run = await sync(database, portal)

    assert (run.status, run.complete, run.stats.created, run.stats.deleted) == ("partial", False, 1, 0)
    assert paths(database) == {"always.md", "other.md", "new.md"}


async def test_paths_that_climb_out_are_no_part_of_the_source(database: ScratchDatabase, portal: Portal) -> None:
    body = b"# Good"
    names = ["../up.md", "/etc/abs.md", "a/../../b.md", "a//b.md", "./c.md", ".git/hooks.md", "good.md"]
    rows = [{"path": name, "mode": "100644", "type": "blob", "sha": blob_sha(body), "size": 6} for name in names]
    portal.said["/git/trees/"] = lambda: web.json_response({"tree": rows, "truncated": False})
    portal.said["/git/blobs/"] = lambda: web.Response(body=body)

    await sync(database, portal, hidden=True)

    assert paths(database) == {"good.md"}


async def test_a_blob_that_is_another_one_fails_alone(database: ScratchDatabase, portal: Portal) -> None:
    portal.repository.put("a.md", "# A")
    portal.said[f"/git/blobs/{blob_sha(b'# A')}"] = lambda: web.Response(text="something else")

    run = await sync(database, portal)
    portal.said.clear()
    again = await sync(database, portal)

    assert (run.stats.created, run.stats.failed, run.complete) == (1, 1, True)
    assert (again.stats.created, again.stats.failed, again.stats.requests) == (1, 0, 3)


async def test_pointers_and_huge_blobs_fail_with_a_reason_and_are_not_requested_again(
    database: ScratchDatabase, portal: Portal
) -> None:
    portal.repository.put("data.csv", LFS)
    portal.repository.put("huge.txt", b"word " * 1000)

    first = await sync(database, portal, max_bytes=1000)
    again = await sync(database, portal)
    portal.repository.put("more.md", "more")
    more = await sync(database, portal)

    assert (first.stats.created, first.stats.failed, first.stats.requests) == (1, 2, 4)
    assert "Git LFS" in errors(database)[0]
    assert "larger than 1,000 bytes" in errors(database)[1]
    assert (costs(again), again.stats.failed, again.stats.unchanged) == ((1, 1), 2, 1)
    assert (more.stats.created, more.stats.failed, more.stats.requests) == (1, 2, 3)


async def test_a_blob_larger_than_its_tree_says_is_cut_off(database: ScratchDatabase, portal: Portal) -> None:
    body = b"word " * 1000
    row = {"path": "a.md", "mode": "100644", "type": "blob", "sha": blob_sha(body), "size": 5}
    portal.said["/git/trees/"] = lambda: web.json_response({"tree": [row], "truncated": False})
    portal.said["/git/blobs/"] = lambda: web.Response(body=body)

    run = await sync(database, portal, max_bytes=1000)

    assert (run.stats.failed, "larger than 1,000" in errors(database)[0]) == (1, True)


@pytest.mark.parametrize("how", ["emptied", "missing ref", "missing repository", "forbidden", "down"])
async def test_a_source_that_is_not_there_deletes_nothing(database: ScratchDatabase, portal: Portal, how: str) -> None:
    portal.repository.refs["dev"] = {"dev.md": ("100644", b"# Dev")}
    await sync(database, portal, ref="dev")
    status = {"missing repository": 404, "forbidden": 403, "down": 503}.get(how)
    if status:
        portal.said["/commits/"] = lambda: web.Response(status=status, text="{}")
    elif how == "emptied":
        portal.repository.empty = True
    else:
        del portal.repository.refs["dev"]

    run = await sync(database, portal)

    assert (run.status == "failed", run.stats.deleted) == (how != "emptied", 0)
    assert paths(database) == {"dev.md"}


async def test_a_raw_host_that_is_behind_is_found_out_by_the_sha(database: ScratchDatabase, portal: Portal) -> None:
    portal.said["/raw/"] = lambda: web.Response(text="# What it was yesterday")

    run = await sync(database, portal, raw_url=f"{portal.web}/raw")

    assert (run.stats.created, run.stats.requests) == (1, 4)
    assert database.query("select title from item") == [("Always",)]
