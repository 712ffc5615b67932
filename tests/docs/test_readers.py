"""The worked example of a reader is complete: taken from the page as it stands, it passes its own test."""

from pathlib import Path
from typing import Any

from tests.conftest import ScratchDatabase
from tests.content.test_readers import Install, install
from tests.docs.markdown import ROOT, blocks

__all__ = ["install"]

PAGE = ROOT / "docs" / "readers.md"


async def test_the_worked_example_of_a_reader_passes_its_own_test(
    database: ScratchDatabase, tmp_path: Path, install: Install
) -> None:
    module, test = blocks(PAGE, "python")
    install("subtitles", module, "READER")
    names: dict[str, Any] = {}
    exec(compile(test, PAGE.name, "exec"), names)
    folder = tmp_path / "films"
    folder.mkdir()

    await names["test_subtitles_are_found_by_what_is_said"](database, folder)
