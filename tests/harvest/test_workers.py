"""Worker processes: they pay off, and what kills one costs one item."""

import asyncio
import pickle

import pytest

from rowen import ItemError, Raw
from rowen.harvest import prepare, worker
from rowen.harvest.prepare import Workers, _Worker
from rowen.harvest.worker import LENGTH, Prepared, Refused


def markdown(number: int, size: int = 20_000) -> Raw:
    return Raw(f"https://example.org/{number}", b"# Title\n\n" + b"word " * (size // 5), name="page.md")


async def test_large_groups_are_prepared_in_processes_and_come_back_in_order() -> None:
    workers = Workers(2)
    try:
        raws = [markdown(number) for number in range(40)]
        answers = await workers.prepare(raws)

        assert [answer.document.url for answer in answers if isinstance(answer, Prepared)] == [raw.url for raw in raws]
        assert answers == worker.prepare_all(list(raws))
    finally:
        await workers.close()


async def test_small_groups_start_no_process() -> None:
    workers = Workers(2)

    assert isinstance((await workers.prepare([markdown(1, 100)]))[0], Prepared)
    assert workers._idle is None


def hostile(deed: str) -> str:
    """The code of a worker that does something bad when it meets the word."""
    return f"""
import os, time
from rowen.content import read as reader
real = reader.read
def read(raw):
    if b"HOSTILE" in raw.body:
        {deed}
    return real(raw)
reader.read = read
from rowen.harvest.worker import main
main()
"""


@pytest.mark.parametrize(
    ("deed", "blame"),
    [("os.kill(os.getpid(), 9)", "crashed"), ("time.sleep(600)", "took longer"), ("os._exit(0)", "crashed")],
)
async def test_a_body_that_kills_or_hangs_a_worker_costs_that_item_alone(
    deed: str, blame: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "COMMAND", hostile(deed))
    workers = Workers(2, time_limit_s=3)
    try:
        raws = [markdown(number) for number in range(8)]
        raws[3] = Raw("https://example.org/bad", b"HOSTILE " * 1000, name="bad.md")
        answers = await workers.prepare(raws)

        assert [type(answer) for answer in answers].count(Prepared) == 7
        refused = answers[3]
        assert isinstance(refused, Refused)
        assert blame in refused.error
    finally:
        await workers.close()


async def test_workers_end_with_their_parent_and_on_close() -> None:
    workers = Workers(1)
    await workers.prepare([markdown(number) for number in range(10)])
    [process] = [each._process for each in workers._all]
    assert process is not None

    await workers.close()

    assert process.returncode is not None


async def test_a_connector_may_have_one_body_read() -> None:
    workers = Workers(0)

    assert (await workers.read(markdown(1, 100))).title == "Title"
    with pytest.raises(ItemError):
        await workers.read(Raw("https://example.org/b", bytes(range(256)) * 10, name="b.txt"))


async def test_cancelling_leaves_no_process_behind() -> None:
    workers = Workers(1)
    task = asyncio.create_task(workers.prepare([markdown(number, 200_000) for number in range(30)]))
    await asyncio.sleep(0.3)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    processes = [each._process for each in workers._all if each._process is not None]

    await workers.close()

    assert all(process.returncode is not None for process in processes)


async def test_a_worker_whose_answer_nobody_reads_can_be_stopped() -> None:
    worker = _Worker()
    asking = asyncio.create_task(worker.ask([markdown(1, 2_000_000)]))
    while worker._process is None:
        await asyncio.sleep(0.01)
    process = worker._process
    asking.cancel()
    question = pickle.dumps([markdown(1, 2_000_000)])
    assert process.stdin is not None
    process.stdin.write(LENGTH.pack(len(question)) + question)
    while not process.stdout._paused:  # type: ignore[union-attr]
        await asyncio.sleep(0.01)

    async with asyncio.timeout(60):
        await worker.stop()

    assert process.returncode is not None
