"""A folder that is there whole or not at all: written beside its place, and renamed when it is done."""

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rowen.errors import ExportError, RefusedError

__all__ = ["new_folder"]

_LOCK = ".lock"


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A folder to write into, which becomes `target` in the end; after an error nothing of it is left."""
    target = target.absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise RefusedError(f"{target} is there already. Nothing was written.", hint="Choose another folder with --to.")
    with _in_our_words(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(target)
        folder = Path(tempfile.mkdtemp(prefix=_prefix(target), dir=target.parent))
    try:
        with _in_our_words(target), (folder / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            folder.chmod(0o755)
            yield folder
            _settle(folder)
            folder.rename(target)
            (target / _LOCK).unlink()
            _sync(target.parent)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _prefix(target: Path) -> str:
    return f".{target.name}.partial-"


def _settle(folder: Path) -> None:
    """All of it is on disk before it gets its name."""
    for path in folder.iterdir():
        _sync(path)
    _sync(folder)


def _sync(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _sweep(target: Path) -> None:
    """Remove what killed exports to the same place left behind; a living one holds its lock."""
    for left in target.parent.glob(f"{_prefix(target)}*"):
        with suppress(OSError), (left / _LOCK).open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left)


@contextmanager
def _in_our_words(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        match problem.errno:
            case errno.ENOSPC | errno.EDQUOT:
                raise ExportError(
                    f"No space left for {target}. Nothing of it was kept.", hint="Free some, or choose another disk."
                ) from problem
            case errno.EACCES | errno.EPERM | errno.EROFS:
                raise ExportError(
                    f"{target} may not be written: {problem.strerror}.", hint="Choose another folder with --to."
                ) from problem
        raise ExportError(f"{target} could not be written: {problem}. Nothing of it was kept.") from problem
