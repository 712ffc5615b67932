"""Plain git repositories: a real bare one that changes between runs."""

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from rowen import Run, SourceError, UsageError
from rowen.connectors import registry
from rowen.connectors.git import Git, mirror
from rowen.connectors.git.listing import Proof
from rowen.connectors.git.program import Program, Remote, configuration
from rowen.errors import AddressRefusedError
from rowen.settings import load
from tests.conftest import ScratchDatabase
from tests.portals.git import LFS, LINK, SUBMODULE, Repository
from tests.portals.github import Portal


@pytest.fixture(autouse=True)
def _git(kinds: Callable[[Any], None]) -> None:
    kinds(Git)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Repository]:
    repository = Repository(tmp_path / "field.git")
    repository.commit()
    yield repository
    repository.close()


async def sync(database: ScratchDatabase, world: Repository, **options: Any) -> Run:
    async with database.open() as r:
        if not await r.sources.list():
            await r.sources.add(world.address, name="field", kind="git", options=options)
        return await r.sync("field")


def paths(database: ScratchDatabase) -> set[str]:
    return {record["path"] for (record,) in database.query("select record from item")}


def errors(database: ScratchDatabase) -> list[str]:
    return [error for (error,) in database.query("select error from quarantine order by url")]


async def test_the_first_run_reads_the_readable_files(database: ScratchDatabase, world: Repository) -> None:
    world.put("docs/guide.md", "# Guide\n\nWords.")
    world.put("picture.png", b"\x89PNG")
    world.commit()

    run = await sync(database, world)

    assert (run.status, run.complete, run.stats.created) == ("completed", True, 2)
    assert paths(database) == {"always.md", "docs/guide.md"}
    assert database.query("select url from item where title = 'Guide'") == [
        (f"{world.address}/blob/HEAD/docs/guide.md",)
    ]


async def test_nothing_changed_costs_one_round_trip_and_no_row(database: ScratchDatabase, world: Repository) -> None:
    await sync(database, world)

    run = await sync(database, world)

    assert (run.status, run.complete, run.stats.unchanged) == ("completed", True, 1)
    assert (run.stats.requests, run.stats.not_modified, run.stats.bytes, run.stats.rows_written) == (1, 1, 0, 0)


@pytest.mark.parametrize("filters", [True, False])
async def test_only_the_blobs_that_changed_are_read(database: ScratchDatabase, tmp_path: Path, filters: bool) -> None:
    world = Repository(tmp_path / "field.git", filters=filters)
    for number in range(20):
        world.put(f"{number}.md", f"# Page {number}")
    world.commit()
    await sync(database, world)
    world.put("7.md", "# Another 7")
    del world.files["8.md"]
    world.commit()

    run = await sync(database, world)

    assert (run.stats.updated, run.stats.deleted, run.stats.unchanged) == (1, 1, 19)
    assert run.stats.bytes == len("# Another 7")
    assert run.stats.requests == (3 if filters else 2), (
        "ls-remote, the commit and, where it came without files, the blobs"
    )


async def test_forced_history_is_no_problem(database: ScratchDatabase, world: Repository) -> None:
    await sync(database, world)
    world.put("always.md", "# Never")
    world.commit(forced=True)

    run = await sync(database, world)

    assert (run.status, run.stats.updated) == ("completed", 1)


async def test_a_commit_that_changes_no_file_writes_nothing(database: ScratchDatabase, world: Repository) -> None:
    await sync(database, world)
    world.commit()

    run = await sync(database, world)
    again = await sync(database, world)

    assert (run.stats.unchanged, run.stats.rows_written, run.stats.bytes) == (1, 0, 0)
    assert (again.stats.requests, again.stats.not_modified) == (1, 1)


async def test_a_renamed_default_branch_keeps_every_item(database: ScratchDatabase, world: Repository) -> None:
    await sync(database, world)
    world.git("branch", "-m", "main", "trunk")
    world.git("symbolic-ref", "HEAD", "refs/heads/trunk")

    run = await sync(database, world)

    assert (run.stats.unchanged, run.stats.deleted, run.stats.requests) == (1, 0, 1)


async def test_a_branch_a_tag_and_a_commit_can_be_named(
    new_database: Callable[[], ScratchDatabase], world: Repository
) -> None:
    old = world.commit()
    world.git("tag", "-a", "v1", "-m", "one", old)
    world.put("new.md", "new")
    world.commit("feature/x")

    for ref, expected in [("v1", 1), ("feature/x", 2), (old, 1)]:
        database = new_database()
        run = await sync(database, world, ref=ref)
        again = await sync(database, world)

        assert (run.status, run.stats.created) == ("completed", expected)
        assert (again.stats.unchanged, again.stats.bytes) == (expected, 0)


async def test_a_missing_ref_deletes_nothing(database: ScratchDatabase, world: Repository) -> None:
    await sync(database, world, ref="main")
    world.git("branch", "-m", "main", "other")

    run = await sync(database, world)

    assert (run.status, run.stats.deleted) == ("failed", 0)
    assert "no branch or tag 'main'" in (run.error or "")
    assert paths(database) == {"always.md"}


async def test_a_repository_that_is_gone_deletes_nothing(database: ScratchDatabase, tmp_path: Path) -> None:
    world = Repository(tmp_path / "field.git")
    world.commit()
    await sync(database, world)
    world.close()

    run = await sync(database, world)

    assert (run.status, run.stats.deleted) == ("failed", 0)
    assert "does not appear to be a git repository" in (run.error or "")


async def test_an_empty_repository_is_complete_and_has_no_items(database: ScratchDatabase, tmp_path: Path) -> None:
    run = await sync(database, Repository(tmp_path / "field.git"))

    assert (run.status, run.complete, run.stats.seen) == ("completed", True, 0)


async def test_links_and_submodules_are_no_files(database: ScratchDatabase, world: Repository) -> None:
    world.put("link.md", "/etc/passwd", LINK)
    world.put("module.md", "1234567890" * 4, SUBMODULE)
    world.commit()

    await sync(database, world)

    assert paths(database) == {"always.md"}


async def test_pointers_and_huge_files_fail_with_a_reason_and_are_not_read_again(
    database: ScratchDatabase, world: Repository
) -> None:
    world.put("data.csv", LFS)
    world.put("huge.txt", b"word " * 1000)
    world.commit()

    first = await sync(database, world, max_bytes=1000)
    again = await sync(database, world)

    assert (first.stats.created, first.stats.failed) == (1, 2)
    assert "Git LFS" in errors(database)[0]
    assert "larger than 1,000 bytes" in errors(database)[1]
    assert (again.stats.failed, again.stats.unchanged, again.stats.requests) == (2, 1, 1)


async def test_names_that_are_not_utf8_are_read(database: ScratchDatabase, world: Repository) -> None:
    world.put(b"caf\xe9.md".decode("utf-8", "surrogateescape"), "# Latin")
    world.put("Ünï/a b?#%.md", "# Odd")
    world.put("tab\t.md", "# Tab")
    world.commit()

    first = await sync(database, world)
    again = await sync(database, world)

    urls = {url.removeprefix(f"{world.address}/blob/HEAD/") for (url,) in database.query("select url from item")}
    assert urls == {"always.md", "caf%E9.md", "%C3%9Cn%C3%AF/a%20b%3F%23%25.md", "tab%09.md"}
    assert (first.stats.created, again.stats.unchanged, again.stats.requests) == (4, 4, 1)


async def test_paths_that_climb_out_are_no_part_of_the_source(database: ScratchDatabase, world: Repository) -> None:
    blob = world.git("hash-object", "-w", "--stdin", told=b"evil")
    inner = b"100644 evil.md\0" + bytes.fromhex(blob)
    below = world.git("hash-object", "-w", "-t", "tree", "--literally", "--stdin", told=inner)
    tree = b"40000 ..\0" + bytes.fromhex(below) + b"100644 good.md\0" + bytes.fromhex(blob)
    root = world.git("hash-object", "-w", "-t", "tree", "--literally", "--stdin", told=tree)
    commit = f"tree {root}\nauthor M <m@x> 1 +0000\ncommitter M <m@x> 1 +0000\n\nbad\n"
    sha = world.git("hash-object", "-w", "-t", "commit", "--literally", "--stdin", told=commit.encode())
    world.git("update-ref", "refs/heads/main", sha)

    await sync(database, world)

    assert paths(database) == {"good.md"}


async def test_a_subtree_and_patterns_choose(database: ScratchDatabase, world: Repository) -> None:
    for path in ("docs/a.md", "docs/b.txt", "docs/old/c.md", "src/d.md", "docs/.hidden/e.md", "docs2/f.md"):
        world.put(path, "text")
    world.commit()

    await sync(database, world, path="docs", include="*.md", exclude="/old")

    assert paths(database) == {"docs/a.md"}


async def test_a_subtree_that_vanished_deletes_nothing(database: ScratchDatabase, world: Repository) -> None:
    world.put("docs/a.md", "text")
    world.commit()
    await sync(database, world, path="docs")
    del world.files["docs/a.md"]
    world.commit()

    run = await sync(database, world)

    assert run.status == "failed"
    assert "There is nothing at docs in the repository." in (run.error or "")
    assert paths(database) == {"docs/a.md"}


async def test_pending_deletions_are_carried_out_when_they_are_accepted(
    database: ScratchDatabase, world: Repository
) -> None:
    for number in range(30):
        world.put(f"{number}.md", "text")
    world.commit()
    await sync(database, world)
    world.files = {"always.md": world.files["always.md"]}
    world.commit()

    waiting = await sync(database, world)
    async with database.open() as r:
        through = await r.sync("field", accept_deletions=True)

    assert (waiting.stats.deletions_held, through.stats.deleted) == (30, 30)


async def test_a_cache_folder_is_used_again(database: ScratchDatabase, world: Repository, tmp_path: Path) -> None:
    await sync(database, world, cache=str(tmp_path / "cache"))
    world.put("more.md", "more")
    world.commit()

    run = await sync(database, world)

    assert (run.stats.created, run.stats.unchanged) == (1, 1)
    assert len(list((tmp_path / "cache").glob("*.git"))) == 1


async def test_items_can_point_to_where_people_look(database: ScratchDatabase, world: Repository) -> None:
    await sync(database, world, page_url="https://example.org/it/-/blob/{ref}/{path}", ref="main")

    assert database.query("select url from item") == [("https://example.org/it/-/blob/main/always.md",)]


async def test_a_missing_program_is_named(
    world: Repository, database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    run = await sync(database, world)

    assert run.status == "failed"
    assert "The program git, which reads repositories, is not installed." in (run.error or "")


async def test_a_git_that_hangs_is_ended_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "git"
    slow.write_text(f"#!{sys.executable}\nimport subprocess\nsubprocess.run(['sleep', '60'])\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    with pytest.raises(SourceError, match="took longer"):
        await Program("it", protocol="file", limit_s=0.5).run("ls-remote")


async def test_a_git_whose_output_nobody_reads_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "git"
    program.write_text("#!/bin/sh\nyes\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    async with asyncio.timeout(60), Program("it", protocol="file").open("log") as process:
        while not process.stdout._paused:  # type: ignore[union-attr]
            await asyncio.sleep(0.01)

    assert process.returncode is not None


async def test_what_is_configured_elsewhere_is_ignored(
    database: ScratchDatabase, world: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / ".gitconfig"
    config.write_text('[url "ext::sh -c evil"]\n\tinsteadOf = file://\n')
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "junk")

    assert (await sync(database, world)).status == "completed"


async def test_private_hosts_are_refused_before_git_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("https_proxy", raising=False)
    for address in ("git+https://127.0.0.1/x.git", "git+ssh://git@localhost/x.git", "git+http://[::1]:80/x"):
        with pytest.raises(AddressRefusedError):
            await configuration(Remote.parse(address), None, load())


async def test_addresses_that_were_checked_are_those_that_git_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWEN_ALLOW_ADDRESSES", "127.0.0.0/8")
    monkeypatch.setenv("SECRET", "s3cret")

    values = await configuration(Remote.parse("git+http://127.0.0.1:8080/x.git"), "env:SECRET", load())

    assert values["http.curloptResolve"] == "127.0.0.1:8080:127.0.0.1"
    assert values["http.http://127.0.0.1:8080/.extraHeader"] == "Authorization: Basic eC1hY2Nlc3MtdG9rZW46czNjcmV0"


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[Portal]:
    monkeypatch.setenv("ROWEN_ALLOW_ADDRESSES", "127.0.0.0/8")
    monkeypatch.delenv("https_proxy", raising=False)
    portal = Portal()
    yield portal
    portal.close()


async def test_a_host_that_serves_plain_files_is_read_with_a_token(
    database: ScratchDatabase, world: Repository, host: Portal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "me:s3cret")
    world.git("update-server-info")
    host.folders["/field.git/"] = world.folder
    world.address = f"git+{host.web}/field.git"

    first = await sync(database, world, token="env:SECRET")
    again = await sync(database, world)

    assert (first.stats.created, again.stats.unchanged, again.stats.not_modified) == (1, 1, 1)
    assert {headers.get("Authorization") for headers in host.headers} == {"Basic bWU6czNjcmV0"}


@pytest.mark.parametrize("status", [301, 302, 307])
async def test_redirects_are_not_followed(
    database: ScratchDatabase, world: Repository, host: Portal, status: int
) -> None:
    world.address = f"git+{host.web}/field.git"
    host.said["/field.git"] = lambda: web.Response(status=status, headers={"Location": f"{host.web}/me/it/other"})

    run = await sync(database, world)

    assert run.status == "failed"
    assert [path for path, _ in host.take() if "other" in path] == []


async def test_a_secret_is_in_no_message(
    database: ScratchDatabase,
    world: Repository,
    host: Portal,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("SECRET", "s3cret")
    world.address = f"git+{host.web}/field.git"
    host.said["/field.git"] = lambda: web.Response(status=401, headers={"WWW-Authenticate": "Basic"})

    run = await sync(database, world, token="env:SECRET")

    assert run.status == "failed"
    assert "token" in (run.error or "")
    assert "s3cret" not in caplog.text + str(run)
    assert "czNjcmV0" not in caplog.text + str(run)


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("git+https://example.org/it.git", "git+https://example.org/it.git"),
        ("git+ssh://git@example.org/it/", "git+ssh://git@example.org/it"),
        ("git+file:///srv/a b.git", "git+file:///srv/a%20b.git"),
        ("https://example.org/it.git", "git+https://example.org/it.git"),
        ("https://github.com/me/it.git", None),
        ("https://example.org/it", None),
        ("no such place", None),
        ("", None),
    ],
)
def test_addresses_are_recognised(address: str, url: str | None) -> None:
    assert Git.recognise(address) == url


def test_a_bare_repository_is_recognised_by_its_path(world: Repository, tmp_path: Path) -> None:
    assert Git.recognise(str(world.folder)) == f"git+file://{world.folder}"
    assert Git.recognise(str(tmp_path)) is None


@pytest.mark.parametrize("address", ["git+https://me:s3cret@example.org/it.git", "git+https://s3cret@example.org/it"])
def test_an_address_with_a_secret_is_refused(address: str) -> None:
    with pytest.raises(UsageError) as problem:
        Git.recognise(address)
    assert "s3cret" not in f"{problem.value} {problem.value.hint}"


@pytest.mark.parametrize("address", ["git+ext::sh -c evil", "git+https://-oProxyCommand=evil/x", "git+gopher://x/y"])
def test_other_transports_are_refused(address: str) -> None:
    with pytest.raises(SourceError):
        Git.recognise(address)


@pytest.mark.parametrize(
    "options",
    [
        {"ref": "--upload-pack=evil"},
        {"ref": "a..b"},
        {"ref": "x\ny"},
        {"path": "../up"},
        {"token": "ghp_s3cret"},
        {"page_url": "https://example.org/{path}"},
        {"include": "[a"},
    ],
)
def test_wrong_options_are_refused_when_they_are_given(options: dict[str, str]) -> None:
    with pytest.raises(UsageError) as problem:
        registry.check_options("git", options)
    assert "s3cret" not in str(problem.value)


@pytest.mark.parametrize(
    "cursor", [None, 1, "x", [], {}, {"commit": "a"}, {"commit": "a", "digest": "b", "refused": [1]}]
)
def test_a_cursor_that_cannot_be_read_proves_nothing(cursor: Any) -> None:
    assert Proof.from_json(cursor) is None


async def test_a_run_that_is_cancelled_while_it_waits_for_a_mirror_does_not_get_it_later(tmp_path: Path) -> None:
    lock = await mirror._locked(tmp_path, "field")
    waiting = asyncio.create_task(mirror._locked(tmp_path, "field"))
    await asyncio.sleep(0.02)
    assert not waiting.done()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    lock.close()

    async with asyncio.timeout(30):
        (await mirror._locked(tmp_path, "field")).close()


async def test_a_file_that_is_too_large_by_now_goes_although_its_blob_is_the_same(
    database: ScratchDatabase, world: Repository
) -> None:
    world.put("huge.txt", b"word " * 1000)
    world.commit()
    await sync(database, world)

    async with database.open() as r:
        await r.sources.edit("field", options={"max_bytes": 1000})
        lowered, again = await r.sync("field"), await r.sync("field")

    assert (lowered.stats.failed, lowered.stats.deleted, paths(database)) == (1, 1, {"always.md"})
    assert "larger than 1,000 bytes" in errors(database)[0]
    assert (again.stats.failed, again.stats.deleted, again.stats.requests) == (1, 0, 1)
