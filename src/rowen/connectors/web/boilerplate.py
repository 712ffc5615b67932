"""The boilerplate of a site: text blocks and parts of titles that its pages share, learned from a few pages.

Examples are a menu, a version, a build stamp, a date in the footer, and the name of the site after each title. They
change with every release and say nothing about a page. Boilerplate depends only on the current content of the site's
first pages, so that a refresh and a rebuild always find the same.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, NamedTuple

from rowen.model.items import Document

# Pages that are read before the walk, which does not request them again. With half as many, each would have to share a
# block (see below); with twice as many, a refresh requests twice as many pages before it can begin.
SAMPLE = 8
# Minimum number of pages that share a block; two or three pages may share an ordinary paragraph.
LEAST_PAGES = 4
# Share of the pages: 5 of 8. At 1.0, one page without the usual footer would keep that footer in the text of
# all others; at 0.3, blocks that only the pages of one section share would be removed.
SHARE = 0.6
# Maximum number of boilerplate blocks at each end of a page. Without a limit, complete texts would be compared.
LONGEST_RUN = 12

# Positions where a title may be cut: at a space, together with a mark before it, or at a mark that needs no
# space.
_GAP = re.compile(r"(?<![:;,|·•»›—–~/])[:;,|·•»›—–~/]*+\s++|[|:·•»›—–]++")
_BRACKETS = (("(", ")"), ("[", "]"), ("{", "}"))
# Minimum number of words in a site's name that only a space separates from the rest, unless it is a version.
LEAST_WORDS = 2
# Minimum number of different rests. An affix of only one or two different titles may be the subject of the pages.
LEAST_RESTS = 3
# Characters that may surround the name of a site.
_MARKS = " ()[]{}:;,|·•»›—–~/-"
# The name of a site with its version takes half of this. Longer titles are sentences, which have no affixes.
LONGEST_TITLE = 200


@dataclass(frozen=True, slots=True)
class Affixes:
    """Prefixes and suffixes of titles that say nothing about a page."""

    prefixes: frozenset[str] = frozenset()
    suffixes: frozenset[str] = frozenset()

    def strip(self, title: str) -> str:
        """Return the title without its longest known suffix and prefix, unless nothing else is left."""
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
    """Return the prefixes and suffixes that at least `needed` titles share; the rests of these titles must differ.

    The first title is that of the front page. If it has more than one word, and is separated as a whole in another
    title, it is the name of the site.
    """
    short = [title for title in titles if len(title) <= LONGEST_TITLE]
    front = titles[0] if titles else ""
    suffixes = _common_affixes(short, needed, front, at_end=True)
    without = [Affixes(suffixes=suffixes).strip(title) for title in short]
    return Affixes(_common_affixes(without, needed, front, at_end=False), suffixes)


def _common_affixes(titles: Sequence[str], needed: float, front: str, *, at_end: bool) -> frozenset[str]:
    """Return the affixes that enough titles share, separated by a mark.

    If there is none, return the longest affix that nearly all titles share without a mark.
    """
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
    """The title of a page, and the hashes of the text blocks at its top and bottom, without headings."""

    body: bytes | None
    top: tuple[str, ...]
    bottom: tuple[str, ...]
    title: str

    @classmethod
    def of(cls, document: Document) -> "Edge":
        """Return the edge of a page; `body` is the hash of its body."""
        blocks = document.text.split("\n\n")
        top, bottom = (
            tuple(_digest(block) for block in some if block.strip() and not block.startswith("#"))
            for some in (blocks[:LONGEST_RUN], blocks[-LONGEST_RUN:])
        )
        return cls(document.validators.body_hash, top, bottom, document.title)

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> "Edge":
        """Return the edge in a cursor; raise `ValueError` if the value is invalid."""
        match value:
            case [str() | None as body, list() as top, list() as bottom, str() as title]:
                return cls(bytes.fromhex(body) if body else None, tuple(top), tuple(bottom), title)
            case _:
                raise ValueError("it has an invalid edge")

    def to_json(self) -> list[Any]:
        """Return the edge as JSON for a cursor."""
        return [self.body.hex() if self.body else None, list(self.top), list(self.bottom), self.title]


@dataclass(frozen=True, slots=True)
class Boilerplate:
    """Hashes of the boilerplate blocks at the top and bottom of pages, and the affixes of titles."""

    top: frozenset[str] = frozenset()
    bottom: frozenset[str] = frozenset()
    titles: Affixes = field(default_factory=Affixes)

    def strip(self, document: Document) -> Document:
        """Return the document without boilerplate; a text or title that is only boilerplate stays unchanged."""
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
        """Return the boilerplate as JSON for a cursor."""
        return [sorted(self.top), sorted(self.bottom), sorted(self.titles.prefixes), sorted(self.titles.suffixes)]

    @classmethod
    def of(cls, value: object) -> "Boilerplate":
        """Return the boilerplate in a cursor, with or without affixes; empty boilerplate if the value is invalid."""
        match value:
            case [list() as top, list() as bottom, *rest]:
                return cls(_strings(top), _strings(bottom), Affixes(*map(_strings, rest[:2])))
            case _:
                return cls()


def _strings(values: object) -> frozenset[str]:
    return frozenset(map(str, values)) if isinstance(values, list) else frozenset()


def learn(edges: Sequence[Edge]) -> Boilerplate:
    """Return the blocks and affixes that most of the pages share; empty for fewer than `LEAST_PAGES` pages."""
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
