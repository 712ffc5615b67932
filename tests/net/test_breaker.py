import pytest

from rowen.errors import CircuitOpenError, FetchError
from rowen.net.circuits import Breaker, Breakers, CircuitLimits, State

from .world import FakeTime, settings


def fail(breaker: Breaker, times: int, *, rate_limited: bool = False) -> None:
    for _ in range(times):
        breaker.fail(breaker.admit(), rate_limited=rate_limited)


def opened(time: FakeTime, limits: CircuitLimits | None = None) -> Breaker:
    breaker = Breaker("api", limits, clock=time.clock)
    fail(breaker, 5)
    return breaker


def test_four_failures_leave_the_circuit_closed_and_the_fifth_opens_it():
    breaker = Breaker("api")

    fail(breaker, 4)
    assert breaker.state() is State.CLOSED

    fail(breaker, 1)
    assert breaker.state() is State.OPEN


def test_a_success_in_between_starts_the_count_again():
    breaker = Breaker("api")

    for _ in range(10):
        fail(breaker, 4)
        breaker.succeed(breaker.admit())

    assert breaker.state() is State.CLOSED


def test_an_open_circuit_refuses_calls_and_states_the_next_try():
    time = FakeTime()
    breaker = opened(time)
    time.at += 10

    with pytest.raises(CircuitOpenError, match="api was not tried") as refused:
        breaker.admit()

    assert refused.value.retry_in_s == 20
    assert not refused.value.retryable
    assert not refused.value.trips_circuit
    assert "20 s" in (refused.value.hint or "")
    assert isinstance(refused.value, FetchError)


def test_after_thirty_seconds_two_successes_close_it():
    time = FakeTime()
    breaker = opened(time)
    time.at += 30
    assert breaker.state() is State.HALF_OPEN

    breaker.succeed(breaker.admit())
    assert breaker.state() is State.HALF_OPEN

    breaker.succeed(breaker.admit())
    assert breaker.state() is State.CLOSED


def test_any_failure_in_the_half_open_state_opens_it_again():
    time = FakeTime()
    breaker = opened(time)
    time.at += 30
    breaker.succeed(breaker.admit())

    fail(breaker, 1)

    assert breaker.state() is State.OPEN
    assert breaker.stats().retry_in_s == 30


def test_each_opening_after_a_429_doubles_the_pause_up_to_five_minutes():
    time = FakeTime()
    breaker = Breaker("api", clock=time.clock)

    fail(breaker, 4)
    fail(breaker, 1, rate_limited=True)
    assert breaker.stats().recovery_s == 60

    for expected in (120, 240, 300, 300):
        time.at += breaker.stats().retry_in_s
        fail(breaker, 1, rate_limited=True)
        assert breaker.stats().retry_in_s == expected


def test_five_429_before_one_opening_double_the_pause_once():
    breaker = Breaker("api", clock=FakeTime().clock)

    fail(breaker, 5, rate_limited=True)

    assert breaker.stats().retry_in_s == 60


def test_a_429_before_an_opening_by_another_failure_doubles_the_pause_and_an_opening_without_one_keeps_it():
    time = FakeTime()
    breaker = Breaker("api", clock=time.clock)
    fail(breaker, 1, rate_limited=True)
    fail(breaker, 4)
    assert breaker.stats().retry_in_s == 60

    time.at += 60
    fail(breaker, 1)

    assert breaker.stats().retry_in_s == 60


def test_a_429_before_a_success_lengthens_no_later_pause():
    breaker = Breaker("api", clock=FakeTime().clock)
    fail(breaker, 1, rate_limited=True)
    breaker.succeed(breaker.admit())

    fail(breaker, 5)

    assert breaker.stats().retry_in_s == 30


def test_no_pause_is_longer_than_the_maximum_also_where_the_first_one_would_be():
    time = FakeTime()
    breaker = opened(time, CircuitLimits(recovery_s=30, max_recovery_s=4))
    assert breaker.stats().retry_in_s == 4

    time.at += 4
    fail(breaker, 1, rate_limited=True)

    assert breaker.stats().retry_in_s == 4


def test_the_pause_is_short_again_once_the_circuit_has_closed():
    time = FakeTime()
    breaker = Breaker("api", clock=time.clock)
    fail(breaker, 5, rate_limited=True)
    time.at += 300

    breaker.succeed(breaker.admit())
    breaker.succeed(breaker.admit())

    assert breaker.stats().recovery_s == 30


def test_calls_from_before_the_opening_do_not_count_afterwards():
    time = FakeTime()
    breaker = Breaker("api", clock=time.clock)
    early = [breaker.admit() for _ in range(4)]
    fail(breaker, 5)
    time.at += 30
    assert breaker.state() is State.HALF_OPEN

    breaker.fail(early[0])
    # As many as would close it, and more.
    for ticket in early[1:]:
        breaker.succeed(ticket)
    assert breaker.state() is State.HALF_OPEN
    assert breaker.stats().times_opened == 1

    breaker.succeed(breaker.admit())
    assert breaker.state() is State.HALF_OPEN
    breaker.succeed(breaker.admit())
    assert breaker.state() is State.CLOSED


def test_calls_from_before_the_opening_do_not_lengthen_the_next_pause():
    time = FakeTime()
    breaker = Breaker("api", clock=time.clock)
    early = breaker.admit()
    fail(breaker, 5)

    breaker.fail(early, rate_limited=True)
    time.at += 30
    fail(breaker, 1)

    assert breaker.stats().retry_in_s == 30


def test_one_failure_after_a_success_opens_a_half_open_circuit_at_any_threshold():
    time = FakeTime()
    breaker = Breaker("api", CircuitLimits(failure_threshold=3, success_threshold=3), clock=time.clock)
    fail(breaker, 3)
    time.at += 30
    breaker.succeed(breaker.admit())
    breaker.succeed(breaker.admit())

    fail(breaker, 1)
    assert breaker.state() is State.OPEN

    # What succeeded before the circuit opened again does not count towards its closing.
    time.at += 30
    breaker.succeed(breaker.admit())
    breaker.succeed(breaker.admit())
    assert breaker.state() is State.HALF_OPEN


@pytest.mark.parametrize("state", ["closed", "open"])
def test_reset_closes_the_circuit_and_forgets_calls_that_are_out(state: str):
    time = FakeTime()
    breaker = Breaker("api", clock=time.clock)
    early = [breaker.admit() for _ in range(5)]
    if state == "open":
        fail(breaker, 5)

    breaker.reset()
    for ticket in early:
        breaker.fail(ticket, rate_limited=True)

    assert breaker.state() is State.CLOSED
    assert breaker.stats().failures_in_a_row == 0
    fail(breaker, 5)
    assert breaker.stats().retry_in_s == 30


def test_each_opening_and_closing_is_reported_and_nothing_in_between():
    time = FakeTime()
    told: list[tuple[State, float, float]] = []

    def changed(breaker: Breaker) -> None:
        stats = breaker.stats()
        told.append((stats.state, stats.open_for_s, stats.retry_in_s))

    breaker = Breakers(clock=time.clock, changed=changed).of("api")
    for _ in range(20):
        breaker.succeed(breaker.admit())
    fail(breaker, 5)
    time.at += 30
    assert breaker.state() is State.HALF_OPEN
    fail(breaker, 1)
    time.at += 30
    for _ in range(20):
        breaker.succeed(breaker.admit())
    breaker.reset()

    assert told == [(State.OPEN, 0, 30), (State.OPEN, 30, 30), (State.CLOSED, 0, 0)]


def test_stats_count_calls_and_openings():
    breaker = opened(FakeTime())
    with pytest.raises(CircuitOpenError):
        breaker.admit()

    stats = breaker.stats()

    assert (stats.state, stats.failures, stats.successes, stats.refused, stats.times_opened) == (State.OPEN, 5, 0, 1, 1)


def test_the_settings_of_the_seeds_set_the_limits(monkeypatch: pytest.MonkeyPatch):
    for name, value in (
        ("CB_FAILURE_THRESHOLD", "2"),
        ("CB_RECOVERY_TIMEOUT_SECS", "7"),
        ("CB_SUCCESS_THRESHOLD", "3"),
        ("CB_RATE_LIMIT_BACKOFF_MULTIPLIER", "1.5"),
        ("CB_MAX_RECOVERY_TIMEOUT_SECS", "9"),
    ):
        monkeypatch.setenv(name, value)

    assert CircuitLimits.of(settings()) == CircuitLimits(2, 7, 3, 1.5, 9)


def test_each_name_has_its_own_circuit_and_one_or_all_can_be_reset():
    breakers = Breakers(CircuitLimits(failure_threshold=1))

    fail(breakers.of("one"), 1)
    assert {name: stats.state for name, stats in breakers.stats().items()} == {"one": State.OPEN}
    assert breakers.of("two").state() is State.CLOSED

    fail(breakers.of("two"), 1)
    breakers.reset("two")
    breakers.reset("three")
    assert (breakers.of("one").state(), breakers.of("two").state()) == (State.OPEN, State.CLOSED)

    fail(breakers.of("two"), 1)
    breakers.reset()
    assert {stats.state for stats in breakers.stats().values()} == {State.CLOSED}


def test_thousands_of_services_leave_a_bounded_number_of_circuits_and_every_open_one():
    time = FakeTime()
    breakers = Breakers(CircuitLimits(failure_threshold=1), clock=time.clock, most=100)
    fail(breakers.of("down.example"), 1)

    for number in range(5_000):
        breakers.of(f"host{number}.example").succeed(0)

    assert breakers.remembered == 100
    assert breakers.of("down.example").state() is State.OPEN
    assert breakers.stats()["down.example"].failures == 1
