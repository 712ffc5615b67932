"""The process that an assistant starts, as the documentation tells it to."""

import asyncio
import json
import re
import signal
import sys
from typing import Any

from mcp import Client, StdioServerParameters

import rowen
from rowen.interfaces.mcp.addresses import item_uri
from tests.conftest import QUIET, ScratchDatabase
from tests.docs.markdown import ROOT
from tests.mcp.conftest import text_of

LONG_S = 60


def documented() -> dict[str, Any]:
    """The first entry that the page gives for a configuration."""
    page = (ROOT / "docs" / "assistants.md").read_text("utf-8")
    entry = json.loads(re.findall(r"```json\n(.*?)```", page, re.DOTALL)[0])["mcpServers"]["rowen"]
    assert entry["command"] == "rowen"
    return {"command": sys.executable, "args": ["-m", "rowen", *entry["args"]]}


def environment(database: ScratchDatabase) -> dict[str, str]:
    return {**QUIET, "ROWEN_DATABASE_URL": database.conninfo, "ROWEN_HOME": str(database.home), "ROWEN_WORKERS": "0"}


async def test_the_documented_entry_finds_cites_and_notices_a_change(database, tmp_path):
    path = tmp_path / "pages" / "hay.md"
    path.parent.mkdir()
    path.write_text("# Hay\n\nHay dries for three days.\n")
    async with database.open() as r, asyncio.timeout(LONG_S):
        await r.sync(str(path.parent))
        async with Client(StdioServerParameters(**documented(), env=environment(database))) as assistant:
            found = await assistant.call_tool("search", {"query": "hay dries"})
            async with assistant.listen(resource_subscriptions=[item_uri(path.as_uri())]) as events:
                path.write_text("# Hay\n\nHay dries for four days.\n")
                await r.sync("pages")
                told = await anext(events)
            diff = await assistant.call_tool("get_diff", {"id": path.as_uri()})

    assert f"<{path.as_uri()}> · pages · checked just now" in text_of(found)
    assert told.uri == item_uri(path.as_uri())
    assert "+Hay dries for four days." in text_of(diff)


async def test_an_address_on_the_web_is_never_a_path_for_a_read_only_assistant(database, tmp_path):
    """A repository that somebody cloned may hold a folder `HTTP:`, and the process may run in it."""
    secrets = []
    for scheme in ("HTTP:", "http:", "pkg:npm", "git+http:", "Git+HTTPS:"):
        place = tmp_path / scheme / "127.0.0.1:9"
        place.mkdir(parents=True)
        (place / "notes.md").write_text("hunter2-of-this-machine")
        secrets += [f"{scheme}//127.0.0.1:9/notes.md", f" {scheme}/127.0.0.1:9/notes.md"]
    secrets += ["file:HTTP:/127.0.0.1:9/notes.md", "HTTP:", "./HTTP:/127.0.0.1:9/notes.md"]
    server = {"command": sys.executable, "args": ["-m", "rowen", "mcp", "--profile", "docs-server"], "cwd": tmp_path}
    quick = {"ROWEN_FETCH_TRIES": "1", "ROWEN_HOST_DELAY_S": "0"}
    async with asyncio.timeout(LONG_S):
        async with Client(StdioServerParameters(**server, env={**environment(database), **quick})) as assistant:
            answers = {url: await assistant.call_tool("fetch_url", {"url": url}) for url in secrets}

    codes = {url: answer.structured_content["code"] for url, answer in answers.items()}
    assert "hunter2" not in str(answers)
    assert codes["HTTP://127.0.0.1:9/notes.md"] == codes["http://127.0.0.1:9/notes.md"] == "address_refused"
    assert codes["pkg:npm//127.0.0.1:9/notes.md"] == codes["Git+HTTPS://127.0.0.1:9/notes.md"] == "usage"
    assert codes["file:HTTP:/127.0.0.1:9/notes.md"] == codes["./HTTP:/127.0.0.1:9/notes.md"] == "refused"


async def test_a_database_that_is_down_is_told_in_the_answer_and_the_process_ends_when_told_to(database):
    down = {
        **environment(database),
        "ROWEN_DATABASE_URL": "postgresql://127.0.0.1:9/none",
        "ROWEN_DATABASE_PATIENCE_S": "0.2",
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "rowen", "mcp", "--profile", "docs-server"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**down, "PATH": ""},
    )
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    calls = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list", "params": {}},
        {"id": 3, "method": "tools/call", "params": {"name": "list_libraries", "arguments": {}}},
    ]
    answers = {}
    async with asyncio.timeout(LONG_S):
        for call in calls:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **call}).encode() + b"\n")
        while len(answers) < 3:
            answer = json.loads(await process.stdout.readline())
            answers[answer["id"]] = answer["result"]
        process.send_signal(signal.SIGTERM)
        code = await process.wait()

    assert answers[1]["serverInfo"] == {"name": "rowen", "title": "Rowen", "version": rowen.__version__}
    assert "search_docs" in {tool["name"] for tool in answers[2]["tools"]}
    assert answers[3]["isError"]
    assert answers[3]["structuredContent"]["code"] == "store_unavailable"
    assert code == 130
