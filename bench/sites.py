"""What a site costs: `python -m bench.sites [--docs FOLDER] [case …]`.

Real documentation, served by nginx on loopback with ETags, is indexed once and refreshed: unchanged, touched,
edited, and from release to release. CPU is that of our process with its workers; the database's own stands apart.
"""

import argparse
import asyncio
import json
import os
import subprocess
import tempfile
import time
import venv
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_network
from pathlib import Path
from typing import NamedTuple

import aiohttp

import rowen
from bench import site_pages
from bench.meter import Meter
from bench.page_server import Nginx, Served, late_server, nginx
from rowen.model.runs import Run
from rowen.settings import Settings

CONCURRENCY, ROUNDS, LATENCY_S = 16, 5, 0.1
OPTIONS = {"concurrency": CONCURRENCY, "scope": "subpages", "max_pages": 1_000_000}
DOCS = (Path("/usr/share/doc/postgresql-doc-15/html"), Path("/usr/share/doc/python3.11/html"))
# A tenth of what the peer needs.
FIRST_MS = {"postgresql": 8.6, "python": 24.5}
NO_CHANGE_MS = 370 / 1168
COLUMNS = (
    *(("pages", 6), ("asked", 7), ("bodies", 7), ("rows", 7), ("chunks", 7)),
    *(("CPU ms", 8), ("DB ms", 7), ("MB", 5), ("wall s", 8)),
)


class Bench(NamedTuple):
    """One documentation, served and open for measuring."""

    docs: Path
    base: Path
    server: Nginx

    @property
    def www(self) -> Path:
        return self.base / "www"

    @property
    def home(self) -> Path:
        return self.base / "home"

    @asynccontextmanager
    async def open(self, url: str | None = None, name: str = "site") -> AsyncIterator[rowen.Rowen]:
        """Rowen with the site as a source."""
        settings = Settings(
            home=self.home, host_delay_s=0, allow_addresses=(ip_network("127.0.0.0/8"),), proxy=None, probe=False
        )
        async with rowen.open(settings) as r:
            if name not in {source.name for source in await r.sources.list()}:
                await r.sources.add(f"{url or self.server.url}index.html", name=name, options=OPTIONS)
            yield r

    async def indexed(self, r: rowen.Rowen) -> int:
        """Bring the index up to date, unmeasured; how many pages it holds."""
        run = await r.sync("site")
        self.server.served()
        return run.stats.seen


async def measured(bench: Bench, r: rowen.Rowen, what: str, *, source: str = "site") -> tuple[Run, Meter, Served]:
    """Sync, and print what it cost."""
    meter = Meter(bench.home)
    with meter.running():
        run = await r.sync(source)
    served = bench.server.served() if source == "site" else Served(run.stats.requests, -1)
    stats, count = run.stats, max(1, run.stats.seen)
    bodies = served.bodies if served.bodies >= 0 else "–"
    print(
        f"{what:34}{stats.seen:6}{served.requests:7}{bodies:>7}{stats.rows_written:7}{stats.chunks_written:7}"
        f"{meter.own_s / count * 1e3:8.2f}{meter.database_s / count * 1e3:7.2f}{meter.peak_mb:5.0f}{meter.wall_s:8.2f}"
    )
    if run.status != "completed" or stats.failed:
        told(f"status {run.status}, {stats.failed} failed: {run.error}")
    return run, meter, served


def told(words: str) -> None:
    print(f"    {words}")


async def first(bench: Bench) -> None:
    """First index."""
    async with bench.open() as r:
        run, meter, served = await measured(bench, r, "first index")
    target = next((ms for name, ms in FIRST_MS.items() if name in str(bench.docs)), None)
    ours = meter.own_s / run.stats.seen * 1e3
    told(f"{served.body_bytes / 1e6:.1f} MB; {ours:.2f} ms CPU a page, target ≤ {target}")
    told(f"peak memory {meter.peak_mb:.0f} MB with workers, target < 400")


async def no_change(bench: Bench) -> None:
    """No-change refresh, in turns with a loop of the bare client library that asks the same."""
    async with bench.open() as r, aiohttp.ClientSession() as session:
        pages = await bench.indexed(r)
        held = await _held(bench, session)
        ours_s, bare_s = [], []
        for _ in range(ROUNDS):
            _, meter, _ = await measured(bench, r, "nothing changed")
            ours_s.append(meter.own_s)
            bare_s.append(await _ask_all(session, held))
            bench.server.served()
    our_ms, bare_ms = min(ours_s) / pages * 1e3, min(bare_s) / len(held) * 1e3
    told(f"ours {our_ms:.3f} ms CPU a page, bare aiohttp {bare_ms:.3f}: {our_ms / bare_ms:.2f} ×, target ≤ 2 ×")
    told(
        f"{min(ours_s):.3f} s CPU, target ≤ {NO_CHANGE_MS * pages / 1e3:.2f} s; {1e3 / our_ms:,.0f} pages a CPU second"
    )


async def _held(bench: Bench, session: aiohttp.ClientSession) -> dict[str, dict[str, str]]:
    """The conditional headers of every page."""
    held = {}
    for path in site_pages.pages(bench.www):
        url = f"{bench.server.url}{path.relative_to(bench.www)}"
        async with session.head(url) as answer:
            found = answer.headers
            held[url] = {"If-None-Match": found["ETag"], "If-Modified-Since": found["Last-Modified"]}
    bench.server.served()
    return held


async def _ask_all(session: aiohttp.ClientSession, held: dict[str, dict[str, str]]) -> float:
    waiting = iter(held.items())

    async def worker() -> None:
        for url, headers in waiting:
            async with session.get(url, headers=headers) as answer:
                assert (answer.status, await answer.read()) == (304, b"")

    start = time.process_time()
    await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))
    return time.process_time() - start


async def touched(bench: Bench) -> None:
    """New ETags, same bytes."""
    async with bench.open() as r:
        await bench.indexed(r)
        site_pages.touch(bench.www)
        run, _, _ = await measured(bench, r, "touched: new ETags, same bytes")
        stats = run.stats
        told(f"parsed: {stats.stopped_at_content + stats.updated + stats.amended + stats.created}, target 0")
        run, _, _ = await measured(bench, r, "the refresh after it")


async def edited(bench: Bench) -> None:
    """One paragraph edited in 1 % of the pages."""
    async with bench.open() as r:
        pages = await bench.indexed(r)
        chosen = site_pages.sample(bench.www, pages // 100)
        site_pages.edit(chosen)
        run, _, _ = await measured(bench, r, f"a paragraph in {len(chosen)} pages")
    stats = run.stats
    share = stats.chunks_written / max(1, stats.updated)
    told(f"updated {stats.updated}; chunks written an edit {share:.2f}, target < 1.3; kept {stats.chunks_kept}")


async def release(bench: Bench) -> None:
    """From one release of the documentation to the next."""
    found = site_pages.releases(bench.docs, bench.base / "releases")
    told(found.told)
    await _release(bench, found, "release to release", disguised=False)


async def disguised(bench: Bench) -> None:
    """The same, from a template that nobody knows by name."""
    found = site_pages.releases(bench.docs, bench.base / "disguised")
    told(found.told)
    await _release(bench, found, "the same, template disguised", disguised=True)
    _serve(bench, bench.docs, disguised=False)


async def _release(bench: Bench, found: site_pages.Releases, what: str, *, disguised: bool) -> None:
    in_bytes, in_words = site_pages.differing(found.old, found.new)
    async with bench.open() as r:
        _serve(bench, found.old, disguised=disguised)
        await bench.indexed(r)
        _serve(bench, found.new, disguised=disguised)
        run, _, _ = await measured(bench, r, what)
    stats = run.stats
    told(
        f"updated {stats.updated} (amended {stats.amended}, created {stats.created}, deleted {stats.deleted}); "
        f"pages that differ: {in_bytes} in bytes, {in_words} in the words of their main part"
    )


def _serve(bench: Bench, docs: Path, *, disguised: bool) -> None:
    site_pages.replace_site(docs, bench.www)
    if disguised:
        site_pages.disguise(bench.www)


async def latency(bench: Bench) -> None:
    """Every answer 100 ms late."""
    with late_server(bench.www, LATENCY_S) as url:
        async with bench.open(url, name="late") as r:
            for what in ("first, every answer 100 ms late", "nothing changed, 100 ms late"):
                run, meter, _ = await measured(bench, r, what, source="late")
                least_s = run.stats.requests * LATENCY_S / CONCURRENCY
                told(f"{meter.wall_s:.2f} s, {meter.wall_s / least_s:.2f} × requests × latency / 16, target ≤ 1.3 ×")
            await r.sources.remove("late")


async def scrapy(bench: Bench) -> None:
    """Against Scrapy on the same crawl."""
    python = _scrapy_python(bench.base)
    if python is None:
        return
    script = Path(__file__).with_name("scrapy_crawl.py")
    crawl = [python, script, f"{bench.server.url}index.html"]
    answer = json.loads(subprocess.run(crawl, capture_output=True, text=True, check=True).stdout)
    bench.server.served()
    theirs = answer["pages"] / answer["cpu_s"]
    async with bench.open() as r:
        await r.sources.remove("site")
    async with bench.open() as r:
        run, meter, _ = await measured(bench, r, "first index, as Scrapy crawls")
    ours, with_database = run.stats.seen / meter.own_s, run.stats.seen / (meter.own_s + meter.database_s)
    told(f"Scrapy, which stores nothing: {answer['pages']} pages, {theirs:.0f} pages a CPU second")
    told(
        f"ours {ours:.0f}: {ours / theirs:.1f} ×; with the database {with_database:.0f}: {with_database / theirs:.1f} ×"
    )


def _scrapy_python(base: Path) -> Path | None:
    """The Python of an environment with Scrapy, made where there is none yet."""
    place = base.parent / "scrapy"
    python = place / "bin" / "python"
    if not python.exists():
        venv.create(place, with_pip=True)
        install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "scrapy"]
        if subprocess.run(install, capture_output=True, check=False).returncode:
            told("Scrapy cannot be installed here: skipped")
            return None
    return python


CASES: dict[str, Callable[[Bench], Awaitable[None]]] = {
    case.__name__: case for case in (first, no_change, touched, edited, release, disguised, latency, scrapy)
}


async def run(docs: Path, base: Path, cases: list[str]) -> None:
    site_pages.copy_site(docs, base / "www")
    print(f"{docs!s:34}" + "".join(f"{name:>{width}}" for name, width in COLUMNS))
    with nginx(base / "www", base / "nginx") as server:
        for case in cases:
            await CASES[case](Bench(docs, base, server))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--docs", type=Path, action="append", help="a folder of pages with an index.html")
    arguments.add_argument("cases", nargs="*", choices=[[], *CASES], help="default: all")
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="rowen-bench-") as folder:
        Path(folder).chmod(0o755)
        for number, docs in enumerate(chosen.docs or DOCS):
            base = Path(folder) / str(number)
            base.mkdir()
            print(f"\nload of the machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
            asyncio.run(run(docs, base, chosen.cases or list(CASES)))


if __name__ == "__main__":
    main()
