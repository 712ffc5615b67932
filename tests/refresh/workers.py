"""The machine with workers: two processes take jobs over the same source, and are killed, frozen and stopped."""

import asyncio
import signal
import time
from collections.abc import Mapping
from random import Random

from tests.jobs.processes import Nursery, frozen
from tests.refresh.machine import SEEDS, Draw, Machine

LEASE_S = 0.5  # short, so that a frozen worker has lost its run before it goes on
FROZEN_S = 1.0  # twice as long as a lease
EVENTS = 4  # in one step: each takes half a second, and what they meet is decided by speed
MOMENT_S = 0.4  # at most, between two events: a run over a dozen records takes half as long


class WorkerMachine(Machine):
    """Whatever happens to workers, one clean run leaves what a first harvest would leave."""

    draws: Mapping[str, Draw] = {  # type: ignore[misc]
        "the_world_changes": Machine.draws["the_world_changes"],
        "workers_are_harmed": lambda c: {"seed": c.randrange(SEEDS), "portion": c.choice([None, 1, 3])},
        "a_run": Machine.draws["a_run"],
        "a_run_is_killed": Machine.draws["a_run_is_killed"],
    }
    most_steps = 4  # a step with workers takes seconds

    def workers_are_harmed(self, *, seed: int, portion: int | None) -> None:
        """Two workers keep the source fresh every second, while the world changes and one of them comes to harm."""
        chance = Random(seed)
        asyncio.run(self._schedule())
        with Nursery(self.database.conninfo, lease_s=LEASE_S, job_retry_s=0.05, job_items=portion) as nursery:
            nursery.start()
            nursery.start()
            for _ in range(EVENTS):
                time.sleep(chance.uniform(0, MOMENT_S))
                getattr(self, chance.choice(["_change", "_kill", "_freeze", "_stop"]))(nursery, chance)
        self.counts["jobs"] += self.database.query("select count(*) from run where job_id is not null")[0][0]

    async def _schedule(self) -> None:
        """The source is there, and due."""
        async with self.database.open() as r:
            if not await r.sources.list():
                await r.sources.add(self.world.address, name="world", kind=self.world.kind)
            await r.sources.edit((await r.sources.list())[0].name, every="none")
            await r.sources.edit((await r.sources.list())[0].name, every="1s")

    def _change(self, nursery: Nursery, chance: Random) -> None:
        self.world.change(chance)

    def _kill(self, nursery: Nursery, chance: Random) -> None:
        nursery.kill(chance.choice(nursery.live))
        nursery.start()
        self.counts["kills"] += 1

    def _freeze(self, nursery: Nursery, chance: Random) -> None:
        with frozen(chance.choice(nursery.live)):
            time.sleep(FROZEN_S)

    def _stop(self, nursery: Nursery, chance: Random) -> None:
        # One that has only just been started has not yet asked to be told.
        assert nursery.stop(chance.choice(nursery.live)) in (0, -signal.SIGTERM)
        nursery.start()
