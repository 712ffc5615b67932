"""How well search answers: `python -m bench.quality [SET…] [--home FOLDER] [--embedder KIND]`.

A set is a folder in the form of Cranfield or of BEIR, or a JSON file of questions over installed documentation; without
any, the folder named by CORPUS and the questions that lie beside this module. Documents are written as files, harvested
by the real flow, and found by the real search. With `--home` the database is kept, and a second call only asks.
"""

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

import rowen
from bench.quality.measures import ndcg, recall, reciprocal_rank
from bench.quality.sets import RetrievalSet, load
from rowen.settings import Settings

HERE = Path(__file__).parent
DEPTH = 100
EMBEDDING_LIMIT_S = 24 * 3600


async def measure(given: RetrievalSet, home: Path, embedder: str | None) -> None:
    """Harvest a set, ask its questions by words and by both, and print how good the answers are."""
    folder = given.folder or write(given, home / "documents")
    settings = Settings(home=home, embedder=embedder, embed_wait_s=EMBEDDING_LIMIT_S)
    async with rowen.open(settings) as r:
        options = {"include": ["*.html"]} if given.folder else {}
        if not await r.sources():
            await r.add(str(folder), name="set", options=options)
        began = time.perf_counter()
        run = await r.sync("set")
        tally = run.tally
        print(f"{given.name}: {len(given.questions)} questions over {(await r.source('set')).items} items,", end=" ")
        print(f"{tally.chunks_written} passages and {tally.embedded} vectors new, {time.perf_counter() - began:.0f} s")
        for meaning in (False, True) if embedder != "none" else (False,):
            await ask(r, given, folder, meaning=meaning)


async def ask(r: rowen.Rowen, given: RetrievalSet, folder: Path, *, meaning: bool) -> None:
    sums = dict.fromkeys(("nDCG@10", "MRR@10", "recall@10", "recall@100"), 0.0)
    spent: list[float] = []
    for question, grades in given.questions:
        began = time.perf_counter()
        answer = await r.search(question, limit=DEPTH, meaning=meaning)
        spent.append(time.perf_counter() - began)
        found = list(dict.fromkeys(name_of(hit.url, folder) for hit in answer))
        for measure_name, value in measures(found, grades).items():
            sums[measure_name] += value
    means = "  ".join(f"{name} {total / len(given.questions):.4f}" for name, total in sums.items())
    by, p50_ms = "words and meaning" if meaning else "words", sorted(spent)[len(spent) // 2] * 1000
    print(f"  {by:<18} {means}  p50 {p50_ms:.0f} ms")


def measures(found: list[str], grades: Mapping[str, float]) -> dict[str, float]:
    return {
        "nDCG@10": ndcg(found, grades),
        "MRR@10": reciprocal_rank(found, grades),
        "recall@10": recall(found, grades),
        "recall@100": recall(found, grades, depth=DEPTH),
    }


def write(given: RetrievalSet, folder: Path) -> Path:
    """Each document as a Markdown file of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (title, text) in given.documents.items():
        (folder / f"{name}.md").write_text(f"# {title}\n\n{text}" if title else text, "utf-8")
    return folder


def name_of(url: str, folder: Path) -> str:
    """The document that an item was made of."""
    path = Path(unquote(url.removeprefix("file://")))
    return path.relative_to(folder).as_posix().removesuffix(".md")


def main() -> None:
    """Read the arguments, and measure each set."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("sets", nargs="*", type=Path)
    parser.add_argument("--home", type=Path, help="keep the databases here")
    parser.add_argument("--embedder", help="local, none …; default: the one of the settings")
    chosen = parser.parse_args()
    corpus = [Path(os.environ["CORPUS"])] if "CORPUS" in os.environ else []
    for path in chosen.sets or [*corpus, *sorted(HERE.glob("*.json"))]:
        with tempfile.TemporaryDirectory(prefix="rowen-quality-") as passing:
            Path(passing).chmod(0o755)
            given = load(path)
            asyncio.run(measure(given, (chosen.home or Path(passing)) / given.name, chosen.embedder))


if __name__ == "__main__":
    main()
