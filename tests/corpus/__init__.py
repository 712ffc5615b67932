"""Recorded responses of real portals: where they are, and the mark of the tests that read them."""

import os
from pathlib import Path

import pytest

__all__ = ["CORPUS", "needs"]

_ROOT = Path(__file__).parents[2]
_BESIDE = _ROOT.parent / "shared" / "corpus"


def _folder() -> Path:
    """Return the folder that the variable CORPUS names, else `../shared/corpus` beside the repository."""
    if not (named := os.environ.get("CORPUS")):
        return _BESIDE
    if not (folder := Path(named)).is_dir():
        raise pytest.UsageError(f"CORPUS names {named}, which is not a folder.")
    return folder


CORPUS = _folder()


def needs(folder: Path) -> pytest.MarkDecorator:
    """Skip the tests of a module where its folder of recorded responses does not exist."""
    return pytest.mark.skipif(
        not folder.is_dir(), reason="no recorded responses: CORPUS is not set, and ../shared/corpus does not exist"
    )
