"""The same seed looks at the same examples, in whatever order and in however many processes."""

import os
import subprocess
import sys
from pathlib import Path

from tests import seeds

ROOT = Path(__file__).parents[1]
TESTS = """
import os
import pytest
from hypothesis import given, settings, strategies as st

@pytest.mark.parametrize("which", [0, 1, 2])
@settings(database=None, deadline=None, max_examples=30)
@given(st.integers(), st.text())
def test_something(which, number, text):
    if which == 0:
        import rowen.model.schedules  # whose constants must not matter to what runs later
    with open(os.path.join(os.environ["HERE"], str(which)), "a", encoding="utf-8") as file:
        file.write(f"{number!r} {text!a}\\n")
"""


def looked_at(folder: Path, seed: str, *how: str) -> list[str]:
    """The examples of three tests of one run."""
    folder.mkdir()
    (folder / "conftest.py").write_text("from tests.seeds import *\nfrom tests.seeds import pytest_runtest_call\n")
    (folder / "test_something.py").write_text(TESTS)
    environment = {**os.environ, "ROWEN_TEST_SEED": seed, "HERE": str(folder), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(folder), *how]
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, timeout=120)
    return [(folder / str(which)).read_text(encoding="utf-8") for which in range(3)]


def test_neither_order_nor_processes_decide_which_examples_are_looked_at(tmp_path: Path) -> None:
    here = [f"test_something.py::test_something[{which}]" for which in range(3)]
    first = looked_at(tmp_path / "first", "1", "-n", "0", *here)

    assert looked_at(tmp_path / "again", "1", "-n", "2", *reversed(here)) == first
    assert len({*first, *looked_at(tmp_path / "other", "2", "-n", "0", *here)}) == 6


def test_a_seed_gives_each_name_numbers_of_its_own() -> None:
    ckan, oai = ([next(numbers) for _ in range(50)] for numbers in map(seeds.numbers, ["ckan", "oai"]))

    assert len({*ckan, *oai}) == 100
    assert ckan == [seeds.drawn(f"ckan {place}") for place in range(50)]
