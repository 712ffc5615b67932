import logging
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from aiohttp import web

from rowen.errors import CircuitOpenError, ConnectError
from rowen.net.circuits import Breakers, CircuitLimits, State
from rowen.net.credentials import Credentials
from rowen.net.response import Response

from .world import Answer, Counts, FakeTime, client, run, saying, serve, serve_raw


def answering(*statuses: int, headers: dict[str, str] | None = None) -> Answer:
    """A server that gives these answers in turn, the last one for ever."""
    left = list(statuses)

    async def answer(request: web.BaseRequest) -> web.Response:
        status = left.pop(0) if len(left) > 1 else left[0]
        return web.Response(status=status, headers=headers if status != 200 else None, text="page")

    return answer


def get(answer: Answer, **changes: object) -> tuple[Response, FakeTime, Counts]:
    async def scenario() -> tuple[Response, FakeTime, Counts]:
        time, meter = FakeTime(), Counts()
        async with serve(answer) as base, client(time, meter=meter, **changes) as fetch:
            return await fetch.get(base), time, meter

    return run(scenario())


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_an_error_that_may_pass_is_tried_again_after_growing_waits(status: int):
    page, time, meter = get(answering(status, status, 200))

    assert (page.status, meter.requests) == (200, 3)
    first, second = time.slept
    assert 0.5 <= first <= 1
    assert 1 <= second <= 2


def test_after_three_tries_the_answer_is_returned_as_it_is():
    page, _, meter = get(answering(503))

    assert (page.status, page.body, meter.requests) == (503, b"page", 3)


def test_the_number_of_tries_can_be_set():
    assert get(answering(503), fetch_tries=1)[2].requests == 1
    assert get(answering(503), fetch_tries=4)[2].requests == 4


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 410, 422, 501])
def test_other_answers_are_never_requested_twice(status: int):
    page, time, meter = get(answering(status))

    assert (page.status, meter.requests, time.slept) == (status, 1, [])


def test_a_server_that_alternates_between_200_and_503_always_answers():
    async def scenario() -> tuple[list[int], State]:
        flip = iter([503, 200] * 50)

        async def answer(request: web.BaseRequest) -> web.Response:
            return web.Response(status=next(flip))

        async with serve(answer) as base, client() as fetch:
            statuses = [(await fetch.get(f"{base}/{number}")).status for number in range(20)]
            (stats,) = fetch.breakers.stats().values()
            return statuses, stats.state

    assert run(scenario()) == ([200] * 20, State.CLOSED)


@pytest.mark.parametrize("status", [429, 503])
def test_a_retry_waits_for_retry_after_in_seconds(status: int):
    page, time, meter = get(answering(status, 200, headers={"Retry-After": "7"}))

    assert (page.status, meter.requests, sum(time.slept)) == (200, 2, 7)


def test_retry_after_as_a_date_is_measured_by_the_clock_of_the_server():
    headers = {"Retry-After": "Thu, 01 Jan 2026 12:00:42 GMT", "Date": "Thu, 01 Jan 2026 12:00:00 GMT"}

    page, time, _ = get(answering(503, 200, headers=headers))

    assert (page.status, sum(time.slept)) == (200, 42)


def test_retry_after_as_a_date_uses_the_own_clock_if_the_server_sends_none():
    async def scenario() -> list[float]:
        time = FakeTime()
        answers = iter([b"HTTP/1.1 503 Busy\r\nRetry-After: Thu, 01 Jan 2026 12:00:09 GMT\r\n", b"HTTP/1.1 200 OK\r\n"])

        async def talk(reader: object, writer: object) -> None:
            await saying(next(answers), b"Content-Length: 0\r\n\r\n")(reader, writer)

        now: Callable[[], datetime] = lambda: datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)  # noqa: E731
        async with serve_raw(talk) as base, client(time, now=now) as fetch:
            assert (await fetch.get(base)).ok
        return time.slept

    assert sum(run(scenario())) == 9


def test_a_wait_beyond_the_limit_ends_the_retries_and_both_are_logged(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, "rowen.net"):
        page, time, meter = get(answering(503, headers={"Retry-After": "86400"}))

    assert (page.status, page.retry_after_s, meter.requests, time.slept) == (503, 86400, 1, [])
    assert "86400 s" in caplog.text
    assert "ROWEN_RETRY_AFTER_LIMIT_S" in caplog.text
    assert "120 s" in caplog.text


def test_a_host_that_requested_a_pause_gets_no_other_request():
    async def scenario() -> list[float]:
        time = FakeTime()
        async with (
            serve(answering(429, 200, headers={"Retry-After": "50"})) as base,
            client(time, fetch_tries=1) as fetch,
        ):
            await fetch.get(base + "/one")
            await fetch.get(base + "/two")
        return time.slept

    assert run(scenario()) == [50]


def test_a_connection_that_breaks_is_tried_again():
    async def scenario() -> tuple[Response, Counts]:
        meter = Counts()
        good = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        answers = iter([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut", good])

        async def talk(reader: object, writer: object) -> None:
            await saying(next(answers), close=True)(reader, writer)

        async with serve_raw(talk) as base, client(meter=meter) as fetch:
            return await fetch.get(base), meter

    page, meter = run(scenario())
    assert (page.body, meter.requests) == (b"ok", 2)


def test_a_host_that_is_down_is_tried_three_times():
    async def scenario() -> tuple[FakeTime, Counts]:
        time, meter = FakeTime(), Counts()
        async with serve(answering(200)) as base:
            pass
        async with client(time, meter=meter) as fetch:
            with pytest.raises(ConnectError):
                await fetch.get(base)
        return time, meter

    time, meter = run(scenario())
    assert (len(time.slept), meter.requests) == (2, 3)


def test_five_failures_open_the_circuit_of_the_host_and_of_no_other():
    async def scenario() -> tuple[Counts, float]:
        meter = Counts()
        async with (
            serve(answering(500)) as ill,
            serve(answering(200)) as well,
            client(meter=meter, fetch_tries=1) as fetch,
        ):
            for _ in range(5):
                assert (await fetch.get(ill)).status == 500
            with pytest.raises(CircuitOpenError, match=r"127\.0\.0\.1:\d+ was not tried") as refused:
                await fetch.get(ill)
            assert (await fetch.get(well)).ok
        return meter, refused.value.retry_in_s

    meter, retry_in_s = run(scenario())
    assert (meter.requests, retry_in_s) == (6, 30)


def test_the_circuit_closes_after_two_good_answers():
    async def scenario() -> list[State]:
        time, states = FakeTime(), []
        async with serve(answering(*[500] * 5, 200)) as base, client(time, fetch_tries=1) as fetch:
            for _ in range(5):
                await fetch.get(base)
            (circuit,) = (fetch.breakers.of(host) for host in fetch.breakers.stats())
            time.at += 30
            for _ in range(2):
                await fetch.get(base)
                states.append(circuit.state())
        return states

    assert run(scenario()) == [State.HALF_OPEN, State.CLOSED]


def test_retries_stop_when_the_circuit_opens_and_the_real_answer_is_told():
    page, _, meter = get(answering(502), fetch_tries=50)

    assert (page.status, meter.requests) == (502, 5)


def test_pages_that_are_gone_or_forbidden_do_not_open_the_circuit():
    async def scenario() -> None:
        async with serve(answering(404, 403, 410, 404)) as base, client() as fetch:
            for _ in range(12):
                await fetch.get(base)
            (stats,) = fetch.breakers.stats().values()
            assert (stats.state, stats.failures) == (State.CLOSED, 0)

    run(scenario())


def test_five_answers_429_in_a_row_double_the_pause_once():
    async def scenario() -> float:
        async with serve(answering(429)) as base, client(fetch_tries=1) as fetch:
            for _ in range(5):
                await fetch.get(base)
            (stats,) = fetch.breakers.stats().values()
            return stats.recovery_s

    assert run(scenario()) == 60


def test_answers_429_open_the_circuit_and_their_retry_after_is_kept():
    async def scenario() -> tuple[float, float]:
        time = FakeTime()
        async with serve(answering(429, headers={"Retry-After": "7"})) as base, client(time, fetch_tries=1) as fetch:
            for _ in range(5):
                assert (await fetch.get(base)).status == 429
            with pytest.raises(CircuitOpenError) as refused:
                await fetch.get(base)
        return sum(time.slept), refused.value.retry_in_s

    assert run(scenario()) == (4 * 7, 60)


def test_circuits_can_be_shared_between_clients():
    async def scenario() -> None:
        breakers = Breakers(CircuitLimits(failure_threshold=1))
        async with serve(answering(500)) as base:
            async with client(fetch_tries=1, breakers=breakers) as one:
                await one.get(base)
            async with client(breakers=breakers) as other:
                with pytest.raises(CircuitOpenError):
                    await other.get(base)

    run(scenario())


def test_secrets_are_in_no_error_and_no_log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SITE_TOKEN", "s3cret")

    async def scenario() -> str:
        talk = saying(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut", close=True)
        async with serve_raw(talk) as base, client() as fetch:
            url = base.replace("//", "//me:s3cret@") + "/?api_key=s3cret&token=s3cret"
            with pytest.raises(Exception, match="ended early") as caught:
                await fetch.get(url, credentials=Credentials.of(base, {"X-Key": "env:SITE_TOKEN"}))
        return "".join(map(repr, (caught.value, caught.value.__cause__, str(caught.value), caught.value.hint)))  # type: ignore[attr-defined]

    with caplog.at_level(logging.DEBUG):
        shown = run(scenario())

    assert "/?api_key=…&token=…" in shown
    assert "waited" in caplog.text
    assert "s3cret" not in shown + caplog.text
