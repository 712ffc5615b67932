"""What proves an item unchanged covers all that decides whether a rebuild would have it: options, headers, times."""

import os
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rowen import Run
from rowen.connectors.files import reading
from rowen.connectors.files.reading import Batch
from tests.conftest import ScratchDatabase
from tests.connectors.worlds import Keeper, write
from tests.logical import index_of
from tests.portals.site import Site, keep

HIDDEN = {"X-Robots-Tag": "noindex"}


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    site.grow(13)
    yield site
    site.close()


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no file be as young as a tick of the clock."""
    monkeypatch.setattr(reading, "racy", lambda status, looked_at: False)


def rewrite(path: Path, body: bytes) -> None:
    """Change a file in place, and put its time of modification back; its size stays."""
    before = path.stat()
    assert len(body) == before.st_size
    with path.open("r+b") as file:
        file.write(body)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)


def as_an_earlier_version_wrote(database: ScratchDatabase) -> None:
    """Leave the last part out of the validators of all files."""
    database.execute("update item_check set etag = regexp_replace(etag, '-[0-9a-f]+$', '')")
    database.execute("""update source set cursor = jsonb_set(cursor, '{archive}', to_jsonb(
        regexp_replace(cursor ->> 'archive', '-[0-9a-f]+$', ''))) where cursor ? 'archive'""")


def packed(path: Path, **members: str) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, text in members.items():
            (path.parent / name).write_text(text)
            tar.add(path.parent / name, name)
            (path.parent / name).unlink()
    return path


def test_a_file_rewritten_in_place_with_its_size_and_time_put_back_is_read(tmp_path: Path) -> None:
    keeper = Keeper(write(tmp_path, {"a.md": "old", "b.md": "B"}))
    keeper.sync()
    rewrite(tmp_path / "a.md", b"new")

    result = keeper.sync()

    assert (result.bodies, result.unchanged) == ({"a.md": b"new"}, ["b.md"])


def test_an_archive_rewritten_in_place_with_its_size_and_time_put_back_is_read(tmp_path: Path) -> None:
    path = packed(tmp_path / "docs.tar", **{"a.md": "old"})
    keeper = Keeper(path)
    keeper.sync()
    rewrite(path, path.read_bytes().replace(b"old", b"new"))

    assert keeper.sync().bodies == {"a.md": b"new"}


@pytest.mark.usefixtures("settled")
async def test_a_file_whose_permissions_changed_is_read_and_compared_once(
    database: ScratchDatabase, tmp_path: Path
) -> None:
    write(tmp_path, {"a.md": "A" * 50, "b.md": "B"})
    async with database.open() as r:
        await r.sync(str(tmp_path))
        (tmp_path / "a.md").chmod(0o640)
        moved = await r.sync(str(tmp_path))
        again = await r.sync(str(tmp_path))
        changes = await r.changes.last_number()

    assert (moved.stats.bytes, moved.stats.stopped_at_body, moved.stats.rows_written, changes) == (50, 1, 1, 2)
    assert (again.stats.bytes, again.stats.stopped_at_validator, again.stats.rows_written) == (0, 2, 0)


@pytest.mark.usefixtures("settled")
async def test_after_the_upgrade_no_file_is_read_and_validators_are_renewed_some_in_each_run(
    database: ScratchDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "RENEWED_ITEMS", 2)
    write(tmp_path, {f"{n}.md": f"Text {n}" for n in range(3)})
    async with database.open() as r:
        await r.sync(str(tmp_path))
        as_an_earlier_version_wrote(database)
        runs = [await r.sync(str(tmp_path)) for _ in range(3)]
        rewrite(tmp_path / "2.md", b"Next 2")
        changed = await r.sync(str(tmp_path))

    assert [(run.stats.bytes, run.stats.unchanged, run.stats.rows_written) for run in runs] == [
        (0, 3, 2),
        (0, 3, 1),
        (0, 3, 0),
    ]
    assert (changed.stats.updated, changed.stats.unchanged) == (1, 2)


@pytest.mark.usefixtures("settled")
async def test_after_the_upgrade_no_archive_is_unpacked(
    database: ScratchDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowen.connectors.files.archives.racy", lambda status, looked_at: False)
    path = packed(tmp_path / "docs.tar", **{"a.md": "old", "b.md": "B"})
    async with database.open() as r:
        await r.sync(str(path))
        as_an_earlier_version_wrote(database)
        upgraded, again = await r.sync(str(path)), await r.sync(str(path))
        rewrite(path, path.read_bytes().replace(b"old", b"new"))
        changed = await r.sync(str(path))

    assert [(run.stats.bytes, run.stats.unchanged) for run in (upgraded, again)] == [(0, 2), (0, 2)]
    assert (upgraded.stats.rows_written, again.stats.rows_written) == (2, 0)
    assert changed.stats.updated == 1


@pytest.mark.usefixtures("settled")
async def test_an_unchanged_archive_is_not_unpacked_while_deletions_are_pending(
    database: ScratchDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowen.connectors.files.archives.racy", lambda status, looked_at: False)
    members = {f"{n:02}.md": f"Text {n}" for n in range(60)}
    path = packed(tmp_path / "docs.tar", **members)
    async with database.open() as r:
        await r.sync(str(path))
        packed(path, **dict(list(members.items())[40:]))
        waiting = await r.sync(str(path))
        again = await r.sync(str(path))
        accepted = await r.sync(str(path), accept_deletions=True)

    assert (waiting.stats.deletions_held, again.stats.deletions_held, accepted.stats.deleted) == (40, 40, 40)
    assert [(run.stats.bytes, run.stats.unchanged) for run in (again, accepted)] == [(0, 20), (0, 20)]
    assert database.query("select count(*) from item") == [(20,)]


def test_a_validator_of_another_shape_is_none_of_an_earlier_version() -> None:
    assert reading.is_earlier_form("1-2-3", "1-2-3-4")
    for stored in (None, "1-2-4", "1-2", "1-2-3-4", "1-2-3-racy"):
        assert not reading.is_earlier_form(stored, "1-2-3-4")
    assert not reading.is_earlier_form("0badcafe", "0badcafe-10")
    assert Batch().full is False


async def equal_to_a_rebuild(database: ScratchDatabase, rebuilt: ScratchDatabase, target: str, **options: Any) -> Run:
    """Sync after the options changed, and compare with a first sync under these."""
    async with database.open() as r:
        [source] = await r.sources.list()
        await r.sources.edit(source.name, options=options)
        run = await r.sync(source.name)
        cases = [(case.url, case.error) for case in await r.items.quarantine()]
    async with rebuilt.open() as r:
        await r.sources.add(target, name="again", options=options)
        await r.sync("again")
        assert cases == [(case.url, case.error) for case in await r.items.quarantine()]
    assert index_of(database) == index_of(rebuilt)
    return run


def folder(path: Path, large: str) -> Path:
    return write(path / "docs", {"small.md": "Small.", "large.md": large})


def zipped(path: Path, large: str) -> Path:
    with zipfile.ZipFile(path / "docs.zip", "w") as archive:
        archive.writestr("small.md", "Small.")
        archive.writestr("large.md", large)
    return path / "docs.zip"


def tarred(path: Path, large: str) -> Path:
    return packed(path / "docs.tar", **{"small.md": "Small.", "large.md": large})


@pytest.mark.parametrize("make", [folder, zipped, tarred])
async def test_a_file_that_is_too_large_by_now_goes_as_a_rebuild_would_leave_it_out(
    new_database: Callable[[], ScratchDatabase], tmp_path: Path, make: Callable[[Path, str], Path]
) -> None:
    database, target = new_database(), str(make(tmp_path, "Large. " * 100))
    async with database.open() as r:
        await r.sync(target)

    run = await equal_to_a_rebuild(database, new_database(), target, max_bytes=100)

    assert (run.stats.failed, run.stats.deleted) == (1, 1)


async def test_a_page_that_is_too_large_by_now_goes_although_its_origin_would_answer_304(
    new_database: Callable[[], ScratchDatabase], site: Site
) -> None:
    database, few = new_database(), {"sitemap": False, "llms": False}
    site.put("/p2", "Large", "Large. " * 1000, links=("/p5",))
    async with database.open() as r:
        await keep(r, site)

    run = await equal_to_a_rebuild(database, new_database(), f"{site.url}/", **few, max_bytes=5000)

    assert (run.stats.failed, run.stats.not_modified) == (1, 0)
    assert f"{site.url}/p2" not in {url for (url,) in database.query("select url from item")}


async def test_after_the_limit_was_changed_pages_are_requested_with_validators_again(
    database: ScratchDatabase, site: Site
) -> None:
    async with database.open() as r:
        await keep(r, site)
        await r.sources.edit("site", options={"sitemap": False, "llms": False, "max_bytes": 5000})
        changed, again = await r.sync("site"), await r.sync("site")

    assert (changed.stats.not_modified, changed.stats.unchanged) == (0, 13)
    assert (again.stats.not_modified, again.stats.rows_written) == (13, 0)


async def test_noindex_that_arrives_with_a_304_takes_the_page_out_and_it_returns_without_it(
    new_database: Callable[[], ScratchDatabase], site: Site
) -> None:
    database, rebuilt = new_database(), new_database()
    async with database.open() as r:
        await keep(r, site)
        site.alter("/p2", headers=HIDDEN, tells_again=True)
        hidden, again = await r.sync("site"), await r.sync("site")
        async with rebuilt.open() as other:
            await keep(other, site)
        assert index_of(database) == index_of(rebuilt)
        site.alter("/p2", headers={})
        restored = await r.sync("site")

    assert (hidden.stats.deleted, hidden.stats.not_modified) == (1, 13)
    assert (again.stats.not_modified, again.stats.rows_written) == (13, 0)
    assert (restored.stats.created, restored.stats.unchanged) == (1, 12)


async def test_nofollow_that_arrives_with_a_304_is_obeyed(
    new_database: Callable[[], ScratchDatabase], site: Site
) -> None:
    database = new_database()
    async with database.open() as r:
        await keep(r, site)
        site.alter("/p2", headers={"X-Robots-Tag": "nofollow"}, tells_again=True)
        run = await r.sync("site")

    assert (run.stats.deleted, run.stats.unchanged) == (4, 9)


async def test_an_origin_that_leaves_the_header_out_of_its_304_is_requested_the_page_once_more_and_then_trusted(
    database: ScratchDatabase, site: Site
) -> None:
    site.alter("/p12", headers=HIDDEN)
    async with database.open() as r:
        await keep(r, site)
        await r.sync("site")
        second = site.asked()
        site.log.clear()
        await r.sync("site")

    assert (second.count("/p12"), site.asked().count("/p12")) == (2, 1)
    assert (200 in [line.status for line in site.log]) is False


async def test_a_look_at_a_page_leaves_noindex_with_a_304_to_a_walk(database: ScratchDatabase, site: Site) -> None:
    async with database.open() as r:
        await keep(r, site)
        await r.sync("site")
        site.alter("/p2", headers=HIDDEN, tells_again=True)
        partial = await r.sync("site", only=[f"{site.url}/p2"])
        walk = await r.sync("site")

    assert (partial.stats.skipped, partial.stats.deleted, walk.stats.deleted) == (1, 0, 1)
