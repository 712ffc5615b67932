"""Functions that tests call in a parse worker.

They stand apart from the tests: a worker imports their module while it is locked in, and other modules of the tests
read files that it may not read.
"""

import ctypes
import errno
import os
import platform
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rowen.errors import UsageError
from rowen.harvest.sandbox import refused_on


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


def make_refused_calls(_: str) -> list[str]:
    """Make each call that is refused, with arguments that do nothing, and return those that were not refused."""
    library = ctypes.CDLL(None, use_errno=True)
    let_through = []
    for name, number in refused_on(platform.machine()).items():
        ctypes.set_errno(0)
        library.syscall(number, -1, -1, -1, -1, -1, -1)
        if ctypes.get_errno() != errno.EPERM:
            let_through.append(name)
    return let_through


def reach_out(_: str, parent: int, mine: str) -> list[str]:
    """Try what would reach the parent, a file of the user or a network, and return what was done."""
    place = Path(mine)
    attempts: dict[str, Callable[[], object]] = {
        **{f"socket of family {family}": partial(socket.socket, family) for family in (1, 2, 10, 16)},
        "raw socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1),
        "UDP": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        "pair of sockets": socket.socketpair,
        "fork": os.fork,
        "signal to the parent": lambda: os.kill(parent, 0),
        "signal to all": lambda: os.kill(-1, 0),
        "signal to the group": lambda: os.killpg(os.getpgrp(), 0),
        "file descriptor of the parent": lambda: os.pidfd_open(parent),
        "limits of the parent": lambda: resource.prlimit(parent, resource.RLIMIT_NOFILE),
        "priority of the parent": lambda: os.setpriority(os.PRIO_PROCESS, parent, 0),
        "processors of the parent": lambda: os.sched_setaffinity(parent, os.sched_getaffinity(0)),
        "rights of a file": lambda: place.chmod(0o777),
        "owner of a file": lambda: os.chown(mine, os.getuid(), -1),
        "times of a file": lambda: os.utime(mine),
        "attribute of a file": lambda: os.setxattr(mine, "user.x", b"x"),
        "length of a file": lambda: os.truncate(mine, 0),
        "another name of a file": lambda: os.link(mine, f"{mine}.linked"),
        "symbolic link": lambda: Path(f"{mine}.symlinked").symlink_to(mine),
        "move of a file": lambda: place.rename(f"{mine}.moved"),
        "end of a file": lambda: place.unlink(),
        "folder": lambda: Path(f"{mine}.folder").mkdir(),
        "pipe in a folder": lambda: os.mkfifo(f"{mine}.fifo"),
        "another root": lambda: os.chroot("/"),
        **{
            f"read {path}": partial(Path(path).read_bytes)
            for path in (f"/proc/{parent}/environ", f"/proc/{parent}/maps", "/proc/self/environ", "/etc/passwd", mine)
        },
        "list the folder": lambda: list(place.parent.iterdir()),
    }
    return [name for name, attempt in attempts.items() if _tried(attempt) != "PermissionError"]


def begin_a_thread(_: str) -> str:
    heard: list[str] = []
    thread = threading.Thread(target=lambda: heard.append("done"))
    thread.start()
    thread.join()
    return heard[0]


def list_open_files(_: str) -> list[int]:
    def is_open(number: int) -> bool:
        try:
            os.fstat(number)
        except OSError:
            return False
        return True

    return [number for number in range(512) if is_open(number)]


def say_where_errors_go(_: str) -> bool:
    return os.isatty(2)


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
