"""What a stretch of work costs: CPU of our processes and of our database apart, wall time, peak memory."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

__all__ = ["Meter", "database_s"]


class Meter:
    """Measures work that uses the embedded database of one home."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.own_s = self.workers_s = self.database_s = self.wall_s = self.peak_mb = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Measure what happens inside."""
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
        own_s, busy_s, wall_s = _own_s(), database_s(self._home), time.perf_counter()
        workers_s = _workers_s()
        yield
        self.wall_s = time.perf_counter() - wall_s
        self.own_s, self.database_s = _own_s() - own_s, database_s(self._home) - busy_s
        self.workers_s = _workers_s() - workers_s
        self.peak_mb = sum(map(_peak_mb, [psutil.Process(), *_workers()]))


def database_s(home: Path) -> float:
    """CPU of the server that belongs to a home, its ended backends included."""
    found = next(home.rglob("postmaster.pid"), None)
    if found is None:
        return 0.0
    server = psutil.Process(int(found.read_text().split("\n", 1)[0]))
    return sum(server.cpu_times()[:4]) + sum(map(_cpu_s, server.children()))


def _workers() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "rowen.harvest.parse_worker" in " ".join(child.cmdline())]


def _own_s() -> float:
    return time.process_time() + _workers_s()


def _workers_s() -> float:
    return sum(map(_cpu_s, _workers()))


def _cpu_s(process: psutil.Process) -> float:
    with suppress(psutil.NoSuchProcess):
        return float(sum(process.cpu_times()[:2]))
    return 0.0


def _peak_mb(process: psutil.Process) -> float:
    """The most memory that a process ever held; summed up, a bound from above of what all held at once."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) / 1024 if found else 0.0
