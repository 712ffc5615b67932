"""What vectors cost: making them, keeping the program responsive meanwhile, loading them, and not making them again.

python -m bench.embedding [--vectors 100000] [--texts 96]
"""

import argparse
import asyncio
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import IPv4Network
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import rowen
from rowen.content.chunks import split
from rowen.enrich.base import Embedder, Spec
from rowen.enrich.vectors import packed, units
from rowen.harvest.models import Embedders
from rowen.settings import Settings, load
from rowen.store.database import Database
from rowen.store.search import embeddings
from tests.portals.embedder import Provider

DOCS = Path(__file__).parent.parent / "docs"
PEER_INPUTS_PER_EDIT = 6.5


def passages(count: int) -> list[str]:
    """Passages of the project's own documentation, the same again and again with a number."""
    texts = [chunk.text for page in sorted(DOCS.rglob("*.md")) for chunk in split(page.read_text("utf-8"))]
    return [f"{n} {texts[n % len(texts)]}" for n in range(count)]


async def lateness_ms(stop: asyncio.Event) -> list[float]:
    """How late a task wakes that wants to wake every millisecond."""
    late = []
    while not stop.is_set():
        due = time.perf_counter() + 0.001
        await asyncio.sleep(0.001)
        late.append((time.perf_counter() - due) * 1e3)
    return late


async def throughput(embedder: Embedder, texts: list[str]) -> None:
    """Texts a second with as many requests at a time as the embedder takes."""
    await embedder.embed(texts[:1])
    stop = asyncio.Event()
    watching = asyncio.create_task(lateness_ms(stop))
    size = embedder.limits.texts
    places = asyncio.Semaphore(embedder.limits.concurrency)

    async def one(first: int) -> None:
        async with places:
            await embedder.embed(texts[first : first + size])

    wall_s, cpu_s = time.perf_counter(), time.process_time()
    await asyncio.gather(*(one(first) for first in range(0, len(texts), size)))
    wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    stop.set()
    late = sorted(await watching)
    p99_ms = late[int(len(late) * 0.99)]
    words = statistics.mean(len(text.split()) for text in texts)
    print(
        f"{embedder.name:32} {len(texts) / wall_s:8.1f} texts/s of {words:.0f} words,"
        f" {len(texts) / cpu_s:8.1f} a CPU-second, {cpu_s / wall_s:.1f} CPUs;"
        f" event loop late by {statistics.median(late):.2f} ms, p99 {p99_ms:.1f} ms"
    )


async def local(texts: int) -> None:
    """The embedder of this machine."""
    embedders = Embedders(load(embedder="local"))
    started = time.perf_counter()
    embedder = embedders.of(Spec("local"))
    await embedder.embed(["Is anybody there?"])
    print(f"first vector of local after {time.perf_counter() - started:.2f} s (imports, model, vocabulary)")
    await throughput(embedder, passages(texts))
    await embedders.close()


@asynccontextmanager
async def database(home: Path, provider: Provider) -> AsyncIterator[rowen.Rowen]:
    loopback = (IPv4Network("127.0.0.0/8"),)
    async with rowen.open(Settings(home=home, allow_addresses=loopback, **provider.settings)) as r:
        yield r


async def inputs(home: Path) -> None:
    """How many texts a folder of documentation costs when nothing, and when a little, changes."""
    chance = Random(1)
    provider = Provider()
    folder = home / "docs"
    shutil.copytree(DOCS, folder)
    async with database(home / "home", provider) as r:
        first = await r.sync(str(folder))
        print(f"\nfirst sync of {first.stats.created} pages: {first.stats.embedded} inputs")
        for path in folder.rglob("*.md"):
            os.utime(path, (time.time(), time.time()))
        touched = await r.sync(str(folder))
        print(f"every file touched: {touched.stats.embedded} inputs")
        edits = spent = 0
        for path in sorted(folder.rglob("*.md")) * 4:
            edits += edit_paragraph(path, chance)
            spent += (await r.sync(str(folder))).stats.embedded
        ratio = spent / edits
        print(f"{edits} paragraphs edited: {spent} inputs, {ratio:.2f} an edit (a peer: {PEER_INPUTS_PER_EDIT})")
    provider.close()


def edit_paragraph(path: Path, chance: Random) -> int:
    """Put a word into some paragraph; returns how many were edited."""
    paragraphs = path.read_text("utf-8").split("\n\n")
    prose = [n for n, paragraph in enumerate(paragraphs) if len(paragraph) > 120 and paragraph[0].isalpha()]
    if not prose:
        return 0
    at = chance.choice(prose)
    words = paragraphs[at].split(" ")
    words.insert(chance.randrange(1, len(words)), chance.choice(["meadow", "orchard", "thistle"]))
    paragraphs[at] = " ".join(words)
    path.write_text("\n\n".join(paragraphs), "utf-8")
    return 1


async def loading(home: Path, count: int) -> None:
    """Loading vectors without an index and building it, against loading into an index."""
    database = Database(load(home=home / "home"))
    await database.open()
    rows = [(n.to_bytes(32, "big"), vector) for n, vector in enumerate(directions(count))]
    print(f"\n{count:,} vectors of 384 halves, {count // 1000} batches:")
    async with database.connection() as c:
        model = await embeddings.register(c, "bench", kind="none", model=None, wanted=None, url=None, weight=1)
    claim = await embeddings.Claim.take(database, model.id)
    assert claim is not None
    loaded_s = await timed(store(claim, rows))
    built_s = await timed(build(claim, model, count))
    in_all = count / (loaded_s + built_s)
    print(f"  load, then build: {count / loaded_s:,.0f} rows/s, index in {built_s:.1f} s; {in_all:,.0f} rows/s in all")
    tenth = rows[: count // 10]
    async with database.transaction() as c:
        await c.execute("delete from embedding where text_hash = any(%s)", [[text_hash for text_hash, _ in tenth]])
    into_s = await timed(store(claim, tenth))
    print(f"  into the index: {len(tenth) / into_s:,.0f} rows/s")
    await claim.release()
    await database.close()


def directions(count: int) -> list[bytes]:
    """Vectors in clusters, as texts are."""
    chance = np.random.default_rng(1)
    centres = chance.normal(size=(200, 384))
    found = centres[chance.integers(0, 200, count)] + 0.7 * chance.normal(size=(count, 384))
    return packed(units(found, name="bench", count=count, dimensions=384))  # type: ignore[arg-type]


async def store(claim: embeddings.Claim, rows: list[tuple[bytes, bytes]]) -> None:
    for first in range(0, len(rows), 1000):
        await claim.store(rows[first : first + 1000])


async def build(claim: embeddings.Claim, model: embeddings.Model, rows: int) -> None:
    await embeddings.build_index(claim.connection, model, dimensions=384, rows=rows, embedded=True)


async def timed(work: Any) -> float:
    started = time.perf_counter()
    await work
    return time.perf_counter() - started


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vectors", type=int, default=100_000)
    parser.add_argument("--texts", type=int, default=96)
    arguments = parser.parse_args()
    await local(arguments.texts)
    with tempfile.TemporaryDirectory(prefix="rowen-bench-") as folder:
        Path(folder).chmod(0o755)
        await inputs(Path(folder))
        await loading(Path(folder), arguments.vectors)


if __name__ == "__main__":
    asyncio.run(main())
