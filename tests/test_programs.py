"""Programs that are started end with whoever wanted something of them, also when that was cancelled."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any

import psutil
import pytest

from rowen import programs
from rowen.connectors.git.program import Program
from rowen.errors import RowenError
from rowen.publish import webhooks
from tests.cancelling import cancelled_at_each_wait

PIPE = asyncio.subprocess.PIPE
# Starts another program, and writes more than any pipe holds, which nobody reads.
CHATTY = "import subprocess, sys; subprocess.Popen(['sleep', '600']); sys.stdout.write('x' * 10_000_000)"


def children() -> set[int]:
    """The processes that we started and that still run; those that wait to be reaped are over."""
    found = set()
    for child in psutil.Process().children(recursive=True):
        try:
            if child.status() != psutil.STATUS_ZOMBIE:
                found.add(child.pid)
        except psutil.Error:
            continue
    return found


async def chatty() -> None:
    command = programs.isolated_python(CHATTY)
    process = await programs.start(command, environment=programs.environment(), stdin=PIPE, stdout=PIPE)
    try:
        assert process.stdout is not None
        await process.stdout.readexactly(100_000)
    finally:
        await programs.end(process)


async def message() -> None:
    with pytest.raises(RowenError):
        await webhooks.send("json://127.0.0.1:9/", "Subject", "Text", allowed=[])


async def git() -> None:
    await Program("a test", protocol="file").run("version")


@pytest.mark.parametrize("work", [chatty, message, git])
async def test_a_program_ends_wherever_its_user_is_cancelled(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    before, waits = children(), 0
    async for number in cancelled_at_each_wait(work):
        waits = number
        async with asyncio.timeout(60):
            while children() - before:
                await asyncio.sleep(0.01)

    assert waits > 2


async def test_a_program_that_writes_what_nobody_reads_is_ended_with_all_that_it_started() -> None:
    before = children()
    command = programs.isolated_python(CHATTY)
    process = await programs.start(command, environment=programs.environment(), stdin=PIPE, stdout=PIPE)
    assert process.stdout is not None
    assert process.stdin is not None
    process.stdin.write(b"x" * 10_000_000)
    await process.stdout.readexactly(100_000)

    async with asyncio.timeout(60):
        await programs.end(process)
        while children() - before:
            await asyncio.sleep(0.01)

    assert process.returncode is not None
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)
