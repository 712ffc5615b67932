"""Repositories on GitHub: what is asked, what is read, what is left alone."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiohttp import web

from rowen import Run, UsageError
from rowen.connectors import registry
from rowen.connectors.github import GitHub
from rowen.connectors.github.address import Address
from tests.conftest import House
from tests.portals.git import LFS, LINK, SUBMODULE
from tests.portals.github import Portal, blob_sha


@pytest.fixture(autouse=True)
def _github(kinds: Callable[[Any], None]) -> None:
    kinds(GitHub)


@pytest.fixture
def portal() -> Iterator[Portal]:
    portal = Portal()
    yield portal
    portal.close()


async def sync(house: House, portal: Portal, *, address: str = "", **options: Any) -> Run:
    portal.take()
    settings = {"allow_addresses": "127.0.0.0/8", "fetch_tries": 1, "proxy": None}
    async with house.open(**settings) as r:
        if not await r.sources():
            await r.add(address or portal.address, name="it", kind="github", options={"delay_s": 0, **options})
        return await r.sync("it")


def paths(house: House) -> set[str]:
    return {record["path"] for (record,) in house.query("select record from item")}


def errors(house: House) -> list[str]:
    return [error for (error,) in house.query("select error from quarantine order by url")]


def costs(run: Run) -> tuple[int, int]:
    return run.tally.requests, run.tally.not_modified


async def test_the_first_run_reads_the_tree_and_every_readable_file(house: House, portal: Portal) -> None:
    portal.repository.put("docs/guide.md", "# Guide\n\nWords.")
    portal.repository.put("picture.png", b"\x89PNG")
    portal.repository.put("empty.txt", "")

    run = await sync(house, portal)

    assert (run.status, run.complete, run.tally.created) == ("completed", True, 3)
    assert run.tally.requests == 4, "the commit, the tree and two blobs: what is empty need not be asked for"
    url = f"{portal.web}/me/it/blob/HEAD/docs/guide.md"
    [(record,)] = house.query("select record from item where url = %s", url)
    assert record == {"path": "docs/guide.md", "sha": blob_sha(b"# Guide\n\nWords."), "ref": "HEAD"}


async def test_nothing_changed_costs_one_request_and_no_body(house: House, portal: Portal) -> None:
    for number in range(30):
        portal.repository.put(f"{number}.md", f"# Page {number}")
    await sync(house, portal)

    run = await sync(house, portal)

    assert (run.status, run.complete, run.tally.unchanged) == ("completed", True, 31)
    assert (costs(run), run.tally.bytes, run.tally.rows_written) == ((1, 1), 0, 0)
    assert portal.take() == [("commits/HEAD", 304)]


async def test_one_changed_file_costs_the_commit_the_tree_and_its_blob(house: House, portal: Portal) -> None:
    for number in range(30):
        portal.repository.put(f"{number}.md", f"# Page {number}")
    await sync(house, portal)
    portal.repository.put("7.md", "# Another 7")

    run = await sync(house, portal)

    assert (run.tally.updated, run.tally.unchanged, run.tally.rows_written < 8) == (1, 30, True)
    assert [path.split("/")[:2] for path, _ in portal.take()] == [
        ["commits", "HEAD"],
        ["git", "trees"],
        ["git", "blobs"],
    ]


async def test_a_renamed_file_is_read_and_a_deleted_one_goes(house: House, portal: Portal) -> None:
    portal.repository.put("old.md", "# Moved")
    portal.repository.put("gone.md", "# Gone")
    await sync(house, portal)
    portal.repository.files["new.md"] = portal.repository.files.pop("old.md")
    del portal.repository.files["gone.md"]

    run = await sync(house, portal)

    assert (run.tally.created, run.tally.deleted, run.tally.unchanged) == (1, 2, 1)
    assert paths(house) == {"always.md", "new.md"}


async def test_forced_history_with_the_same_files_costs_a_tree_and_no_row(house: House, portal: Portal) -> None:
    await sync(house, portal)
    portal.repository.history = "forced"

    run = await sync(house, portal)
    again = await sync(house, portal)

    assert (costs(run), run.tally.unchanged, run.tally.rows_written) == ((2, 0), 1, 0)
    assert costs(again) == (1, 1)


async def test_a_renamed_default_branch_keeps_every_item(house: House, portal: Portal) -> None:
    await sync(house, portal)
    portal.repository.default = "trunk"

    run = await sync(house, portal)

    assert (costs(run), run.tally.unchanged, run.tally.deleted) == ((1, 1), 1, 0)


async def test_a_server_without_validators_is_told_by_the_commit(house: House, portal: Portal) -> None:
    commit = portal.repository.commit("HEAD")
    portal.said["/commits/"] = lambda: web.Response(text=str(commit))
    await sync(house, portal)

    run = await sync(house, portal)

    assert (run.tally.requests, run.tally.unchanged, run.tally.bytes) == (1, 1, 40)


async def test_a_branch_with_slashes_and_a_path_are_told_apart(house: House, portal: Portal) -> None:
    portal.repository.refs["feature/x"] = {
        "docs/a.md": ("100644", b"# A"),
        "docs/deep/b.md": ("100644", b"# B"),
        "c.md": ("100644", b"# C"),
    }
    await sync(house, portal, address=f"{portal.address}/tree/feature/x/docs")

    run = await sync(house, portal)

    assert paths(house) == {"docs/a.md", "docs/deep/b.md"}
    assert costs(run) == (1, 1)
    assert portal.take() == [("commits/feature%2Fx", 304)]
    assert house.query("select url from item order by url")[0] == (f"{portal.web}/me/it/blob/feature/x/docs/a.md",)


async def test_a_tag_is_read_and_a_single_file_is_a_source(house: House, portal: Portal) -> None:
    portal.repository.refs["v1"] = {"README.md": ("100644", b"# One"), "other.md": ("100644", b"# Other")}

    await sync(house, portal, address=f"{portal.address}/blob/v1/README.md")

    assert paths(house) == {"README.md"}


async def test_patterns_choose_below_the_path(house: House, portal: Portal) -> None:
    for path in ("docs/a.md", "docs/b.txt", "docs/old/c.md", "src/d.md", ".github/e.md"):
        portal.repository.put(path, "text")

    await sync(house, portal, path="docs", include="*.md", exclude="/old")

    assert paths(house) == {"docs/a.md"}


@pytest.mark.parametrize("most_rows", [0, 1, 3])
async def test_a_tree_that_is_cut_short_is_walked_folder_by_folder(
    house: House, portal: Portal, most_rows: int
) -> None:
    expected = {"always.md", *(f"{a}/{b}/{c}.md" for a in "xyz" for b in "uv" for c in "12")}
    for path in expected - {"always.md"}:
        portal.repository.put(path, path)
    portal.repository.most_rows = most_rows

    run = await sync(house, portal)
    again = await sync(house, portal)

    assert (run.complete, paths(house)) == (True, expected)
    assert costs(again) == (1, 1)


async def test_only_folders_of_the_source_are_walked(house: House, portal: Portal) -> None:
    for path in ("docs/a/1.md", "docs/b/2.md", "src/c/3.md", "vendor/d/4.md"):
        portal.repository.put(path, path)
    portal.repository.most_rows = 2

    await sync(house, portal, path="docs", exclude="/b")

    assert paths(house) == {"docs/a/1.md"}
    assert len([path for path, _ in portal.take() if path.startswith("git/trees/")]) == 5


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


async def test_links_submodules_and_what_is_binary_are_left_out(house: House, portal: Portal) -> None:
    portal.repository.put("link.md", "/etc/passwd", LINK)
    portal.repository.put("module", "1234567890" * 4, SUBMODULE)
    portal.repository.put("program.exe", b"MZ")

    run = await sync(house, portal)

    assert (paths(house), run.tally.failed, run.tally.requests) == ({"always.md"}, 0, 3)


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


async def test_an_empty_repository_is_complete_and_has_no_items(house: House, portal: Portal) -> None:
    portal.repository.empty = True

    run = await sync(house, portal)

    assert (run.status, run.complete, run.tally.seen, run.tally.requests) == ("completed", True, 0, 1)


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


async def test_deletions_that_were_held_back_go_when_they_are_accepted(house: House, portal: Portal) -> None:
    for number in range(30):
        portal.repository.put(f"{number}.md", f"# {number}")
    await sync(house, portal)
    portal.repository.files = {"always.md": portal.repository.files["always.md"]}

    held = await sync(house, portal)
    async with house.open(allow_addresses="127.0.0.0/8") as r:
        through = await r.sync("it", accept_deletions=True)

    assert (held.tally.deletions_held, through.tally.deleted) == (30, 30)


async def test_a_token_goes_to_the_api_and_into_no_message(
    house: House, portal: Portal, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("FIELD_TOKEN", "ghp_s3cret")
    await sync(house, portal, token="env:FIELD_TOKEN")
    portal.said["/commits/"] = lambda: web.Response(status=401, text='{"message": "Bad credentials"}')

    run = await sync(house, portal)

    assert {headers.get("Authorization") for headers in portal.headers} == {"Bearer ghp_s3cret"}
    assert "Check the token in env:FIELD_TOKEN." in (run.error or "")
    assert "s3cret" not in caplog.text + str(run) + str(house.query("select options, cursor from source"))


async def test_a_token_that_is_not_set_is_named_by_its_place(house: House, portal: Portal) -> None:
    run = await sync(house, portal, token="env:NO_SUCH_TOKEN")

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


async def test_files_can_come_from_the_raw_host_without_spending_the_api(house: House, portal: Portal) -> None:
    portal.repository.put("Ünï cöde/a?b.md", "# Odd")

    run = await sync(house, portal, raw_url=f"{portal.web}/raw")

    assert (run.tally.created, run.tally.requests) == (2, 4)
    assert [path for path, _ in portal.take() if "blobs" in path] == []


async def test_a_raw_host_that_is_behind_is_found_out_by_the_sha(house: House, portal: Portal) -> None:
    portal.said["/raw/"] = lambda: web.Response(text="# What it was yesterday")

    run = await sync(house, portal, raw_url=f"{portal.web}/raw")

    assert (run.tally.created, run.tally.requests) == (1, 4)
    assert house.query("select title from item") == [("Always",)]


async def test_bodies_are_asked_for_at_once_and_come_in_order(house: House, portal: Portal) -> None:
    for number in range(40):
        portal.repository.put(f"{number:02}.md", f"# Page {number}")

    await sync(house, portal)

    titles = [title for (title,) in house.query("select title from item order by id")]
    assert titles == [*(f"Page {number}" for number in range(40)), "Always"]


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
    address = Address.parse(url)
    assert address is not None
    assert address.api == api
