"""Looking at new examples for as long as there is time, after those that failed once."""

import contextlib
import logging
import os
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests import seeds
from tests.conftest import QUIET, ScratchDatabase, Server, migrated, started
from tests.refresh.kinds import KINDS
from tests.refresh.machine import Script

EXAMPLES = Path(__file__).parent / "examples"


@dataclass(frozen=True)
class Played:
    """What became of one example; `problem` is the traceback of why it failed, `differs` says that the indexes did."""

    kind: str
    seed: int | None
    script: Script
    counts: Counter[str]
    seconds: float
    problem: str | None
    differs: bool

    def confirm(self) -> None:
        """Fail with the problem, if there was one, and with the command that repeats it."""
        if self.problem is not None:
            raise AssertionError(f"{self.problem}\n{self.how_to_repeat()}")

    def how_to_repeat(self) -> str:
        """One command that repeats the example."""
        which = f"--seed {self.seed}" if self.seed is not None else f"--script '{self.script}'"
        return f"To repeat it: python -m tests.refresh repeat {self.kind} {which}"


def script_of(kind: str, seed: int) -> Script:
    """The script that a seed stands for."""
    joined = KINDS[kind]
    return joined.machine.draw(seed, without=frozenset(joined.unfit))


def kept(kind: str) -> list[Script]:
    """The examples of a kind that failed once: a file of scripts, one a line."""
    path = EXAMPLES / f"{kind}.jsonl"
    return [Script.parse(line) for line in path.read_text().splitlines()] if path.exists() else []


def keep(kind: str, script: Script) -> Path:
    """Let each build replay an example from now on."""
    EXAMPLES.mkdir(exist_ok=True)
    path = EXAMPLES / f"{kind}.jsonl"
    with path.open("a") as file:
        file.write(f"{script}\n")
    return path


def play(kind: str, script: Script, server: Server, template: str, *, seed: int | None = None) -> Played:
    """Live through one example in a world and databases of its own."""
    joined = KINDS[kind]
    began = time.monotonic()
    counts: Counter[str] = Counter()
    problem: BaseException | None = None
    with (
        tempfile.TemporaryDirectory(prefix="rowen-world-") as folder,
        databases(server, template, Path(folder)) as new_database,
        joined.opened(Path(folder)) as world,
    ):
        machine = joined.machine(world, server, new_database)
        try:
            machine.play(script)
        except Exception as caught:  # noqa: BLE001 (the edge of an example)
            problem = caught
        counts += machine.counts
    told = "".join(traceback.format_exception(problem)) if problem is not None else None
    differs = isinstance(problem, AssertionError)
    return Played(kind, seed, script, counts, time.monotonic() - began, told, differs)


@contextlib.contextmanager
def databases(server: Server, template: str, folder: Path) -> Iterator[Callable[[], ScratchDatabase]]:
    """Databases of an example; they are dropped at its end."""
    names: list[str] = []

    def make() -> ScratchDatabase:
        names.append(server.create(template))
        return ScratchDatabase(server.conninfo(names[-1]), folder / "home")

    try:
        yield make
    finally:
        if server.embedded is not None:
            server.revive()
        for name in names:
            server.drop(name)


def explore(kind: str, server: Server, template: str, *, seconds: float) -> None:
    """Replay what failed once; then look at new examples, at least at one, until the kind's share of time is over."""
    for script in kept(kind):
        play(kind, script, server, template).confirm()
    until = time.monotonic() + seconds * KINDS[kind].share
    for number in seeds.numbers(f"refresh {kind}"):
        play(kind, script_of(kind, number), server, template, seed=number).confirm()
        if time.monotonic() > until:
            return


@contextlib.contextmanager
def server_of_its_own() -> Iterator[tuple[Server, str]]:
    """A server and its template, where there are no fixtures; what is done to it is not worth a log."""
    os.environ.update(QUIET)
    logging.disable(logging.ERROR)
    with started() as server:
        yield server, migrated(server)
