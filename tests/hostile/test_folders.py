"""Folders and archives whose maker put something else where a file is looked for."""

import gzip
import io
import os
import signal
import socket
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rowen.connectors.files.gitignore import IgnoreRules
from rowen.connectors.packages.archive import unpacked
from rowen.errors import SourceError
from tests.connectors.worlds import Keeper, write
from tests.hostile.clock import costs_at_most


@pytest.fixture(autouse=True)
def _bounded(tmp_path: Path) -> Iterator[None]:
    """Whoever waits for a pipe is woken up after a while, and fails."""

    def wake(*_: object) -> None:
        for pipe in filter(Path.is_fifo, tmp_path.rglob("*")):
            os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        pytest.fail("it hangs")

    signal.signal(signal.SIGALRM, wake)
    signal.alarm(20)
    yield
    signal.alarm(0)


PLACES = [".gitignore", ".git/info/exclude", "docs/.gitignore", "docs/b.md"]


@pytest.mark.parametrize("place", PLACES)
def test_a_pipe_in_the_place_of_a_file_is_left_alone(place: str, tmp_path: Path) -> None:
    root = write(tmp_path / "root", {"a.md": "A", "docs/c.md": "C", ".git/info/x": ""})
    os.mkfifo(root / place)

    look = Keeper(root).sync()

    assert look.bodies == {"a.md": b"A", "docs/c.md": b"C"}
    assert look.complete


@pytest.mark.parametrize("place", PLACES)
def test_a_socket_in_the_place_of_a_file_is_left_alone(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write(tmp_path / "root", {"a.md": "A", "docs/c.md": "C", ".git/info/x": ""})
    monkeypatch.chdir((root / place).parent)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(Path(place).name)

        look = Keeper(root).sync()

    assert look.bodies == {"a.md": b"A", "docs/c.md": b"C"}


@pytest.mark.parametrize("target", ["/dev/zero", "/dev/tty", "/proc/self/mem"])
def test_rules_that_are_a_link_to_a_device_are_none(target: str, tmp_path: Path) -> None:
    root = write(tmp_path / "root", {"a.md": "A", ".git/info/x": ""})
    (root / ".gitignore").symlink_to(target)
    (root / ".git/info/exclude").symlink_to("/dev/zero")

    assert Keeper(root).sync().bodies == {"a.md": b"A"}


def test_a_pipe_above_a_harvested_folder_is_left_alone(tmp_path: Path) -> None:
    root = write(tmp_path / "root", {"docs/a.md": "A", ".git/info/x": ""})
    os.mkfifo(root / ".gitignore")
    os.mkfifo(root / ".git/info/exclude")

    assert Keeper(root / "docs").sync().bodies == {"a.md": b"A"}


def test_rules_too_long_to_be_obeyed_keep_their_folder_closed(tmp_path: Path) -> None:
    root = write(tmp_path / "root", {"a.md": "A", "docs/secret.md": "S"})
    with (root / "docs/.gitignore").open("wb") as rules:
        rules.truncate(1 << 40)

    look = Keeper(root).sync()

    assert look.bodies == {"a.md": b"A"}
    assert "longer than 1,048,576 bytes" in look.failed["docs"].error
    assert not look.complete


def test_thirty_thousand_rules_cost_little(tmp_path: Path) -> None:
    lines = [f"name{number}\n!path/to/{number}\n*.ending{number}\n" for number in range(10_000)]
    root = write(tmp_path / "root", {f"{number}.md": "A" for number in range(300)})
    write(root, {".gitignore": "".join(lines) + "7.md\n", ".git/x": ""})

    with costs_at_most(5):
        look = Keeper(root).sync()

    assert len(look.bodies) == 299


@pytest.mark.parametrize(
    "pattern",
    ["*a*a*a*a*a*a*a*b", "a*" * 30 + "b", "**/" * 40 + "x", "**/a/" * 40 + "x", "[a]*" * 30 + "b", "?*" * 99 + "b"],
)
def test_one_path_costs_little_under_any_rule(pattern: str) -> None:
    rules = IgnoreRules(f"{pattern}\n" * 100)

    with costs_at_most(3):
        for path in ("a" * 255, "a/" * 2000 + "a", "a" * 250 + "/" + "a" * 250):
            rules.verdict(path, folder=True)


def _chained(kind: bytes, count: int, told: bytes) -> bytes:
    archive = io.BytesIO()
    for _ in range(count):
        header = tarfile.TarInfo("././@LongLink")
        header.type, header.size = kind, len(told)
        archive.write(header.tobuf(tarfile.GNU_FORMAT) + told + bytes(-len(told) % 512))
    member = tarfile.TarInfo("hay-1/README.md")
    member.size = 2
    archive.write(member.tobuf() + b"hi" + bytes(510 + 1024))
    return archive.getvalue()


HOSTILE = {
    "long names": _chained(tarfile.GNUTYPE_LONGNAME, 5_000, b"a/b\0"),
    "long links": _chained(tarfile.GNUTYPE_LONGLINK, 5_000, b"a/b\0"),
    "headers": _chained(tarfile.XHDTYPE, 5_000, b"30 mtime=1321711775.123456789\n"),
    "global headers": _chained(tarfile.XGLTYPE, 5_000, b"30 mtime=1321711775.123456789\n"),
    "a long header": _chained(tarfile.XHDTYPE, 1, b"30 mtime=1321711775.123456789\n" * 30_000),
    "a long number": _chained(tarfile.XHDTYPE, 1, b"9" * 60_000),
    "a long name": _chained(tarfile.GNUTYPE_LONGNAME, 1, b"a" * 900_000),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_headers_of_a_tar_without_end_cost_that_archive(what: str, tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(HOSTILE[what])

    unread = r"could not be read as a whole: (?!maximum recursion)"
    with costs_at_most(3), pytest.raises(SourceError, match=unread):
        Keeper(tmp_path / "a.tar").sync()


@pytest.mark.parametrize("what", HOSTILE)
def test_headers_of_an_sdist_without_end_cost_its_files(what: str) -> None:
    packed = gzip.compress(HOSTILE[what])

    with costs_at_most(3):
        files = unpacked(packed, 10_000_000)

    assert files.readme is None


def test_honest_long_names_are_still_read(tmp_path: Path) -> None:
    name = "/".join(["folder" * 20] * 5) + "/a.md"
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        with tarfile.open(tmp_path / f"{form}.tar", "w", format=form) as archive:
            member = tarfile.TarInfo(name)
            member.size = 1
            member.linkname = "l" * 300
            archive.addfile(member, io.BytesIO(b"A"))

        assert Keeper(tmp_path / f"{form}.tar").sync().bodies == {name: b"A"}
