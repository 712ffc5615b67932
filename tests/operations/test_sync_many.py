"""Many portals at once: bounded, in fair turns, and none waits for a slow one."""

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest
from aiohttp import web

from rowen import Run
from rowen.operations.runs import Turns
from tests.conftest import ScratchDatabase
from tests.portals.datajson import DataJsonSite

PATIENCE_S = 60


class Gated(DataJsonSite):
    """A portal that answers when `answer` returns."""

    def __init__(self, answer: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self.answer = answer
        self.fill(2)

    async def _answer_for(self, request: web.Request) -> web.StreamResponse:
        await asyncio.to_thread(self.answer)
        return await super()._answer_for(request)


@pytest.fixture
def portals() -> Iterator[list[Gated]]:
    made = [Gated() for _ in range(5)]
    yield made
    for portal in made:
        portal.close()


async def keep(database: ScratchDatabase, portals: list[Gated]) -> None:
    async with database.open() as rowen:
        for number, portal in enumerate(portals):
            await rowen.sources.add(portal.address, name=f"p{number}", kind="datajson")


async def test_a_slow_portal_holds_nobody_and_each_is_told_of_when_it_is_done(
    database: ScratchDatabase, portals: list[Gated]
) -> None:
    gate, told = threading.Event(), []
    portals[0].answer = lambda: gate.wait(PATIENCE_S)
    await keep(database, portals)

    def finished(target: str, result: Run | Exception) -> None:
        assert isinstance(result, Run)
        told.append((target, result.status, gate.is_set()))
        if len(told) == len(portals) - 1:
            gate.set()

    async with database.open(side_by_side=2) as rowen:
        results = await rowen.runs.sync_all(finished=finished)

    assert told == [(f"p{number}", "completed", False) for number in (1, 2, 3, 4)] + [("p0", "completed", True)]
    assert [result.source for result in results if isinstance(result, Run)] == ["p0", "p1", "p2", "p3", "p4"]


async def test_no_more_are_synced_at_once_than_the_setting_says(
    database: ScratchDatabase, portals: list[Gated]
) -> None:
    pair, lock, live, most = threading.Barrier(2), threading.Lock(), 0, 0

    def in_pairs() -> None:
        nonlocal live, most
        with lock:
            live += 1
            most = max(most, live)
        pair.wait(PATIENCE_S)
        with lock:
            live -= 1

    for portal in portals[:4]:
        portal.answer = in_pairs
    await keep(database, portals[:4])

    async with database.open(side_by_side=2) as rowen:
        results = await rowen.runs.sync_all()

    assert [result.status for result in results if isinstance(result, Run)] == ["completed"] * 4
    assert most == 2


async def test_a_portal_that_fails_does_not_hold_the_others(database: ScratchDatabase, portals: list[Gated]) -> None:
    portals[1].down = True
    await keep(database, portals)

    async with database.open() as rowen:
        results = await rowen.runs.sync_all(["p0", "nowhere", "p1", "p2"])

    assert [result.status if isinstance(result, Run) else type(result).__name__ for result in results] == [
        *("completed", "NotFoundError", "failed", "completed")
    ]


async def test_a_callback_that_fails_ends_the_sync_and_leaves_no_live_run(
    database: ScratchDatabase, portals: list[Gated]
) -> None:
    gate = threading.Event()
    portals[1].answer = lambda: gate.wait(PATIENCE_S)
    await keep(database, portals[:2])

    def broken(target: str, result: Run | Exception) -> None:
        raise BrokenPipeError(target)

    async with database.open() as rowen:
        with pytest.raises(BrokenPipeError):
            await rowen.runs.sync_all(finished=broken)
        gate.set()

    assert database.query("select count(*) from run where status = 'running'") == [(0,)]


def test_a_host_with_many_sources_leaves_places_for_the_others() -> None:
    hosts = {"a1": "hub", "a2": "hub", "a3": "hub", "b": "city", "c": "farm"}
    turns = Turns(list(hosts), hosts)

    first = [turns.take() for _ in range(3)]
    turns.give_back(3)
    rest = [turns.take() for _ in range(3)]

    assert first == [0, 3, 4]
    assert rest == [1, 2, None]


async def test_what_has_not_begun_when_the_sync_is_stopped_is_left_out(
    database: ScratchDatabase, portals: list[Gated]
) -> None:
    await keep(database, portals)

    async with database.open(side_by_side=1) as rowen:
        results = await rowen.runs.sync_all(finished=lambda target, result: rowen.stop())

    assert [result.source for result in results if isinstance(result, Run)] == ["p0"]
    assert database.query("select count(*) from run") == [(1,)]
