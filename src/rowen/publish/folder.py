"""A folder that is there whole or not at all: written beside its place, and renamed when it is done."""

import errno
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rowen.errors import ExportError, NotFoundError, RefusedError

__all__ = [
    "COVERAGE",
    "FORMAT",
    "FORMAT_VERSION",
    "MANIFEST",
    "Earlier",
    "checked",
    "file_facts",
    "new_folder",
    "write_json",
]

_LOCK = ".lock"
FORMAT = "rowen-export"
# Raised when a reader of older manifests would misread a new one.
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
COVERAGE = "coverage.json"


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Return a folder to write into, which becomes `target` in the end; after an error nothing of it is left."""
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


@dataclass(frozen=True, slots=True)
class Earlier:
    """A snapshot to compare with: its folder, its identity file, its sources, and when it was made."""

    folder: Path
    identity: Path
    sources: frozenset[str]
    created_at: str
    last_change: int


def write_json(path: Path, value: Any) -> None:
    """A small file for people and programs."""
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", "utf-8")


def file_facts(path: Path) -> dict[str, Any]:
    """Name, size and checksum of a file."""
    with path.open("rb") as file:
        return {
            "name": path.name,
            "bytes": path.stat().st_size,
            "sha256": hashlib.file_digest(file, "sha256").hexdigest(),
        }


def checked(folder: Path) -> Earlier:
    """Return an earlier snapshot, if it is one, of a version that we know, and its identity file is what it was."""
    manifest = _manifest(folder)
    version = manifest.get("format_version")
    if version != FORMAT_VERSION:
        raise ExportError(
            f"The snapshot in {folder} has version {version} of the format; this program knows {FORMAT_VERSION}."
            " Nothing was written.",
            hint="Leave --previous out this once: the next one can be compared again.",
        )
    if manifest.get("limit") is not None:
        raise ExportError(
            f"The snapshot in {folder} holds only a part of the items (--limit). Nothing was written.",
            hint="Compare with one that holds all of them.",
        )
    try:
        identity = folder / _plain(manifest["identity"])
        listed = {one["name"]: one for one in manifest["files"]}[identity.name]
        sources = frozenset(str(one["name"]) for one in manifest["sources"])
        earlier = Earlier(folder, identity, sources, str(manifest["created_at"]), int(manifest["last_change"]))
    except (KeyError, TypeError, ValueError) as problem:
        raise ExportError(f"{folder / MANIFEST} is damaged: {problem!r}. Nothing was written.") from None
    _verify(identity, listed)
    return earlier


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise NotFoundError(
            f"There is no snapshot in {folder}: it has no {MANIFEST}.", hint="--previous is a folder that export made."
        ) from None
    except (OSError, ValueError) as problem:
        raise ExportError(f"{path} cannot be read: {problem}. Nothing was written.") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ExportError(f"{path} is no manifest of Rowen's. Nothing was written.")
    return manifest


def _plain(name: Any) -> str:
    """Return a file name that does not lead out of its folder."""
    if not isinstance(name, str) or Path(name).name != name:
        raise ValueError(name)
    return name


def _verify(path: Path, listed: dict[str, Any]) -> None:
    try:
        facts = file_facts(path)
    except OSError as problem:
        raise ExportError(f"{path} cannot be read: {problem.strerror}. Nothing was written.") from None
    if facts["sha256"] != listed.get("sha256"):
        raise ExportError(
            f"{path} is not what its manifest says: SHA-256 {facts['sha256']} instead of {listed.get('sha256')}."
            " It was changed after it was written, so it cannot be compared with. Nothing was written.",
            hint="Take an unchanged copy, or leave --previous out.",
        )
