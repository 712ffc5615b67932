"""Sandbox parse workers: before it reads any input, a worker gives up all rights except to compute and to answer.

Each lock is used where the system offers it: resource limits everywhere; on Linux, without privileges, Landlock (no
file may be written or executed, and only files of Python and the system may be read) and seccomp (no sockets, no other
processes, no rarely used parts of the kernel). A compromised reader then finds no secrets and cannot send anything
out.

A parser needs memory, time, threads and the readable files. The seccomp filter refuses system calls that reach
networks, other processes (by signals, memory or limits), other programs, metadata of files (which Landlock does not
guard), and rarely used parts of the kernel, where most of its vulnerabilities are.
"""

import ctypes
import os
import platform
import resource
import struct
import sys
from contextlib import suppress

# Each call with its numbers on x86_64 and aarch64, which has fewer calls. io_uring does the work of other calls.
_NETWORK = """
    socket 41 198, socketpair 53 199, connect 42 203, bind 49 200, listen 50 201, accept 43 202, accept4 288 242,
    sendto 44 206, sendmsg 46 211, sendmmsg 307 269, recvmsg 47 212, recvmmsg 299 243, io_uring_setup 425 425,
    io_uring_enter 426 426, io_uring_register 427 427
"""
# Including memory, queues and keys that processes of one user share, such as those of PostgreSQL.
_PROCESSES = """
    execve 59 221, execveat 322 281, fork 57 -, vfork 58 -, kill 62 129, tkill 200 130, tgkill 234 131,
    rt_sigqueueinfo 129 138, rt_tgsigqueueinfo 297 240, ptrace 101 117, kcmp 312 272, process_vm_readv 310 270,
    process_vm_writev 311 271, process_madvise 440 440, process_mrelease 448 448, pidfd_open 434 434,
    pidfd_getfd 438 438, pidfd_send_signal 424 424, setpriority 141 140, ioprio_set 251 30,
    sched_setaffinity 203 122, sched_setparam 142 118, sched_setscheduler 144 119, sched_setattr 314 274,
    migrate_pages 256 238, move_pages 279 239, shmget 29 194, shmat 30 196, shmctl 31 195, shmdt 67 197,
    semget 64 190, semop 65 193, semctl 66 191, semtimedop 220 192, msgget 68 186, msgsnd 69 189, msgrcv 70 188,
    msgctl 71 187, mq_open 240 180, mq_unlink 241 181, add_key 248 217, request_key 249 218, keyctl 250 219
"""
# Not guarded by Landlock; truncation is only since its third version.
_FILES = """
    chmod 90 -, fchmod 91 52, fchmodat 268 53, fchmodat2 452 452, chown 92 -, fchown 93 55, lchown 94 -,
    fchownat 260 54, utime 132 -, utimes 235 -, futimesat 261 -, utimensat 280 88, setxattr 188 5, lsetxattr 189 6,
    fsetxattr 190 7, setxattrat 463 463, removexattr 197 14, lremovexattr 198 15, fremovexattr 199 16,
    removexattrat 466 466, truncate 76 45, ftruncate 77 46, fallocate 285 47, name_to_handle_at 303 264,
    open_by_handle_at 304 265, inotify_init 253 -, inotify_init1 294 26, fanotify_init 300 262
"""
_KERNEL = """
    unshare 272 97, setns 308 268, chroot 161 51, pivot_root 155 41, mount 165 40, umount2 166 39,
    mount_setattr 442 442, open_tree 428 428, move_mount 429 429, fsopen 430 430, fsconfig 431 431, fsmount 432 432,
    fspick 433 433, bpf 321 280, userfaultfd 323 282, perf_event_open 298 241, personality 135 92, acct 163 89,
    quotactl 179 60, syslog 103 116, swapon 167 224, swapoff 168 225, reboot 169 142, kexec_load 246 104,
    kexec_file_load 320 294, init_module 175 105, finit_module 313 273, delete_module 176 106, sethostname 170 161,
    setdomainname 171 162, settimeofday 164 170, clock_settime 227 112, adjtimex 159 171, clock_adjtime 305 266,
    iopl 172 -, ioperm 173 -, modify_ldt 154 -
"""
_REFUSED = [call.split() for calls in (_NETWORK, _PROCESSES, _FILES, _KERNEL) for call in calls.split(",")]
# Threads start by `clone` with one of its flags. No filter sees the flags of `clone3`; libraries fall back to `clone`.
_CLONE, _CLONE3 = (56, 220), (435, 435)
# A process may query its own limits (0), but neither query nor set those of another process.
_PRLIMIT = (302, 261)
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

_CLONE_THREAD = 0x0001_0000
_X32_BIT = 0x4000_0000
_ALLOW, _EPERM, _ENOSYS = 0x7FFF_0000, 0x0005_0001, 0x0005_0026
# Offsets of a call's number, its architecture and the lower half of its first argument.
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_LOAD, _JUMP_IF_EQUAL, _JUMP_IF_AT_LEAST, _JUMP_IF_ANY, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06


def refused_on(machine: str) -> dict[str, int]:
    """Return the names and numbers of the refused system calls on a machine."""
    column = _ARCHITECTURES[machine][0]
    return {name: int(numbers[column]) for name, *numbers in _REFUSED if numbers[column] != "-"}


def filter_of_this_machine() -> bytes | None:
    """Return the seccomp program of this machine; None for an unsupported architecture."""
    known = _ARCHITECTURES.get(platform.machine())
    if known is None or sys.byteorder != "little":
        return None
    column, architecture = known
    refused = refused_on(platform.machine()).values()
    # Each block decides about one call and is skipped for all others.
    blocks = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_IF_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _EPERM),
        (_LOAD, 0, 0, _NUMBER),
        # The x32 calls of x86_64.
        (_JUMP_IF_AT_LEAST, 0, 1, _X32_BIT),
        (_RETURN, 0, 0, _EPERM),
        *[step for number in refused for step in ((_JUMP_IF_EQUAL, 0, 1, number), (_RETURN, 0, 0, _EPERM))],
        (_JUMP_IF_EQUAL, 0, 1, _CLONE3[column]),
        (_RETURN, 0, 0, _ENOSYS),
        (_JUMP_IF_EQUAL, 0, 4, _CLONE[column]),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_JUMP_IF_ANY, 1, 0, _CLONE_THREAD),
        (_RETURN, 0, 0, _EPERM),
        (_RETURN, 0, 0, _ALLOW),
        (_JUMP_IF_EQUAL, 0, 3, _PRLIMIT[column]),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_JUMP_IF_EQUAL, 1, 0, 0),
        (_RETURN, 0, 0, _EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("<HBBI", *step) for step in blocks)


MEMORY_LIMIT_BYTES = 4 << 30
"""Address space of a worker. A spreadsheet of 64 MB unpacks to about 1 GB of objects; four times that is hostile."""

_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2
# Landlock's calls have these numbers on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_RULE_PATH_BENEATH = 1
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
# The number of file rights in each version of Landlock.
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
_LATEST_FILE_RIGHTS = 16
_TCP_RIGHTS = 0b11
_SCOPES = 0b11  # abstract sockets, and signals to other processes
# Shared libraries, time zones and random devices; Python's own folders are added.
_READABLE = ("/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/dev/null", "/dev/urandom")

_locks: list[str] = []


def report(sample: bytes) -> tuple[int, list[str]]:
    """Return the size of the sample that reached the worker, and the names of the worker's locks."""
    return len(sample), _locks


def lock_in() -> list[str]:
    """Give up all rights that parsing does not need; return the names of the locks in force."""
    _locks[:] = ["limits"]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform != "linux":
        return _locks
    library = ctypes.CDLL(None, use_errno=True)
    # Both locks need no privilege in a process that cannot gain any.
    if library.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return _locks
    if _restrict_files(library):
        _locks.append("landlock")
    steps = filter_of_this_machine()
    if steps is not None:
        program = ctypes.create_string_buffer(steps, len(steps))
        head = struct.pack("HxxxxxxP", len(steps) // 8, ctypes.addressof(program))
        if library.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, head, 0, 0) == 0:
            _locks.append("seccomp")
    return _locks


def _restrict_files(library: ctypes.CDLL) -> bool:
    version = library.syscall(_CREATE_RULESET, None, 0, 1)
    if version < 1:
        return False
    all_rights = ((1 << _FILE_RIGHTS.get(version, _LATEST_FILE_RIGHTS)) - 1, _TCP_RIGHTS, _SCOPES)
    # The structure grew: rights on TCP came with the fourth version, scopes with the sixth.
    supported = all_rights[: 1 + (version >= 4) + (version >= 6)]
    handled = struct.pack(f"<{len(supported)}Q", *supported)
    rules = library.syscall(_CREATE_RULESET, handled, len(handled), 0)
    if rules < 0:
        return False
    try:
        for path in dict.fromkeys((*_READABLE, *sys.path, sys.prefix, sys.base_prefix, sys.exec_prefix)):
            with suppress(OSError):
                descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
                try:
                    is_folder = os.path.isdir(path)  # noqa: PTH112 (many are no folders)
                    rights = _READ_FILE | _READ_DIR if is_folder else _READ_FILE
                    rule = struct.pack("<Qi", rights, descriptor)
                    library.syscall(_ADD_RULE, rules, _RULE_PATH_BENEATH, rule, 0)
                finally:
                    os.close(descriptor)
        return bool(library.syscall(_RESTRICT_SELF, rules, 0) == 0)
    finally:
        os.close(rules)
