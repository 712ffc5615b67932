"""Workers tell a receiver each change once, however many of them work side by side."""

from pathlib import Path

from tests.conftest import ScratchDatabase
from tests.jobs.deliveries import SOURCES, deliver_all


def test_changes_of_twelve_sources_and_two_workers_all_reach_a_receiver(
    database: ScratchDatabase, tmp_path: Path
) -> None:
    changes = SOURCES * 40

    told = deliver_all(database, tmp_path, changes=changes)

    assert (told.changes, told.missing, told.repeated, told.after) == (changes, [], [], changes)
