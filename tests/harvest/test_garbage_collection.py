"""The garbage collector looks seldom while runs are on, and as before when the last one has ended."""

import gc

from rowen.harvest.run import OBJECTS_BETWEEN, seldom_collecting


def test_the_collector_is_as_before_when_the_last_run_has_ended() -> None:
    before = gc.get_threshold()

    with seldom_collecting():
        with seldom_collecting():
            assert gc.get_threshold()[0] == OBJECTS_BETWEEN
        assert gc.get_threshold()[0] == OBJECTS_BETWEEN

    assert gc.get_threshold() == before


def test_a_collector_that_is_off_stays_off() -> None:
    before = gc.get_threshold()
    gc.set_threshold(0)
    try:
        with seldom_collecting():
            assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*before)
