"""Publish the circuits of this process, so that other processes can show and reset them.

A breaker calls back when its circuit opens or closes, and a task here stores the change. While a circuit is not
closed, the task sends a heartbeat every two seconds, in one statement, and receives reset requests. While all circuits
are closed, there is no task and no statement.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from uuid import uuid4

from rowen.errors import StoreError
from rowen.model.status import CircuitKind
from rowen.net.circuits import Breaker, Breakers, CircuitLimits, State
from rowen.settings import Settings
from rowen.store import hosts
from rowen.store.database import Database
from rowen.store.hosts import CircuitKey

log = logging.getLogger(__name__)

BEAT_S = 2.0
"""The delay until a process applies a reset. Half of it would be two statements a second from four processes in an
outage; at twice of it, a user would wonder whether the reset worked."""
# A half-open circuit needs no quick reset; the heartbeat only keeps its row from expiring.
_BEATS_PER_LEASE = 4


class CircuitReports:
    """Creates the breakers of a process and publishes circuits that are not closed; calls `recovered` after a reset."""

    def __init__(self, database: Database, settings: Settings, *, recovered: Callable[[], None]) -> None:
        self._database = database
        self._lease_s = settings.lease_s
        self._recovered = recovered
        self._process = uuid4().hex
        self._place = f"{socket.gethostname()}:{os.getpid()}"
        self._breakers: dict[CircuitKind, Breakers] = {}
        self._changed: dict[CircuitKey, Breaker] = {}
        self._published: dict[CircuitKey, Breaker] = {}
        self._resets: dict[CircuitKey, int] = {}
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def breakers(self, kind: CircuitKind, settings: Settings) -> Breakers:
        """Return the breakers of one kind of service."""
        if kind not in self._breakers:
            self._breakers[kind] = Breakers(CircuitLimits.of(settings), changed=partial(self._note, kind))
        return self._breakers[kind]

    def reset(self, name: str | None = None) -> None:
        """Close the circuit `name` of this process, or all its circuits if `name` is None."""
        for breakers in self._breakers.values():
            breakers.reset(name)
        self._recovered()

    async def close(self) -> None:
        """Stop publishing, and remove the published circuits."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        if self._published:
            with suppress(StoreError):
                async with self._database.connection() as c:
                    await hosts.remove_circuits_of(c, self._process)
            self._published.clear()

    def _note(self, kind: CircuitKind, breaker: Breaker) -> None:
        self._changed[kind, breaker.name] = breaker
        self._woken.set()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._keep())

    async def _keep(self) -> None:
        """Publish until all circuits are closed."""
        while self._changed or self._published:
            self._woken.clear()
            try:
                await self._publish()
            except StoreError as problem:
                log.warning("could not store the state of circuits: %s", problem)
            is_open = any(breaker.state() is State.OPEN for breaker in self._published.values())
            pause_s = BEAT_S if is_open or self._changed else self._lease_s / _BEATS_PER_LEASE
            if self._changed or self._published:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._woken.wait(), pause_s)

    async def _publish(self) -> None:
        """Publish changed circuits, renew the heartbeat, and apply resets that other processes requested."""
        changed, self._changed = self._changed, {}
        closed = {key for key, breaker in changed.items() if breaker.state() is State.CLOSED}
        # A transaction with an unknown outcome may have been committed, so its circuits count as published.
        self._published |= {key: breaker for key, breaker in changed.items() if key not in closed}
        try:
            async with self._database.transaction() as c:
                for key, breaker in changed.items():
                    if key not in closed:
                        stats = breaker.stats()
                        await hosts.store_circuit(
                            *(c, self._process, key),
                            place=self._place,
                            failures=stats.failures_in_a_row,
                            times_opened=stats.times_opened,
                            open_for_s=stats.open_for_s,
                            retry_in_s=stats.retry_in_s,
                            lease_s=self._lease_s,
                        )
                    elif key in self._published:
                        await hosts.remove_circuit(c, self._process, key)
                wanted = await hosts.renew_circuits(c, self._process, lease_s=self._lease_s)
        except BaseException:
            self._changed = changed | self._changed
            raise
        for key in closed:
            self._published.pop(key, None)
            self._resets.pop(key, None)
        for key, breaker in self._published.items():
            if key not in wanted:
                # Another process removed the row as stale, or the server lost it.
                self._changed.setdefault(key, breaker)
        for key, resets in wanted.items():
            known, self._resets[key] = self._resets.get(key, 0), resets
            if resets > known and key in self._published:
                log.info("reset the circuit of %s on request", key[1])
                self._published[key].reset()
                self._recovered()
