"""The shell of a site: what stands above and below the text on every page, learned from a few of its pages.

A menu without a name, a version, a build stamp, a date in the footer: they change with every release and say
nothing about a page. Which blocks they are is a function of the site's first pages alone, as they are now, so a
refresh and a rebuild always agree on it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from rowen.model.item import Document

__all__ = ["SAMPLE", "Shell", "learn", "signature"]

SAMPLE = 8
LEAST_PAGES = 4
SHARE = 0.6
LONGEST_RUN = 12


def _digest(block: str) -> str:
    return sha256(block.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def signature(sample: Iterable[tuple[str, bytes | None]]) -> str:
    """What tells whether the pages that a shell was learned from are still the same."""
    told = "\n".join(f"{url} {body.hex() if body else '-'}" for url, body in sample)
    return sha256(told.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Shell:
    """Digests of the blocks that may stand at the top and at the bottom of any page."""

    top: frozenset[str] = frozenset()
    bottom: frozenset[str] = frozenset()

    def strip(self, document: Document) -> Document:
        """The document without its shell; a page that is nothing else stays as it is."""
        if not (self.top or self.bottom):
            return document
        blocks = document.text.split("\n\n")
        start, end = 0, len(blocks)
        while start < end and _digest(blocks[start]) in self.top:
            start += 1
        while end > start and _digest(blocks[end - 1]) in self.bottom:
            end -= 1
        if start == end or (start == 0 and end == len(blocks)):
            return document
        return replace(document, text="\n\n".join(blocks[start:end]))

    def to_json(self) -> list[list[str]]:
        """The shell as part of a cursor."""
        return [sorted(self.top), sorted(self.bottom)]

    @classmethod
    def of(cls, value: object) -> "Shell":
        """The inverse; an empty shell for anything else."""
        match value:
            case [list() as top, list() as bottom]:
                return cls(frozenset(map(str, top)), frozenset(map(str, bottom)))
            case _:
                return cls()


def learn(texts: Sequence[str]) -> Shell:
    """The shell of the pages with these texts: blocks near an edge that most of them share.

    Headings are never taken for shell: a page may well begin or end with the same one as others.
    """
    if len(texts) < LEAST_PAGES:
        return Shell()
    pages = [text.split("\n\n") for text in texts]
    return Shell(
        _shared([blocks[:LONGEST_RUN] for blocks in pages]), _shared([blocks[-LONGEST_RUN:] for blocks in pages])
    )


def _shared(edges: list[list[str]]) -> frozenset[str]:
    counts = Counter(block for edge in edges for block in set(edge) if block.strip() and not block.startswith("#"))
    needed = max(LEAST_PAGES, SHARE * len(edges))
    return frozenset(_digest(block) for block, pages in counts.items() if pages >= needed)
