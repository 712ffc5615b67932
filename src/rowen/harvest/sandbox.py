"""Locks a worker process in before it meets a hostile byte: what it may still do is compute and answer.

Each lock is taken where the system offers it and left out where not: resource limits everywhere; on Linux, without any
privilege, Landlock (no file may be written or run, and only those of Python and of the system may be read) and seccomp
(no sockets, no other processes, nothing of the kernel that no parser needs). A reader that is taken over by what it
reads then finds no secrets and no way out.
"""

import ctypes
import os
import resource
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress

from rowen.harvest.system_calls import filter_of_this_machine

__all__ = ["MEMORY_LIMIT_BYTES", "lock_in", "report"]

MEMORY_LIMIT_BYTES = 4 << 30
"""Address space of one worker. A spreadsheet of 64 MB unpacks to about 1 GB of objects; four times that is hostile."""

_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2
# Landlock's calls have these numbers on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_RULE_PATH_BENEATH = 1
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
# How many rights on files each version of Landlock knows.
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
_LATEST_FILE_RIGHTS = 16
_TCP_RIGHTS = 0b11
_SCOPES = 0b11  # abstract sockets, and signals to other processes
# Where shared libraries, time zones and sources of chance lie; Python's own folders are added.
_READABLE = ("/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/dev/null", "/dev/urandom")

_held: list[str] = []


def report(sample: bytes) -> tuple[int, list[str]]:
    """What a worker says of itself: how much of a sample reached it, and which locks hold there."""
    return len(sample), _held


def lock_in() -> list[str]:
    """Give up all rights that reading needs not; returns the names of the locks that hold."""
    _held[:] = _locked()
    return _held


def _locked() -> list[str]:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    held = ["limits"]
    if sys.platform != "linux":
        return held
    library = ctypes.CDLL(None, use_errno=True)
    # Both of the following are open to everybody who gives up the right to gain any.
    if library.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return held
    held += ["landlock"] if _restrict_files(library) else []
    held += ["seccomp"] if _restrict_calls(library) else []
    return held


def _restrict_files(library: ctypes.CDLL) -> bool:
    version = library.syscall(_CREATE_RULESET, None, 0, 1)
    if version < 1:
        return False
    rights = ((1 << _FILE_RIGHTS.get(version, _LATEST_FILE_RIGHTS)) - 1, _TCP_RIGHTS, _SCOPES)
    # The structure grew: rights on TCP came with the fourth version, scopes with the sixth.
    known = rights[: 1 + (version >= 4) + (version >= 6)]
    handled = struct.pack(f"<{len(known)}Q", *known)
    rules = library.syscall(_CREATE_RULESET, handled, len(handled), 0)
    if rules < 0:
        return False
    try:
        for path in _readable():
            _let_read(library, rules, path)
        return bool(library.syscall(_RESTRICT_SELF, rules, 0) == 0)
    finally:
        os.close(rules)


def _readable() -> Iterable[str]:
    return dict.fromkeys((*_READABLE, *sys.path, sys.prefix, sys.base_prefix, sys.exec_prefix))


def _let_read(library: ctypes.CDLL, rules: int, path: str) -> None:
    with suppress(OSError):
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            rights = _READ_FILE | _READ_DIR if os.path.isdir(path) else _READ_FILE  # noqa: PTH112 (many are no folders)
            library.syscall(_ADD_RULE, rules, _RULE_PATH_BENEATH, struct.pack("<Qi", rights, place), 0)
        finally:
            os.close(place)


def _restrict_calls(library: ctypes.CDLL) -> bool:
    steps = filter_of_this_machine()
    if steps is None:
        return False
    program = ctypes.create_string_buffer(steps, len(steps))
    head = struct.pack("HxxxxxxP", len(steps) // 8, ctypes.addressof(program))
    return bool(library.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, head, 0, 0) == 0)
