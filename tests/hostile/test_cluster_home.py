"""The embedded server of a data folder is its own: copies and planted links do not lead to somebody else's."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from rowen.errors import StoreUnavailableError
from rowen.store.server import site
from rowen.store.server.embedded import EmbeddedServer
from tests.store.other_processes import ask, end_servers_in, furnished, memory

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change owners")
NOBODY = 65534


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    """A cluster that was used and stopped, to be copied."""
    with tempfile.TemporaryDirectory(prefix="rowen-test-", dir=memory()) as name:
        Path(name).chmod(0o755)
        with EmbeddedServer(Path(name)):
            pass
        yield Path(name) / "postgres"


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="rowen-test-", dir=memory()))
    folder.chmod(0o755)
    monkeypatch.setattr(site, "SYSTEM_FOLDER", folder / "system")
    yield folder
    end_servers_in(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def linked(place: Path, template: Path) -> Path:
    """A home whose server lies elsewhere, behind a link, as written by an earlier version: without a record."""
    home = furnished(place / "home", template)
    (home / "postgres").rename(place / "elsewhere")
    (home / "postgres").symlink_to(place / "elsewhere")
    (place / "elsewhere" / "home").unlink(missing_ok=True)
    return home


def copied(home: Path, to: Path) -> Path:
    subprocess.run(["cp", "-a", home, to], check=True)
    return to


def fill(home: Path) -> None:
    with EmbeddedServer(home) as conninfo:
        ask(conninfo, "CREATE TABLE hay AS SELECT 1 AS bale")


def bales(home: Path) -> object:
    with EmbeddedServer(home) as conninfo:
        return ask(conninfo, "SELECT count(*) FROM hay")


def test_a_copy_that_points_at_the_original_s_server_is_refused(linked: Path, place: Path) -> None:
    fill(linked)
    copy = copied(linked, place / "copy")

    for use in (EmbeddedServer(copy).join, EmbeddedServer(copy).stop):
        with pytest.raises(StoreUnavailableError, match=f"belongs to {linked}") as caught:
            use()
        assert f"remove the link {copy / 'postgres'}" in (caught.value.hint or "")

    assert bales(linked) == 1


def test_the_way_on_for_a_copy_gives_it_a_server_of_its_own(linked: Path, place: Path) -> None:
    fill(linked)
    copy = copied(linked, place / "copy")
    (copy / "postgres").unlink()

    with EmbeddedServer(copy) as conninfo:
        assert ask(conninfo, "SELECT to_regclass('hay')") is None
    assert bales(linked) == 1


def test_the_way_on_for_a_moved_home_is_one_command(linked: Path, place: Path) -> None:
    fill(linked)
    moved = linked.rename(place / "moved")
    with pytest.raises(StoreUnavailableError) as caught:
        EmbeddedServer(moved).join()

    hint = caught.value.hint or ""
    subprocess.run(["sh", "-c", hint[hint.index("`") + 1 : hint.rindex("`")]], check=True)

    assert bales(moved) == 1


def test_a_home_of_an_earlier_version_opens_and_goes_on(linked: Path, place: Path, template: Path) -> None:
    plain = furnished(place / "plain", template)
    (plain / "postgres" / "home").unlink(missing_ok=True)

    for home in (linked, plain):
        fill(home)
        assert bales(home) == 1
        assert (home / "postgres" / "home").read_text() == str(home)


def test_a_copy_with_a_cluster_of_its_own_is_no_trouble(place: Path, template: Path) -> None:
    original = furnished(place / "home", template)
    fill(original)
    copy = copied(original, place / "copy")

    with EmbeddedServer(copy) as conninfo:
        ask(conninfo, "DELETE FROM hay")

    assert (bales(original), bales(copy)) == (1, 0)


@needs_root
def test_root_s_copy_of_a_closed_home_does_not_empty_the_original(place: Path) -> None:
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    fill(closed / "home")
    copy = copied(closed / "home", closed / "copy")

    with pytest.raises(StoreUnavailableError, match="as a copy has"):
        EmbeddedServer(copy).join()
    # As an earlier version left it: known by its name alone.
    (copy / "postgres").resolve().joinpath("home").unlink()
    with pytest.raises(StoreUnavailableError, match="as a copy has"):
        EmbeddedServer(copy).join()

    assert bales(closed / "home") == 1


@needs_root
@pytest.mark.parametrize("how", ["theirs", "open to all", "their link"])
def test_root_follows_no_link_that_another_user_may_have_planted(place: Path, how: str) -> None:
    secret = place / "secret"
    secret.mkdir(mode=0o700)
    home = place / "home"
    home.mkdir()
    (home / "postgres").symlink_to(secret)
    if how == "theirs":
        os.chown(home, NOBODY, NOBODY)
    elif how == "open to all":
        home.chmod(0o777)
    else:
        os.chown(home / "postgres", NOBODY, NOBODY, follow_symlinks=False)

    for use in (EmbeddedServer(home).join, EmbeddedServer(home).stop):
        with pytest.raises(StoreUnavailableError, match="was not followed"):
            use()

    assert secret.stat().st_mode & 0o777 == 0o700
    assert list(secret.iterdir()) == []


@needs_root
def test_root_removes_no_logs_behind_a_link_of_the_server_s_user(place: Path, template: Path) -> None:
    home = furnished(place / "home", template)
    others = place / "others"
    others.mkdir()
    log = others / "server-Mon.log"
    log.write_text("not ours")
    os.utime(log, (0, 0))
    shutil.rmtree(home / "postgres" / "data" / "log")
    (home / "postgres" / "data" / "log").symlink_to(others)

    # Whether the server's user may write there is his affair; what root does there is ours.
    with suppress(StoreUnavailableError), EmbeddedServer(home, user="nobody"):
        pass

    assert log.exists()
