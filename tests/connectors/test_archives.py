import io
import os
import stat
import struct
import tarfile
import warnings
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from rowen.connectors.base import FailedBefore
from rowen.connectors.files import Files
from rowen.connectors.files.archives import inner_path
from rowen.errors import ItemError, SourceError
from tests.connectors.worlds import Keeper

PACKINGS = [(".tar", ""), (".tar.gz", "gz"), (".tgz", "gz"), (".tar.bz2", "bz2"), (".tar.xz", "xz")]
Files_ = Iterable[tuple[str, bytes]]


def make_zip(path: Path, files: Files_, *, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", method) as archive:
        warnings.simplefilter("ignore")
        for name, body in files:
            archive.writestr(zipfile.ZipInfo(name), body, compress_type=method)
    return path


def make_tar(path: Path, files: Files_, *, packing: str = "") -> Path:
    mode: Any = f"w:{packing}"
    with tarfile.open(path, mode) as archive:
        for name, body in files:
            member = tarfile.TarInfo(name)
            member.size = len(body)
            archive.addfile(member, io.BytesIO(body))
    return path


def make(path: Path, files: Files_) -> Path:
    """An archive of the kind that its name tells."""
    if path.suffix == ".zip":
        return make_zip(path, files)
    return make_tar(path, files, packing=dict(PACKINGS)["".join(path.suffixes)])


FILES = [("a.md", b"A"), ("docs/b c.md", b"BC"), ("docs/picture.png", b"\x89PNG"), (".hidden.md", b"H")]
KINDS = [".zip", *(ending for ending, _ in PACKINGS)]
each_kind = pytest.mark.parametrize("ending", KINDS)


@each_kind
def test_an_archive_is_read_like_a_folder(ending: str, tmp_path: Path) -> None:
    root = make(tmp_path / f"docs{ending}", FILES)

    result = Keeper(root, language="de").sync()

    assert result.bodies == {"a.md": b"A", "docs/b c.md": b"BC"}
    assert (result.complete, result.meter.bytes) == (True, 3)
    raw = result.fetched["docs/b c.md"]
    assert raw.url == f"{root.as_uri()}!/docs/b%20c.md"
    assert (raw.name, raw.record, raw.depth, raw.language) == ("b c.md", {"path": "docs/b c.md"}, 1, "de")


@each_kind
def test_an_archive_that_was_not_touched_is_not_unpacked(ending: str, tmp_path: Path) -> None:
    keeper = Keeper(make(tmp_path / f"docs{ending}", FILES))
    keeper.sync()

    result = keeper.sync()

    assert sorted(result.unchanged) == ["a.md", "docs/b c.md"]
    assert (result.meter.bytes, result.meter.not_modified, result.complete) == (0, 2, True)


@each_kind
def test_a_changed_archive_yields_changed_members_and_deletes_missing_ones(ending: str, tmp_path: Path) -> None:
    root = tmp_path / f"docs{ending}"
    keeper = Keeper(make(root, [("a.md", b"A"), ("b.md", b"B"), ("c.md", b"C")]))
    keeper.sync()
    make(root, [("a.md", b"A"), ("b.md", b"other"), ("d.md", b"D")])

    result = keeper.sync()

    assert result.bodies.items() >= {"b.md": b"other", "d.md": b"D"}.items()
    assert result.unchanged == (["a.md"] if ending == ".zip" else [])
    assert keeper.paths() == {"a.md", "b.md", "d.md"}
    assert keeper.sync().meter.bytes == 0


def test_a_zip_packed_anew_with_the_same_content_is_not_unpacked(tmp_path: Path) -> None:
    root = tmp_path / "docs.zip"
    keeper = Keeper(make_zip(root, FILES))
    keeper.sync()
    make_zip(root, FILES, method=zipfile.ZIP_STORED)

    result = keeper.sync()

    assert (result.meter.bytes, result.meter.not_modified) == (0, 2)


def test_a_tar_of_which_only_a_part_was_stored_is_read_again(tmp_path: Path) -> None:
    keeper = Keeper(make_tar(tmp_path / "docs.tar", FILES))
    keeper.sync()
    keeper.held.popitem()
    keeper.cursor = None

    assert set(keeper.sync().bodies) == {"a.md", "docs/b c.md"}


def test_a_tar_with_items_of_an_older_state_is_read_again(tmp_path: Path) -> None:
    keeper = Keeper(make_tar(tmp_path / "docs.tar", FILES))
    keeper.sync()
    stored = next(iter(keeper.held.values()))
    keeper.held["held back"] = stored._replace(url="held back", etag="another")

    assert set(keeper.sync().bodies) == {"a.md", "docs/b c.md"}


def test_a_tar_with_a_member_that_could_not_be_stored_is_read_again(tmp_path: Path) -> None:
    keeper = Keeper(make(tmp_path / "docs.tar", FILES))
    keeper.sync()
    url = next(url for url in keeper.held if url.endswith("a.md"))
    del keeper.held[url]
    keeper.count, at = len(keeper.held), keeper.now()
    keeper.failed = [FailedBefore(url, 5, at, at)]

    assert keeper.sync().bodies["a.md"] == b"A"


def test_a_tar_is_read_again_under_other_options(tmp_path: Path) -> None:
    keeper = Keeper(make_tar(tmp_path / "docs.tar", FILES), include="a.md")
    keeper.sync()

    keeper.options = {"hidden": True}

    assert set(keeper.sync().bodies) == {"a.md", "docs/b c.md", ".hidden.md"}


@each_kind
def test_patterns_choose_among_members(ending: str, tmp_path: Path) -> None:
    files = [("a.md", b"A"), ("docs/b.md", b"B"), ("docs/old/c.md", b"C"), (".git/d.md", b"D"), ("x/.e/f.md", b"F")]
    root = make(tmp_path / f"docs{ending}", files)

    assert set(Keeper(root, include="docs/**", exclude="old").sync().bodies) == {"docs/b.md"}
    assert set(Keeper(root, hidden=True).sync().bodies) == {"a.md", "docs/b.md", "docs/old/c.md", "x/.e/f.md"}


@each_kind
def test_of_members_with_one_path_the_last_one_counts(ending: str, tmp_path: Path) -> None:
    root = make(
        tmp_path / f"docs{ending}", [("a.md", b"first"), ("b.md", b"B"), ("./a.md", b"second"), ("a.md", b"last")]
    )

    result = Keeper(root).sync()

    assert sorted(result.order) == ["a.md", "b.md"]
    assert result.bodies["a.md"] == b"last"


@pytest.mark.parametrize(
    "name", ["../a.md", "/etc/a.md", "docs/../../a.md", "C:/a.md", "..\\a.md", "\\\\host\\a.md", "c:a.md"]
)
@pytest.mark.parametrize("ending", [".zip", ".tar"])
def test_a_path_that_leads_out_is_reported_and_not_read(ending: str, name: str, tmp_path: Path) -> None:
    result = Keeper(make(tmp_path / f"docs{ending}", [(name, b"x"), ("ok.md", b"OK")])).sync()

    assert result.bodies == {"ok.md": b"OK"}
    (failed,) = result.failed.values()
    assert "leads out of the archive" in failed.error


def test_paths_of_all_systems_become_one_form() -> None:
    assert inner_path("./docs//a.md") == inner_path("docs\\a.md") == "docs/a.md"
    with pytest.raises(ItemError):
        inner_path("docs/..")


def test_names_in_a_tar_that_are_not_utf_8_keep_their_exact_url(tmp_path: Path) -> None:
    root = make_tar(tmp_path / "docs.tar", [("caf\udce9.md", b"coffee")])

    (raw,) = Keeper(root).sync().fetched.values()

    assert raw.url == f"{root.as_uri()}!/caf%E9.md"
    assert (raw.name, raw.record) == ("caf\ufffd.md", {"path": "caf\ufffd.md"})


@each_kind
def test_a_member_that_is_too_large_is_reported(ending: str, tmp_path: Path) -> None:
    root = make(tmp_path / f"docs{ending}", [("a.md", b"A"), ("large.md", b"x" * 101)])

    result = Keeper(root, max_bytes=100).sync()

    assert "large.md" in result.failed["large.md"].error
    assert "max_bytes" in (result.failed["large.md"].hint or "")
    assert (result.bodies, result.complete) == ({"a.md": b"A"}, True)


@each_kind
def test_an_archive_with_too_much_in_it_is_refused(ending: str, tmp_path: Path) -> None:
    root = make(tmp_path / f"docs{ending}", [(f"{n}.md", os.urandom(1000)) for n in range(30)])

    with pytest.raises(SourceError, match="max_total_bytes"):
        Keeper(root, max_total_bytes=20_000).sync()
    with pytest.raises(SourceError, match="max_members"):
        Keeper(root, max_members=29).sync()


def test_what_is_too_large_to_be_read_does_not_count_for_the_whole_zip(tmp_path: Path) -> None:
    root = make_zip(tmp_path / "docs.zip", [("a.md", b"A"), ("large.csv", b"x" * 1_000)])

    result = Keeper(root, max_bytes=100, max_total_bytes=100).sync()

    assert (result.bodies, list(result.failed)) == ({"a.md": b"A"}, ["large.csv"])


def test_a_zip_bomb_is_not_unpacked(tmp_path: Path) -> None:
    root = make_zip(tmp_path / "bomb.zip", [("a.md", b"A"), ("bomb.md", bytes(9_000_000))])

    result = Keeper(root).sync()

    assert "300 times" in result.failed["bomb.md"].error
    assert result.meter.bytes == 1


@pytest.mark.parametrize("packing", ["gz", "bz2", "xz"])
def test_a_tar_bomb_is_not_unpacked(packing: str, tmp_path: Path) -> None:
    root = make_tar(
        tmp_path / f"bomb.tar.{packing}", [("picture.png", bytes(40_000_000)), ("a.md", b"A")], packing=packing
    )

    with pytest.raises(SourceError, match="bomb"):
        Keeper(root).sync()


def patched(path: Path, signature: bytes, offset: int, form: str, value: int) -> None:
    """Change a number in the first record of a zip with this signature."""
    data = bytearray(path.read_bytes())
    struct.pack_into(form, data, data.index(signature) + offset, value)
    path.write_bytes(data)


@pytest.mark.parametrize(("claimed", "method"), [(1, 0), (1, 8), (5_000, 8), (400_000, 8)])
def test_a_wrong_size_in_a_zip_costs_that_member_only(claimed: int, method: int, tmp_path: Path) -> None:
    root = make_zip(tmp_path / "docs.zip", [("a.md", b"text " * 200), ("b.md", b"B")], method=method)
    patched(root, b"PK\x01\x02", 24, "<I", claimed)
    keeper = Keeper(root)

    result = keeper.sync()

    assert "a.md" in result.failed["a.md"].error
    assert (result.bodies, result.complete) == ({"b.md": b"B"}, False)


def test_an_encrypted_member_is_reported(tmp_path: Path) -> None:
    root = make_zip(tmp_path / "docs.zip", [("a.md", b"A"), ("b.md", b"B")])
    patched(root, b"PK\x01\x02", 8, "<H", 1)

    result = Keeper(root).sync()

    assert result.failed["a.md"].error == f"a.md in {root} is encrypted."
    assert (result.bodies, result.complete) == ({"b.md": b"B"}, True)


def test_a_member_packed_without_a_bound_on_its_output_is_reported(tmp_path: Path) -> None:
    root = make_zip(tmp_path / "docs.zip", [("a.md", bytes(100))], method=zipfile.ZIP_BZIP2)

    assert "packed by an unsupported method" in Keeper(root).sync().failed["a.md"].error


def test_a_damaged_member_is_reported_and_deletes_nothing(tmp_path: Path) -> None:
    root = make_zip(tmp_path / "docs.zip", [("a.md", b"unpacked text"), ("b.md", b"B")], method=zipfile.ZIP_STORED)
    root.write_bytes(root.read_bytes().replace(b"unpacked", b"unpicked"))

    result = Keeper(root).sync()

    assert "damaged" in result.failed["a.md"].error
    assert (result.bodies, result.complete) == ({"b.md": b"B"}, False)


@each_kind
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_a_truncated_archive_yields_nothing_and_deletes_nothing(ending: str, share: float, tmp_path: Path) -> None:
    root = tmp_path / f"docs{ending}"
    keeper = Keeper(make(root, [(f"{n}.md", os.urandom(2_000)) for n in range(20)]))
    keeper.sync()
    content = root.read_bytes()
    end = len(content) if ending != ".tar" else 20 * 2560
    root.write_bytes(content[: int(end * share) // 512 * 512])

    with pytest.raises(SourceError, match="as a whole"):
        keeper.sync()

    assert keeper.count == 20


@each_kind
@pytest.mark.parametrize("magic", [b"<html>", b"\x1f\x8b", b"PK\x03\x04", b"BZh9", b"\xfd7zXZ\x00"])
def test_bytes_that_are_no_archive_are_refused(ending: str, magic: bytes, tmp_path: Path) -> None:
    (tmp_path / f"docs{ending}").write_bytes(magic * 500)

    with pytest.raises(SourceError, match="as a whole"):
        Keeper(tmp_path / f"docs{ending}").sync()


def test_a_flipped_byte_in_a_packed_tar_is_found_before_anything_is_taken(tmp_path: Path) -> None:
    root = make_tar(tmp_path / "docs.tar.gz", [("a.md", os.urandom(5_000))], packing="gz")
    content = bytearray(root.read_bytes())
    content[3_000] ^= 1
    root.write_bytes(content)

    with pytest.raises(SourceError, match="as a whole"):
        Keeper(root).sync()


def test_a_header_of_a_tar_that_asks_for_much_memory_is_refused(tmp_path: Path) -> None:
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 1 << 33
    (tmp_path / "docs.tar").write_bytes(header.tobuf(tarfile.GNU_FORMAT) + bytes(2048))

    with pytest.raises(SourceError, match="a header of"):
        Keeper(tmp_path / "docs.tar").sync()


def test_a_thousand_long_names_in_a_row_are_refused(tmp_path: Path) -> None:
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 0
    (tmp_path / "docs.tar").write_bytes(header.tobuf(tarfile.GNU_FORMAT) * 5_000 + bytes(2048))

    with pytest.raises(SourceError, match="as a whole"):
        Keeper(tmp_path / "docs.tar").sync()


def test_links_and_devices_in_a_tar_are_ignored(tmp_path: Path) -> None:
    root = tmp_path / "docs.tar"
    with tarfile.open(root, "w") as archive:
        for number, kind in enumerate(
            [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE]
        ):
            member = tarfile.TarInfo(f"{number}.md")
            member.type, member.linkname = kind, "/etc/passwd"
            archive.addfile(member)

    result = Keeper(root).sync()

    assert (result.order, result.complete) == ([], True)


def test_links_and_folders_in_a_zip_are_ignored(tmp_path: Path) -> None:
    root = tmp_path / "docs.zip"
    with zipfile.ZipFile(root, "w") as archive:
        link = zipfile.ZipInfo("link.md")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("folder.md/", "")
        archive.writestr("windows.md\\", "")

    result = Keeper(root).sync()

    assert (result.order, result.complete) == ([], True)


def test_an_archive_that_changes_while_it_is_read_deletes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = Keeper(make_zip(tmp_path / "docs.zip", FILES))
    real = zipfile.ZipFile.open

    def touched(self: zipfile.ZipFile, member: Any) -> Any:
        os.utime(tmp_path / "docs.zip")
        return real(self, member)

    monkeypatch.setattr(zipfile.ZipFile, "open", touched)

    with pytest.raises(SourceError, match="it changed meanwhile"):
        keeper.sync()


def test_an_error_of_the_store_is_not_taken_for_one_of_the_archive(tmp_path: Path) -> None:
    keeper = Keeper(make_zip(tmp_path / "docs.zip", FILES))

    async def lost(urls: Any) -> Any:
        raise ConnectionResetError

    keeper.look_up = lost  # type: ignore[method-assign]

    with pytest.raises(ConnectionResetError):
        keeper.sync()


def test_an_archive_inside_a_folder_is_not_opened(tmp_path: Path) -> None:
    make_zip(tmp_path / "docs.zip", FILES)

    assert Keeper(tmp_path).sync().order == []
    assert Files.recognise(str(tmp_path / "docs.zip")) == f"{tmp_path.as_uri()}/docs.zip"
