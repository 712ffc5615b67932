"""Other processes for tests of the embedded server: clients to be killed, and checks of what they leave."""

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped] # its stubs are another package
import psycopg

PATIENCE_S = 60.0

CLIENT = """
import os, sys
from pathlib import Path
from rowen.store.server.embedded import EmbeddedServer

# After the imports: Python itself may lie where that user cannot read.
if len(sys.argv) > 2:
    os.setgroups([])
    os.setgid(int(sys.argv[2]))
    os.setuid(int(sys.argv[2]))
server = EmbeddedServer(Path(sys.argv[1]))
print(server.join(), flush=True)
sys.stdin.read()
server.leave()
print("left", flush=True)
"""


class Client:
    """Another process that joins at once, and leaves on request."""

    def __init__(self, home: Path, *prefix: str, uid: int | None = None, code: str = CLIENT) -> None:
        command = [*prefix, sys.executable, "-c", code, str(home)] + ([] if uid is None else [str(uid)])
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True
        )
        assert self.process.stdin
        assert self.process.stdout
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def joined(self) -> str:
        return self.line()

    def leave(self) -> None:
        self.stdin.close()
        assert self.line() == "left"
        assert self.process.wait(PATIENCE_S) == 0
        self.stdout.close()

    def kill(self) -> None:
        """Kill the process with SIGKILL, and the tool that it runs."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE_S)
        self.stdin.close()
        self.stdout.close()

    def line(self) -> str:
        ready, _, _ = select.select([self.stdout], [], [], PATIENCE_S)
        assert ready, "the client said nothing in time"
        return self.stdout.readline().decode().strip()


def end_servers_in(folder: Path) -> None:
    """End servers that a failed or killing test left in its own folder."""
    left = [
        process
        for process in psutil.process_iter(["name", "cwd"])
        if process.info["name"] == "postgres" and str(folder) in (process.info["cwd"] or "")
    ]
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGQUIT)
    for process in psutil.wait_procs(left, timeout=5)[1]:
        process.kill()


def eventually(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.005)


def ask(conninfo: str, question: str) -> object:
    with psycopg.connect(conninfo, autocommit=True) as connection:
        cursor = connection.execute(question.encode())
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


def memory() -> str | None:
    """Return a large file system in memory, if there is one: fsync costs nothing there."""
    folder = "/dev/shm"
    roomy = os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > 2**31
    return folder if roomy else None


def furnished(home: Path, template: Path) -> Path:
    """Give a new home a copy of a stopped cluster."""
    home.mkdir()
    subprocess.run(["cp", "-a", template, home / "postgres"], check=True)
    return home
