"""A run that kills its own process with SIGKILL at some statement; started by the machine as a process."""

import asyncio
import os
import signal
import sys

import rowen
from tests.refresh.machine import at_statement


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def _run(conninfo: str, address: str) -> None:
    quick = {"workers": 0, "host_delay_s": 0, "fetch_tries": 1, "allow_addresses": "127.0.0.0/8", "probe": False}
    async with rowen.open(database_url=conninfo, **quick) as r:
        await r.sync(address)


if __name__ == "__main__":
    conninfo, address, statement, after = sys.argv[1:]
    moment = {"after": _die} if int(after) else {"before": _die}
    with at_statement(int(statement) if statement.isdigit() else statement, **moment):
        asyncio.run(_run(conninfo, address))
