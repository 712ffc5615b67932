"""A process that requests a host at a shared pace, and prints when each request began and ended."""

import asyncio
import sys
import time

from rowen.net.shared_pace import SharedThrottle
from rowen.settings import Settings
from rowen.store.database import Database
from rowen.store.hosts import HostSlotTable


async def main(conninfo: str, requests: int, gap_s: float, places: int, answer_s: float, lease_s: float) -> None:
    database = Database(Settings(database_url=conninfo))
    await database.open()
    pace = SharedThrottle(HostSlotTable(database, lease_s=lease_s), delay_s=gap_s, concurrency=places)

    async def request() -> None:
        permit = await pace.enter("host.example")
        began = time.time()
        permit.sent()
        print("began", flush=True)
        await asyncio.sleep(answer_s)
        print(began, time.time(), flush=True)
        permit.release()

    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await asyncio.gather(*(request() for _ in range(requests)))
    await pace.close()
    await database.close()


if __name__ == "__main__":
    asyncio.run(
        main(sys.argv[1], int(sys.argv[2]), *map(float, sys.argv[3:4]), int(sys.argv[4]), *map(float, sys.argv[5:]))
    )
