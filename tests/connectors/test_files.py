import errno
import os
import tracemalloc
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pydantic import ValidationError

from rowen.connectors import registry
from rowen.connectors.files.folders import FolderWalk
from rowen.connectors.files.options import FilesOptions, Selection
from rowen.errors import SourceError, SourceGoneError, UsageError
from tests.connectors.worlds import Keeper, write


def test_the_first_look_reads_every_readable_file_in_the_order_of_names(tmp_path: Path) -> None:
    write(tmp_path, {"b.md": "B", "a/z.md": "Z", "a.txt": "A", "c/d/e.md": "E", "picture.png": b"\x89PNG", "c.md": "C"})

    result = Keeper(tmp_path).sync()

    assert result.order == ["a/z.md", "a.txt", "b.md", "c/d/e.md", "c.md"]
    assert result.bodies == {"a/z.md": b"Z", "a.txt": b"A", "b.md": b"B", "c/d/e.md": b"E", "c.md": b"C"}
    assert result.complete
    assert result.meter.bytes == 5


def test_a_file_is_described_by_its_path_and_its_kind(tmp_path: Path) -> None:
    write(tmp_path, {"c/d/e.md": "E"})

    raw = Keeper(tmp_path, language="sv").sync().fetched["c/d/e.md"]

    assert raw.url == f"{tmp_path.as_uri()}/c/d/e.md"
    assert (raw.name, raw.media_type, raw.title) == ("e.md", "text/markdown", "")
    assert (raw.record, raw.depth, raw.language) == ({"path": "c/d/e.md"}, 2, "sv")


def test_nothing_changed_costs_a_look_and_no_byte(tmp_path: Path) -> None:
    keeper = Keeper(write(tmp_path, {f"{n}/{m}.md": "x" for n in range(10) for m in range(10)}))
    keeper.sync()

    result = keeper.sync()

    assert (len(result.unchanged), result.fetched, result.complete) == (100, {}, True)
    assert (result.meter.bytes, result.meter.not_modified, result.meter.requests) == (0, 100, 0)


def test_only_changed_files_are_read_again(tmp_path: Path) -> None:
    keeper = Keeper(write(tmp_path, {"a.md": "A", "b.md": "B", "c.md": "C"}))
    keeper.sync()
    (tmp_path / "c.md").unlink()
    write(tmp_path, {"b.md": "another B", "d.md": "D"})

    result = keeper.sync()

    assert result.bodies == {"b.md": b"another B", "d.md": b"D"}
    assert result.unchanged == ["a.md"]
    assert keeper.paths() == {"a.md", "b.md", "d.md"}


def test_a_file_replaced_by_one_of_the_same_size_and_time_is_read(tmp_path: Path) -> None:
    keeper = Keeper(write(tmp_path, {"a.md": "old"}))
    keeper.sync()
    before = (tmp_path / "a.md").stat()
    write(tmp_path, {"new": "new"})
    os.utime(tmp_path / "new", ns=(before.st_atime_ns, before.st_mtime_ns))
    (tmp_path / "new").rename(tmp_path / "a.md")

    assert keeper.sync().bodies == {"a.md": b"new"}


@pytest.mark.parametrize(
    ("age_ms", "nanoseconds", "racy"), [(5, 1, True), (50, 1, False), (1500, 0, True), (2500, 0, False)]
)
def test_a_file_as_young_as_a_clock_tick_is_compared_by_content_next_time(
    age_ms: int, nanoseconds: int, racy: bool, tmp_path: Path
) -> None:
    written_at = datetime(2024, 5, 1, tzinfo=UTC)
    write(tmp_path, {"a.md": "A"})
    os.utime(tmp_path / "a.md", ns=(0, int(written_at.timestamp()) * 10**9 + nanoseconds))
    keeper = Keeper(tmp_path, now=lambda: written_at + timedelta(milliseconds=age_ms))

    first, second = keeper.sync(), keeper.sync()

    assert (first.fetched["a.md"].etag or "").endswith("-racy") is racy
    assert second.meter.bytes == racy


def test_include_exclude_and_hidden_choose_by_relative_path(tmp_path: Path) -> None:
    files = ["a.md", "a.rst", "docs/b.md", "docs/old/c.md", ".notes/d.md", "docs/.e.md", ".git/f.md", "x/.git/g.md"]
    write(tmp_path, dict.fromkeys(files, "x"))

    assert Keeper(tmp_path).sync().order == ["a.md", "a.rst", "docs/b.md", "docs/old/c.md"]
    assert Keeper(tmp_path, include="*.md, *.txt").sync().order == ["a.md", "docs/b.md", "docs/old/c.md"]
    assert Keeper(tmp_path, include=["docs/**/*.md"], exclude="old").sync().order == ["docs/b.md"]
    assert Keeper(tmp_path, exclude="/docs").sync().order == ["a.md", "a.rst"]
    assert set(Keeper(tmp_path, hidden=True).sync().order) == set(files[:6])


def test_what_is_excluded_later_is_no_longer_seen(tmp_path: Path) -> None:
    keeper = Keeper(write(tmp_path, {"a.md": "A", "old/b.md": "B"}))
    keeper.sync()

    keeper.options = {"exclude": "old/"}
    keeper.sync()

    assert keeper.paths() == {"a.md"}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"include": "x[a"}, "include"),
        ({"exclude": ["/"]}, "exclude"),
        ({"max_bytes": "much"}, "max_bytes"),
        ({"max_bytes": 0}, "max_bytes"),
        ({"hidden": "perhaps"}, "hidden"),
        ({"depth": 3}, "depth"),
    ],
)
def test_a_wrong_option_is_named_when_the_source_is_added(options: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        registry.check_options("files", options)


def test_sizes_may_be_written_as_people_write_them() -> None:
    assert FilesOptions(max_bytes="10MB") == FilesOptions(max_bytes=10_000_000) == FilesOptions()
    assert FilesOptions(max_bytes="1 MiB").model_dump(mode="json")["max_bytes"] == 1024 * 1024
    with pytest.raises(ValidationError):
        FilesOptions(max_bytes=-1)


def test_a_file_that_is_too_large_is_reported_and_not_opened(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "A", "large.csv": ""})
    os.truncate(tmp_path / "large.csv", 1 << 30)

    result = Keeper(tmp_path).sync()

    assert "large.csv is larger than 10,000,000 bytes" in result.failed["large.csv"].error
    assert "max_bytes" in (result.failed["large.csv"].hint or "")
    assert (result.meter.bytes, result.complete) == (1, True)
    assert Keeper(tmp_path / "large.csv").sync().meter.bytes == 0


def test_a_file_that_grows_too_large_after_the_listing_is_not_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"a.md": "A"})
    before_open = os.open

    def grow(path: str, flags: int) -> int:
        if Path(path).parent == tmp_path:
            os.truncate(path, 1 << 30)
        return before_open(path, flags)

    monkeypatch.setattr(os, "open", grow)
    result = Keeper(tmp_path, max_bytes=100).sync()

    assert "larger than 100 bytes" in result.failed["a.md"].error
    assert result.meter.bytes == 101


def test_a_file_that_changes_while_it_is_read_is_tried_three_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"a.md": "A", "b.md": "B"})
    read = os.read
    tries = 0

    def disturbed(descriptor: int, size: int) -> bytes:
        nonlocal tries
        if os.fstat(descriptor).st_ino == (tmp_path / "a.md").stat().st_ino:
            tries += 1
            with (tmp_path / "a.md").open("a") as file:
                file.write("A")
        return read(descriptor, min(size, 1))

    monkeypatch.setattr(os, "read", disturbed)
    result = Keeper(tmp_path, max_bytes=10).sync()

    assert result.failed["a.md"].error == f"{tmp_path}/a.md changed while it was read."
    assert result.failed["a.md"].hint == "The next sync tries again."
    assert (result.bodies, result.complete, tries) == ({"b.md": b"B"}, True, 33)


def test_a_file_that_changed_once_while_it_was_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"a.md": "old"})
    read = os.read
    disturbances = iter([lambda: write(tmp_path, {"a.md": "newer"})])

    def disturbed(descriptor: int, size: int) -> bytes:
        body = read(descriptor, size)
        next(disturbances, lambda: None)()
        return body

    monkeypatch.setattr(os, "read", disturbed)
    result = Keeper(tmp_path).sync()

    assert result.bodies == {"a.md": b"newer"}


def refuse(monkeypatch: pytest.MonkeyPatch, call: str, ending: str, number: int) -> None:
    """Let a system call fail for paths with an ending: the tests may run as root, who may read everything."""
    real = getattr(os, call)

    def refusing(path: Any, *args: Any, **kwargs: Any) -> Any:
        if str(path).endswith(ending):
            raise OSError(number, os.strerror(number), path)
        return real(path, *args, **kwargs)

    monkeypatch.setattr(os, call, refusing)


@pytest.mark.parametrize("call", ["lstat", "open"])
def test_a_file_that_may_not_be_read_is_reported_and_kept(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = Keeper(write(tmp_path, {"a.md": "A", "b.md": "B"}))
    keeper.sync()
    write(tmp_path, {"a.md": "other"})

    refuse(monkeypatch, call, "a.md", errno.EACCES)
    result = keeper.sync()

    assert result.failed["a.md"].error == f"{tmp_path}/a.md could not be read: Permission denied."
    assert (result.unchanged, result.complete) == (["b.md"], True)
    assert keeper.paths() == {"a.md", "b.md"}


@pytest.mark.parametrize("call", ["lstat", "open"])
def test_a_file_that_vanished_after_the_listing_is_simply_not_there(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"a.md": "A", "b.md": "B"})

    refuse(monkeypatch, call, "a.md", errno.ENOENT)
    result = Keeper(tmp_path).sync()

    assert (result.order, result.failed, result.complete) == (["b.md"], {}, True)


def test_a_folder_that_cannot_be_listed_costs_the_proof_but_not_its_items(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = Keeper(write(tmp_path, {"a.md": "A", "shut/b.md": "B", "z.md": "Z"}))
    keeper.sync()

    refuse(monkeypatch, "scandir", "shut/", errno.EACCES)
    result = keeper.sync()

    assert result.failed["shut"].error == f"{tmp_path}/shut/ could not be read: Permission denied."
    assert (result.unchanged, result.complete) == (["a.md", "z.md"], False)
    assert keeper.paths() == {"a.md", "shut/b.md", "z.md"}


def test_a_folder_that_vanished_after_the_listing_is_simply_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"a.md": "A", "gone/b.md": "B"})

    refuse(monkeypatch, "scandir", "gone/", errno.ENOENT)

    assert Keeper(tmp_path).sync().complete


def test_a_root_that_cannot_be_listed_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, "scandir", f"{tmp_path}/", errno.EACCES)

    with pytest.raises(SourceError, match="could not be listed: Permission denied"):
        Keeper(tmp_path).sync()


def test_a_root_that_is_missing_is_no_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(SourceGoneError, match="No such file") as gone:
        Keeper(tmp_path / "disk").sync()

    assert gone.value.hint == "Is a disk not mounted?"


def test_a_root_that_vanishes_in_the_middle_of_a_walk_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write(tmp_path / "root", {"a.md": "A"})
    scandir = os.scandir

    def vanish(path: str) -> Any:
        root.rename(tmp_path / "elsewhere")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", vanish)

    with pytest.raises(SourceGoneError, match="is not there any more"):
        Keeper(root).sync()


def test_a_root_that_is_exchanged_in_the_middle_of_a_walk_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write(tmp_path / "root", {"a.md": "A"})
    scandir = os.scandir

    def exchange(path: str) -> Any:
        root.rename(tmp_path / "elsewhere")
        root.mkdir()
        return scandir(path)

    monkeypatch.setattr(os, "scandir", exchange)

    with pytest.raises(SourceError, match="became another folder"):
        Keeper(root).sync()


def test_a_folder_that_became_a_file_and_a_file_that_became_a_folder_delete_nothing(tmp_path: Path) -> None:
    root = write(tmp_path / "docs.md", {"a.md": "A"})
    folder, file = Keeper(root), Keeper(root)
    folder.sync()
    (root / "a.md").unlink()
    root.rmdir()
    root.write_text("now a file")

    with pytest.raises(SourceGoneError, match="was a folder and is a file now"):
        folder.sync()
    file.sync()
    root.unlink()
    root.mkdir()
    with pytest.raises(SourceGoneError, match="was a file and is a folder now"):
        file.sync()


def test_a_root_that_became_a_pipe_is_gone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.md")

    with pytest.raises(SourceGoneError, match="neither a folder nor a file"):
        Keeper(tmp_path / "a.md").sync()


def test_pipes_sockets_and_dangling_links_are_not_touched(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "A"})
    os.mkfifo(tmp_path / "pipe.md")
    os.mknod(tmp_path / "socket.md", 0o140600)
    (tmp_path / "dangling.md").symlink_to("nowhere")
    (tmp_path / "self.md").symlink_to("self.md")

    for follow in (False, True, "anywhere"):
        assert Keeper(tmp_path, follow_links=follow).sync().order == ["a.md"]


def test_a_pipe_put_in_a_file_s_place_does_not_hold_the_run_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"a.md": "A"})
    before_open = os.open

    def swap(path: str, flags: int) -> int:
        # Others open files, too: this machine's /dev/null is not to be touched.
        if Path(path).parent == tmp_path:
            Path(path).unlink()
            os.mkfifo(path)
        return before_open(path, flags)

    monkeypatch.setattr(os, "open", swap)

    assert Keeper(tmp_path).sync().order == []


def linked_world(tmp_path: Path) -> Path:
    root = write(tmp_path / "root", {"a.md": "A", "sub/b.md": "B"})
    write(tmp_path / "outside", {"c.md": "C"})
    (root / "a-link.md").symlink_to("a.md")
    (root / "sub-link").symlink_to("sub")
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "out.md").symlink_to(tmp_path / "outside/c.md")
    (root / "sub/up").symlink_to("..")
    return root


def test_links_are_followed_by_option_only_and_stay_inside(tmp_path: Path) -> None:
    root = linked_world(tmp_path)

    assert Keeper(root).sync().order == ["a.md", "sub/b.md"]
    assert set(Keeper(root, follow_links=True).sync().order) == {"a.md", "a-link.md", "sub/b.md", "sub-link/b.md"}


def test_links_lead_anywhere_only_by_explicit_wish(tmp_path: Path) -> None:
    order = Keeper(linked_world(tmp_path), follow_links="anywhere").sync().order

    assert {"out/c.md", "out.md"} < set(order)
    assert len(order) == 6


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    root = write(tmp_path, {"a/x.md": "X", "b/y.md": "Y"})
    (root / "a/b").symlink_to("../b")
    (root / "b/a").symlink_to("../a")

    result = Keeper(root, follow_links="true").sync()

    assert set(result.order) == {"a/x.md", "a/b/y.md", "b/y.md", "b/a/x.md"}
    assert result.complete


def test_names_that_are_not_utf_8_keep_their_exact_url(tmp_path: Path) -> None:
    name = b"caf\xe9 #1?.md"
    (tmp_path / "d\u00e9").mkdir()
    (tmp_path / "d\u00e9" / os.fsdecode(name)).write_bytes(b"coffee")
    keeper = Keeper(tmp_path)

    (raw,) = keeper.sync().fetched.values()

    assert raw.url == f"{tmp_path.as_uri()}/d%C3%A9/{quote(name)}"
    assert (raw.body, raw.name, raw.record) == (b"coffee", "caf\ufffd #1?.md", {"path": "d\u00e9/caf\ufffd #1?.md"})
    assert keeper.sync().meter.not_modified == 1


def test_a_single_file_is_one_item(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "A", "b.md": "B"})
    keeper = Keeper(tmp_path / "a.md")

    first, second = keeper.sync(), keeper.sync()

    (raw,) = first.fetched.values()
    assert (raw.url, raw.record, raw.depth, raw.etag) == (keeper.url, {"path": "a.md"}, 0, keeper.held[raw.url].etag)
    assert (second.meter.bytes, second.meter.not_modified, second.complete) == (0, 1, True)


def test_a_root_that_is_a_link_is_followed(tmp_path: Path) -> None:
    write(tmp_path, {"release-1/a.md": "A"})
    (tmp_path / "current").symlink_to("release-1")
    (tmp_path / "page.md").symlink_to("release-1/a.md")

    assert Keeper(tmp_path / "current").sync().bodies == {"a.md": b"A"}
    assert Keeper(tmp_path / "page.md").sync().bodies == {"": b"A"}


def test_a_single_file_that_vanishes_before_it_is_read_is_not_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = Keeper(write(tmp_path, {"a.md": "A"}) / "a.md")
    keeper.sync()
    write(tmp_path, {"a.md": "other"})

    refuse(monkeypatch, "open", "a.md", errno.ENOENT)

    with pytest.raises(SourceGoneError, match="vanished"):
        keeper.sync()


def test_a_single_file_that_vanishes_is_not_deleted(tmp_path: Path) -> None:
    keeper = Keeper(write(tmp_path, {"a.md": "A"}) / "a.md")
    keeper.sync()
    (tmp_path / "a.md").unlink()

    with pytest.raises(SourceGoneError):
        keeper.sync()


def test_twenty_thousand_files_in_one_folder_cost_little_memory(tmp_path: Path) -> None:
    for number in range(20_000):
        os.close(os.open(f"{tmp_path}/{number:05}.md", os.O_CREAT | os.O_WRONLY))
    keeper = Keeper(tmp_path)
    keeper.sync()
    walk = FolderWalk(str(tmp_path), keeper.url, FilesOptions(), Selection(FilesOptions()))

    tracemalloc.start()
    count = sum(len(batch.urls) for batch in walk)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert count == keeper.count == 20_000
    assert peak_bytes < 20_000 * 150 + 2_000_000
    assert keeper.sync().meter.not_modified == 20_000
