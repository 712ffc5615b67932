"""Targets, and what running one of them for a while shows.

A target is a function of bytes that may raise what it documents (any `RowenError`) and nothing else:

    @target("robots", seeds=[b"User-agent: *\\nDisallow: /a"], tokens=[b"Allow:", b"*"])
    def robots(data: bytes) -> None:
        read_rules(data)

An input that takes more than a second of CPU is a finding as a crash is. Inputs are functions of the target's name
and a number: `python -m tests.hostile.fuzz --target robots --input 17` repeats one.
"""

import importlib
import os
import pkgutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rowen.errors import RowenError
from tests.hostile.clock import at_most, slowness
from tests.hostile.fuzz.mutation import mutated

__all__ = ["SECONDS", "TARGETS", "Finding", "Report", "Target", "fuzz", "input_of", "load", "target", "tried"]

SECONDS = float(os.environ.get("ROWEN_FUZZ_SECONDS", "1"))
"""How long each target runs in the build. Read on import: tests run without `ROWEN_*` in their environment."""

FOLDER = Path(os.environ.get("ROWEN_FUZZ_FOLDER") or Path(tempfile.gettempdir()) / "rowen-fuzz")
"""Where inputs are kept that were findings."""

MOST_CPU_S = 1.0
"""Of an input of at most 64 kB: an honest one of that size takes milliseconds."""

HANGS_AFTER_S = 30
MOST_FINDINGS = 20


@dataclass(frozen=True)
class Target:
    """One reader under fire."""

    name: str
    run: Callable[[bytes], None]
    seeds: Sequence[bytes]
    tokens: Sequence[bytes]
    allowed: tuple[type[Exception], ...]


@dataclass
class Finding:
    """An input that did what none may do."""

    target: str
    kind: Literal["crash", "time-out"]
    why: str
    number: int = -1
    path: str = ""

    def __str__(self) -> str:
        repeat = f"python -m tests.hostile.fuzz --target {self.target} --input {self.number}"
        return f"{self.target}: {self.kind}: {self.why}\n  input: {self.path}\n  again: {repeat}"


@dataclass
class Report:
    """What a while of fuzzing one target showed."""

    target: str
    inputs: int = 0
    seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)


TARGETS: dict[str, Target] = {}


def target(
    name: str,
    *,
    seeds: Sequence[bytes],
    tokens: Sequence[bytes] = (),
    allowed: tuple[type[Exception], ...] = (),
) -> Callable[[Callable[[bytes], None]], Callable[[bytes], None]]:
    """Register a target; `allowed` are exceptions that it documents besides `RowenError`."""

    def register(run: Callable[[bytes], None]) -> Callable[[bytes], None]:
        TARGETS[name] = Target(name, run, seeds, tokens, (RowenError, *allowed))
        return run

    return register


def load() -> dict[str, Target]:
    """All targets of the modules `targets_*` beside this one, by name."""
    folder = Path(__file__).parent
    for module in sorted(each.name for each in pkgutil.iter_modules([str(folder)])):
        if module.startswith("targets_"):
            importlib.import_module(f"{__package__}.{module}")
    return TARGETS


def input_of(one: Target, number: int) -> bytes:
    """The input of a number; the first ones are the seeds themselves."""
    return one.seeds[number] if number < len(one.seeds) else mutated(one.name, number, one.seeds, one.tokens)


def fuzz(one: Target, for_s: float, *, first: int = 0, at: Callable[[int], None] = lambda _: None) -> Report:
    """Run a target on input after input; `at` is told the number of each before it runs."""
    report = Report(one.name)
    begun = time.monotonic()
    number = first
    while (spent := time.monotonic() - begun) < for_s or report.inputs < len(one.seeds):
        at(number)
        data = input_of(one, number)
        if found := tried(one, data):
            found.number, found.path = number, _kept(one, number, data)
            report.findings.append(found)
        number += 1
        report.inputs += 1
        if len(report.findings) >= MOST_FINDINGS:
            break
    report.seconds = spent
    return report


def tried(one: Target, data: bytes) -> Finding | None:
    """What is wrong with what a target makes of an input. A slow one is tried again: the machine may have been busy."""
    found = _tried(one, data)
    return _tried(one, data) if found and found.kind == "time-out" else found


def _tried(one: Target, data: bytes) -> Finding | None:
    begun = time.process_time()
    try:
        with at_most(HANGS_AFTER_S, error=_Hung):
            one.run(data)
    except one.allowed:
        pass
    except _Hung:
        return Finding(one.name, "time-out", f"still running after {HANGS_AFTER_S} s {_place()}")
    except Exception as problem:  # noqa: BLE001 (whatever it is, it is the finding)
        return Finding(one.name, "crash", f"{type(problem).__name__}: {str(problem)[:200]} {_place()}")
    spent = time.process_time() - begun
    return (
        Finding(one.name, "time-out", f"{len(data)} bytes took {spent:.1f} s")
        if spent > MOST_CPU_S * slowness()
        else None
    )


def _place() -> str:
    frames = traceback.extract_tb(sys.exc_info()[2])
    ours = [frame for frame in frames if "/rowen/" in frame.filename] or frames
    return f"at {Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else ""


class _Hung(BaseException):
    """Not an `Exception`: no reader may take it for trouble of its own."""


def _kept(one: Target, number: int, data: bytes) -> str:
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{one.name.replace('/', '-')}-{number}"
    path.write_bytes(data)
    return str(path)
