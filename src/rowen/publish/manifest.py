"""What a snapshot says of itself, and whether that is still true."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rowen.errors import ExportError, NotFoundError

__all__ = ["COVERAGE", "FORMAT", "FORMAT_VERSION", "MANIFEST", "Earlier", "checked", "file_facts", "write_json"]

FORMAT = "rowen-export"
# Raised when a reader of older manifests would misread a new one.
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
COVERAGE = "coverage.json"


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
    """An earlier snapshot, if it is one, of a version that we know, and its identity file is what it was."""
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
    """A file name that does not lead out of its folder."""
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
