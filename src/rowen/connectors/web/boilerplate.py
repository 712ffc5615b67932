"""The boilerplate of a site: blocks around the text and parts of the title that its pages share, learned from a few.

A menu without a name, a version, a build stamp, a date in the footer, the name of the site behind each title: they
change with every release and say nothing about a page. Boilerplate is a function of the site's first pages alone, as
they are now, so a refresh and a rebuild always agree on it.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, NamedTuple

from rowen.model.items import Document

# Pages that are read before the walk, which does not request them again. With half of it, each would have to share a
# block (see below); with twice as many, a refresh requests twice as many pages before it can begin.
SAMPLE = 8
# Minimum number of pages with a block: two or three may share a paragraph of text.
LEAST_PAGES = 4
# Of the pages that are read, 5 of 8. At 1.0, one page without the usual footer would keep that footer in the text of
# all others; at 0.3, the blocks that the pages of one section share would be cut from them.
SHARE = 0.6
# Blocks at each end of a page that can be learned. Without a limit, pages would be compared whole, text and all.
LONGEST_RUN = 12

# Positions where a title may be cut: at a space, with the mark that follows the word before, or at a mark that needs no
# space.
_GAP = re.compile(r"(?<![:;,|·•»›—–~/])[:;,|·•»›—–~/]*+\s++|[|:·•»›—–]++")
_BRACKETS = (("(", ")"), ("[", "]"), ("{", "}"))
# Of words that only a space separates, one is too few to name a site, unless it is a version.
LEAST_WORDS = 2
# Several pages may have the same title. But an affix of only one or two different titles may be the subject of pages.
LEAST_RESTS = 3
# Characters that may stand around the name of a site.
_MARKS = " ()[]{}:;,|·•»›—–~/-"
# The name of a site with its version takes half of it. Longer titles are sentences, which have no affixes.
LONGEST_TITLE = 200


@dataclass(frozen=True, slots=True)
class Affixes:
    """Beginnings and endings of titles that say nothing about a page."""

    prefixes: frozenset[str] = frozenset()
    suffixes: frozenset[str] = frozenset()

    def strip(self, title: str) -> str:
        """Return the title without the longest of these endings and beginnings, unless nothing else is left."""
        own = title
        for suffix in sorted(self.suffixes, key=len, reverse=True):
            if own.endswith(suffix) and own[: -len(suffix)].strip():
                own = own[: -len(suffix)].rstrip()
                break
        for prefix in sorted(self.prefixes, key=len, reverse=True):
            if own.startswith(prefix) and own[len(prefix) :].strip():
                own = own[len(prefix) :].lstrip()
                break
        return own


def learn_affixes(titles: Sequence[str], *, needed: float) -> Affixes:
    """Return the endings and beginnings that at least `needed` titles share, each beside something else.

    The first title is that of the front page. If it is more than a word, and marked off as a whole in another title, it
    is the name of the site.
    """
    short = [title for title in titles if len(title) <= LONGEST_TITLE]
    front = titles[0] if titles else ""
    suffixes = _common_affixes(short, needed, front, at_end=True)
    without = [Affixes(suffixes=suffixes).strip(title) for title in short]
    return Affixes(_common_affixes(without, needed, front, at_end=False), suffixes)


def _common_affixes(titles: Sequence[str], needed: float, front: str, *, at_end: bool) -> frozenset[str]:
    """Return the affixes of enough titles; if there is none, the longest unmarked one of nearly all titles."""
    rests: dict[tuple[str, bool], list[str]] = defaultdict(list)
    for title in titles:
        for gap in _GAP.finditer(title):
            if at_end:
                affix, rest, neighbour = title[gap.start() :], title[: gap.start()], title[gap.end() : gap.end() + 1]
            else:
                affix, rest = title[: gap.end()], title[gap.end() :]
                neighbour = title[max(0, gap.start() - 1) : gap.start()]
            marked = bool(gap[0].strip()) or not neighbour.isalnum()
            balanced = all(affix.count(left) == affix.count(right) for left, right in _BRACKETS)
            if balanced and affix.strip() and rest.strip() and (marked or _is_name(affix)):
                rests[affix, marked].append(rest.strip())
    marked_off = set()
    for (affix, marked), others in rests.items():
        is_common = len(others) >= needed and len(set(others)) >= LEAST_RESTS
        if marked and (is_common or (affix.strip(_MARKS) == front and _is_name(front))):
            marked_off.add(affix)
    nearly_all = max(needed, len(titles) - 1)
    bare = [affix for (affix, marked), others in rests.items() if not marked and len(set(others)) >= nearly_all]
    return frozenset(marked_off or sorted(bare, key=len)[-1:])


def _is_name(words: str) -> bool:
    return len(words.split()) >= LEAST_WORDS or any(map(str.isdigit, words))


def _digest(block: str) -> str:
    return sha256(block.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class Edge(NamedTuple):
    """The title of one page, and the digests of the blocks near its top and its bottom, without headings."""

    body: bytes | None
    top: tuple[str, ...]
    bottom: tuple[str, ...]
    title: str

    @classmethod
    def of(cls, document: Document) -> "Edge":
        """Return the hashes of the first and last text blocks of a page, without headings."""
        blocks = document.text.split("\n\n")
        top, bottom = (
            tuple(_digest(block) for block in some if block.strip() and not block.startswith("#"))
            for some in (blocks[:LONGEST_RUN], blocks[-LONGEST_RUN:])
        )
        return cls(document.validators.body_hash, top, bottom, document.title)

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> "Edge":
        """Return the edges in a cursor; raise `ValueError` for anything else."""
        match value:
            case [str() | None as body, list() as top, list() as bottom, str() as title]:
                return cls(bytes.fromhex(body) if body else None, tuple(top), tuple(bottom), title)
            case _:
                raise ValueError("it has an invalid edge")

    def to_json(self) -> list[Any]:
        """Return the edges as part of a cursor."""
        return [self.body.hex() if self.body else None, list(self.top), list(self.bottom), self.title]


@dataclass(frozen=True, slots=True)
class Boilerplate:
    """Digests of the boilerplate blocks at the top and at the bottom of pages, and the affixes of titles."""

    top: frozenset[str] = frozenset()
    bottom: frozenset[str] = frozenset()
    titles: Affixes = field(default_factory=Affixes)

    def strip(self, document: Document) -> Document:
        """Return the document without its boilerplate; a text or a title of nothing else stays as it is."""
        text, title = document.text, self.titles.strip(document.title)
        if self.top or self.bottom:
            blocks = text.split("\n\n")
            start, end = 0, len(blocks)
            while start < end and _digest(blocks[start]) in self.top:
                start += 1
            while end > start and _digest(blocks[end - 1]) in self.bottom:
                end -= 1
            if start != end and (start, end) != (0, len(blocks)):
                text = "\n\n".join(blocks[start:end])
        if text is document.text and title is document.title:
            return document
        return replace(document, text=text, title=title)

    def to_json(self) -> list[list[str]]:
        """Return the boilerplate as part of a cursor."""
        return [sorted(self.top), sorted(self.bottom), sorted(self.titles.prefixes), sorted(self.titles.suffixes)]

    @classmethod
    def of(cls, value: object) -> "Boilerplate":
        """Return the boilerplate in a cursor, with or without affixes; nothing for anything else."""
        match value:
            case [list() as top, list() as bottom, *rest]:
                return cls(_strings(top), _strings(bottom), Affixes(*map(_strings, rest[:2])))
            case _:
                return cls()


def _strings(values: object) -> frozenset[str]:
    return frozenset(map(str, values)) if isinstance(values, list) else frozenset()


def learn(edges: Sequence[Edge]) -> Boilerplate:
    """Return the boilerplate of the pages with these edges: the blocks and affixes that most of them share."""
    if len(edges) < LEAST_PAGES:
        return Boilerplate()
    needed = max(LEAST_PAGES, SHARE * len(edges))

    def shared(edge_blocks: list[tuple[str, ...]]) -> frozenset[str]:
        counts = Counter(block for blocks in edge_blocks for block in set(blocks))
        return frozenset(block for block, pages in counts.items() if pages >= needed)

    return Boilerplate(
        shared([edge.top for edge in edges]),
        shared([edge.bottom for edge in edges]),
        learn_affixes([edge.title for edge in edges], needed=needed),
    )
