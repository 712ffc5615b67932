"""One rule of names, at every entrance."""

import json
from pathlib import Path
from typing import Any

import pytest

from rowen import UsageError
from rowen.model.wording import check_name, trouble_with_name
from tests.conftest import ScratchDatabase
from tests.server.interfaces import Interface, interface

BAD = [
    "a/b",
    "a\\b",
    "a\nb",
    "a\x1b[31mb",
    "a\u202eb",
    "a\u200bb",
    "..",
    ".",
    " a",
    "a ",
    "~a",
    ":a",
    "a" * 101,
    "a\x00",
    "\ud800",
]
GOOD = ["guide", "flask@3.0", "Größe 7", "地図", "a:b", "-a", "a.b", "x" * 100, "50% off?", "a#b"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "hay.md").write_text("# Hay")
    return tmp_path


@pytest.mark.parametrize("name", GOOD)
async def test_a_name_reaches_its_source_on_all_interfaces(database: ScratchDatabase, folder: Path, name: str) -> None:
    async with interface(database) as it:
        made = await it.http.post("/api/v1/sources", json={"address": str(folder), "name": name})
        read = await it.http.get(made.headers["location"])
        page = await it.http.get(made.headers["location"].removeprefix("/api/v1"))

    assert (made.status_code, read.json()["name"], page.status_code) == (201, name, 200)


async def test_no_interface_takes_what_cannot_be_a_name(database: ScratchDatabase, folder: Path) -> None:
    async with interface(database) as it:
        await it.rowen.sources.add(str(folder), name="fine")
        taken = {(way, name) for name in BAD for way in await _ways(it, folder, name)}
        left = [source.name for source in await it.rowen.sources.list()]

    assert (taken, left) == (set(), ["fine"])


async def _ways(it: Interface, folder: Path, name: str) -> list[str]:
    """The ways in which this was taken for a name."""
    declared = [{"name": name, "kind": "web", "url": "https://example.org/"}]
    bodies: dict[str, tuple[str, str, Any]] = {
        "REST": ("POST", "/api/v1/sources", {"address": str(folder), "name": name}),
        "REST, renamed": ("PATCH", "/api/v1/sources/fine", {"name": name}),
        "REST, declared": ("POST", "/api/v1/apply", {"source": declared}),
        "saved search": ("POST", "/api/v1/saved-searches", {"name": name, "query": "hay"}),
        "webhook": ("POST", "/api/v1/webhooks", {"name": name, "url": "https://a.example/", "secret": "env:HOME"}),
    }
    found = [way for way, (method, path, body) in bodies.items() if await _status(it, method, path, body) != 400]
    for way, call in {
        "add": it.rowen.sources.add(str(folder), name=name),
        "edit": it.rowen.sources.edit("fine", rename=name),
    }.items():
        try:
            await call
        except UsageError:
            continue
        found.append(way)
    return found


async def _status(it: Interface, method: str, path: str, body: Any) -> int:
    sent = {"content": json.dumps(body), "headers": {"Content-Type": "application/json"}}
    return (await it.http.request(method, path, **sent)).status_code


def test_an_error_about_a_name_shows_it_without_what_it_hides() -> None:
    with pytest.raises(UsageError) as told:
        check_name("a\u202eb\n", "a source")

    assert str(told.value).isprintable()
    assert [trouble_with_name(name) for name in GOOD] == [None] * len(GOOD)


async def test_a_name_of_an_earlier_version_is_shown_and_changed(database: ScratchDatabase, folder: Path) -> None:
    async with interface(database) as it:
        await it.rowen.sources.add(str(folder), name="fine")
        await it.rowen.sync("fine")
        database.query("update source set name = %s returning 1", "a/b\n\u202e")
        listed = [one["name"] for one in (await it.http.get("/api/v1/sources")).json()["items"]]
        pages = [(await it.http.get(path)).status_code for path in ("/", "/sources", "/changes", "/llms.txt")]
        await it.rowen.sources.edit(listed[0], every="1d")
        await it.rowen.sync(listed[0])
        renamed = await it.rowen.sources.edit(listed[0], rename="better")
        removed = await it.rowen.sources.remove("better")

    assert (listed, pages) == (["a/b\n\u202e"], [200] * 4)
    assert (renamed.name, removed) == ("better", 1)
