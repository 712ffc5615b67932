"""What a repository on GitHub has besides files: wiki, issues, releases, discussions."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from rowen import Run
from rowen.connectors.github import GitHub
from tests.conftest import ScratchDatabase
from tests.portals import git
from tests.portals.github import Portal, sync


@pytest.fixture(autouse=True)
def _github(kinds: Callable[[Any], None]) -> None:
    kinds(GitHub)


@pytest.fixture
def portal() -> Iterator[Portal]:
    portal = Portal()
    yield portal
    portal.close()


def issue(number: int, body: str = "It rains.", **more: Any) -> dict[str, Any]:
    labels = [{"name": "weather"}]
    return {"number": number, "title": f"Issue {number}", "body": body, "state": "open", "labels": labels, **more}


def titles(database: ScratchDatabase) -> list[str]:
    return sorted(title for (title,) in database.query("select title from item"))


def statuses(portal: Portal, what: str) -> list[int]:
    return [status for path, status in portal.take() if path.startswith(what)]


async def test_issues_become_items_and_pull_requests_do_not(database: ScratchDatabase, portal: Portal) -> None:
    portal.repository.issues = [issue(1, user={"login": "marta"}), issue(2, body=None), issue(3, pull_request={})]

    run = await sync(database, portal, issues=True)

    assert (run.complete, titles(database)) == (True, ["Always", "Issue 1", "Issue 2"])
    [(text, tags, record)] = database.query("select text, tags, record from item where title = 'Issue 1'")
    assert (text.strip(), tags, record["author"]) == ("It rains.", ["weather"], "marta")
    assert database.query("select url from item where title = 'Issue 2'") == [(f"{portal.web}/me/it/issues/2",)]


async def test_pages_of_issues_that_are_the_same_cost_a_request_without_a_body(
    database: ScratchDatabase, portal: Portal
) -> None:
    portal.repository.issues = [issue(number) for number in range(1, 251)]
    first = await sync(database, portal, issues=True)
    assert statuses(portal, "issues") == [200, 200, 200]
    portal.repository.issues[120] = issue(121, "It does not rain any more.")
    portal.repository.issues.append(issue(251))

    run = await sync(database, portal)

    assert statuses(portal, "issues") == [304, 200, 200]
    assert (first.stats.created, run.stats.updated, run.stats.created, run.stats.unchanged) == (251, 1, 1, 250)
    again = await sync(database, portal)
    assert (again.stats.requests, again.stats.not_modified, again.stats.rows_written) == (4, 4, 0)


async def test_an_issue_that_was_deleted_goes(database: ScratchDatabase, portal: Portal) -> None:
    portal.repository.issues = [issue(1), issue(2)]
    await sync(database, portal, issues=True)
    del portal.repository.issues[0]

    run = await sync(database, portal)

    assert (run.stats.deleted, titles(database)) == (1, ["Always", "Issue 2"])


async def test_a_page_whose_items_are_not_all_stored_is_requested_anew(
    database: ScratchDatabase, portal: Portal
) -> None:
    portal.repository.issues = [issue(1), issue(2)]
    await sync(database, portal, issues=True)
    database.execute("delete from item where title = 'Issue 2'")

    await sync(database, portal)

    assert titles(database) == ["Always", "Issue 1", "Issue 2"]


@pytest.mark.parametrize("body", ["<html>", "{}", "[1]", '[{"number": "x", "title": "t"}]', '[{"title": "t"}]'])
async def test_unreadable_issues_keep_the_stored_items(database: ScratchDatabase, portal: Portal, body: str) -> None:
    portal.repository.issues = [issue(1)]
    await sync(database, portal, issues=True)
    portal.said["/issues"] = lambda: web.Response(text=body)

    run = await sync(database, portal)

    assert (run.status, run.stats.deleted, titles(database)) == ("partial", 0, ["Always", "Issue 1"])


async def test_releases_become_items_and_drafts_do_not(database: ScratchDatabase, portal: Portal) -> None:
    portal.repository.releases = [
        {"tag_name": "v2/rc", "name": "Two", "body": "New hay.", "published_at": "2024-01-02T00:00:00Z"},
        {"tag_name": "v1", "name": "", "body": None},
        {"tag_name": "v3", "draft": True},
    ]

    await sync(database, portal, releases=True)
    again = await sync(database, portal)

    assert titles(database) == ["Always", "Two", "v1"]
    assert database.query("select url from item where title = 'Two'") == [(f"{portal.web}/me/it/releases/tag/v2/rc",)]
    assert (again.stats.requests, again.stats.not_modified, again.stats.unchanged) == (2, 2, 3)


async def test_discussions_are_read_with_a_token(
    database: ScratchDatabase, portal: Portal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIELD_TOKEN", "s3cret")
    node = {"number": 5, "title": "When to mow?", "body": "I wonder.", "answer": {"body": "Twice."}, "author": None}
    portal.repository.discussions = [{**node, "category": {"name": "Q&A"}}]

    await sync(database, portal, discussions=True, token="env:FIELD_TOKEN")
    again = await sync(database, portal)

    [(text, tags)] = database.query("select text, tags from item where title = 'When to mow?'")
    assert ("Twice." in text, tags) == (True, ["Q&A"])
    assert (again.stats.unchanged, again.stats.rows_written) == (2, 0)


@pytest.mark.parametrize("answer", [{"errors": [{"message": "No."}]}, {}, [], {"data": {"repository": None}}])
async def test_refused_discussions_keep_the_stored_items(
    database: ScratchDatabase, portal: Portal, monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    monkeypatch.setenv("FIELD_TOKEN", "s3cret")
    portal.said["/graphql"] = lambda: web.json_response(answer)

    run = await sync(database, portal, discussions=True, token="env:FIELD_TOKEN")

    assert (run.status, run.complete, titles(database)) == ("partial", False, ["Always"])


@pytest.fixture
def wiki(portal: Portal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> git.Repository:
    """A wiki served as plain files, as the oldest of servers do."""
    monkeypatch.setenv("ROWEN_ALLOW_ADDRESSES", "127.0.0.0/8")
    monkeypatch.delenv("https_proxy", raising=False)
    wiki = git.Repository(tmp_path / "it.wiki.git")
    wiki.files.clear()
    portal.folders["/me/it.wiki.git/"] = wiki.folder
    return wiki


def publish(wiki: git.Repository) -> None:
    wiki.commit()
    wiki.git("update-server-info")


async def test_pages_of_the_wiki_are_read_through_git(
    database: ScratchDatabase, portal: Portal, wiki: git.Repository
) -> None:
    wiki.put("Home.md", "# Welcome")
    wiki.put("guides/Second-Cut.md", "# Mowing")
    wiki.put("_Sidebar.md", "* links")
    publish(wiki)

    run = await sync(database, portal, wiki=True)
    again = await sync(database, portal)

    assert (run.complete, titles(database)) == (True, ["Always", "Mowing", "Welcome"])
    assert database.query("select url from item where title = 'Mowing'") == [(f"{portal.web}/me/it/wiki/Second-Cut",)]
    assert (again.stats.requests, again.stats.not_modified, again.stats.unchanged) == (2, 2, 3)


async def test_a_page_of_the_wiki_that_is_too_large_by_now_goes_although_its_blob_is_the_same(
    database: ScratchDatabase, portal: Portal, wiki: git.Repository
) -> None:
    wiki.put("Home.md", "# Welcome")
    wiki.put("Huge.md", b"# Huge\n\n" + b"word " * 1000)
    publish(wiki)
    await sync(database, portal, wiki=True)

    async with database.open() as r:
        await r.sources.edit("it", options={"delay_s": 0, "wiki": True, "max_bytes": 1000})
    lowered, again = await sync(database, portal), await sync(database, portal)

    assert (lowered.stats.failed, lowered.stats.deleted, titles(database)) == (1, 1, ["Always", "Welcome"])
    assert (lowered.stats.unchanged, lowered.stats.rows_written) == (2, 2)
    assert (again.stats.failed, again.stats.deleted, again.stats.unchanged) == (1, 0, 2)


async def test_a_wiki_that_nobody_has_written_has_no_pages(
    database: ScratchDatabase, portal: Portal, wiki: git.Repository
) -> None:
    portal.folders.clear()

    run = await sync(database, portal, wiki=True)

    assert (run.status, run.complete, titles(database)) == ("completed", True, ["Always"])


async def test_a_wiki_that_is_gone_deletes_nothing(
    database: ScratchDatabase, portal: Portal, wiki: git.Repository
) -> None:
    wiki.put("Home.md", "# Welcome")
    publish(wiki)
    await sync(database, portal, wiki=True)
    portal.folders.clear()

    run: Run = await sync(database, portal)

    assert (run.status, titles(database)) == ("partial", ["Always", "Welcome"])
