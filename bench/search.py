"""How fast search answers, and how much the index of vectors misses: `python -m bench.search [--passages 100000]`.

Passages are made up: words as frequent as in real text (Zipf), vectors in clusters. They are loaded by COPY into the
tables of a database of their own, which `--home` keeps for the next call. One source holds 0.1 % of the passages, one
1 %, one 20 %, which are records of a catalog: of 16 kB, and every hundredth describes a series.
"""

import argparse
import asyncio
import hashlib
import json
import random
import struct
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from rowen.model.datasets import DATASET
from rowen.model.search import Filters, Query
from rowen.settings import Settings
from rowen.store.database import Connection, Database
from rowen.store.search import search
from rowen.store.search import words as store_words
from rowen.store.search.ranking import Meaning

DIMENSIONS = 384
VOCABULARY = 200_000
WORDS_A_PASSAGE = 110
PASSAGES_AN_ITEM = 8
CLUSTERS = 2_000
QUERIES = 100
WARM_UP = 10
SOURCES = {"rest": 1.0, "fifth": 0.2, "hundredth": 0.01, "thousandth": 0.001}
CATALOG = 2
COMMON = ["how", "do", "i", "the", "a", "of", "to", "in", "what", "is", "with", "for"]

Matrix = NDArray[np.float32]


class World:
    """The made-up passages: a function of their number."""

    def __init__(self, passages: int) -> None:
        self.passages = passages
        rng = np.random.default_rng(1)
        self.centers = unit(rng.standard_normal((CLUSTERS, DIMENSIONS), dtype=np.float32))
        self.words = np.array(list(vocabulary()))
        shares = 1 / (np.arange(VOCABULARY) + 2.7) ** 1.05
        self.cumulative = np.cumsum(shares / shares.sum())

    def texts(self, first: int, last: int) -> list[str]:
        """The passages of a range; two thirds of a passage's words come from the whole, a third from its item's own."""
        rng = np.random.default_rng(1_000_003 + first)
        size = (last - first, WORDS_A_PASSAGE)
        drawn = np.searchsorted(self.cumulative, rng.random(size))
        topic = (np.arange(first, last) // PASSAGES_AN_ITEM * 7919) % (VOCABULARY - 400)
        own = topic[:, None] + (rng.random(size) ** 3 * 300).astype(np.int64)
        chosen = np.where(rng.random(size) < 0.66, drawn, own).clip(0, VOCABULARY - 1)
        return [" ".join(row) for row in self.words[chosen]]

    def vectors(self, first: int, last: int) -> Matrix:
        """Unit vectors, most of them near the centre of some cluster."""
        rng = np.random.default_rng(2_000_003 + first)
        noise = rng.standard_normal((last - first, DIMENSIONS), dtype=np.float32) / np.sqrt(DIMENSIONS)
        return unit(self.centers[rng.integers(CLUSTERS, size=last - first)] + 0.9 * noise)

    def source(self, item: int) -> int:
        """Which source an item belongs to, 1 to 4; the small ones are spread over all of it."""
        place = (item * 2_654_435_761 % 2**32) / 2**32
        return next(number for number, share in reversed(list(enumerate(SOURCES.values(), 1))) if place < share)


def vocabulary() -> Iterator[str]:
    rng = random.Random(3)
    seen = set()
    while len(seen) < VOCABULARY:
        word = "".join(rng.choice("bcdfghklmnprstvwz") + rng.choice("aeiou") for _ in range(rng.randint(2, 5))) + "x"
        if word not in seen:
            seen.add(word)
            yield word


def unit(vectors: Matrix) -> Matrix:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


BLOCK = 10_000


async def load(c: Connection, world: World) -> None:
    """Fill the tables, then make the indexes, as a first harvest would."""
    began = time.perf_counter()
    await c.execute("drop index chunk_tsv")
    await c.execute(
        "insert into source (name, kind, url) select n, 'files', n from unnest(%s::text[]) n", [list(SOURCES)]
    )
    await c.execute(
        "insert into embedding_model (name, kind, dimensions, state) values ('bench', 'bench', %s, 'active')",
        [DIMENSIONS],
    )
    for first in range(0, world.passages, BLOCK):
        await load_block(c, world, first, min(first + BLOCK, world.passages))
    print(f"rows in {time.perf_counter() - began:.0f} s", flush=True)
    began = time.perf_counter()
    await c.execute("set maintenance_work_mem = '2GB'")
    await c.execute("create index chunk_tsv on chunk using gin (tsv)")
    print(f"index of words in {time.perf_counter() - began:.0f} s", flush=True)
    began = time.perf_counter()
    await c.execute(
        f"create index on embedding using hnsw ((vector::halfvec({DIMENSIONS})) halfvec_cosine_ops) where model_id = 1"
    )
    print(f"index of vectors in {time.perf_counter() - began:.0f} s", flush=True)
    await c.execute("vacuum analyze")


async def load_block(c: Connection, world: World, first: int, last: int) -> None:
    texts = world.texts(first, last)
    items = range(first // PASSAGES_AN_ITEM, (last - 1) // PASSAGES_AN_ITEM + 1)
    async with c.transaction():
        await c.execute("create temporary table new (item bigint, position bigint, body text) on commit drop")
        async with c.cursor().copy("copy new from stdin") as copy:
            for n, body in enumerate(texts, first):
                await copy.write_row((n // PASSAGES_AN_ITEM + 1, n, body))
        async with c.cursor().copy(
            "copy item (source_id, key, url, title, text, tags, record, content_hash, record_hash, chunker, media_type)"
            " from stdin"
        ) as copy:
            for item in items:
                key = b"\\x" + item.to_bytes(8).hex().encode()
                title = texts[item * PASSAGES_AN_ITEM - first][:60].rsplit(" ", 1)[0]
                source = world.source(item)
                record, media_type = catalog_record(item) if source == CATALOG else ("{}", None)
                await copy.write_row((source, key, f"file:///{item}", title, "", "{}", record, key, key, 1, media_type))
        await c.execute(
            "insert into chunk (item_id, position, heading, text, text_hash, tsv)"
            " select new.item, position, '{}', body, sha256(body::bytea),"
            " passage_tsv(null, item.title, '{}', body) from new join item on item.id = new.item order by position"
        )
        vectors = world.vectors(first, last).astype(">f2")
        async with c.cursor().copy("copy embedding (model_id, text_hash, vector) from stdin (format binary)") as copy:
            await copy.write(b"PGCOPY\n\xff\r\n\x00" + bytes(8))
            for body, vector in zip(texts, vectors, strict=True):
                await copy.write(_row(hashlib.sha256(body.encode()).digest(), vector.tobytes()))
            await copy.write(struct.pack("!h", -1))


def _row(digest: bytes, vector: bytes) -> bytes:
    """A row of `embedding` as COPY reads it."""
    head = struct.pack("!hihi", 3, 2, 1, len(digest)) + digest
    return head + struct.pack("!ihh", len(vector) + 4, DIMENSIONS, 0) + vector


def catalog_record(item: int) -> tuple[str, str]:
    """A record as catalogs have them, as large as those of `bench.peer`, and its media type."""
    kind = {"record_kind": "series"} if item % 100 == 0 else {}
    rng = random.Random(item)
    return json.dumps({**kind, "source": {f"field{n}": rng.randbytes(120).hex() for n in range(64)}}), DATASET


Ask = tuple[str, NDArray[np.float32]]


def asks(world: World) -> Iterator[Ask]:
    """Questions: some words of a passage, as rare as they come, among common ones; and a vector near its own."""
    rng = random.Random(11)
    noise = np.random.default_rng(12)
    firsts = rng.sample(range(0, world.passages, BLOCK), min(4, world.passages // BLOCK))
    blocks = [(world.texts(first, first + BLOCK), world.vectors(first, first + BLOCK)) for first in firsts]
    for _ in range(QUERIES + WARM_UP):
        texts, vectors = rng.choice(blocks)
        at = rng.randrange(BLOCK)
        words = rng.sample(texts[at].split(), rng.randint(2, 6))
        moved = vectors[at] + 0.5 * noise.standard_normal(DIMENSIONS).astype(np.float32) / np.sqrt(DIMENSIONS)
        yield " ".join(rng.sample(COMMON, 3) + words), (moved / np.linalg.norm(moved)).astype(np.float32)


async def timed(c: Connection, questions: Sequence[Ask], name: str, **how: Any) -> None:
    spent: list[float] = []
    counts: list[int] = []
    cpu_s = 0.0
    server = psutil.Process(c.info.backend_pid)
    for n, (words, vector) in enumerate(questions):
        asked: dict[str, Any] = {"filters": how.get("filters")}
        if how.get("by") != "words":
            asked |= {"meaning": Meaning(1, DIMENSIONS, 1.0), "vector": vector.tolist()}
        query = Query() if how.get("by") == "meaning" else Query.parse(words)
        if n == WARM_UP:
            cpu_s = sum(server.cpu_times()[:2])
        began = time.perf_counter()
        found, _ = await search.search(c, query, limit=10, **asked)
        if n >= WARM_UP:
            spent.append((time.perf_counter() - began) * 1000)
            counts.append(len(found))
    cpu_ms = (sum(server.cpu_times()[:2]) - cpu_s) * 1000 / len(spent)
    spent.sort()
    p50, p95 = spent[len(spent) // 2], spent[int(len(spent) * 0.95)]
    print(f"{name:<34} p50 {p50:6.1f}  p95 {p95:6.1f}  CPU of the server {cpu_ms:5.1f} ms", end="")
    print(f"  at least {min(counts)} hits", flush=True)


async def recall(c: Connection, world: World, questions: Sequence[Ask], *, source: int | None = None) -> float:
    """The share of the ten nearest items that search by meaning alone finds."""
    filters = None if source is None else Filters(source_ids=[source])
    exact = nearest(world, np.stack([vector for _, vector in questions]), source)
    hits = 0
    for (_, vector), best in zip(questions, exact, strict=True):
        found, _ = await search.search(
            c, Query(), limit=10, meaning=Meaning(1, DIMENSIONS, 1.0), vector=str(vector.tolist()), filters=filters
        )
        hits += len(best & {int(one.hit.url.rpartition("/")[2]) for one in found})
    return hits / (10 * len(questions))


def nearest(world: World, asked: Matrix, source: int | None) -> list[set[int]]:
    best: list[dict[int, float]] = [{} for _ in asked]
    for first in range(0, world.passages, BLOCK):
        last = min(first + BLOCK, world.passages)
        near = asked @ world.vectors(first, last).astype(np.float16).astype(np.float32).T
        items = np.arange(first, last) // PASSAGES_AN_ITEM
        if source is not None:
            near[:, [world.source(int(item)) != source for item in items]] = -2
        top = np.argpartition(-near, 40, axis=1)[:, :40]
        for found, row, places in zip(best, near, top, strict=True):
            for place in places:
                if row[place] > -1:
                    item = int(items[place])
                    found[item] = max(found.get(item, -1.0), float(row[place]))
    return [set(sorted(found, key=lambda item, f=found: -f[item])[:10]) for found in best]


async def main(home: Path, passages: int) -> None:
    """Load what is not there, and measure."""
    world = World(passages)
    database = Database(Settings(home=home, embedder="none"))
    await database.open()
    try:
        async with database.connection() as c:
            row = await (await c.execute("select count(*) from chunk")).fetchone()
            if row is None or row[0] != passages:
                await load(c, world)
                await store_words.count_words(database)
            questions = list(asks(world))
            await timed(c, questions, "words and meaning")
            await timed(c, questions, "words", by="words")
            await timed(c, questions, "meaning", by="meaning")
            for number, name in list(enumerate(SOURCES, 1))[1:]:
                await timed(c, questions, f"both, in the source {name!r}", filters=Filters(source_ids=[number]))
            for kind in ("dataset", "series"):
                await timed(c, questions, f"both, of the record kind {kind!r}", filters=Filters(record_kinds=[kind]))
            await timed(c, questions, "both, of a language that is rare", filters=Filters(languages=["xx"]))
            print(f"recall@10 of meaning: {await recall(c, world, questions[:100]):.3f}", end="")
            for number, name in list(enumerate(SOURCES, 1))[1:]:
                print(f", {name} {await recall(c, world, questions[:50], source=number):.3f}", end="", flush=True)
            print()
    finally:
        await database.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--home", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rowen-search-") as passing:
        Path(passing).chmod(0o755)
        asyncio.run(main(chosen.home or Path(passing), chosen.passages))
