"""What an export costs: `python -m bench.exports [--items 200000] [--sources 4]`.

Fills a database with synthetic datasets of three kilobytes, every tenth of which two portals list, and prints rows a
second, CPU a row and peak memory of each format.
"""

import argparse
import asyncio
import json
import shutil
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import psutil
import psycopg

import rowen
from bench.meter import Meter
from rowen.connectors.catalog.dataset import Dataset, Resource
from rowen.model import datasets
from rowen.model.url import key
from rowen.publish.formats import FORMATS
from rowen.settings import Settings

WORDS = [f"{stem}{ending}" for stem in ("acker", "wiese", "brunnen", "pegel", "hafer") for ending in "abcdefghij"]


def _dataset(chance: Random, source: int, number: int) -> Dataset:
    shared = number % 10 == 0
    identifier = f"urn:x-bench:{number}" if shared else f"{source}-{number}"
    return Dataset(
        url=f"https://portal{source}.example/dataset/{number}",
        identifier=identifier,
        title=f"Dataset {number}: {' '.join(chance.choices(WORDS, k=5))}",
        description=" ".join(chance.choices(WORDS, k=80)),
        tags=tuple(chance.choices(WORDS, k=5)),
        publisher="The Farm Office",
        licence="CC BY 4.0",
        languages=("de",),
        issued="2020-01-01",
        modified="2024-01-01",
        landing_page=f"https://portal{source}.example/{number}",
        resources=tuple(
            Resource(f"https://files.example/{number}/{n}.csv", f"Table {n}", format="CSV") for n in range(3)
        ),
        source={
            "id": number,
            "extras": [{"key": word, "value": " ".join(chance.choices(WORDS, k=8))} for word in WORDS[:20]],
        },
    )


def _fill(conninfo: str, items: int, sources: int) -> None:
    chance = Random(1)
    with psycopg.connect(conninfo, options="-c search_path=rowen,public") as c:
        for source in range(sources):
            [source_id] = c.execute(
                "insert into source (name, kind, url) values (%s, 'ckan', %s) returning id",
                [f"portal{source}", f"https://portal{source}.example"],
            ).fetchone() or [0]
            columns = (
                "source_id, key, url, title, text, tags, record, content_hash, record_hash, media_type, chunker, twins"
            )
            with c.cursor().copy(f"copy item ({columns}) from stdin") as copy:
                for number in range(items // sources):
                    copy.write_row(_row(source_id, _dataset(chance, source, number).document()))
    with psycopg.connect(conninfo, autocommit=True, options="-c search_path=rowen,public") as c:
        c.execute("vacuum analyze item")


def _row(source_id: int, document: Any) -> list[Any]:
    return [
        *(source_id, key(document.url), document.url, document.title, document.text, list(document.tags)),
        *(document.record_json, document.content_hash, document.record_hash, document.media_type, 1),
        list(datasets.marks(document) or ()),
    ]


async def measure(base: Path, items: int, sources: int) -> None:
    home = base / "home"
    async with rowen.open(Settings(home=home)) as r:
        await asyncio.to_thread(_fill, await r.database.conninfo(), items, sources)
        held_mb = psutil.Process().memory_info().rss / 1e6
        print(f"{items:,} items in {sources} sources; {held_mb:.0f} MB held before the first export")
        print(f"  {'format':9}{'rows/s':>9}{'CPU µs/row':>12}{'database':>10}{'peak MB':>9}{'size MB':>9}{'copies':>9}")
        for form in FORMATS:
            meter = Meter(home)
            with meter.running():
                done = await r.export(form, base / form)
            print(
                f"  {form:9}{items / meter.wall_s:9,.0f}{meter.own_s / items * 1e6:12.0f}"
                f"{meter.database_s / items * 1e6:10.0f}{meter.peak_mb:9.0f}{done.bytes / 1e6:9.0f}{done.copies:9,}"
            )
            assert json.loads((base / form / "manifest.json").read_text())["items"] == items
            shutil.rmtree(base / form)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--items", type=int, default=200_000)
    arguments.add_argument("--sources", type=int, default=4)
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="rowen-bench-") as folder:
        base = Path(folder)
        base.chmod(0o755)
        asyncio.run(measure(base, chosen.items, chosen.sources))


if __name__ == "__main__":
    main()
