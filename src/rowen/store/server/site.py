"""The folder of an embedded server: its place, its content, and its owner.

postgres/
    data/          the cluster, with its logs in data/log
    socket/        the private socket, unless the path is too long for one
    server.conf    Rowen's settings, included by the cluster's postgresql.conf
    access.conf    the users and addresses that may connect (pg_hba)
    password       for TCP, if a port is set
    home           the path of the data folder that this server belongs to
    start.lock     held while a process finds, creates, starts or stops the server
    members.lock   shared by all processes that use the server
    keeper.lock    held by the process that stops an idle server; modified when a process leaves

If `postgres` in a data folder is a link, a copy of the folder (`cp -a`) contains the same link, and would use the
original's database. So each server's folder names the data folder that it belongs to, in the file `home`.
"""

import errno
import hashlib
import os
import shlex
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rowen.errors import StoreError, StoreFullError, StoreUnavailableError
from rowen.store.server.programs import Account, Binaries, run_as, server_account

# The longest path on Linux; longer content was not written by Rowen.
_MOST_BYTES = 4_096


def check_link(home: Path) -> None:
    """Refuse a link in `home` that another user may have created, since the next steps use this process's rights."""
    link = home / "postgres"
    try:
        facts = link.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISLNK(facts.st_mode):
        return
    us = os.geteuid()
    # In a folder with the sticky bit, such as /tmp, others cannot replace root's files.
    above = [place.stat() for place in (home.resolve(), *home.resolve().parents)] if us == 0 else []
    if facts.st_uid in (0, us) and all(
        place.st_uid == 0 and (not place.st_mode & 0o022 or place.st_mode & stat.S_ISVTX) for place in above
    ):
        return
    raise StoreUnavailableError(
        f"{link} is a link to {link.readlink()} that another user may have made. It was not followed.",
        hint=f"If you made it, make sure that only you can write to {home} and to the folders above it.",
    )


def _recorded(folder: Path) -> Path | None:
    with suppress(FileNotFoundError, NotADirectoryError):
        descriptor = os.open(folder / "home", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            path = file.read(_MOST_BYTES).strip()
        return Path(os.fsdecode(path)) if path else None
    return None


SYSTEM_FOLDER = Path("/var/lib/rowen")

# The time to create a cluster, 40 MB in a thousand synced files: seconds, or minutes on network storage.
_INITDB_S = 600.0
# The longest path of a socket. Kernels allow 104 or 108 bytes; some are reserved for port numbers and lock names.
_SOCKET_PATH_BYTES = 100
# PostgreSQL writes its log in segments of this size; without space for a segment it does not start, and its error
# message may name another reason.
_WAL_SEGMENT_BYTES = 16 * 2**20
# The age from which logs are deleted. There is one log per weekday: a log older than six days is from last week.
_LOG_KEPT_S = 6 * 86_400
# Without TCP the port is only a part of the socket's name; clients expect this port by default.
_SOCKET_PORT = 5432

# Messages of a full disk; the last one if half a page could still be written.
_FULL = ("No space left on device", "Disk quota exceeded", "Check free disk space")

_ACCESS = """\
# Written by Rowen at each start. The socket is guarded by its folder, which only the server's own user can enter.
local all all trust
host all all 127.0.0.1/32 scram-sha-256
"""

# There is a checkpoint every gigabyte of log (2 GB, less the part kept while one runs): at half of that, a tenth of the
# log of a first harvest would be whole pages; at twice that, recovery from a crash would take half a minute.
_SETTINGS = """\
# Written by Rowen at each start.
listen_addresses = {addresses}
port = {port}
unix_socket_directories = {socket_folder}
unix_socket_permissions = 0700
hba_file = {access}
password_encryption = 'scram-sha-256'
max_connections = 60
shared_buffers = '128MB'
fsync = on
full_page_writes = on
wal_compression = 'pglz'
wal_level = 'minimal'
max_wal_size = '2GB'
max_wal_senders = 0
timezone = 'UTC'
lc_messages = 'C'
logging_collector = on
log_timezone = 'UTC'
log_destination = 'stderr'
log_directory = 'log'
log_filename = 'server-%a.log'
log_file_mode = 0600
log_rotation_age = '1d'
log_rotation_size = 0
log_truncate_on_rotation = on
log_checkpoints = off
"""


@dataclass(frozen=True, slots=True)
class ServerSite:
    """The folder of one server, and the account that runs it."""

    folder: Path
    account: Account | None

    @property
    def data(self) -> Path:
        """The cluster."""
        return self.folder / "data"

    @property
    def cluster_version(self) -> str | None:
        """The major version of PostgreSQL that created the cluster; None if there is no cluster yet."""
        try:
            return (self.data / "PG_VERSION").read_text().strip()
        except FileNotFoundError:
            return None

    @property
    def logs(self) -> list[Path]:
        """The server's logs, newest last; empty if the server's user replaced their folder by a link."""
        if (self.data / "log").is_symlink():
            return []
        return sorted((self.data / "log").glob("server-*.log"), key=lambda log: log.stat().st_mtime)

    @property
    def socket_folder(self) -> Path:
        """The folder in which the next start creates the socket."""
        own = self.folder / "socket"
        if _fits(own):
            return own
        uid = self.account.uid if self.account else os.geteuid()
        private = Path(tempfile.gettempdir()).resolve() / f"rowen-{uid}-{_digest(self.folder)}"
        if not _fits(private):
            raise StoreUnavailableError(
                f"Neither {own} nor {private} can hold a socket: too long, or with a comma.",
                hint="Choose a shorter ROWEN_HOME or TMPDIR.",
            )
        return private


def site_folder(home: Path) -> Path:
    """Return the path of the server's folder for `home`; it need not exist."""
    return (home / "postgres").resolve()


def make_site(home: Path, user: str | None) -> ServerSite:
    """Return the site of a server; create its folder if it is missing."""
    home.mkdir(parents=True, exist_ok=True)
    check_link(home)
    account = server_account(user, site_folder(home) / "data")
    if account and not account.may_enter(home) and not os.path.lexists(home / "postgres"):
        # Instead of opening `home` to the server's user, link it to a folder that this user can enter.
        SYSTEM_FOLDER.mkdir(parents=True, exist_ok=True)
        SYSTEM_FOLDER.chmod(0o755)
        with suppress(FileExistsError):
            (home / "postgres").symlink_to(SYSTEM_FOLDER / _digest(home.resolve()))
        check_link(home)
    folder = site_folder(home)
    check_home(home)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if account:
        # The server's user may pass through a folder of this user, but not through a folder that has replaced it.
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if os.fstat(descriptor).st_uid == os.geteuid():
                os.fchmod(descriptor, 0o711)
        finally:
            os.close(descriptor)
    return ServerSite(folder, account)


def check_home(home: Path) -> None:
    """Refuse a server folder that belongs to another home; create nothing.

    A folder from an older version has no record of its home. In the system folder, the folder's name identifies the
    home.
    """
    folder = site_folder(home)
    if not (home / "postgres").is_symlink() or not folder.exists():
        return
    recorded = _recorded(folder)
    in_system_folder = folder.parent == SYSTEM_FOLDER.resolve()
    if recorded == home.resolve() or (
        recorded is None and (not in_system_folder or folder.name == _digest(home.resolve()))
    ):
        return
    owner = f"belongs to {recorded}" if recorded else "was not made for this data folder"
    hint = f"If it is a copy, remove the link {home / 'postgres'}: the copy then gets a database of its own."
    if recorded is None or not recorded.exists():
        moved = f"printf %s {shlex.quote(str(home.resolve()))} > {shlex.quote(str(folder / 'home'))}"
        hint = f"{hint} If the data folder was moved here, record that: `{moved}`"
    raise StoreUnavailableError(
        f"The database in {folder} {owner}; {home} only has a link to it, as a copy has. It was not opened.", hint=hint
    )


def record_home(home: Path, folder: Path) -> None:
    """Record in a server's folder the home that it belongs to, unless it is recorded already."""
    if _recorded(folder) != home.resolve():
        _write(folder / "home", str(home.resolve()))


def initialise(site: ServerSite, binaries: Binaries) -> None:
    """Create the cluster; it appears whole or not at all."""
    for stale in site.folder.glob("init-*"):
        shutil.rmtree(stale, ignore_errors=True)
    fresh = Path(tempfile.mkdtemp(prefix="init-", dir=site.folder))
    try:
        if site.account:
            os.chown(fresh, site.account.uid, site.account.gid, follow_symlinks=False)
        command: list[str | Path] = [binaries.tool("initdb"), "--username=postgres"]
        command += ["--encoding=UTF8", "--locale=C.UTF-8", "--auth-local=trust", "--auth-host=scram-sha-256"]
        command += ["--data-checksums", "--no-instructions"]
        code, text = run_as(site.account, command, data=fresh, patience_s=_INITDB_S)
        if code != 0:
            raise failure(site, "could not be set up", text)
        settings = os.open(fresh / "postgresql.conf", os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
        with os.fdopen(settings, "ab") as file:
            file.write(b"\ninclude '../server.conf'\n")
            os.fsync(file.fileno())
        fresh.rename(site.data)
        descriptor = os.open(site.folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def prepare_start(site: ServerSite, *, port: int) -> None:
    """Write the files that the server reads, and remove files that a dead server left."""
    folder = site.socket_folder
    # Only the server's user and root may enter the folder of the socket, which may lie in a public place.
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    facts = folder.lstat()
    owner, is_folder = facts.st_uid, stat.S_ISDIR(facts.st_mode)
    if site.account and is_folder and owner == os.geteuid():
        os.chown(folder, site.account.uid, site.account.gid, follow_symlinks=False)
        owner = site.account.uid
    if not is_folder or owner != (site.account.uid if site.account else os.geteuid()) or facts.st_mode & 0o077:
        raise StoreUnavailableError(
            f"{folder} is not a folder of the server's user alone; no socket was created in it.",
            hint="Remove it, or choose a shorter ROWEN_HOME or another TMPDIR.",
        )
    (site.data / "postmaster.pid").unlink(missing_ok=True)
    for left in folder.glob(".s.PGSQL.*"):
        left.unlink(missing_ok=True)
    for log in site.logs:
        # The server truncates a log after a week, but only if it runs at midnight.
        if time.time() - log.stat().st_mtime > _LOG_KEPT_S:
            log.unlink()
    _write(site.folder / "access.conf", _ACCESS)
    settings = _SETTINGS.format(
        addresses=_quoted("127.0.0.1" if port else ""),
        port=port or _SOCKET_PORT,
        socket_folder=_quoted(str(folder)),
        access=_quoted(str(site.folder / "access.conf")),
    )
    _write(site.folder / "server.conf", settings)


def failure(site: ServerSite, problem: str, text: str) -> StoreError:
    """Return the error for a server that could not be created or started."""
    full = any(words in text for words in _FULL)
    if full or shutil.disk_usage(site.folder).free < _WAL_SEGMENT_BYTES:
        return _full(site.folder)
    tail = "\n".join(text.strip().splitlines()[-15:])
    log = site.logs[-1] if site.logs else None
    return StoreUnavailableError(
        f"The embedded PostgreSQL in {site.folder} {problem}:\n{tail}",
        hint=f"{f'The whole log is {log}. ' if log else ''}To use a server of yours instead, set ROWEN_DATABASE_URL.",
    )


@contextmanager
def explained(home: Path) -> Iterator[None]:
    """Turn errors of the file system into errors of the store."""
    try:
        yield
    except OSError as problem:
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _full(site_folder(home)) from problem
        raise StoreUnavailableError(
            f"The embedded PostgreSQL of {home} cannot be used: {problem}.",
            hint="Check who owns the folder, or choose another one in ROWEN_HOME.",
        ) from problem


def _full(folder: Path) -> StoreFullError:
    return StoreFullError(
        f"No space is left for the embedded PostgreSQL in {folder}. Its data is unchanged.",
        hint="Free some space, or choose another folder in ROWEN_HOME.",
    )


def _fits(folder: Path) -> bool:
    # libpq reads a comma as the start of another host.
    return len(os.fsencode(folder / f".s.PGSQL.{2**16}")) < _SOCKET_PATH_BYTES and "," not in str(folder)


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n") + "'"


def _write(path: Path, text: str) -> None:
    """Replace a file without following links: the folder may belong to a less privileged user."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(os.fsencode(text))
        os.fchmod(file.fileno(), 0o644)
    fresh.replace(path)


def _digest(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
