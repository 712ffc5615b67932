"""The small world of the demo: a copy of the almanac of Rowen Hill, and what the next day does to it."""

import os
import shutil
import time
from pathlib import Path

__all__ = ["CHANGES", "lay_out", "next_day"]

WORLD = Path(__file__).parent / "demo_world"
_TICK_SECONDS = 0.05
_HOUR_NS = 3_600 * 10**9

_BEFORE = "She came over the wall in the storm of the year before last, ate, slept, and stayed."
_AFTER = "She came over the wall in the storm of the year before last, and since this morning she is called Thunder."
_TREATY = """# The treaty of the gate

Signed this morning by Edda, Joss and, with a hoof, Bartleby.

1. The gate is closed by whoever opened it.
2. In return the roof of the barn is out of bounds on Sundays.
3. Green paint is not food. The goat's objection to this article is noted.
"""

CHANGES = (
    "Number Nine gets a name: one paragraph in animals/hens.md.",
    "The goat incident is plural now: animals/the-goat-incident.txt becomes the-goat-incidents.txt.",
    "The chutney recipe is eaten, by whom is known: kitchen/plum-chutney.md is gone.",
    "Peace is made: kitchen/treaty.md is new.",
    "And a draught goes through the folder: every single file is touched.",
)


def lay_out(field: Path) -> int:
    """Copy the world; returns its number of files. Yesterday's time stamps, so that a touch shows."""
    shutil.copytree(WORLD, field, ignore=shutil.ignore_patterns("__pycache__"))
    return _touch(field, time.time_ns() - 24 * _HOUR_NS)


def next_day(field: Path) -> None:
    """Do what `CHANGES` says."""
    hens = field / "animals" / "hens.md"
    hens.write_text(hens.read_text("utf-8").replace(_BEFORE, _AFTER), "utf-8")
    incident = field / "animals" / "the-goat-incident.txt"
    incident.rename(incident.with_name("the-goat-incidents.txt"))
    (field / "kitchen" / "plum-chutney.md").unlink()
    (field / "kitchen" / "treaty.md").write_text(_TREATY, "utf-8")
    _touch(field, time.time_ns() - _HOUR_NS)


def _touch(field: Path, at_ns: int) -> int:
    files = [path for path in field.rglob("*") if path.is_file()]
    for path in files:
        os.utime(path, ns=(at_ns, at_ns))
    # Files that changed within the last clock tick are read again by the next sync; these should not be.
    time.sleep(_TICK_SECONDS)
    return len(files)
