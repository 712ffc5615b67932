"""What facts cost: nothing for what did not change, and hardly more time than the provider takes.

python -m bench.extraction [--pages 1000] [--latency-ms 300] [--concurrency 16] [--listed 10000,30000,100000]
"""

import argparse
import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import rowen
from rowen.harvest.extraction import BATCH
from rowen.settings import Settings
from rowen.store import schemas as schema_store
from rowen.store.database import Database
from tests.portals.language_model import Model

LAMP = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "price": {"type": ["number", "null"]}},
    "required": ["name"],
}


def write(folder: Path, number: int, *, price: int, menu: str = "Home") -> None:
    """A page of a shop, with a menu around it."""
    words = f"<p>Lamp {number} is made of brass and glass, and it lights a room of any size. " * 8
    (folder / f"{number:04}.html").write_text(
        f"<!doctype html><html><head><title>Lamp {number}</title></head><body><nav>{menu}</nav><main>"
        f"<h1>Lamp {number}</h1><p>Name: Lamp {number}</p><p>Price: {price}</p>{words}</main></body></html>",
        "utf-8",
    )


# Pages of 1 kB and their lines of the log, as a first harvest leaves them.
LISTED = (
    """
    insert into item (source_id, key, url, title, text, tags, record, content_hash, record_hash, chunker)
    select %(source)s, sha256(n::text::bytea), 'https://shop.example/' || n, 'Lamp ' || n,
           repeat('A lamp of brass. ', 60), '{}', '{}', '', '', 1 from generate_series(1, %(items)s) n
    """,
    """
    insert into change (number, source_id, source, key, kind, url, title)
    select n, %(source)s, 'listed', sha256(n::text::bytea), 'created', 'https://shop.example/' || n, 'Lamp ' || n
      from generate_series(1, %(items)s) n
    """,
    "analyze",
)


class World:
    """A folder of pages, a home, and a model."""

    def __init__(self, pages: int, concurrency: int) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="rowen-bench-"))
        self.root.chmod(0o755)
        self.folder = self.root / "shop"
        self.folder.mkdir()
        self.pages = pages
        for number in range(pages):
            write(self.folder, number, price=number)
        self.model = Model()
        self.given: dict[str, Any] = {"home": self.root / "home", "llm_concurrency": concurrency, "embedder": "none"}
        self.given |= {"allow_addresses": "127.0.0.0/8", **self.model.settings}

    def open(self) -> Any:
        return rowen.open(Settings(**self.given))

    @property
    def environment(self) -> dict[str, str]:
        named = {f"ROWEN_{name.upper()}": str(value) for name, value in self.given.items()}
        return {**os.environ, **named, "ROWEN_CONFIG": os.devnull}

    def close(self) -> None:
        self.model.close()
        shutil.rmtree(self.root, ignore_errors=True)


async def prepare(world: World) -> None:
    async with world.open() as r:
        await r.schemas.add("lamp@1.0.0", LAMP)
        await r.sources.add(str(world.folder), name="shop")
        await r.sync("shop")


async def passes(world: World) -> None:
    """How many calls each pass makes, and how long the first one takes beside the ideal."""
    await prepare(world)
    async with world.open() as r:
        [first] = await r.extraction.extract_source("shop", "lamp@1")
        ideal_s = world.pages * world.model.latency_s / world.given["llm_concurrency"]
        ratio = first.seconds / ideal_s if ideal_s else float("nan")
        print(f"first pass: {first.created:,} pages, {world.model.calls:,} calls, {first.seconds:.1f} s wall,"
              f" {ratio:.2f} x ideal ({ideal_s:.1f} s)")  # fmt: skip
        world.model.latency_s = 0.0
        for what, change in (
            ("nothing changed", lambda: None),
            ("all menus changed", lambda: [write(world.folder, n, price=n, menu="Start") for n in range(world.pages)]),
            ("10 pages changed", lambda: [write(world.folder, n, price=n + 7, menu="Start") for n in range(10)]),
            ("10 changed back", lambda: [write(world.folder, n, price=n, menu="Start") for n in range(10)]),
        ):  # fmt: skip
            change()
            before, began = world.model.calls, time.perf_counter()
            run = await r.sync("shop")
            print(f"{what}: {world.model.calls - before:,} calls, {run.stats.extracted:,} new versions,"
                  f" {run.stats.extraction_calls_avoided:,} avoided, {time.perf_counter() - began:.1f} s")  # fmt: skip
        [again] = await r.extraction.extract_source("shop", everything=True)
        print(f"all looked at again: {again.calls:,} calls, {again.avoided:,} avoided, {again.seconds:.1f} s")


def crash(world: World) -> None:
    """Kill a pass in the middle, and let another one go on."""
    asyncio.run(prepare(world))
    command = [sys.executable, "-m", "rowen", "extract", "--source", "shop", "--schema", "lamp@1"]
    process = subprocess.Popen(command, env=world.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while world.model.calls < world.pages // 2 and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    at_kill = world.model.calls
    subprocess.run(command, env=world.environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    repeated = world.model.calls - world.pages
    places = world.given["llm_concurrency"]
    print(f"killed after {at_kill:,} calls; {world.model.calls:,} in all for {world.pages:,} pages:"
          f" {repeated:,} repeated, {places} were in flight")  # fmt: skip


async def work_lists(sizes: list[int]) -> None:
    """How long it takes to read the items of a first extraction, without extracting anything."""
    for size in sizes:
        home = Path(tempfile.mkdtemp(prefix="rowen-bench-"))
        home.chmod(0o755)
        try:
            async with rowen.open(Settings(home=home, embedder="none")) as r:
                await r.schemas.add("lamp@1.0.0", LAMP)
                source = await r.sources.add(str(home), name="listed")
                await r.extraction.attach("listed", "lamp@1")
                await work_list(home, source.id, size)
        finally:
            shutil.rmtree(home, ignore_errors=True)


async def work_list(home: Path, source_id: int, size: int) -> None:
    database = Database(Settings(home=home, embedder="none"))
    await database.open()
    try:
        async with database.connection() as c:
            for statement in LISTED:
                await c.execute(statement.encode(), {"source": source_id, "items": size})
            [carried] = await schema_store.attached(c, source_id)
            began = time.perf_counter()
            numbers = await schema_store.work_list(c, carried, after=0, upto=size)
            listed_s = time.perf_counter() - began
            for start in range(0, size, BATCH):
                part = await schema_store.pending(c, carried, numbers[start : start + BATCH])
                await schema_store.mark_extracted(c, carried, part[-1].number)
        took_s = time.perf_counter() - began
        print(f"work list of {size:,} items: listed in {listed_s:.2f} s, read in {took_s:.2f} s,"
              f" {took_s / size * 1e6:.0f} us an item")  # fmt: skip
    finally:
        await database.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=1000)
    parser.add_argument("--latency-ms", type=int, default=300)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--listed", default="10000,30000,100000", help="sizes of work lists; empty: none")
    given = parser.parse_args()
    asyncio.run(work_lists([int(size) for size in given.listed.split(",") if size]))
    for work in ("passes", "crash"):
        world = World(given.pages if work == "passes" else given.pages // 5, given.concurrency)
        world.model.latency_s = given.latency_ms / 1000 if work == "passes" else 0.05
        try:
            asyncio.run(passes(world)) if work == "passes" else crash(world)
        finally:
            world.close()


if __name__ == "__main__":
    main()
