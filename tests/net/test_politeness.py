import asyncio
import itertools
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from aiohttp import web
from aiohttp.abc import ResolveResult

from rowen.net.client import Client
from rowen.net.politeness import Throttle, backoff_s, retry_after_s

from .world import FakeTime, Names, client, run, serve, settings

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


def starts(throttle: Throttle, time: FakeTime, hosts: list[str]) -> list[float]:
    async def scenario() -> list[float]:
        began = []
        for host in hosts:
            gate = await throttle.enter(host)
            began.append(time.at)
            gate.release()
        return began

    return run(scenario())


def test_requests_to_one_host_start_a_second_to_a_second_and_a_half_apart():
    time = FakeTime()
    throttle = Throttle(clock=time.clock, sleep=time.sleep)

    began = starts(throttle, time, ["a.example"] * 20)

    gaps = [later - earlier for earlier, later in itertools.pairwise(began)]
    assert all(1.0 <= gap <= 1.5 for gap in gaps)
    assert len({round(gap, 6) for gap in gaps}) > 10


def test_the_same_seed_gives_the_same_pace():
    def paced(seed: int) -> list[float]:
        time = FakeTime()
        return starts(Throttle(clock=time.clock, sleep=time.sleep, random=Random(seed)), time, ["a"] * 5)

    assert paced(1) == paced(1)
    assert paced(1) != paced(2)


def test_other_hosts_do_not_wait():
    time = FakeTime()

    began = starts(Throttle(clock=time.clock, sleep=time.sleep), time, ["a", "b", "c"])

    assert began == [1000.0] * 3


def test_a_delay_of_zero_means_no_waiting_at_all():
    time = FakeTime()

    starts(Throttle(delay_s=0, clock=time.clock, sleep=time.sleep), time, ["a"] * 50)

    assert time.slept == []


def test_one_host_can_be_given_its_own_pace():
    time = FakeTime()
    throttle = Throttle(delay_s=0, clock=time.clock, sleep=time.sleep)
    throttle.pace("a", delay_s=10)

    began = starts(throttle, time, ["a", "a"])

    assert 10 <= began[1] - began[0] <= 15


def test_a_crawl_delay_is_kept_up_to_the_longest_wait():
    time = FakeTime()
    throttle = Throttle(delay_s=0, longest_s=60, clock=time.clock, sleep=time.sleep)
    throttle.pace("a", crawl_delay_s=20)
    throttle.pace("b", crawl_delay_s=86400)

    assert starts(throttle, time, ["a", "a"]) == [1000, 1020]
    assert starts(throttle, time, ["b", "b"]) == [1020, 1080]


def test_a_paused_host_gets_no_request_until_the_pause_ends():
    time = FakeTime()
    throttle = Throttle(delay_s=0, longest_s=60, clock=time.clock, sleep=time.sleep)
    run(throttle.hold("a", 45))
    run(throttle.hold("a", 5))

    assert starts(throttle, time, ["b", "a", "a"]) == [1000, 1045, 1045]


def test_no_more_than_three_requests_to_a_host_run_at_once():
    async def scenario() -> int:
        throttle = Throttle(delay_s=0)
        running = most = 0

        async def one() -> None:
            nonlocal running, most
            gate = await throttle.enter("a")
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1
            gate.release()

        await asyncio.gather(*(one() for _ in range(30)))
        return most

    assert run(scenario()) == 3


def test_giving_up_while_waiting_frees_the_turn():
    async def scenario() -> None:
        throttle = Throttle(delay_s=1000, concurrency=1)
        (await throttle.enter("a")).release()
        waiting = asyncio.create_task(throttle.enter("a"))
        await asyncio.sleep(0)

        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

        throttle.pace("a", delay_s=0)
        throttle._lanes.get("a").free_at = 0
        (await asyncio.wait_for(throttle.enter("a"), 5)).release()

    run(scenario())


def test_a_host_that_is_paced_again_keeps_its_turns():
    async def scenario() -> int:
        throttle = Throttle(delay_s=0, concurrency=1)
        permits = [await throttle.enter("a")]
        throttle.pace("a", concurrency=1)
        second = asyncio.create_task(throttle.enter("a"))
        await asyncio.sleep(0)
        waited = not second.done()
        permits[0].release()
        (await second).release()
        return waited

    assert run(scenario())


def test_two_processes_do_not_retry_in_step():
    waits = subprocess.run(
        [sys.executable, "-c", _WAITS], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    again = subprocess.run(
        [sys.executable, "-c", _WAITS], capture_output=True, text=True, check=True, timeout=60
    ).stdout

    assert len(waits.split()) == 3
    assert waits != again


_WAITS = """
import asyncio
from rowen.net.client import Client
from rowen.net.client import Client
from rowen.net.politeness import Throttle
from rowen.settings import Settings
async def skip(_): pass
client = Client(Settings(), sleep=skip)
lane = client.throttle._lane("a")
print(client._random.random(), lane.gap_s(client.throttle._random), Throttle()._random.random())
"""


def test_a_process_that_meets_thousands_of_hosts_remembers_a_bounded_number():
    time = FakeTime()

    async def scenario() -> tuple[Throttle, list[float]]:
        throttle = Throttle(clock=time.clock, sleep=time.sleep, most_hosts=100)
        held = await throttle.enter("held.example")
        await throttle.hold("waiting.example", 60)
        for number in range(5_000):
            (await throttle.enter(f"host{number}.example")).release()
            time.at += 2
            if number == 10:
                began = [time.at]
                (await throttle.enter("waiting.example")).release()
                began.append(time.at)
        held.release()
        return throttle, began

    throttle, (asked, given) = run(scenario())

    assert throttle.remembered == 100
    assert given - asked == pytest.approx(60 - 22)


def test_hosts_with_pending_requests_are_never_forgotten():
    async def scenario() -> tuple[int, int]:
        throttle = Throttle(delay_s=0, most_hosts=10)
        permits = [await throttle.enter(f"host{number}") for number in range(50)]
        most = throttle.remembered
        for permit in permits:
            permit.release()
        (await throttle.enter("another")).release()
        return most, throttle.remembered

    assert run(scenario()) == (50, 10)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("120", 120.0),
        (" 0 ", 0.0),
        ("Thu, 01 Jan 2026 12:01:30 GMT", 90.0),
        ("Thu, 01 Jan 2026 11:00:00 GMT", 0.0),
        ("Thursday, 01-Jan-26 12:00:10 GMT", 10.0),
        ("Thu Jan  1 12:00:05 2026", 5.0),
        ("9" * 400, 999999999999999.0),
        ("-5", None),
        ("soon", None),
        ("²", None),
        ("", None),
        (None, None),
        ("Thu, 99 Foo 2026 99:99:99 GMT", None),
    ],
)
def test_retry_after_is_read_in_both_forms(value: str | None, expected: float | None):
    assert retry_after_s(value, NOW) == expected


def test_backoff_doubles_with_jitter_and_has_an_end():
    random = Random(0)

    waits = [backoff_s(tried, random) for tried in range(1, 12)]

    assert len(waits) == 11
    assert all(0.5 * 2**n <= wait_s <= 2**n for n, wait_s in enumerate(waits[:5]))
    assert all(15 <= wait_s <= 30 for wait_s in waits[5:])


class SharedPace:
    """A pace that asks somebody else, and so has to wait for each word."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.running = 0

    def pace(self, host: str, **changes: float | None) -> None:
        self.told.append("pace")

    async def hold(self, host: str, wait_s: float) -> None:
        await asyncio.sleep(0)
        self.told.append(f"hold {wait_s:g}")

    async def enter(self, host: str) -> "SharedPace":
        await asyncio.sleep(0)
        self.told.append("enter")
        self.running += 1
        return self

    def sent(self) -> None:
        self.told.append("sent")

    def release(self) -> None:
        self.told.append("release")
        self.running -= 1


def test_a_client_takes_its_pace_from_whoever_implements_it():
    answers = [web.Response(status=429, headers={"Retry-After": "3"}), web.Response(text="hay")]

    async def answer(request: web.BaseRequest) -> web.Response:
        return answers.pop(0)

    async def scenario() -> tuple[bytes, SharedPace]:
        pace = SharedPace()
        async with serve(answer) as base, client(throttle=pace) as fetch:
            fetch.pace(base, delay_s=1)
            return (await fetch.get(base)).body, pace

    body, pace = run(scenario())

    assert (body, pace.running) == (b"hay", 0)
    assert pace.told == ["pace", "enter", "sent", "release", "hold 3", "enter", "sent", "release"]


def test_the_gap_counts_from_when_a_request_left():
    time = FakeTime()
    throttle = Throttle(clock=time.clock, sleep=time.sleep)

    async def scenario() -> float:
        permit = await throttle.enter("a")
        time.at += 30.0
        permit.sent()
        permit.release()
        (await throttle.enter("a")).release()
        return time.at

    assert run(scenario()) == 1031.0


def test_a_request_leaves_when_its_connection_is_there():
    time = FakeTime()

    class Slow(Names):
        async def resolve(self, *asked: Any, **options: Any) -> list[ResolveResult]:
            time.at += 30.0
            return await super().resolve(*asked, **options)

    async def answer(request: web.BaseRequest) -> web.Response:
        return web.Response(text=str(time.at))

    async def scenario() -> list[bytes]:
        async with serve(answer) as url, client(time, resolver=Slow(a_test=[["127.0.0.1"]]), host_delay_s=5) as asking:
            there = url.replace("127.0.0.1", "a.test")
            return [(await asking.get(there)).body for _ in range(2)]

    first, second = map(float, run(scenario()))

    assert first == 1030.0
    assert second >= 1035.0


async def _pauses_s(asked: Callable[[str], str], **changes: Any) -> list[float]:
    """How long three requests to a server on loopback waited for their turn."""
    time = FakeTime()
    wanted = settings(**changes)
    if "host_delay_s" not in changes:
        unset = wanted.model_fields_set - {"host_delay_s"}
        wanted = wanted.model_copy(update={"host_delay_s": 1.0, "model_fields_set": unset})
    resolver = Names(farm_test=[["127.0.0.1"]])

    async def answer(_: web.BaseRequest) -> web.Response:
        return web.Response(text="hay")

    async with serve(answer) as url, Client(wanted, clock=time.clock, sleep=time.sleep, resolver=resolver) as asking:
        for _ in range(3):
            await asking.get(asked(url))
    return time.slept


def test_allowed_hosts_of_the_own_network_get_requests_without_a_pause():
    named = {"allow_addresses_for": {"farm.test": "127.0.0.0/8"}}

    assert run(_pauses_s(str)) == []
    assert run(_pauses_s(lambda url: url.replace("127.0.0.1", "farm.test"), **named)) == []


def test_a_pause_that_was_set_by_hand_is_kept_on_ones_own_network_too():
    assert len(run(_pauses_s(str, host_delay_s=1.0))) == 2


def test_other_hosts_get_requests_with_pauses():
    assert len(run(_pauses_s(lambda url: url.replace("127.0.0.1", "farm.test")))) == 2
