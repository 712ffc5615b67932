"""What `docs/security.md` says that a token can reach is what it reaches."""

import re
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from rowen import Complete, Fetched
from rowen.model.access import Scope
from rowen.operations.registry import SIGNED
from rowen.operations.registry import operations as declared_operations
from tests.conftest import ScratchDatabase
from tests.portals.scripted import Scripted, page, shows
from tests.server.interfaces import Interface, interface

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text("utf-8")
SECTION = PAGE.partition("## What a token can reach")[2].partition("\n## ")[0]
CALLERS = ("nobody", "read", "write", "admin")
SECRET = "hunter2-hunter2-hunter2-hunter2"
FAR = {"trusts_loopback": False, "client": "203.0.113.9", "allow_addresses": "", "push_key": "k" * 32}


def rows() -> dict[str, list[str]]:
    """The table: what can be reached, and by whom in the order of the columns."""
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\|.*\|$", SECTION, re.MULTILINE)
    ]
    return {what: callers for what, *callers in cells[2:]}


def operations() -> dict[str, set[str]]:
    """The lists of operations, by the word or the scope that each begins with."""
    lists = re.findall(r"^- (.*?):(.*?)(?=\n-|\n\n|\Z)", SECTION, re.MULTILINE | re.DOTALL)
    return {told.split(",")[0].strip("`"): set(re.findall(r"`([\w.]+)`", names)) for told, names in lists}


def test_the_page_lists_each_operation_with_the_scope_that_it_takes() -> None:
    told = operations()

    for scope in Scope:
        assert told[scope] == {name for name, one in declared_operations().items() if one.scope is scope}, scope
    assert told["a signature instead of a token"] == SIGNED
    assert len(told) == len(Scope) + 1


class Asker:
    """One caller of the server."""

    def __init__(self, it: Interface, headers: dict[str, str], folder: Path, port: int) -> None:
        self.it, self.headers, self.folder, self.port = it, headers, folder, port

    async def get(self, path: str) -> httpx.Response:
        return await self.it.http.get(path, headers=self.headers)

    async def post(self, path: str, **body: Any) -> httpx.Response:
        return await self.it.http.post(path, headers=self.headers, json=body)

    async def looks(self) -> bool:
        paths = ("changes", "runs", "sources", "costs", "sources/field/items")
        return all([(await self.get(f"/api/v1/{path}")).status_code == 200 for path in paths])

    async def sees_contacts(self) -> bool:
        paths = ("/api/v1/items", "/api/v1/items/detail", "/item.json")
        texts = [(await self.get(f"{path}?url=https://example.org/hay&tab=record")).text for path in paths]
        return any("Ada Furrow" in text for text in texts)

    async def exports(self) -> bool:
        return "Ada Furrow" in (await self.get("/api/v1/exports/items.jsonl")).text

    async def adds_and_removes(self) -> bool:
        added = await self.post("/api/v1/sources", address="https://192.0.2.1/", kind="web", name="more")
        changed = await self.it.http.patch("/api/v1/sources/more", headers=self.headers, json={"every": "1d"})
        removed = await self.it.http.delete("/api/v1/sources/more", headers=self.headers)
        return (added.status_code, changed.status_code, removed.status_code) == (201, 200, 200)

    async def has_others_asked(self) -> bool:
        # The address is reserved, and refused where a socket would be made, after the question who asks.
        return (await self.post("/api/v1/preview", address="https://192.0.2.1/", kind="web")).status_code == 200

    async def reads_folders(self) -> bool:
        answer = await self.post("/api/v1/preview", address=str(self.folder), kind="files")
        return "Barley" in answer.text

    async def names_secrets(self) -> bool:
        options = {"headers": {"X-Key": "Bearer env:TOLD_SECRET"}}
        body = {"address": "https://192.0.2.1/", "kind": "web", "name": "secretive", "options": options}
        added = await self.post("/api/v1/sources", **body)
        hooked = await self.post("/api/v1/webhooks", name="x", url="https://192.0.2.1/", secret="env:TOLD_SECRET")
        return (added.status_code, hooked.status_code) == (201, 201)

    async def sees_pushes(self) -> bool:
        return (await self.get("/api/v1/sources/field/push")).status_code == 200

    async def sees_tokens_and_audit_log(self) -> bool:
        found = [await self.get(f"/api/v1/{path}") for path in ("tokens", "audit")]
        return all(answer.status_code == 200 for answer in found)

    async def sees_values(self) -> bool:
        await self.names_secrets()
        paths = [path for path in self.it.interfaces.inner.openapi()["paths"] if "/events" not in path]
        filled = [re.sub(r"\{\w+\}", "secretive", path) for path in paths if "exports/{" not in path]
        texts = [(await self.get(path)).text for path in [*filled, "/sources/secretive?tab=settings", "/webhooks"]]
        assert len(texts) > 90
        return any(SECRET in text for text in texts)

    async def reaches_private_networks(self) -> bool:
        with socket.create_server(("127.0.0.1", self.port)) as listening:
            await self.post("/api/v1/preview", address=f"http://127.0.0.1:{self.port}/", kind="web")
            listening.setblocking(False)
            try:
                listening.accept()[0].close()
            except BlockingIOError:
                return False
        return True


REACHED: dict[str, Callable[[Asker], Awaitable[bool]]] = {
    "items, changes, runs, sources, costs": Asker.looks,
    "names and addresses of contacts in records": Asker.sees_contacts,
    "exports of whole records": Asker.exports,
    "adding, changing and removing sources": Asker.adds_and_removes,
    "requests to public addresses: preview, sync, extraction": Asker.has_others_asked,
    "folders and files of the machine as sources": Asker.reads_folders,
    "naming secrets: `env:NAME`, `file:PATH`": Asker.names_secrets,
    "addresses and secrets for pushes to a source": Asker.sees_pushes,
    "tokens by name, the audit log": Asker.sees_tokens_and_audit_log,
    "values of secrets that were named": Asker.sees_values,
    "private, loopback and link-local addresses": Asker.reaches_private_networks,
}


def test_each_line_of_the_table_is_tried() -> None:
    assert list(rows()) == list(REACHED)
    assert {len(callers) for callers in rows().values()} == {len(CALLERS)}


@pytest.mark.parametrize("caller", CALLERS)
async def test_a_token_reaches_what_the_page_says_and_nothing_else(
    database: ScratchDatabase,
    kinds: Callable[[Any], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caller: str,
) -> None:
    monkeypatch.setenv("TOLD_SECRET", SECRET)
    kinds(Scripted)
    folder = tmp_path / "fields"
    folder.mkdir()
    (folder / "barley.md").write_text("# Barley\n\nSown in March.\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with interface(database, requests_per_minute=10_000, **FAR) as it:
        shows(Fetched(page("hay", "# Hay", title="Hay", record={"maintainer": "Ada Furrow"})), Complete())
        await it.rowen.sources.add("scripted:field", name="field")
        await it.rowen.sync("field")
        headers = {} if caller == "nobody" else await it.token(caller)
        asker = Asker(it, headers, folder, port)
        found = {what: await reaches(asker) for what, reaches in REACHED.items()}

    said = {what: callers[CALLERS.index(caller)] == "yes" for what, callers in rows().items()}
    assert found == said
