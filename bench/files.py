"""What a folder costs: `python -m bench.files [--files 100000] [--docs FOLDER]`.

Prints ratios and CPU per file: a no-change sync against a bare scandir walk, a first sync by stages, and a sync
after one paragraph was edited in 1 % of the files. The database's own CPU is shown apart.
"""

import argparse
import asyncio
import cProfile
import os
import pstats
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import rowen
from bench.meter import Meter
from rowen.model.files import media_type_of
from rowen.settings import Settings

EDIT = "\n\nA paragraph that was not here before: number {} of the edited files, and it says so.\n\n"


def _bare_walk(folder: str) -> int:
    seen, folders = 0, [folder]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    entry.stat(follow_symlinks=False)
                    seen += 1
    return seen


def _make_files(folder: Path, count: int) -> None:
    for number in range(count):
        if number % 100 == 0:
            (folder / f"{number // 100:05}").mkdir(parents=True)
        (folder / f"{number // 100:05}" / f"note-{number}.md").write_text(f"# Note {number}\n\nIt says {number * 7}.\n")


async def no_change(base: Path, count: int) -> None:
    folder = base / "many"
    _make_files(folder, count)
    async with rowen.open(Settings(home=base / "home")) as r:
        first = Meter(base / "home")
        with first.running():
            await r.sync(str(folder))
        bare = min(_timed_walk(folder) for _ in range(3))
        again = Meter(base / "home")
        with again.running():
            run = await r.sync(str(folder))
    assert run.stats.unchanged == count, run.stats
    print(f"\nNothing changed, {count:,} files")
    print(f"  rows written            {run.stats.rows_written}")
    print(f"  bare scandir + stat     {bare / count * 1e6:8.2f} µs CPU a file")
    print(f"  rowen sync              {again.own_s / count * 1e6:8.2f} µs CPU a file, {again.own_s / bare:.2f} × bare")
    print(f"  database                {again.database_s / count * 1e6:8.2f} µs CPU a file")
    print(f"  wall                    {again.wall_s:8.2f} s (first sync {first.wall_s:.1f} s)")
    print(f"  peak memory             {again.peak_mb:8.0f} MB")


def _timed_walk(folder: Path) -> float:
    start = time.process_time()
    _bare_walk(str(folder))
    return time.process_time() - start


def _copy_docs(source: Path, target: Path, limit: int) -> int:
    copied = 0
    for path in sorted(source.rglob("*")):
        if copied < limit and path.is_file() and not path.is_symlink() and media_type_of(path.name):
            place = target / path.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)
            copied += 1
    return copied


async def documentation(base: Path, source: Path, limit: int) -> None:
    folder = base / "docs"
    copied = _copy_docs(source, folder, limit)
    profile = cProfile.Profile()
    async with rowen.open(Settings(home=base / "home", workers=0)) as r:
        profile.enable()
        await r.sync(str(folder))
        profile.disable()
        await r.sources.remove("docs")
    async with rowen.open(Settings(home=base / "home")) as r:
        first = Meter(base / "home")
        with first.running():
            run = await r.sync(str(folder))
        size = run.stats.bytes
        print(f"\nFirst sync of {copied:,} documentation files, {size / 1e6:.1f} MB, {run.stats.failed} failed")
        print(f"  CPU                     {first.own_s / copied * 1e3:8.2f} ms a file")
        print(f"  database                {first.database_s / copied * 1e3:8.2f} ms CPU a file")
        print(f"  wall                    {first.wall_s:8.1f} s, {copied / first.wall_s:.0f} files/s")
        print(f"  passages                {run.stats.chunks_written:,}")
        _print_stages(profile, copied)
        await _edited(r, folder, base / "home", first.wall_s)


async def _edited(r: rowen.Rowen, folder: Path, home: Path, full_wall_s: float) -> None:
    files = sorted(
        p for p in folder.rglob("*") if p.suffix in (".html", ".md", ".txt", ".rst") and p.stat().st_size > 4000
    )
    chosen = files[:: max(1, len(files) // max(1, len(files) // 100))]
    for number, path in enumerate(chosen):
        _edit(path, number)
    meter = Meter(home)
    with meter.running():
        run = await r.sync(str(folder))
    stats = run.stats
    print(f"\nOne paragraph edited in {len(chosen)} files (1 %)")
    print(
        f"  updated                 {stats.updated}, passages written {stats.chunks_written}, kept {stats.chunks_kept}"
    )
    print(f"  passages an edited file {stats.chunks_written / max(1, stats.updated):8.2f}")
    print(f"  wall                    {meter.wall_s:8.2f} s, {meter.wall_s / full_wall_s:.1%} of the first sync")


def _edit(path: Path, number: int) -> None:
    text = path.read_text(errors="replace")
    words = EDIT.format(number)
    if path.suffix == ".html":
        words = f"<p>{words.strip()}</p>"
        marks = list(_finds(text, "</p>"))
        place = marks[len(marks) // 2] + 4 if marks else text.lower().rfind("</body>")
    else:
        marks = list(_finds(text, "\n\n"))
        place = marks[len(marks) // 2] if marks else len(text)
    path.write_text(text[:place] + words + text[place:])


def _finds(text: str, mark: str) -> Iterator[int]:
    at = text.find(mark)
    while at >= 0:
        yield at
        at = text.find(mark, at + 1)


def _print_stages(profile: cProfile.Profile, files: int) -> None:
    """Time in and below the functions of each stage, under the profiler (which adds to all of them)."""
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    rows: dict[str, float] = {}
    for (filename, _, name), (_, _, own, _, _) in stats.items():
        place = (
            filename.rpartition("/rowen/")[2] if "/rowen/" in filename else f"({Path(filename).parent.name or name})"
        )
        rows[place] = rows.get(place, 0.0) + own
    print("  CPU by module, one process, profiled:")
    for place, seconds in sorted(rows.items(), key=lambda row: -row[1])[:14]:
        print(f"    {place:36} {seconds / files * 1e3:7.3f} ms a file")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--files", type=int, default=100_000)
    arguments.add_argument("--docs", type=Path, default=Path("/usr/share/doc"))
    arguments.add_argument("--limit", type=int, default=5_000)
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="rowen-bench-") as folder:
        base = Path(folder)
        base.chmod(0o755)
        asyncio.run(documentation(base, chosen.docs, chosen.limit))
        asyncio.run(no_change(base, chosen.files))


if __name__ == "__main__":
    main()
