"""How long an assistant waits for `rowen mcp`: to the first answer, to the first passage, and for each question after.

Run with `python -m bench.assistant`; the database runs already, as on a machine where somebody works. CPU time is what
to compare, wall time is what a user sees on this machine now.
"""

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import psutil

from tests.conftest import migrated, started

STARTS = 5
QUESTIONS = 40
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}


async def ask(process: asyncio.subprocess.Process, number: int, method: str, params: dict) -> dict:
    assert process.stdin is not None
    assert process.stdout is not None
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    process.stdin.write(json.dumps(message).encode() + b"\n")
    await process.stdin.drain()
    return json.loads(await process.stdout.readline())


async def start(environment: dict[str, str]) -> dict[str, float]:
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "rowen", "mcp"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=environment,
        limit=1 << 24,
    )
    await ask(process, 1, "initialize", HELLO)
    first_s = time.perf_counter() - began
    first_cpu_s = sum(psutil.Process(process.pid).cpu_times()[:2])
    assert process.stdin is not None
    process.stdin.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
    await ask(process, 2, "tools/list", {})
    tools_s = time.perf_counter() - began
    found = await ask(process, 3, "tools/call", {"name": "search", "arguments": {"query": "hay dries"}})
    passage_s = time.perf_counter() - began
    passage_cpu_s = sum(psutil.Process(process.pid).cpu_times()[:2])
    assert found["result"]["structuredContent"]["results"], found
    waits = []
    for number in range(4, 4 + QUESTIONS):
        asked = time.perf_counter()
        await ask(process, number, "tools/call", {"name": "search", "arguments": {"query": f"hay {number}"}})
        waits.append(time.perf_counter() - asked)
    process.stdin.close()
    await process.wait()
    return {
        "first answer": first_s,
        "list of tools": tools_s,
        "first passage": passage_s,
        "median question": statistics.median(waits),
        "first answer, cpu": first_cpu_s,
        "first passage, cpu": passage_cpu_s,
    }


def main() -> None:
    with started() as server, tempfile.TemporaryDirectory() as home:
        name = migrated(server)
        environment = {
            **os.environ,
            "ROWEN_DATABASE_URL": server.conninfo(name),
            "ROWEN_HOME": home,
            "ROWEN_EMBEDDER": "none",
        }
        folder = Path(home) / "pages"
        folder.mkdir()
        for number in range(100):
            (folder / f"{number}.md").write_text(f"# Hay {number}\n\nHay {number} dries for {number} days.\n" * 20)
        os.environ.update(environment)
        import rowen

        async def fill() -> None:
            async with rowen.open() as opened:
                await opened.sync(str(folder))

        asyncio.run(fill())
        starts = [asyncio.run(start(environment)) for _ in range(STARTS)]
    for measure in starts[0]:
        values = sorted(one[measure] for one in starts)
        print(f"{measure:20} best {values[0]:.3f} s, median {statistics.median(values):.3f} s")


if __name__ == "__main__":
    main()
