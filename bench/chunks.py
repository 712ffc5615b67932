"""What reading and cutting costs, and how many chunks an edit changes: `python -m bench.chunks [FOLDER]`."""

import random
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rowen.content.chunks import split
from rowen.content.markdown import BlockKind, scan
from rowen.content.readers import read
from rowen.errors import ItemError
from rowen.model.items import Document, Raw
from rowen.model.url import file_url

ENDINGS = {".md", ".rst", ".html", ".htm"}
MOST_FILES = 400
SMALLEST, LARGEST = 4_000, 400_000
EDITS_PER_PAGE = 5

Edit = Callable[[list[str], int, random.Random], None]


def reword(blocks: list[str], at: int, rng: random.Random) -> None:
    words = blocks[at].split(" ")
    for _ in range(2):
        words[rng.randrange(len(words))] = "reworded"
    blocks[at] = " ".join(words)


def grow(blocks: list[str], at: int, rng: random.Random) -> None:
    blocks[at] += " " + sentence(rng)


def insert(blocks: list[str], at: int, rng: random.Random) -> None:
    blocks.insert(at, sentence(rng))


def delete(blocks: list[str], at: int, rng: random.Random) -> None:
    del blocks[at]


def sentence(rng: random.Random) -> str:
    return " ".join("".join(rng.choices("etaoinshr", k=rng.randint(2, 9))) for _ in range(46)) + "."


EDITS: dict[str, Edit] = {"reword": reword, "grow": grow, "insert": insert, "delete": delete}


def bodies(folders: list[Path]) -> Iterator[Raw]:
    found = [path for folder in folders for path in folder.rglob("*") if path.suffix in ENDINGS and path.is_file()]
    fitting = sorted(path for path in found if SMALLEST <= path.stat().st_size <= LARGEST)
    random.Random(1).shuffle(fitting)
    for path in fitting[:MOST_FILES]:
        yield Raw(file_url(str(path)), path.read_bytes(), name=path.name)


def documents(raws: list[Raw]) -> Iterator[Document]:
    for raw in raws:
        try:
            yield read(raw)
        except ItemError as error:
            print(f"left out: {error}", file=sys.stderr)


def changed_by(edit: Edit, document: Document, rng: random.Random) -> int | None:
    spans = [(block.kind, block.start, block.end) for block in scan(document.text)]
    prose = [at for at, (kind, start, end) in enumerate(spans) if kind is BlockKind.PARAGRAPH and end - start > 60]
    if not prose:
        return None
    blocks = [document.text[start:end] for _, start, end in spans]
    before = {chunk.text_hash for chunk in split("\n\n".join(blocks))}
    edit(blocks, rng.choice(prose), rng)
    return sum(chunk.text_hash not in before for chunk in split("\n\n".join(blocks)))


def main(folders: list[Path]) -> None:
    raws = list(bodies(folders))
    if not raws:
        sys.exit(f"no documentation under {folders}")
    start = time.process_time()
    docs = list(documents(raws))
    read_s = time.process_time() - start
    chunks = [split(doc.text) for doc in docs]
    split_s = time.process_time() - start - read_s
    size = sum(len(raw.body) for raw in raws) / len(raws) / 1000
    print(f"{len(docs)} pages of {size:.0f} kB: read {read_s / len(docs) * 1000:.2f} ms, ", end="")
    print(f"split {split_s / len(docs) * 1000:.2f} ms, {sum(map(len, chunks)) / len(docs):.1f} chunks a page")
    rng = random.Random(2)
    for name, edit in EDITS.items():
        counts = [n for doc in docs for _ in range(EDITS_PER_PAGE) if (n := changed_by(edit, doc, rng)) is not None]
        print(f"{name:8} {sum(counts) / max(1, len(counts)):.2f} changed chunks (max {max(counts, default=0)})")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]] or [Path(sysconfig.get_paths()["purelib"]), Path("/usr/share/doc")])
