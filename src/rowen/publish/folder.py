"""Write a folder completely or not at all: under a temporary name, which is changed when the folder is complete."""

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

_LOCK = ".lock"
FORMAT = "rowen-export"
# Increased when software for older manifests would misread a new one.
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
COVERAGE = "coverage.json"


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Yield a temporary folder, which is renamed to `target` at the end; after an error it is removed."""
    target = target.absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise RefusedError(f"{target} exists already. Nothing was written.", hint="Choose another folder with --to.")
    prefix = f".{target.name}.partial-"
    with _translate_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        # A running export holds the lock of its folder; folders of killed exports to the same place are removed.
        for left in target.parent.glob(f"{prefix}*"):
            with suppress(OSError), (left / _LOCK).open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left)
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=target.parent))
    try:
        with _translate_errors(target), (folder / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            folder.chmod(0o755)
            yield folder
            # All files must be on disk before the folder gets its final name.
            for path in (*folder.iterdir(), folder):
                _sync(path)
            folder.rename(target)
            (target / _LOCK).unlink()
            _sync(target.parent)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _sync(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


@contextmanager
def _translate_errors(target: Path) -> Iterator[None]:
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
    """An earlier snapshot to compare with: its folder, identity file, sources and creation date."""

    folder: Path
    identity: Path
    sources: frozenset[str]
    created_at: str
    last_change: int


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON, for people and programs."""
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", "utf-8")


def file_facts(path: Path) -> dict[str, Any]:
    """Return the name, size and checksum of a file."""
    with path.open("rb") as file:
        return {
            "name": path.name,
            "bytes": path.stat().st_size,
            "sha256": hashlib.file_digest(file, "sha256").hexdigest(),
        }


def checked(folder: Path) -> Earlier:
    """Return an earlier snapshot; raise an error if its version is unknown or its identity file was modified."""
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
        raise ExportError(f"{path} is not a manifest of Rowen. Nothing was written.")
    version = manifest.get("format_version")
    if version != FORMAT_VERSION:
        raise ExportError(
            f"The snapshot in {folder} has version {version} of the format; this program knows {FORMAT_VERSION}."
            " Nothing was written.",
            hint="Leave --previous out this once: the next one can be compared again.",
        )
    if manifest.get("limit") is not None:
        raise ExportError(
            f"The snapshot in {folder} contains only a part of the items (--limit). Nothing was written.",
            hint="Compare with a complete one.",
        )
    try:
        name = manifest["identity"]
        if not isinstance(name, str) or Path(name).name != name:
            # The file name must not lead out of the folder.
            raise ValueError(name)
        checksum = {file["name"]: file for file in manifest["files"]}[name].get("sha256")
        sources = frozenset(str(source["name"]) for source in manifest["sources"])
        earlier = Earlier(folder, folder / name, sources, str(manifest["created_at"]), int(manifest["last_change"]))
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        raise ExportError(f"{path} is damaged: {problem!r}. Nothing was written.") from None
    try:
        actual = file_facts(earlier.identity)["sha256"]
    except OSError as problem:
        raise ExportError(f"{earlier.identity} cannot be read: {problem.strerror}. Nothing was written.") from None
    if actual != checksum:
        raise ExportError(
            f"{earlier.identity} differs from its manifest: SHA-256 {actual} instead of {checksum}."
            " It was changed after the export, so it cannot be compared with. Nothing was written.",
            hint="Use an unchanged copy, or leave --previous out.",
        )
    return earlier
