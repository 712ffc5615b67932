"""Every reader, under fire for a short while; `make fuzz` does so for long."""

import pytest

from tests.hostile.fuzz.harness import SECONDS, fuzz, load

TARGETS = load()


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_crashes_a_reader_or_takes_a_second(name):
    report = fuzz(TARGETS[name], SECONDS)

    assert not report.findings, "\n".join(map(str, report.findings))
