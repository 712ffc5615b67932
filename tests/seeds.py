"""One number decides what is random in a build: whoever has it looks at the same examples again.

`ROWEN_TEST_SEED` is that number, or any other word; a run of the tests for which nobody has set it draws a new one.
Each test draws from it and its own name, so that neither the order of tests nor the process that runs one matters.
"""

import os
from collections.abc import Iterator
from hashlib import blake2b
from itertools import count
from random import SystemRandom

import pytest
from hypothesis import is_hypothesis_test, seed
from hypothesis.internal.conjecture import providers

__all__ = ["drawn", "numbers"]

_NAME = "ROWEN_TEST_SEED"

# The processes of a run inherit what the first one has drawn.
_SEED = os.environ.setdefault(_NAME, f"{SystemRandom().randrange(2**32):08x}")

# Hypothesis likes constants of the modules that are imported, and which ones are depends on the tests that ran before;
# there is no setting for it.
providers._get_local_constants = lambda: providers._local_constants


def drawn(name: str) -> int:
    """The number of 32 bits that the seed gives to whatever has this name."""
    return int.from_bytes(blake2b(f"{_SEED} {name}".encode(), digest_size=4).digest())


def numbers(name: str) -> Iterator[int]:
    """One after the other, without end."""
    return (drawn(f"{name} {place}") for place in count())


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Let the test's name and the seed decide which examples Hypothesis draws."""
    if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj):
        seed(drawn(item.nodeid))(item.obj)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Tell the seed before anything happens, however quiet the rest is."""
    _tell(session.config)


def pytest_terminal_summary(exitstatus: int, config: pytest.Config) -> None:
    """Tell it again where something failed: of a long output often only the end is kept."""
    if exitstatus == pytest.ExitCode.TESTS_FAILED:
        _tell(config)


def _tell(config: pytest.Config) -> None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(config, "workerinput"):
        reporter.write_line(f"random examples are those of {_NAME}={_SEED}")
