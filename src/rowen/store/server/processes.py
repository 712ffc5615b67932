"""Manage file locks and processes of an embedded server: its pid file, and the processes in its data folder."""

import fcntl
import os
import signal
import socket
import sys
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from rowen.errors import Hint, StoreUnavailableError, action
from rowen.store.server.programs import Account, run_as

_POLL_S = 0.02  # one stat call; a delay of 20 ms is not noticed
# The patience for the lock is longer than a start may take (300 s): its holder is starting the server.
_PATIENCE_S = 330.0
# The patience for backends of a killed server, which end after their present statement.
_ORPHAN_PATIENCE_S = 10.0
# The patience for each way to stop: fast, which writes a checkpoint first, and immediate.
_HALT_S = 60.0
_open_locks: "weakref.WeakSet[FileLock]" = weakref.WeakSet()


class FileLock:
    """A lock on a file; the kernel releases it when the process ends, and no child inherits it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.descriptor: int | None = None
        """The open file while the lock is held, shared or not; a process that inherits it holds the lock too."""

    def share(self) -> None:
        """Take a share of the lock."""
        if not self._take(fcntl.LOCK_SH, patience_s=_PATIENCE_S):
            raise _busy(self._path)

    def claim(self, *, patience_s: float = 0.0) -> bool:
        """Take the lock exclusively; return False if that fails, and keep an earlier share."""
        was_shared = self.descriptor is not None
        if self._take(fcntl.LOCK_EX, patience_s=patience_s):
            return True
        if was_shared:
            # flock may release the share before it finds that it cannot get the lock exclusively.
            self.share()
        else:
            self.close()
        return False

    def close(self) -> None:
        """Release the lock."""
        if self.descriptor is not None:
            os.close(self.descriptor)
        self.descriptor = None
        _open_locks.discard(self)

    def _take(self, how: int, *, patience_s: float) -> bool:
        if self.descriptor is None:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self.descriptor = os.open(self._path, flags, 0o600)
            _open_locks.add(self)
        deadline = time.monotonic() + patience_s
        while True:
            try:
                fcntl.flock(self.descriptor, how | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    return False
                time.sleep(_POLL_S)
            else:
                return True


def _close_all() -> None:
    for lock in list(_open_locks):
        lock.close()


# A forked child shares its parent's lock, and would keep it when the parent is killed.
os.register_at_fork(after_in_child=_close_all)


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock on `path` exclusively for the length of a block."""
    lock = FileLock(path)
    if not lock.claim(patience_s=_PATIENCE_S):
        raise _busy(path)
    try:
        yield
    finally:
        lock.close()


@dataclass(frozen=True, slots=True)
class Postmaster:
    """A running server, as its pid file describes it."""

    pid: int
    port: int
    socket_folder: Path
    address: str
    ready: bool
    visible: bool = True


def find_server(data: Path) -> Postmaster | None:
    """Return the running server of this data folder; None if there is none."""
    try:
        lines = [os.fsdecode(line).strip() for line in (data / "postmaster.pid").read_bytes().split(b"\n")]
    except (FileNotFoundError, NotADirectoryError):
        return None
    if len(lines) < 6 or not lines[0].isdecimal() or not lines[3].isdecimal():
        return None
    ready = len(lines) > 7 and lines[7] == "ready"
    server = Postmaster(int(lines[0]), int(lines[3]), Path(lines[4]), lines[5], ready=ready)
    if _works_in(server.pid, data):
        return server
    if lines[1] == str(data) and _answers(server):
        return replace(server, visible=False)
    return None


def settled(data: Path) -> Postmaster | None:
    """Wait until the server is ready and return it, or return None once no process works in the data folder."""
    started = time.monotonic()
    while True:
        server = find_server(data)
        if server is not None and server.ready:
            return server
        waited_s = time.monotonic() - started
        if server is None:
            if sys.platform == "linux":
                pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
            else:
                pids = _psutil().pids()
            orphans = [pid for pid in pids if _works_in(pid, data)] if data.exists() else []
            if not orphans:
                return None
            if waited_s > _ORPHAN_PATIENCE_S:
                raise StoreUnavailableError(
                    f"Processes of a server that died still work in {data}: {', '.join(map(str, orphans))}. "
                    "A second server beside them would destroy the data, so none was started.",
                    hint="They end when their work is done. Kill them, or try again later.",
                )
        elif waited_s > _PATIENCE_S:
            raise StoreUnavailableError(
                f"The server in {data} (process {server.pid}) has been starting or stopping for {waited_s:.0f} s.",
                hint="After a crash it may have much to recover, as its log says. Try again later.",
            )
        time.sleep(_POLL_S)


def halt(server: Postmaster, data: Path) -> None:
    """Stop a server, and force it if it does not react; no commit is lost, since it recovers at its next start."""
    if not server.visible:
        raise StoreUnavailableError(
            f"The server in {data} runs out of reach of this process, perhaps in another container.",
            hint="Stop it from where it was started.",
        )
    for how in (signal.SIGINT, signal.SIGQUIT):
        with suppress(ProcessLookupError):
            os.kill(server.pid, how)
        deadline = time.monotonic() + _HALT_S
        while time.monotonic() < deadline:
            if not _works_in(server.pid, data):
                return
            time.sleep(_POLL_S)
    raise StoreUnavailableError(f"The server in {data} (process {server.pid}) does not stop.")


def _busy(path: Path) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"Another process has been starting or stopping the embedded PostgreSQL in {path.parent} for too long.",
        hint=Hint("Try again; ", action("db status"), " shows whether the server runs."),
    )


def _works_in(pid: int, data: Path) -> bool:
    """Return whether a process is a running PostgreSQL whose working folder is `data`.

    A PostgreSQL process of the data's owner that cannot be inspected counts: it would be worse to take a running
    server for dead.
    """
    try:
        process = _inspect(pid) if sys.platform == "linux" else _inspect_by_psutil(pid)
    except (FileNotFoundError, ProcessLookupError):
        return False
    if process is None:
        return False
    facts = data.stat()
    if process.folder is None:
        return process.owner == facts.st_uid
    return process.folder == (facts.st_dev, facts.st_ino)


class _Process(NamedTuple):
    """A running PostgreSQL process: its effective owner, and device and inode of its working folder.

    The folder is not stored as a path, which may name another folder by now. It is None if it cannot be read.
    """

    owner: int
    folder: tuple[int, int] | None


def _inspect(pid: int) -> _Process | None:
    """Return a PostgreSQL process from /proc; None for any other process. Importing psutil would take 15 ms."""
    lines = Path("/proc", str(pid), "status").read_text(errors="replace").splitlines()
    facts = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    if facts["Name"] != ["postgres"] or facts["State"][0] == "Z":
        return None
    owner, group = int(facts["Uid"][1]), int(facts["Gid"][1])
    link = Path("/proc", str(pid), "cwd")
    try:
        folder = link.stat()
    except PermissionError:
        if os.geteuid() != 0:
            return _Process(owner, None)
        # In a container even root may not inspect another account's processes; that account may.
        account = Account(owner, group)
        code, text = run_as(account, ["stat", "-L", "-c", "%d %i", link], patience_s=10.0)
        return _Process(owner, None if code else (int(text.split()[0]), int(text.split()[1])))
    return _Process(owner, (folder.st_dev, folder.st_ino))


def _psutil() -> Any:
    import psutil  # type: ignore[import-untyped] # its stubs are another package

    return psutil


def _inspect_by_psutil(pid: int) -> _Process | None:
    """Inspect a process on systems without /proc; return None unless it is a running PostgreSQL process."""
    psutil = _psutil()
    try:
        process = psutil.Process(pid)
        if process.name() != "postgres" or process.status() == psutil.STATUS_ZOMBIE:
            return None
        owner = process.uids().effective
        try:
            folder = Path(process.cwd()).stat()
        except (psutil.AccessDenied, PermissionError):
            return _Process(owner, None)
    except psutil.NoSuchProcess:
        return None
    return _Process(owner, (folder.st_dev, folder.st_ino))


def _answers(server: Postmaster) -> bool:
    """Return whether the socket accepts connections: processes of a server in another container are not visible."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(2.0)
        try:
            probe.connect(str(server.socket_folder / f".s.PGSQL.{server.port}"))
        except OSError:
            return False
    return True
