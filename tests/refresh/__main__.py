"""The machine by hand: `soak` lets it run long, `repeat` plays one example again, `keep` lets each build replay one."""

import argparse
import os
import sys

from tests.conftest import Server
from tests.refresh import explore
from tests.refresh.kinds import KINDS
from tests.refresh.machine import Script
from tests.refresh.soak import soak


def main() -> int:
    """Do what is asked for; 1 says that something differed."""
    parser = argparse.ArgumentParser(prog="python -m tests.refresh", description=__doc__)
    commands = parser.add_subparsers(required=True)
    soaking = commands.add_parser("soak", help="look at new examples of every kind for some time")
    soaking.add_argument("--minutes", type=float, default=60)
    soaking.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    soaking.add_argument("--kinds", nargs="*", choices=KINDS, default=list(KINDS))
    soaking.set_defaults(do=lambda asked: soak(asked.kinds, minutes=asked.minutes, processes=asked.processes))
    for name, do in (("repeat", repeat), ("keep", keep)):
        command = commands.add_parser(name)
        command.add_argument("kind", choices=KINDS)
        command.add_argument("--seed", type=int)
        command.add_argument("--script", type=Script.parse)
        command.set_defaults(do=do)
        if do is repeat:
            command.add_argument("--times", type=int, default=1, help="some failures depend on speed")
            command.add_argument("--shrink", action="store_true", help="leave out steps as long as it fails")
    asked = parser.parse_args()
    code: int = asked.do(asked)
    return code


def _script(asked: argparse.Namespace) -> Script:
    if asked.script is not None:
        script: Script = asked.script
        return script
    return explore.script_of(asked.kind, asked.seed)


def repeat(asked: argparse.Namespace) -> int:
    """Play one example again, some times; tell how often it failed."""
    script, failed = _script(asked), 0
    with explore.server_of_its_own() as server:
        for _ in range(asked.times):
            one = explore.play(asked.kind, script, *server, seed=asked.seed)
            if one.problem is not None:
                failed += 1
                print(one.problem)
        print(f"{failed} of {asked.times} failed. The script:\n{script}")
        if failed and asked.shrink:
            print(f"Shrunk:\n{shrunk(asked.kind, script, server, times=asked.times)}")
    return int(failed > 0)


def shrunk(kind: str, script: Script, server: tuple[Server, str], *, times: int) -> Script:
    """The script without the steps that its failure does not need."""
    place = len(script.steps)
    while place:
        place -= 1
        shorter = Script(script.world, script.steps[:place] + script.steps[place + 1 :])
        if any(explore.play(kind, shorter, *server).problem for _ in range(times)):
            script = shorter
            print(f"{len(script.steps)} steps fail", file=sys.stderr, flush=True)
    return script


def keep(asked: argparse.Namespace) -> int:
    """Write the example into the file of those that each build replays."""
    print(f"Kept in {explore.keep(asked.kind, _script(asked))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
