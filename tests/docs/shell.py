"""Runs the commands of a page as its reader would: on a terminal, one after the other, in one folder."""

import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

TIME_LIMIT_S = 60.0

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Shell:
    """A folder to work in; the status of the last command is there for `echo $?`."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.status = 0
        self._folder = folder
        self._environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "TERM": "xterm",
            "COLUMNS": "100",
            "LINES": "40",
            **environment,
        }

    def run(self, command: str) -> str:
        """What a command shows: its answer, then its talk."""
        ours, theirs = pty.openpty()
        with tempfile.TemporaryFile() as talk:
            process = subprocess.Popen(
                ["bash", "-c", f"(exit {self.status})\n{command}"],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=theirs,
                stderr=talk,
            )
            os.close(theirs)
            try:
                answer = _all_of(ours)
                self.status = process.wait(TIME_LIMIT_S)
            finally:
                process.kill()
                process.wait()
                os.close(ours)
            talk.seek(0)
            return _ESCAPES.sub("", (answer + talk.read()).decode()).replace("\r\n", "\n")


def _all_of(terminal: int) -> bytes:
    pieces = []
    deadline = time.monotonic() + TIME_LIMIT_S
    while select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))[0]:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # Linux says so when the last writer has gone
            break
        if not piece:
            break
        pieces.append(piece)
    return b"".join(pieces)
