"""How well search answers: `python -m bench.quality [SET…] [--home FOLDER] [--embedder KIND] [--no-coverage]`.

A set is a folder with Cranfield, CISI, Medline, CACM, NPL or LISA, or one in the form of BEIR, or a JSON file of
questions over installed documentation; without any, the folder named by CORPUS and the questions that lie beside this
module. Documents are written as files, harvested by the real flow, and found by the real search. With `--home` the
database is kept, and a second call only asks. Constants are chosen on one half of the questions; the other is held out.
"""

import argparse
import asyncio
import os
import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from urllib.parse import unquote

import rowen
from bench.quality.coverage import by_coverage, put_back, table
from bench.quality.measures import ndcg, recall, reciprocal_rank
from bench.quality.sets import HALVES, JudgedQuestion, RetrievalSet, load
from rowen.settings import Settings

HERE = Path(__file__).parent
DEPTH = 100
EMBEDDING_LIMIT_S = 24 * 3600


async def measure(given: RetrievalSet, home: Path, embedder: str | None, *, coverage: bool) -> None:
    """Harvest a set, ask its questions by words and by both, and print how good the answers are."""
    folder = given.folder or write(given, home / "documents")
    settings = Settings(home=home, embedder=embedder, embed_wait_s=EMBEDDING_LIMIT_S)
    async with rowen.open(settings) as r:
        database = r._engine.database  # noqa: SLF001 (nobody else takes vectors away)
        await put_back(database)
        options = {"include": list(given.include)} if given.include else {}
        if not await r.sources.list():
            await r.sources.add(str(folder), name="set", options=options)
        began = time.perf_counter()
        run = await r.sync("set")
        stats = run.stats
        print(
            f"{given.name}: {len(given.questions)} questions over {(await r.sources.get('set')).items} items,", end=" "
        )
        print(f"{stats.chunks_written} passages and {stats.embedded} vectors new, {time.perf_counter() - began:.0f} s")
        for meaning in (False, True) if embedder != "none" else (False,):
            await report(r, given, folder, meaning=meaning)
        if coverage and embedder != "none":
            print(table(await by_coverage(database, lambda: quality(r, given, folder))), flush=True)


async def report(r: rowen.Rowen, given: RetrievalSet, folder: Path, *, meaning: bool) -> None:
    """Ask all questions, and print the means, of nDCG those of each half as well."""
    spent: list[float] = []
    found = []
    for question in given.questions:
        began = time.perf_counter()
        found.append(measures(await ask(r, question, folder, meaning=meaning), question.grades))
        spent.append(time.perf_counter() - began)
    means = "  ".join(f"{name} {fmean(one[name] for one in found):.4f}" for name in found[0])
    halves = ", ".join(f"{half} {value:.4f}" for half, value in by_half(given, [one["nDCG@10"] for one in found]))
    by, p50_ms = "words and meaning" if meaning else "words", sorted(spent)[len(spent) // 2] * 1000
    print(f"  {by:<18} {means}  p50 {p50_ms:.0f} ms\n  {'':<18} nDCG@10 {halves}", flush=True)


def by_half(given: RetrievalSet, values: Sequence[float]) -> Iterator[tuple[str, float]]:
    """The mean of each half of the questions."""
    for half in HALVES:
        if those := [value for question, value in zip(given.questions, values, strict=True) if question.half == half]:
            yield half, fmean(those)


async def quality(r: rowen.Rowen, given: RetrievalSet, folder: Path) -> float:
    """nDCG@10 over the questions that nothing was tuned on; over all, where a set has too few for halves."""
    held_out = [question for question in given.questions if question.half == HALVES[-1]] or given.questions
    return fmean([ndcg(await ask(r, question, folder), question.grades) for question in held_out])


async def ask(r: rowen.Rowen, question: JudgedQuestion, folder: Path, *, meaning: bool = True) -> list[str]:
    """The documents that answer, best first."""
    answer = await r.search(sentence(question.text), limit=DEPTH, meaning=meaning)
    return list(dict.fromkeys(name_of(hit.url, folder) for hit in answer))


def sentence(text: str) -> str:
    """A question without what would be an operator: who wrote it did not know of any."""
    return re.sub(r"(^|\s)-+", r"\1", text.replace('"', " ").replace("*", " "))


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
    parser.add_argument(
        "--coverage", action=argparse.BooleanOptionalAction, default=True, help="ask with a part of the vectors, too"
    )
    chosen = parser.parse_args()
    corpus = [Path(os.environ["CORPUS"])] if "CORPUS" in os.environ else []
    for path in chosen.sets or [*corpus, *sorted(HERE.glob("*.json"))]:
        with tempfile.TemporaryDirectory(prefix="rowen-quality-") as passing:
            Path(passing).chmod(0o755)
            given = load(path)
            home = (chosen.home or Path(passing)) / given.name
            asyncio.run(measure(given, home, chosen.embedder, coverage=chosen.coverage))


if __name__ == "__main__":
    main()
