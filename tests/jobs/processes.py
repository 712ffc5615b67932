"""Workers in processes of their own: started, killed, frozen and stopped.

A worker is forked from a process that has imported everything once: one that begins with nothing spends more time on
its imports than on all its jobs.
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
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import rowen
from rowen.connectors import registry
from tests.imports import import_everything

PATIENCE_S = 90  # for what takes seconds on a machine that does nothing else


class Nursery:
    """Starts workers on one database."""

    def __init__(self, conninfo: str, **settings: Any) -> None:
        quick = {"workers": 0, "host_delay_s": 0, "fetch_tries": 1, "allow_addresses": "127.0.0.0/8", "probe": False}
        self._settings = {"database_url": conninfo, "database_patience_s": 2, "job_retry_s": 0.2, **quick, **settings}
        self.live: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pid in list(self.live):
            self.kill(pid)

    def start(self) -> int:
        """A new worker; returns its process."""
        environment = {name: value for name, value in os.environ.items() if name.startswith(("ROWEN_", "CB_"))}
        pid = int(_ask({"start": self._settings, "environment": environment}))
        self.live.append(pid)
        return pid

    def kill(self, pid: int) -> None:
        """kill -9; the process is gone afterwards."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        self.wait(pid)

    def stop(self, pid: int) -> int:
        """SIGTERM; returns the exit code."""
        os.kill(pid, signal.SIGTERM)
        return self.wait(pid)

    def wait(self, pid: int) -> int:
        """The exit code of a process that ends."""
        self.live.remove(pid)
        return int(_ask({"wait": pid}))


def _ask(question: dict[str, Any]) -> str:
    server = _server()
    assert server.stdin
    assert server.stdout
    server.stdin.write(json.dumps(question) + "\n")
    server.stdin.flush()
    return server.stdout.readline()


@functools.cache
def _server() -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.jobs.processes"]
    folder = Path(__file__).parents[2]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder)
    atexit.register(server.kill)
    return server


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """SIGSTOP, and SIGCONT in the end."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def until(condition: Callable[[], object], *, patience_s: float = PATIENCE_S) -> None:
    """Wait for something, and not for ever."""
    end = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def _serve() -> None:
    logging.disable(logging.ERROR)
    import_everything()
    for kind in registry.kinds():
        registry.connector(kind)
    for line in sys.stdin:
        question = json.loads(line)
        if "start" in question:
            print(_fork(question["start"], question["environment"]), flush=True)
        else:
            _, status = os.waitpid(question["wait"], 0)
            print(os.waitstatus_to_exitcode(status), flush=True)


def _fork(settings: dict[str, Any], environment: dict[str, str]) -> int:
    child = os.fork()
    if not child:
        os.environ.update(environment)
        # The pipe to the test is not a worker's to write to.
        os.dup2(2, 1)
        try:
            asyncio.run(_work(settings))
        except BaseException:  # noqa: BLE001 (the edge of a process)
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return child


async def _work(settings: dict[str, Any]) -> None:
    async with rowen.open(**settings) as r:
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, r.stop)
        await r.queue.work()


if __name__ == "__main__":
    _serve()
