"""A run that kills its own process with SIGKILL at some statement.

`run` has it done by a server that has imported everything once and forks for each run: a process that begins with
nothing spends a second on its imports. Started as a program, the module makes one run, or is that server.
"""

import asyncio
import atexit
import contextlib
import functools
import json
import logging
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any
from unittest.mock import patch

import rowen
from rowen.connectors import registry
from tests.imports import import_everything
from tests.refresh.statements import at_statement

LIMIT_S = 120  # of a run over a dozen records; alone it takes less than a second


def run(conninfo: str, address: str, *, statement: int | str, after: bool) -> bool:
    """Make a run that is killed at its n-th statement, or at the first with some words; whether it was killed."""
    server = _server()
    environment = {name: value for name, value in os.environ.items() if name.startswith(("ROWEN_", "CB_"))}
    assert server.stdin
    assert server.stdout
    server.stdin.write(json.dumps([environment, conninfo, address, statement, after]) + "\n")
    server.stdin.flush()
    answer = server.stdout.readline()
    assert answer, "the server of runs has died"
    code, said = json.loads(answer)
    assert code in (0, -signal.SIGKILL), said
    return bool(code)


@functools.cache
def _server() -> "subprocess.Popen[str]":
    folder = Path(__file__).parents[2]
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.refresh.killed"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
    )
    atexit.register(server.kill)
    return server


def _serve() -> None:
    logging.disable(logging.ERROR)
    import_everything()
    for kind in registry.kinds():
        registry.connector(kind)
    for line in sys.stdin:
        environment, conninfo, address, statement, after = json.loads(line)
        code, said = _forked(environment, conninfo, address, statement, after)
        print(json.dumps([code, said]), flush=True)


def _forked(environment: dict[str, str], *run: Any) -> tuple[int, str]:
    reading, writing = os.pipe()
    if not (child := os.fork()):
        os.close(reading)
        _be_killed(environment, writing, *run)
    os.close(writing)
    with os.fdopen(reading, errors="replace") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), said


def _be_killed(environment: dict[str, str], writing: int, *run: Any) -> None:
    """What the child does; it never returns into the server."""
    signal.alarm(LIMIT_S)
    os.environ.update(environment)
    try:
        _die_in_a_run(*run)
    except BaseException:  # noqa: BLE001 (the edge of a process)
        os.write(writing, traceback.format_exc().encode()[-20_000:])
        os._exit(1)
    os._exit(0)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _die_in_a_run(conninfo: str, address: str, statement: int | str, after: bool) -> None:
    moment = {"after": _die} if after else {"before": _die}
    with at_statement(statement, **moment), _registry():
        asyncio.run(_run(conninfo, address))


@contextlib.contextmanager
def _registry() -> Any:
    """The registry of packages that the test runs; pip and npm are not asked."""
    if not (url := os.environ.get("ROWEN_TEST_REGISTRY")):
        yield
        return

    async def told(address: object) -> str:
        return url

    with patch("rowen.connectors.packages.registry_of", told):
        yield


async def _run(conninfo: str, address: str) -> None:
    quick = {"workers": 0, "host_delay_s": 0, "fetch_tries": 1, "allow_addresses": "127.0.0.0/8", "probe": False}
    async with rowen.open(database_url=conninfo, **quick) as r:
        await r.sync(address)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        _serve()
    else:
        conninfo, address, statement, after = sys.argv[1:]
        _die_in_a_run(conninfo, address, int(statement) if statement.isdigit() else statement, bool(int(after)))
