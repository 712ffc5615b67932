"""The system account that the embedded server runs as, and running its tools under it.

PostgreSQL refuses to run as root. Rowen then borrows an account that exists already; it creates none, and opens
no folder to it that was closed before.
"""

import os
import pwd
import stat
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rowen.errors import ConfigurationError, StoreUnavailableError
from rowen.programs import run

__all__ = ["Account", "run_as", "server_account"]

_BORROWED = ("postgres", "nobody")


@dataclass(frozen=True, slots=True)
class Account:
    """A system account that is not ours."""

    name: str
    uid: int
    gid: int

    def may_enter(self, folder: Path) -> bool:
        """Whether this account can reach what lies in `folder`, going by the modes of all folders above."""
        real = folder.resolve()
        return all(self._may_pass(place) for place in (real, *real.parents))

    def _may_pass(self, folder: Path) -> bool:
        facts = folder.stat()
        if facts.st_uid == self.uid:
            return bool(facts.st_mode & stat.S_IXUSR)
        if facts.st_gid == self.gid:
            return bool(facts.st_mode & stat.S_IXGRP)
        return bool(facts.st_mode & stat.S_IXOTH)


def server_account(wanted: str | None, data: Path) -> Account | None:
    """Whom the server of this data folder runs as; None: whoever we are."""
    if os.geteuid() != 0:
        return None
    if data.exists():
        return _owner(data)
    for name in (wanted,) if wanted else _BORROWED:
        account = _named(name)
        if account is not None and account.uid != 0:
            return account
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
    """Run a tool of PostgreSQL, and return its exit code and what it wrote."""
    told = {"PATH": os.defpath, "LC_ALL": "C"}
    if data is not None:
        # Not as an argument: pg_ctl passes those on through a shell, in double quotes.
        told["PGDATA"] = str(data)
    identity: dict[str, Any] = {}
    if account is not None:
        identity = {"user": account.uid, "group": account.gid, "extra_groups": []}
    # A file, not a pipe: the server inherits it, and the reader of a pipe would wait for the server's end.
    with tempfile.TemporaryFile() as output:
        try:
            done = run(
                command,
                environment=told,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                umask=0o077,
                timeout=patience_s,
                **identity,
            )
        except subprocess.TimeoutExpired as problem:
            raise StoreUnavailableError(f"{Path(command[0]).name} gave no answer in {patience_s:.0f} s.") from problem
        output.seek(0)
        return done.returncode, output.read().decode(errors="replace")


def _named(name: str) -> Account | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _owner(data: Path) -> Account:
    facts = data.stat()
    if facts.st_uid == 0:
        raise StoreUnavailableError(
            f"The data folder {data} belongs to root, and PostgreSQL does not run as root.",
            hint="Give the folder and all in it back to the user it belonged to.",
        )
    try:
        name = pwd.getpwuid(facts.st_uid).pw_name
    except KeyError:
        name = str(facts.st_uid)
    return Account(name, facts.st_uid, facts.st_gid)
