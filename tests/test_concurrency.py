"""Work side by side ends together, whoever fails or is cancelled, and however often."""

import asyncio
from typing import Any

import pytest

from rowen.concurrency import end, finish, together


class Works:
    """Pieces of work that wait for each other, and what became of them."""

    def __init__(self) -> None:
        self.begun = 0
        self.over: list[str] = []

    async def wait(self, name: str = "waiting") -> str:
        self.begun += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            # To tidy up takes a while.
            await asyncio.sleep(0)
            self.over.append(name)
            raise
        return name

    async def fail(self) -> str:
        await asyncio.sleep(0)
        raise LookupError("first")

    async def say(self, word: str) -> str:
        await asyncio.sleep(0)
        return word


async def test_results_come_in_the_order_of_the_works() -> None:
    works = Works()

    assert await together(works.say("one"), works.say("two"), asyncio.sleep(0.01, "three")) == ["one", "two", "three"]
    assert await together() == []


async def test_the_first_failure_ends_the_others_and_is_raised_as_it_came() -> None:
    works = Works()

    with pytest.raises(LookupError, match="first"):
        await together(works.wait(), works.fail(), works.wait())

    assert works.over == ["waiting", "waiting"]


async def test_after_a_failure_the_task_is_not_taken_for_cancelled() -> None:
    with pytest.raises(LookupError):
        await together(Works().fail())

    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_cancellation_ends_all_and_a_second_one_waits_for_the_end() -> None:
    works = Works()
    task = asyncio.create_task(_all(together(works.wait(), works.wait())))
    while works.begun < 2:
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert works.over == ["waiting", "waiting"]


async def test_what_has_to_be_finished_is_finished_before_a_cancellation_is_raised() -> None:
    done: list[bool] = []

    async def work() -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        done.append(True)

    task = asyncio.create_task(_all(finish(work())))
    for _ in range(3):
        await asyncio.sleep(0)
        task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == [True]
    with pytest.raises(LookupError):
        await finish(Works().fail())


async def test_tasks_are_ended_with_what_they_raise_on_their_way() -> None:
    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise LookupError("on its way")

    tasks = [asyncio.create_task(stubborn()), asyncio.create_task(asyncio.sleep(0))]
    await asyncio.sleep(0)
    await end(tasks)

    assert all(task.done() for task in tasks)


async def _all(work: Any) -> Any:
    return await work
