"""A real server on loopback: streams as they come, their end, and the command that starts it all."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from rowen import Rowen
from rowen.errors import ConfigurationError
from rowen.server.app import _listen, serve
from tests.conftest import ScratchDatabase

LIMIT_S = 20.0


@asynccontextmanager
async def served(rowen: Rowen, *, works: bool = False) -> AsyncIterator[tuple[httpx.AsyncClient, Callable[[], None]]]:
    """A server on a free port, asked over a socket."""
    begun: asyncio.Future[tuple[str, Callable[[], None]]] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(serve(rowen, works=works, started=lambda *told: begun.set_result(told)))
    address, stop = await asyncio.wait_for(begun, LIMIT_S)
    try:
        async with httpx.AsyncClient(base_url=address, timeout=LIMIT_S) as http:
            yield http, stop
    finally:
        stop()
        await asyncio.wait_for(task, LIMIT_S)


async def events(answer: httpx.Response) -> AsyncIterator[dict[str, str]]:
    """Server-sent events, as they come."""
    told: dict[str, str] = {}
    async for line in answer.aiter_lines():
        if not line and told:
            yield told
            told = {}
        elif line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            told[name] = value


async def test_changes_come_as_they_are_committed_and_go_on_after_the_last_that_was_seen(
    database: ScratchDatabase, tmp_path: Path
) -> None:
    (tmp_path / "a.md").write_text("# A")
    async with database.open(port=0) as rowen, served(rowen) as (http, _):
        await rowen.sources.add(str(tmp_path), name="notes")
        await rowen.sync("notes")
        async with http.stream("GET", "/api/v1/changes/events", headers={"Last-Event-ID": "0"}) as answer:
            coming = events(answer)
            first = await asyncio.wait_for(anext(coming), LIMIT_S)
            (tmp_path / "b.md").write_text("# B")
            await rowen.sync("notes")
            second = await asyncio.wait_for(anext(coming), LIMIT_S)
        async with http.stream("GET", "/api/v1/changes/events", headers={"Last-Event-ID": "1"}) as answer:
            again = await asyncio.wait_for(anext(events(answer)), LIMIT_S)
        unknown = await http.get("/api/v1/changes/events?source=nobody")

    assert answer.headers["content-type"].startswith("text/event-stream")
    assert [(one["id"], one["event"], json.loads(one["data"])["title"]) for one in (first, second)] == [
        ("1", "created", "A"),
        ("2", "created", "B"),
    ]
    assert (again, unknown.status_code) == (second, 404)


async def test_a_run_is_followed_until_its_end_and_can_be_ended(database: ScratchDatabase, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A")
    async with database.open(port=0) as rowen, served(rowen, works=True) as (http, _):
        await http.post("/api/v1/sources", json={"address": str(tmp_path), "name": "notes"})
        begun = await http.post("/api/v1/sources/notes/sync")
        run = None
        async with asyncio.timeout(LIMIT_S):
            while run is None:
                run = (await http.get(begun.headers["location"])).json()["run"]
        async with http.stream("GET", f"/api/v1/runs/{run}/events") as answer:
            told = [one async for one in events(answer)]
        over = await http.post(f"/api/v1/runs/{run}/cancel")

    assert (told[-1]["event"], json.loads(told[-1]["data"])["status"]) == ("end", "completed")
    assert all(one["event"] == "progress" for one in told[:-1])
    assert over.status_code == 403


async def test_a_stopping_server_does_not_wait_for_streams(database: ScratchDatabase) -> None:
    async with (
        database.open(port=0) as rowen,
        served(rowen) as (http, stop),
        http.stream("GET", "/api/v1/changes/events") as answer,
    ):
        lines = answer.aiter_lines()
        await asyncio.wait_for(anext(lines), LIMIT_S)
        stop()
        async with asyncio.timeout(LIMIT_S):
            rest = [line async for line in lines]

    assert [line for line in rest if line] == []


async def test_a_used_port_is_reported_before_anything_runs(database: ScratchDatabase) -> None:
    async with database.open(port=0) as rowen, served(rowen) as (http, _):
        port = http.base_url.port
        async with database.open(port=port) as other:
            with pytest.raises(ConfigurationError, match=f"Cannot listen on http://127.0.0.1:{port}"):
                await serve(other, works=False)


def environment(database: ScratchDatabase) -> dict[str, str]:
    return {**os.environ, "ROWEN_DATABASE_URL": database.conninfo, "ROWEN_HOME": str(database.home)}


def test_the_body_of_an_answer_does_not_wait_until_its_head_is_confirmed() -> None:
    with closing(_listen("127.0.0.1", 0)) as listening, closing(socket.create_connection(listening.getsockname())):
        accepted, _ = listening.accept()
        with closing(accepted):
            at_once = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    assert at_once


async def test_the_command_serves_logs_as_json_and_ends_in_order(database: ScratchDatabase) -> None:
    async with database.open() as rowen:
        secret = (await rowen.access.add_token("ci", scope="write")).secret
    command = [sys.executable, "-m", "rowen", "serve", "--port", "0", "--log-json", "--no-worker"]
    with subprocess.Popen(command, env=environment(database), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            found = None
            while found is None:
                found = re.search(r"Serving on (http://\S+)", process.stderr.readline())
            answer = httpx.get(f"{found[1]}/api/v1/me", headers={"Authorization": f"Bearer {secret}"})
            process.send_signal(signal.SIGTERM)
            rest = process.stderr.read()
            status = process.wait(LIMIT_S)
        finally:
            process.kill()
    lines: list[dict[str, Any]] = [json.loads(line) for line in rest.splitlines() if line.startswith("{")]
    [told] = [line for line in lines if line.get("path") == "/api/v1/me"]

    assert (answer.json(), status) == ({"name": "token:ci", "scope": "write"}, 0)
    assert (told["principal"], told["request"]) == ("token:ci", answer.headers["x-request-id"])
    assert secret not in rest


async def test_a_server_whose_worker_rests_stops_at_once(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    rested = asyncio.Event()

    async def work() -> bool:
        rested.set()
        return True

    async with database.open() as rowen:
        monkeypatch.setattr(rowen.queue, "work", work)
        async with asyncio.timeout(LIMIT_S), served(rowen, works=True):
            await rested.wait()


async def test_a_server_reports_the_bug_that_ended_its_worker(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> bool:
        raise ZeroDivisionError("a bug")

    async with database.open() as rowen:
        monkeypatch.setattr(rowen.queue, "work", work)
        async with served(rowen, works=True):
            pass

    [record] = [one for one in caplog.records if "ended with a bug" in one.message]
    assert "restart the server" in record.message
    assert record.exc_info
