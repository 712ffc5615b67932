"""Letting the machine run long: examples of every kind, side by side, and a summary."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import ExitStack
from multiprocessing import get_context
from multiprocessing.util import Finalize
from typing import Any

from tests import seeds
from tests.conftest import Server
from tests.refresh import explore
from tests.refresh.explore import Played
from tests.refresh.kinds import KINDS

_held = ExitStack()
_servers: list[tuple[Server, str]] = []


def soak(kinds: Sequence[str], *, minutes: float, processes: int) -> int:
    """Look at examples side by side, always of the kind that had the least of its share of time; then tell of them."""
    began = time.monotonic()
    until = began + minutes * 60
    played: list[Played] = []
    spent: Counter[str] = Counter(dict.fromkeys(kinds, 0))
    running: dict[Future[Any], str] = {}
    numbers = {kind: seeds.numbers(f"soak {kind}") for kind in kinds}
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_open) as pool:
        while running or time.monotonic() < until:
            while len(running) < processes and time.monotonic() < until:
                kind = min(set(spent) - set(running.values()) or spent, key=lambda one: spent[one] / KINDS[one].share)
                running[pool.submit(_play, kind, next(numbers[kind]))] = kind
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                running.pop(future)
                played.append(one := future.result())
                spent[one.kind] += one.seconds  # type: ignore[assignment]
                if one.problem is not None:
                    print(f"\n{one.kind}, seed {one.seed}: {one.problem}\n{one.how_to_repeat()}", flush=True)
    print("\n".join(summary(played, time.monotonic() - began, processes)))
    return int(any(one.problem is not None for one in played))


def _open() -> None:
    _servers.append(_held.enter_context(explore.server_of_its_own()))
    Finalize(None, _held.close, exitpriority=1)


def _play(kind: str, seed: int) -> Played:
    [server] = _servers
    return explore.play(kind, explore.script_of(kind, seed), *server, seed=seed)


def summary(played: list[Played], seconds: float, processes: int) -> Iterator[str]:
    """A table of kinds, and the seeds of what failed."""
    yield f"\n{len(played)} examples in {seconds / 60:.1f} minutes on {processes} processes"
    columns = ("examples", "steps", "runs", "kills", "faults", "failed records", "differences", "errors", "below")
    yield f"{'kind':24}" + "".join(f"{name:>16}" for name in columns)
    by_kind: dict[str, list[Played]] = defaultdict(list)
    for one in played:
        by_kind[one.kind].append(one)
    for kind, examples in [*sorted(by_kind.items()), ("all", played)]:
        yield f"{kind:24}" + "".join(f"{cell:>16}" for cell in _cells(examples))
    yield "below: the share of examples that fail, at 95 % confidence, where none did (3 / examples)"
    for kind, joined in KINDS.items():
        for step, why in joined.unfit.items():
            yield f"left out of {kind}: {step}: {why}"
    for one in played:
        if one.problem is not None:
            yield f"failed: {one.kind}, seed {one.seed}: {one.problem.strip().splitlines()[-1][:300]}"
            yield f"  {one.how_to_repeat()}"


def _cells(examples: list[Played]) -> list[str]:
    counts: Counter[str] = Counter()
    for one in examples:
        counts += one.counts
    kills = counts["kills"] + counts["the_database_is_killed"]
    failed = [one for one in examples if one.problem is not None]
    differ = sum(one.differs for one in failed)
    below = "-" if failed or not examples else f"{min(1, 3 / len(examples)):.2%}"
    numbers = [len(examples), counts["steps"], counts["runs"], kills, counts["faults"], counts["failed records"]]
    return [*(f"{number:,}" for number in [*numbers, differ, len(failed) - differ]), below]
