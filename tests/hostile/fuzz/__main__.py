"""Fuzz all targets for long, in a few processes: `python -m tests.hostile.fuzz --seconds 1800`.

Targets take turns, each turn in a process of its own: what kills the interpreter costs one turn, and is a finding.
"""

import argparse
import dataclasses
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.hostile.fuzz.harness import HANGS_AFTER_S, Finding, Report, Target, fuzz, input_of, load, tried

TURN_S = 10.0
_NUMBER = struct.Struct("<q")


def main() -> int:
    """Run what was asked for; the status tells whether there were findings."""
    asked = _arguments()
    targets = load()
    chosen = [targets[name] for name in asked.target or targets]
    if asked.input is not None or asked.file:
        return _repeat(chosen[0], asked.input, asked.file)
    if asked.turn is not None:
        return _take_turn(chosen[0], asked.turn, asked.seconds, asked.note)
    reports = _all_turns(chosen, asked.seconds, asked.processes, asked.first)
    _print(reports)
    return 1 if any(report.findings for report in reports) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="for all targets together")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--target", action="append", help="only this one; may be repeated")
    parser.add_argument("--first", type=int, default=0, help="the number of the first input")
    parser.add_argument("--input", type=int, help="run this one input of the target")
    parser.add_argument("--file", type=Path, help="run the input in this file")
    parser.add_argument("--turn", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--note", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def _repeat(one: Target, number: int | None, path: Path | None) -> int:
    data = path.read_bytes() if path else input_of(one, number or 0)
    print(f"{one.name}: {len(data)} bytes: {data[:200]!r}")
    begun = time.process_time()
    one_found = tried(one, data)
    print(one_found or "nothing wrong", f"({time.process_time() - begun:.2f} s of CPU)")
    return 1 if one_found else 0


def _take_turn(one: Target, first: int, for_s: float, note: Path) -> int:
    """One target for a few seconds; where it is stands in a file, for the case that it does not come back."""
    place = os.open(note, os.O_WRONLY)
    report = fuzz(one, for_s, first=first, at=lambda number: _note(place, number))
    print(json.dumps(dataclasses.asdict(report)))
    return 0


def _note(place: int, number: int) -> None:
    os.pwrite(place, _NUMBER.pack(number), 0)


def _all_turns(targets: list[Target], for_s: float, processes: int, first: int) -> list[Report]:
    reports = {one.name: Report(one.name) for one in targets}
    numbers: defaultdict[str, int] = defaultdict(lambda: first)
    end = time.monotonic() + for_s
    turn_s = min(TURN_S, max(1.0, for_s * processes / len(targets)))

    def run(one: Target) -> None:
        if time.monotonic() < end:
            found = _turn(one, numbers[one.name], turn_s)
            _add(reports[one.name], found)
            numbers[one.name] += found.inputs

    with ThreadPoolExecutor(processes) as pool:
        while time.monotonic() < end:
            list(pool.map(run, targets))
            print(f"{max(0, end - time.monotonic()):.0f} s left", file=sys.stderr, flush=True)
    return list(reports.values())


def _turn(one: Target, first: int, for_s: float) -> Report:
    with tempfile.NamedTemporaryFile(prefix="rowen-fuzz-") as note:
        note.write(_NUMBER.pack(first))
        note.flush()
        command = [sys.executable, "-m", __package__ or "", "--target", one.name, "--turn", str(first)]
        try:
            done = subprocess.run(
                [*command, "--seconds", str(for_s), "--note", note.name],
                capture_output=True,
                text=True,
                check=False,
                timeout=for_s + 3 * HANGS_AFTER_S,
            )
        except subprocess.TimeoutExpired:
            return _lost(one, first, Path(note.name), "time-out", "it never came back")
        if done.returncode:
            why = f"the process ended with {done.returncode}: {done.stderr[-300:]}"
            return _lost(one, first, Path(note.name), "crash", why)
    values = json.loads(done.stdout.splitlines()[-1])
    return Report(**{**values, "findings": [Finding(**each) for each in values["findings"]]})


def _lost(one: Target, first: int, note: Path, kind: str, why: str) -> Report:
    (number,) = _NUMBER.unpack(note.read_bytes())
    found = Finding(one.name, "crash" if kind == "crash" else "time-out", why, number)
    return Report(one.name, inputs=number - first + 1, findings=[found])


def _add(report: Report, more: Report) -> None:
    report.inputs += more.inputs
    report.seconds += more.seconds
    report.findings += more.findings


def _print(reports: list[Report]) -> None:
    for report in reports:
        for found in report.findings:
            print(found)
    print(f"{'target':24} {'inputs':>10} {'seconds':>8} {'crashes':>8} {'time-outs':>10}")
    rows = [
        (r.target, r.inputs, r.seconds, *(sum(f.kind == k for f in r.findings) for k in ("crash", "time-out")))
        for r in reports
    ]
    for name, *rest in [*rows, ("all", *(sum(column) for column in list(zip(*rows, strict=True))[1:]))]:
        print(f"{name:24} {rest[0]:>10} {rest[1]:>8.0f} {rest[2]:>8} {rest[3]:>10}")


if __name__ == "__main__":
    sys.exit(main())
