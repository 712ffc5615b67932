"""Repositories on GitHub: what is asked, what is read, what is left alone."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import aclosing
from typing import Any

import pytest
from aiohttp import web

from rowen import UsageError
from rowen.connectors import registry
from rowen.connectors.github import GitHub
from rowen.connectors.github.files import in_order
from rowen.connectors.github.options import RepositoryAddress
from tests.conftest import ScratchDatabase
from tests.portals.git import LINK, SUBMODULE
from tests.portals.github import Portal, blob_sha, costs, paths, sync


@pytest.fixture(autouse=True)
def _github(kinds: Callable[[Any], None]) -> None:
    kinds(GitHub)


@pytest.fixture
def portal() -> Iterator[Portal]:
    portal = Portal()
    yield portal
    portal.close()


async def test_the_first_run_reads_the_tree_and_every_readable_file(database: ScratchDatabase, portal: Portal) -> None:
    portal.repository.put("docs/guide.md", "# Guide\n\nWords.")
    portal.repository.put("picture.png", b"\x89PNG")
    portal.repository.put("empty.txt", "")

    run = await sync(database, portal)

    assert (run.status, run.complete, run.stats.created) == ("completed", True, 3)
    assert run.stats.requests == 4, "the commit, the tree and two blobs: what is empty need not be asked for"
    url = f"{portal.web}/me/it/blob/HEAD/docs/guide.md"
    [(record,)] = database.query("select record from item where url = %s", url)
    assert record == {"path": "docs/guide.md", "sha": blob_sha(b"# Guide\n\nWords."), "ref": "HEAD"}


async def test_nothing_changed_costs_one_request_and_no_body(database: ScratchDatabase, portal: Portal) -> None:
    for number in range(30):
        portal.repository.put(f"{number}.md", f"# Page {number}")
    await sync(database, portal)

    run = await sync(database, portal)

    assert (run.status, run.complete, run.stats.unchanged) == ("completed", True, 31)
    assert (costs(run), run.stats.bytes, run.stats.rows_written) == ((1, 1), 0, 0)
    assert portal.take() == [("commits/HEAD", 304)]


async def test_one_changed_file_costs_the_commit_the_tree_and_its_blob(
    database: ScratchDatabase, portal: Portal
) -> None:
    for number in range(30):
        portal.repository.put(f"{number}.md", f"# Page {number}")
    await sync(database, portal)
    portal.repository.put("7.md", "# Another 7")

    run = await sync(database, portal)

    assert (run.stats.updated, run.stats.unchanged, run.stats.rows_written < 8) == (1, 30, True)
    assert [path.split("/")[:2] for path, _ in portal.take()] == [
        ["commits", "HEAD"],
        ["git", "trees"],
        ["git", "blobs"],
    ]


async def test_a_renamed_file_is_read_and_a_deleted_one_goes(database: ScratchDatabase, portal: Portal) -> None:
    portal.repository.put("old.md", "# Moved")
    portal.repository.put("gone.md", "# Gone")
    portal.repository.put("also.md", "# Stays")
    await sync(database, portal)
    portal.repository.files["new.md"] = portal.repository.files.pop("old.md")
    del portal.repository.files["gone.md"]

    run = await sync(database, portal)

    assert (run.stats.created, run.stats.deleted, run.stats.unchanged) == (1, 2, 2)
    assert paths(database) == {"also.md", "always.md", "new.md"}


async def test_forced_history_with_the_same_files_costs_a_tree_and_no_row(
    database: ScratchDatabase, portal: Portal
) -> None:
    await sync(database, portal)
    portal.repository.history = "forced"

    run = await sync(database, portal)
    again = await sync(database, portal)

    assert (costs(run), run.stats.unchanged, run.stats.rows_written) == ((2, 0), 1, 0)
    assert costs(again) == (1, 1)


async def test_a_renamed_default_branch_keeps_every_item(database: ScratchDatabase, portal: Portal) -> None:
    await sync(database, portal)
    portal.repository.default = "trunk"

    run = await sync(database, portal)

    assert (costs(run), run.stats.unchanged, run.stats.deleted) == ((1, 1), 1, 0)


async def test_a_server_without_validators_is_compared_by_the_commit(database: ScratchDatabase, portal: Portal) -> None:
    commit = portal.repository.commit("HEAD")
    portal.said["/commits/"] = lambda: web.Response(text=str(commit))
    await sync(database, portal)

    run = await sync(database, portal)

    assert (run.stats.requests, run.stats.unchanged, run.stats.bytes) == (1, 1, 40)


async def test_a_branch_with_slashes_and_a_path_are_distinguished(database: ScratchDatabase, portal: Portal) -> None:
    portal.repository.refs["feature/x"] = {
        "docs/a.md": ("100644", b"# A"),
        "docs/deep/b.md": ("100644", b"# B"),
        "c.md": ("100644", b"# C"),
    }
    await sync(database, portal, address=f"{portal.address}/tree/feature/x/docs")

    run = await sync(database, portal)

    assert paths(database) == {"docs/a.md", "docs/deep/b.md"}
    assert costs(run) == (1, 1)
    assert portal.take() == [("commits/feature%2Fx", 304)]
    assert database.query("select url from item order by url")[0] == (f"{portal.web}/me/it/blob/feature/x/docs/a.md",)


async def test_a_tag_is_read_and_a_single_file_is_a_source(database: ScratchDatabase, portal: Portal) -> None:
    portal.repository.refs["v1"] = {"README.md": ("100644", b"# One"), "other.md": ("100644", b"# Other")}

    await sync(database, portal, address=f"{portal.address}/blob/v1/README.md")

    assert paths(database) == {"README.md"}


async def test_patterns_choose_below_the_path(database: ScratchDatabase, portal: Portal) -> None:
    for path in ("docs/a.md", "docs/b.txt", "docs/old/c.md", "src/d.md", ".github/e.md"):
        portal.repository.put(path, "text")

    await sync(database, portal, path="docs", include="*.md", exclude="/old")

    assert paths(database) == {"docs/a.md"}


@pytest.mark.parametrize("most_rows", [0, 1, 3])
async def test_a_tree_that_is_cut_short_is_walked_folder_by_folder(
    database: ScratchDatabase, portal: Portal, most_rows: int
) -> None:
    expected = {"always.md", *(f"{a}/{b}/{c}.md" for a in "xyz" for b in "uv" for c in "12")}
    for path in expected - {"always.md"}:
        portal.repository.put(path, path)
    portal.repository.most_rows = most_rows

    run = await sync(database, portal)
    again = await sync(database, portal)

    assert (run.complete, paths(database)) == (True, expected)
    assert costs(again) == (1, 1)


async def test_only_folders_of_the_source_are_walked(database: ScratchDatabase, portal: Portal) -> None:
    for path in ("docs/a/1.md", "docs/b/2.md", "src/c/3.md", "vendor/d/4.md"):
        portal.repository.put(path, path)
    portal.repository.most_rows = 2

    await sync(database, portal, path="docs", exclude="/b")

    assert paths(database) == {"docs/a/1.md"}
    assert len([path for path, _ in portal.take() if path.startswith("git/trees/")]) == 5


async def test_links_submodules_and_binary_files_are_left_out(database: ScratchDatabase, portal: Portal) -> None:
    portal.repository.put("link.md", "/etc/passwd", LINK)
    portal.repository.put("module", "1234567890" * 4, SUBMODULE)
    portal.repository.put("program.exe", b"MZ")

    run = await sync(database, portal)

    assert (paths(database), run.stats.failed, run.stats.requests) == ({"always.md"}, 0, 3)


async def test_an_empty_repository_is_complete_and_has_no_items(database: ScratchDatabase, portal: Portal) -> None:
    portal.repository.empty = True

    run = await sync(database, portal)

    assert (run.status, run.complete, run.stats.seen, run.stats.requests) == ("completed", True, 0, 1)


async def test_pending_deletions_are_carried_out_when_they_are_accepted(
    database: ScratchDatabase, portal: Portal
) -> None:
    for number in range(30):
        portal.repository.put(f"{number}.md", f"# {number}")
    await sync(database, portal)
    portal.repository.files = {"always.md": portal.repository.files["always.md"]}

    waiting = await sync(database, portal)
    async with database.open(allow_addresses="127.0.0.0/8") as r:
        through = await r.sync("it", accept_deletions=True)

    assert (waiting.stats.deletions_held, through.stats.deleted) == (30, 30)


async def test_an_unchanged_repository_costs_one_request_while_deletions_are_pending(
    database: ScratchDatabase, portal: Portal
) -> None:
    for number in range(30):
        portal.repository.put(f"{number}.md", f"# Page {number}")
    await sync(database, portal)
    for number in range(20):
        portal.repository.files.pop(f"{number}.md")
    waiting = await sync(database, portal)
    again = await sync(database, portal)
    portal.repository.put("0.md", "# Page 0")
    back = await sync(database, portal)
    async with database.open(allow_addresses="127.0.0.0/8", fetch_tries=1, proxy=None) as r:
        accepted = await r.sync("it", accept_deletions=True)

    assert [run.stats.deletions_held for run in (waiting, again, back)] == [20, 20, 19]
    assert (costs(again), again.stats.unchanged, again.stats.rows_written) == ((1, 1), 11, 0)
    # The commit and the tree: the blob that came back is still held.
    assert (costs(back), back.stats.unchanged) == ((2, 0), 12)
    assert (costs(accepted), accepted.stats.deleted, len(paths(database))) == ((1, 1), 19, 12)


async def test_a_token_goes_to_the_api_and_into_no_message(
    database: ScratchDatabase, portal: Portal, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("FIELD_TOKEN", "ghp_s3cret")
    await sync(database, portal, token="env:FIELD_TOKEN")
    portal.said["/commits/"] = lambda: web.Response(status=401, text='{"message": "Bad credentials"}')

    run = await sync(database, portal)

    assert {headers.get("Authorization") for headers in portal.headers} == {"Bearer ghp_s3cret"}
    assert "Check the token in env:FIELD_TOKEN." in (run.error or "")
    assert "s3cret" not in caplog.text + str(run) + str(database.query("select options, cursor from source"))


async def test_a_token_that_is_not_set_is_named_by_its_place(database: ScratchDatabase, portal: Portal) -> None:
    run = await sync(database, portal, token="env:NO_SUCH_TOKEN")

    assert (run.status, "NO_SUCH_TOKEN" in (run.error or "")) == ("failed", True)
    assert portal.take() == []


@pytest.mark.parametrize(
    "options",
    [
        {"token": "ghp_s3cret"},
        {"discussions": True},
        {"api_url": "https://me:s3cret@example.org"},
        {"api_url": "ftp://example.org"},
        {"ref": "a b"},
        {"path": "a/../b"},
        {"include": "[a"},
        {"colour": "red"},
    ],
)
def test_wrong_options_are_refused_when_they_are_given(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as problem:
        registry.check_options("github", options)
    assert "s3cret" not in f"{problem.value} {problem.value.hint}"


async def test_files_can_come_from_the_raw_host_without_spending_the_api(
    database: ScratchDatabase, portal: Portal
) -> None:
    portal.repository.put("Ünï cöde/a?b.md", "# Odd")

    run = await sync(database, portal, raw_url=f"{portal.web}/raw")

    assert (run.stats.created, run.stats.requests) == (2, 4)
    assert [path for path, _ in portal.take() if "blobs" in path] == []


async def test_bodies_are_requested_concurrently_and_come_in_order(database: ScratchDatabase, portal: Portal) -> None:
    for number in range(40):
        portal.repository.put(f"{number:02}.md", f"# Page {number}")

    await sync(database, portal)

    titles = [title for (title,) in database.query("select title from item order by id")]
    assert titles == [*(f"Page {number}" for number in range(40)), "Always"]


async def test_no_more_than_eight_bodies_are_requested_at_the_same_time() -> None:
    running, most = 0, 0

    async def work(job: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(30 - job):
            await asyncio.sleep(0)
        running -= 1
        return job

    assert [result async for result in in_order(range(30), work)] == list(range(30))
    assert most == 8


async def test_work_that_nobody_waits_for_any_more_is_ended() -> None:
    ended: list[int] = []

    async def work(job: int) -> int:
        try:
            await asyncio.sleep(60 * job)
        finally:
            ended.append(job)
        return job

    async with aclosing(in_order(range(30), work)) as results:
        assert await anext(results) == 0

    assert sorted(ended) == list(range(8))


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("https://github.com/me/it", "https://github.com/me/it"),
        ("http://www.github.com/me/it.git", "https://github.com/me/it"),
        ("https://GitHub.com/Me/It/?tab=readme#readme", "https://github.com/Me/It"),
        ("https://github.com/me/it/tree/main/docs/a%20b", "https://github.com/me/it/tree/main/docs/a%20b"),
        ("https://github.com/me/it/blob/main/a.md", "https://github.com/me/it/tree/main/a.md"),
        ("github:me/it", "https://github.com/me/it"),
        ("github:me/it@feature/x", "https://github.com/me/it/tree/feature/x"),
        ("github:https://git.example.org/me/it", "https://git.example.org/me/it"),
        ("https://git.example.org/me/it", None),
        ("https://github.com/me", None),
        ("https://github.com/orgs/me", None),
        ("https://github.com/me/it/issues", None),
        ("https://github.com/me/..", None),
        ("https://me:secret@github.com/me/it", None),
        ("github:nothing", None),
        ("https://[", None),
        ("", None),
    ],
)
def test_addresses_are_recognised(address: str, url: str | None) -> None:
    assert GitHub.recognise(address) == url


@pytest.mark.parametrize(
    ("url", "api"),
    [
        ("https://github.com/me/it", "https://api.github.com"),
        ("https://git.example.org/me/it", "https://git.example.org/api/v3"),
        ("https://acme.ghe.com/me/it", "https://api.acme.ghe.com"),
    ],
)
def test_the_api_is_found_by_the_host(url: str, api: str) -> None:
    address = RepositoryAddress.parse(url)
    assert address is not None
    assert address.api == api
