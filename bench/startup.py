"""What it costs to begin: `rowen sources` on a running embedded server against a bare Python with click and psycopg.

CPU time, the least of several rounds. The ratio is to stay at 2.2 or below.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rowen.store.server.embedded import EmbeddedServer

ROUNDS = 9
MOST_TIMES_BARE = 2.2


def spent(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """CPU and wall seconds of a process and its children, the least of several rounds."""
    found = []
    for _ in range(ROUNDS):
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(command, env=environment, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        found.append((cpu_s, time.perf_counter() - begun))
    return min(cpu for cpu, _ in found), min(wall for _, wall in found)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="rowen-bench-") as folder:
        Path(folder).chmod(0o755)
        home = Path(folder) / "home"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ROWEN_")}
        # As installed packages are: compiled once, and found so by every process.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment |= {"ROWEN_HOME": str(home), "ROWEN_CONFIG": os.devnull, "ROWEN_EMBEDDER": "none"}
        environment |= {"PYTHONPYCACHEPREFIX": str(Path(folder) / "compiled")}
        with EmbeddedServer(home):
            compare(environment)


def compare(environment: dict[str, str]) -> None:
    rowen = [sys.executable, "-m", "rowen"]
    commands = {
        "python with click and psycopg": [sys.executable, "-c", "import click, psycopg"],
        "rowen sources": [*rowen, "sources"],
        "rowen search": [*rowen, "search", "hay"],
        "python with click": [sys.executable, "-c", "import click"],
        "rowen --help": [*rowen, "--help"],
    }
    for command in commands.values():
        subprocess.run(command, env=environment, check=True, capture_output=True)
    found = {name: spent(command, environment) for name, command in commands.items()}
    for name, (cpu_s, wall_s) in found.items():
        print(f"{name:<32} {cpu_s:6.3f} s CPU  {wall_s:6.3f} s")
    ratio = found["rowen sources"][0] / found["python with click and psycopg"][0]
    print(f"rowen sources / python with click and psycopg: {ratio:.2f} (at most {MOST_TIMES_BARE})")


if __name__ == "__main__":
    main()
