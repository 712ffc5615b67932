"""The boilerplate of a site: what stands around the text and in the title of every page, learned from a few pages.

A menu without a name, a version, a build stamp, a date in the footer, the name of the site behind each title: they
change with every release and say nothing about a page. What they are is a function of the site's first pages alone,
as they are now, so a refresh and a rebuild always agree on it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, NamedTuple

from rowen.connectors.web.affixes import Affixes, learn_affixes
from rowen.model.items import Document

__all__ = ["LEAST_PAGES", "SAMPLE", "Boilerplate", "Edge", "learn"]

# Pages that are read before the walk, which does not ask for them again. With half of it, each would have to share a
# block (see below); with twice as many, a refresh asks for twice as many pages before it can begin.
SAMPLE = 8
# A block must stand on so many pages, however few there are: two or three may share a paragraph of text.
LEAST_PAGES = 4
# Of the pages that are read, 5 of 8. At 1.0, one page without the usual footer would keep that footer in the text of
# all others; at 0.3, what the pages of one section share would be cut from them.
SHARE = 0.6
# Blocks at each end of a page that can be learned. Without a limit, pages would be compared whole, text and all.
LONGEST_RUN = 12


def _digest(block: str) -> str:
    return sha256(block.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class Edge(NamedTuple):
    """What stands near the top and the bottom of one page, as digests of blocks, and its title; headings are left out.

    A page may well begin or end with the same heading as others.
    """

    body: bytes | None
    top: tuple[str, ...]
    bottom: tuple[str, ...]
    title: str

    @classmethod
    def of(cls, document: Document) -> "Edge":
        """The edges of a page as it was read."""
        blocks = document.text.split("\n\n")
        top, bottom = _digests(blocks[:LONGEST_RUN]), _digests(blocks[-LONGEST_RUN:])
        return cls(document.validators.body_hash, top, bottom, document.title)

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> "Edge":
        """The inverse of `to_json`; raises `ValueError` for what is no edge."""
        match value:
            case [str() | None as body, list() as top, list() as bottom, str() as title]:
                return cls(bytes.fromhex(body) if body else None, tuple(top), tuple(bottom), title)
            case _:
                raise ValueError("it remembers an edge that is none")

    def to_json(self) -> list[Any]:
        """The edges as part of a cursor."""
        return [self.body.hex() if self.body else None, list(self.top), list(self.bottom), self.title]


def _digests(blocks: list[str]) -> tuple[str, ...]:
    return tuple(_digest(block) for block in blocks if block.strip() and not block.startswith("#"))


@dataclass(frozen=True, slots=True)
class Boilerplate:
    """Digests of the blocks that may stand at the top and at the bottom of any page; what may stand in its title."""

    top: frozenset[str] = frozenset()
    bottom: frozenset[str] = frozenset()
    titles: Affixes = field(default_factory=Affixes)

    def strip(self, document: Document) -> Document:
        """The document without its boilerplate; a text or a title that is nothing else stays as it is."""
        text, title = self._strip_text(document.text), self.titles.strip(document.title)
        if text is document.text and title is document.title:
            return document
        return replace(document, text=text, title=title)

    def _strip_text(self, text: str) -> str:
        if not (self.top or self.bottom):
            return text
        blocks = text.split("\n\n")
        start, end = 0, len(blocks)
        while start < end and _digest(blocks[start]) in self.top:
            start += 1
        while end > start and _digest(blocks[end - 1]) in self.bottom:
            end -= 1
        if start == end or (start == 0 and end == len(blocks)):
            return text
        return "\n\n".join(blocks[start:end])

    def to_json(self) -> list[list[str]]:
        """The boilerplate as part of a cursor."""
        return [sorted(self.top), sorted(self.bottom), sorted(self.titles.prefixes), sorted(self.titles.suffixes)]

    @classmethod
    def of(cls, value: object) -> "Boilerplate":
        """The inverse, also of what was written before titles were looked at; nothing for anything else."""
        match value:
            case [list() as top, list() as bottom, *rest]:
                return cls(_strings(top), _strings(bottom), Affixes(*map(_strings, rest[:2])))
            case _:
                return cls()


def _strings(values: object) -> frozenset[str]:
    return frozenset(map(str, values)) if isinstance(values, list) else frozenset()


def learn(edges: Sequence[Edge]) -> Boilerplate:
    """The boilerplate of the pages with these edges: what most of them share."""
    if len(edges) < LEAST_PAGES:
        return Boilerplate()
    return Boilerplate(
        _shared([edge.top for edge in edges]),
        _shared([edge.bottom for edge in edges]),
        learn_affixes([edge.title for edge in edges], needed=_needed(edges)),
    )


def _needed(edges: Sequence[object]) -> float:
    return max(LEAST_PAGES, SHARE * len(edges))


def _shared(edges: list[tuple[str, ...]]) -> frozenset[str]:
    counts = Counter(block for edge in edges for block in set(edge))
    return frozenset(block for block, pages in counts.items() if pages >= _needed(edges))
