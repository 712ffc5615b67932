"""Whether a data folder's server is its own: who made the link that leads to it, and which home is written in it.

Where `postgres` in a data folder is a link, a copy of the folder (`cp -a`) has the same link, and would work on the
original's database. So each server's folder says which home it belongs to, in the file `home`.
"""

import os
import shlex
import stat
from contextlib import suppress
from pathlib import Path

from rowen.errors import StoreUnavailableError

__all__ = ["check_link", "check_record", "record"]

_RECORD = "home"
# A path has at most 4,096 bytes on Linux; what is longer was not written by us.
_MOST_BYTES = 4_096


def check_link(home: Path) -> None:
    """Refuse a link that somebody else may have put into `home`: what follows is done with our rights."""
    link = home / "postgres"
    try:
        facts = link.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISLNK(facts.st_mode):
        return
    us = os.geteuid()
    if facts.st_uid in (0, us) and (us != 0 or _only_root_writes(home)):
        return
    raise StoreUnavailableError(
        f"{link} is a link that another user may have made, to {link.readlink()}. It was not followed.",
        hint=f"If you made it, see that nobody but you can write to {home} and to the folders above it.",
    )


def check_record(home: Path, folder: Path, *, own_name: str | None) -> None:
    """Refuse a server's folder that belongs to another home.

    `own_name` is what the folder is called if it was named after this home, None if folders there have any name: that
    is how one from before there was a record is known.
    """
    if not (home / "postgres").is_symlink() or not folder.exists():
        return
    recorded = _recorded(folder)
    if recorded == home.resolve() or (recorded is None and own_name in (None, folder.name)):
        return
    owner = f"belongs to {recorded}" if recorded else "was not made for this data folder"
    raise StoreUnavailableError(
        f"The database in {folder} {owner}; {home} only has a link to it, as a copy has. It was not opened.",
        hint=_way_on(home, folder, recorded),
    )


def record(home: Path, folder: Path) -> None:
    """Write down which home a server's folder belongs to, if that is not there yet."""
    if _recorded(folder) == home.resolve():
        return
    fresh = folder / f"{_RECORD}.new"
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "wb") as file:
        file.write(os.fsencode(home.resolve()))
    fresh.replace(folder / _RECORD)


def _only_root_writes(home: Path) -> bool:
    """Whether nobody but root can put something else into the place of `home`, or of what lies in it.

    In a folder with the sticky bit, such as /tmp, others cannot touch what is root's.
    """
    real = home.resolve()
    return all(
        facts.st_uid == 0 and (not facts.st_mode & 0o022 or facts.st_mode & stat.S_ISVTX)
        for facts in (place.stat() for place in (real, *real.parents))
    )


def _recorded(folder: Path) -> Path | None:
    with suppress(FileNotFoundError, NotADirectoryError):
        descriptor = os.open(folder / _RECORD, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            told = file.read(_MOST_BYTES).strip()
        return Path(os.fsdecode(told)) if told else None
    return None


def _way_on(home: Path, folder: Path, recorded: Path | None) -> str:
    moved = f"printf %s {shlex.quote(str(home.resolve()))} > {shlex.quote(str(folder / _RECORD))}"
    copied = f"If it is a copy, remove the link {home / 'postgres'}: the copy then gets a database of its own."
    if recorded is not None and recorded.exists():
        return copied
    return f"{copied} If the data folder was moved here, write that down: `{moved}`"
