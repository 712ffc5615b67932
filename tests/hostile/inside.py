"""Functions that tests call in a parse worker.

They stand apart from the tests: a worker imports their module while it is locked in, and other modules of the tests
read files that it may not read.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rowen.errors import UsageError


def spied(_: str) -> dict[str, Any]:
    """What a worker sees of its surroundings."""
    return {"folder": str(Path.cwd()), "path": sys.path, "names": sorted(os.environ)}


def attempt_to_write(_: str, path: str) -> str:
    return _tried(lambda: Path(path).write_text("x"))


def attempt_to_read(_: str, path: str) -> str:
    return _tried(lambda: Path(path).read_text())


def attempt_to_connect(_: str, port: int) -> str:
    return _tried(lambda: socket.create_connection(("127.0.0.1", port), timeout=5))


def attempt_to_run(_: str, program: str) -> str:
    return _tried(lambda: subprocess.run([program], check=True, timeout=5))


def _tried(act: Callable[[], object]) -> str:
    try:
        act()
    except OSError as problem:
        return type(problem).__name__
    return "done"


class Evil:
    """An answer that would run a program in the parent."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> Any:
        return os.system, (self.command,)


def answer_evil(_: str, command: str) -> Any:
    return Evil(command)


def raise_on_purpose(_: str, kind: str) -> None:
    raise UsageError("no", hint="try") if kind == "ours" else UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad")


def spin(_: str) -> None:
    while True:
        pass
