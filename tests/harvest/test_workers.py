"""Worker processes: they pay off, and what kills one costs one item."""

import asyncio
import operator
import pickle
import signal
from asyncio.subprocess import Process
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from rowen import Checkpoint, Complete, Fetched, ItemError, Raw, programs
from rowen.content import chunks
from rowen.harvest import parse_pool, parse_worker
from rowen.harvest.parse_pool import FactWorkers, Workers, _Worker
from rowen.harvest.parse_worker import (
    HEAD,
    Answer,
    Call,
    Passages,
    Prepared,
    Raised,
    Refused,
    Result,
    Task,
    Text,
    Uncut,
    unpickle,
)
from rowen.model.items import FactsWanted
from tests.cancelling import cancelled_at_each_wait, cancelled_at_wait
from tests.conftest import ScratchDatabase
from tests.portals.scripted import Scripted, shows


def markdown(number: int, size: int = 20_000) -> Raw:
    return Raw(f"https://example.org/{number}", b"# Title\n\n" + b"word " * (size // 5), name="page.md")


async def test_large_groups_are_prepared_in_processes_and_come_back_in_order() -> None:
    workers = Workers(2)
    try:
        raws = [markdown(number) for number in range(40)]
        answers = await workers.prepare(raws)

        assert [answer.document.url for answer in answers if isinstance(answer, Prepared)] == [raw.url for raw in raws]
        assert answers == parse_worker.prepare_all(list(raws))
    finally:
        await workers.close()


async def test_small_groups_start_no_process() -> None:
    workers = Workers(2)

    assert isinstance((await workers.prepare([markdown(1, 100)]))[0], Prepared)
    assert workers._idle is None


def hostile(deed: str) -> str:
    """The code of a worker that does something bad when it meets the word."""
    return f"""
import ctypes, os, time
from rowen.content import readers as reader
real = reader.read
def read(raw):
    if b"HOSTILE" in raw.body:
        {deed}
    return real(raw)
reader.read = read
from rowen.harvest.parse_worker import main
main()
"""


@pytest.mark.parametrize(
    ("deed", "blame"),
    [("ctypes.string_at(0)", "crashed"), ("time.sleep(600)", "took longer"), ("os._exit(0)", "crashed")],
)
async def test_a_body_that_kills_or_hangs_a_worker_costs_that_item_alone(
    deed: str, blame: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parse_pool, "COMMAND", hostile(deed))
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


async def test_cancelling_leaves_no_process_behind(processes: list[Process]) -> None:
    workers = Workers(2)
    task = asyncio.create_task(workers.prepare([markdown(number, 200_000) for number in range(30)]))
    await started(processes)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    await workers.close()

    assert processes
    assert all(process.returncode is not None for process in processes)


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[Process]:
    """All worker processes that are started."""
    seen: list[Process] = []

    async def noted(*command: Any, **how: Any) -> Process:
        seen.append(await programs.start(*command, **how))
        return seen[-1]

    monkeypatch.setattr(parse_pool, "start", noted)
    return seen


async def started(processes: list[Process]) -> None:
    async with asyncio.timeout(60):
        while not processes:
            await asyncio.sleep(0.01)


async def assert_each_gets_its_own(workers: Workers, note: object = "") -> None:
    for number in range(3):
        raw = Raw(f"https://example.org/next/{number}", f"# Next {number}\n\n{'word ' * 4000}".encode(), name="n.md")
        document = await workers.read(raw)
        assert (document.url, document.title) == (raw.url, f"Next {number}"), note


async def test_after_a_cancelled_question_the_next_ones_get_their_own_answers(processes: list[Process]) -> None:
    workers = Workers(1)
    waits = 0
    try:
        async for number in cancelled_at_each_wait(lambda: workers._ask([markdown(1, 150_000)])):
            waits = number
            await assert_each_gets_its_own(workers, number)
    finally:
        await workers.close()

    assert waits > 2
    assert all(process.returncode is not None for process in processes)


async def test_a_worker_that_is_starting_can_be_cancelled(processes: list[Process]) -> None:
    workers = Workers(1)
    try:
        for _ in range(3):
            assert await cancelled_at_wait(workers._ask([markdown(1)]), 1)
        await assert_each_gets_its_own(workers)
    finally:
        await workers.close()

    assert len(processes) == 1
    assert all(process.returncode is not None for process in processes)


async def test_a_late_answer_belongs_to_no_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse_pool, "COMMAND", hostile("time.sleep(1)"))
    workers = Workers(1)
    try:
        await assert_each_gets_its_own(workers)
        workers._time_limit_s = 0.1
        with pytest.raises(ItemError, match="took longer"):
            await workers.read(Raw("https://example.org/bad", b"HOSTILE " * 2000, name="bad.md"))
        workers._time_limit_s = 60
        await assert_each_gets_its_own(workers)
    finally:
        await workers.close()


@pytest.mark.parametrize("failure", [MemoryError, KeyboardInterrupt, GeneratorExit])
async def test_a_question_that_fails_in_any_way_leaves_no_answer_behind(
    failure: type[BaseException], monkeypatch: pytest.MonkeyPatch, processes: list[Process]
) -> None:
    workers = Workers(1)

    def fail(*_: Any) -> None:
        raise failure

    try:
        monkeypatch.setattr(parse_pool, "unpickle", fail)
        with pytest.raises(failure):
            await workers._ask([markdown(1)])
        monkeypatch.setattr(parse_pool, "unpickle", unpickle)
        await assert_each_gets_its_own(workers)
    finally:
        await workers.close()

    assert [process.returncode is not None for process in processes] == [True, True]


async def test_a_worker_that_died_between_two_questions_costs_no_item(processes: list[Process]) -> None:
    workers = Workers(1)
    try:
        await assert_each_gets_its_own(workers)
        processes[0].kill()
        await processes[0].wait()
        await assert_each_gets_its_own(workers)
    finally:
        await workers.close()


async def test_an_answer_with_the_number_of_another_question_is_refused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    late = """
from rowen.harvest import parse_worker
class Head:
    size, unpack, real = parse_worker.HEAD.size, parse_worker.HEAD.unpack, parse_worker.HEAD
    @classmethod
    def pack(cls, number, size):
        return cls.real.pack(number - 1, size)
parse_worker.HEAD = Head
parse_worker.main()
"""
    monkeypatch.setattr(parse_pool, "COMMAND", late)
    workers = Workers(1)
    try:
        with pytest.raises(ItemError, match="crashed"):
            await workers.read(markdown(1))
    finally:
        await workers.close()

    assert "answered request 0 instead of request 1" in caplog.text


@pytest.mark.parametrize(
    "answer",
    [
        "import dataclasses; return dataclasses.replace(real(raw), url='https://example.org/other')",
        "return 'no document'",
    ],
)
async def test_an_answer_about_another_page_is_refused(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse_pool, "COMMAND", hostile(answer))
    workers = Workers(1)
    try:
        raws = [markdown(1), Raw("https://example.org/bad", b"HOSTILE " * 2000, name="bad.md"), markdown(2)]
        answers = await workers.prepare(raws)
    finally:
        await workers.close()

    assert [type(answer) for answer in answers] == [Prepared, Refused, Prepared]


MISCOUNTING = """
from rowen.harvest import parse_worker
real = parse_worker.prepare_all
parse_worker.prepare_all = lambda tasks: {}
parse_worker.main()
"""


@pytest.mark.parametrize("answers", ["real(tasks)[:-1]", "real(tasks) + real(tasks[:1])", "tuple(real(tasks))"])
async def test_another_number_of_answers_than_of_tasks_is_refused(
    answers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parse_pool, "COMMAND", MISCOUNTING.format(answers))
    workers = Workers(1)
    try:
        refused = await workers.prepare([markdown(1), markdown(2)])
    finally:
        await workers.close()

    assert [type(answer) for answer in refused] == [Refused, Refused]


async def test_a_call_may_return_classes_of_its_own_package_and_of_no_other() -> None:
    long, third = " " * 10_000, Fraction(1, 3)
    workers = Workers(1)
    try:
        assert await workers.call(Fraction, long + "1/3") == third
        with pytest.raises(ItemError, match="crashed"):
            await workers.call(operator.getitem, [third, long], 0)
    finally:
        await workers.close()


@pytest.mark.parametrize(("page", "answer"), [("1", Passages), ("other", Refused)])
async def test_passages_of_another_page_are_refused(
    page: str, answer: type[Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    passages = f"[parse_worker.Passages('https://example.org/{page}', [])]"
    monkeypatch.setattr(parse_pool, "COMMAND", MISCOUNTING.format(passages))
    workers = Workers(1)
    try:
        answers = await workers.prepare([Text("https://example.org/1", "word " * 20_000)])
    finally:
        await workers.close()

    assert [type(one) for one in answers] == [answer]


async def test_an_answer_that_is_too_large_is_not_read(
    monkeypatch: pytest.MonkeyPatch, processes: list[Process]
) -> None:
    monkeypatch.setattr(parse_pool, "MOST_ANSWER_BYTES", 30_000)
    workers = Workers(1)
    try:
        answers = [await workers.prepare([markdown(1, size)]) for size in (10_000, 50_000)]
    finally:
        await workers.close()

    assert [type(answer) for [answer] in answers] == [Prepared, Refused]
    assert len(processes) == 1


@pytest.mark.parametrize(
    ("facts", "is_inline"),
    [
        (None, True),
        (FactsWanted(("price",)), True),
        (FactsWanted(rules=(("offer/price", ".price"),)), True),
        (FactsWanted(rules=(("offer/price", "//span"),)), False),
        (FactsWanted(rules=(("offer/price", "p:has(b)"),)), False),
    ],
)
def test_a_small_page_is_read_inline_unless_a_rule_may_cost_more_than_its_size(
    facts: FactsWanted | None, is_inline: bool
) -> None:
    page = replace(markdown(1, 100), facts=facts)

    assert (parse_pool._weight(page) <= parse_pool.INLINE_BODY_BYTES) is is_inline
    assert (parse_pool._weight(Uncut(page)) <= parse_pool.INLINE_BODY_BYTES) is is_inline


def test_texts_in_lists_count_towards_the_size_of_a_call() -> None:
    assert parse_pool._weight(Call(len, (["x" * 100, ("y" * 100,)],))) <= parse_pool.INLINE_BODY_BYTES
    assert not (parse_pool._weight(Call(len, (["x" * 5_000, ("y" * 5_000,)],))) <= parse_pool.INLINE_BODY_BYTES)


def test_a_batch_is_bounded_by_its_tasks_and_by_its_bytes() -> None:
    small = [markdown(number, 100) for number in range(40)]
    large = [markdown(number, 100_000) for number in range(5)]

    assert [len(batch) for batch in parse_pool._batches(small)] == [16, 16, 8]
    assert [len(batch) for batch in parse_pool._batches(large)] == [2, 2, 1]


async def test_a_large_body_has_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse_pool, "LEAST_BYTES_PER_S", 200)
    workers = Workers(1, time_limit_s=0.001)
    try:
        [answer] = await workers.prepare([markdown(1)])
    finally:
        await workers.close()

    assert isinstance(answer, Prepared)


@pytest.fixture
def _interruptible() -> Iterator[None]:
    """Let programs that are started here be ended by SIGINT, also where these tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
async def test_an_interrupt_from_the_keyboard_ends_no_worker(processes: list[Process]) -> None:
    workers = Workers(1)
    try:
        await assert_each_gets_its_own(workers)
        processes[0].send_signal(signal.SIGINT)
        await assert_each_gets_its_own(workers)
    finally:
        await workers.close()

    assert len(processes) == 1


def test_each_failure_of_a_task_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: str) -> Any:
        raise {
            "item": ItemError("Cannot be cut.", hint="Exclude it."),
            "memory": MemoryError(),
            "deep": RecursionError(),
        }[text]

    monkeypatch.setattr(chunks, "split", refuse)
    tasks = [*(Text("https://example.org/", text) for text in ("item", "memory", "deep")), Call(int, ("no number",))]
    item, memory, deep, number = parse_worker.prepare_all(tasks)

    assert item == Refused("Cannot be cut.", "Exclude it.")
    assert all(isinstance(each, Refused) and "too large" in each.error for each in (memory, deep))
    assert isinstance(number, Raised)


def test_answers_that_cannot_be_pickled_are_refused_individually() -> None:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]

    written = pickle.loads(parse_worker._pickled([Result(nested), Result(1)]))

    assert [type(answer) for answer in written] == [Refused, Refused]
    # Taken apart by hand: the interpreter would do it by recursion.
    while nested:
        nested = nested.pop()


async def test_facts_are_wanted_of_bodies_with_and_without_passages(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Task] = []

    async def prepared(_: Workers, tasks: list[Task]) -> list[Answer]:
        asked.extend(tasks)
        return []

    monkeypatch.setattr(Workers, "prepare", prepared)
    wanted = FactsWanted(("price",))
    text = Text("https://example.org/", "Text.")
    await FactWorkers(Workers(0), wanted).prepare([markdown(1), Uncut(markdown(2)), text])

    assert asked == [replace(markdown(1), facts=wanted), Uncut(replace(markdown(2), facts=wanted)), text]


async def test_closing_in_the_middle_of_a_question_ends_it(processes: list[Process]) -> None:
    workers = Workers(1)
    asking = asyncio.create_task(workers.read(markdown(1, 2_000_000)))
    waiting = asyncio.create_task(workers.read(markdown(2)))
    await started(processes)

    await workers.close()

    results = await asyncio.gather(asking, waiting, return_exceptions=True)
    assert [str(result) for result in results] == ["The parse workers were closed while they read a body."] * 2
    assert all(process.returncode is not None for process in processes)
    await assert_each_gets_its_own(workers)
    await workers.close()


async def test_closing_that_is_cancelled_leaves_no_process_behind(processes: list[Process]) -> None:
    workers = Workers(2)
    await workers.prepare([markdown(number) for number in range(40)])

    assert await cancelled_at_wait(workers.close(), 1)

    assert processes
    async with asyncio.timeout(60):
        for process in processes:
            await process.wait()
    await assert_each_gets_its_own(workers)
    await workers.close()


async def test_a_worker_with_an_unread_answer_can_be_stopped() -> None:
    worker = _Worker()
    asking = asyncio.create_task(worker.ask([markdown(1)]))
    await asking
    process = worker._process
    assert process is not None and process.stdin is not None and process.stdout is not None  # noqa: PT018
    question = pickle.dumps([markdown(1, 2_000_000)])
    process.stdin.write(HEAD.pack(2, len(question)) + question)
    async with asyncio.timeout(60):
        while not process.stdout._paused:  # type: ignore[attr-defined]
            await asyncio.sleep(0.01)
        worker.close()
        await worker.ended()

    assert process.returncode is not None


async def test_an_answer_about_another_page_fails_the_run_and_is_not_stored(
    database: ScratchDatabase, kinds: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds(Scripted)
    prepared = Workers.prepare

    async def swapped(workers: Workers, tasks: list[Task]) -> list[Answer]:
        return (await prepared(workers, tasks))[::-1]

    monkeypatch.setattr(Workers, "prepare", swapped)
    shows(Fetched(markdown(1)), Fetched(markdown(2)), Checkpoint("end"), Complete())
    async with database.open() as r:
        await r.sources.add("scripted:one", name="one")
        with pytest.raises(RuntimeError, match=r"answer to https://example.org/1 is about https://example.org/2"):
            await r.sync("one")

        [run] = await r.runs.list()
        assert (run.status, "is about https://example.org/2" in (run.error or "")) == ("failed", True)
    assert database.query("select count(*) from item") == [(0,)]
