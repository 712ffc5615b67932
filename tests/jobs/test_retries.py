"""Whether a job is begun again follows from the class of its error."""

from random import Random

import pytest

from rowen import errors
from rowen.errors import RowenError
from rowen.jobs.tasks import TRIES, JobTrouble, Retry, decide_retry, delay_after_loss


def every_class(kind: type[RowenError] = RowenError) -> list[type[RowenError]]:
    return [kind, *(one for child in kind.__subclasses__() for one in every_class(child))]


@pytest.mark.parametrize("kind", every_class())
def test_words_never_decide(kind: type[RowenError]) -> None:
    decided = {
        decide_retry(JobTrouble(words, kind), 1, Random(1), first_s=60)
        for words in ("", "timeout", "429 Too Many Requests", "permission denied, fatal")
    }

    assert len(decided) == 1


@pytest.mark.parametrize("kind", [one for one in every_class() if not issubclass(one, errors.BusyError)])
def test_permanent_errors_fail_at_once(kind: type[RowenError]) -> None:
    decided = decide_retry(JobTrouble("", kind), 1, Random(1), first_s=60)

    assert isinstance(decided, Retry) == kind.retryable


def test_waits_grow_and_are_spread() -> None:
    waits = [
        decide_retry(JobTrouble("", errors.ConnectError), tries, Random(seed), first_s=60)
        for tries in (1, 2, 3)
        for seed in (1, 2)
    ]

    lengths = [one.wait_s for one in waits if one]
    assert len(set(lengths)) == 6
    assert [round(length / 60) for length in lengths] == [pytest.approx(n, rel=0.3) for n in (1, 1, 5, 5, 30, 30)]
    assert decide_retry(JobTrouble("", errors.ConnectError), TRIES, Random(1), first_s=60) is None


def test_a_busy_source_is_tried_again_after_half_a_minute_however_often_that_was() -> None:
    decided = decide_retry(JobTrouble("", errors.BusyError), 99, Random(1), first_s=60)

    assert decided == Retry(pytest.approx(30, rel=0.25), counted=False)


def test_a_requested_retry_time_is_respected_up_to_a_day() -> None:
    soon = decide_retry(JobTrouble("", errors.FetchError, retry_in_s=90), 99, Random(1), first_s=60)
    late = decide_retry(JobTrouble("", errors.FetchError, retry_in_s=1e9), 1, Random(1), first_s=60)

    assert soon is not None
    assert 90 <= soon.wait_s <= 92
    assert not soon.counted
    assert late is not None
    assert late.wait_s <= 86_402


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_short_wait_is_lengthened_by_a_quarter_at_most(seed: int) -> None:
    decided = decide_retry(JobTrouble("", errors.FetchError, retry_in_s=1), 1, Random(seed), first_s=60)

    assert decided is not None
    assert 1 <= decided.wait_s <= 1.25


def test_an_error_that_names_no_time_is_tried_a_limited_number_of_times() -> None:
    trouble = JobTrouble.of(errors.ProviderDownError("The provider cannot be reached."))

    first = decide_retry(trouble, 1, Random(1), first_s=60)

    assert first is not None
    assert first.counted
    assert decide_retry(trouble, TRIES, Random(1), first_s=60) is None


def test_the_wait_that_a_run_recorded_is_kept_with_the_class_of_its_error() -> None:
    trouble = JobTrouble.named("It is busy.", errors.ConnectError.code, 90)

    decided = decide_retry(trouble, TRIES, Random(1), first_s=60)

    assert trouble.kind is errors.ConnectError
    assert decided is not None
    assert 90 <= decided.wait_s <= 92
    assert not decided.counted


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_job_whose_worker_died_begins_at_once_then_later_and_is_given_up_in_the_end(seed: int) -> None:
    waits = [delay_after_loss(tries, Random(seed), first_s=60) for tries in (1, 2, 3, 4, 5)]

    assert waits == [0, pytest.approx(60, rel=0.25), pytest.approx(300, rel=0.25), None, None]


def test_jobs_whose_workers_died_together_do_not_come_back_together() -> None:
    chance = Random(1)

    assert len({delay_after_loss(2, chance, first_s=60) for _ in range(10)}) == 10


def test_delays_are_spread_evenly_around_their_nominal_value() -> None:
    chance = Random(1)
    waits = [delay_after_loss(2, chance, first_s=60) or 0 for _ in range(200)]

    assert (min(waits), max(waits)) == (pytest.approx(45, abs=1), pytest.approx(75, abs=1))
