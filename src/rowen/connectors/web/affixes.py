"""What the titles of a site have in common: its name and its version, before or behind what each page is called."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Affixes", "learn_affixes"]

# Where a title may be cut: at a space, with the mark that leans on the word before, or at a mark that needs no space.
_GAP = re.compile(r"(?<![:;,|·•»›—–~/])[:;,|·•»›—–~/]*+\s++|[|:·•»›—–]++")
_BRACKETS = (("(", ")"), ("[", "]"), ("{", "}"))
# Of words that nothing but a space sets apart, one is too few to name a site, unless it is a version.
LEAST_WORDS = 2
# Several pages may be called alike. But what has only one or two titles beside it may as well be what pages are about.
LEAST_RESTS = 3
# What may stand around the name of a site.
_MARKS = " ()[]{}:;,|·•»›—–~/-"
# The name of a site with its version takes half of it. Longer titles are sentences, which have no affixes.
LONGEST_TITLE = 200


class _Cut(NamedTuple):
    affix: str
    rest: str
    marked: bool

    @property
    def sets_apart(self) -> bool:
        """Whether words lie on both sides, and no bracket is torn from its partner."""
        balanced = all(self.affix.count(left) == self.affix.count(right) for left, right in _BRACKETS)
        return balanced and bool(self.affix.strip()) and bool(self.rest.strip())

    @property
    def names(self) -> bool:
        """Whether the affix is marked off or, if not, looks like a name with a version."""
        return self.marked or _looks_like_a_name(self.affix)


@dataclass(frozen=True, slots=True)
class Affixes:
    """Beginnings and endings of titles that say nothing about a page."""

    prefixes: frozenset[str] = frozenset()
    suffixes: frozenset[str] = frozenset()

    def strip(self, title: str) -> str:
        """The title without the longest ending and beginning of these; one that is nothing else stays as it is."""
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
    """What stands at the end or the beginning of at least so many titles, each time beside something else.

    The first title is that of the front page. If it is more than a word, and marked off as a whole in another title, it
    is the name of the site.
    """
    short = [title for title in titles if len(title) <= LONGEST_TITLE]
    front = titles[0] if titles else ""
    suffixes = _common([_suffixes(title) for title in short], needed, front)
    without = [Affixes(suffixes=suffixes).strip(title) for title in short]
    return Affixes(_common([_prefixes(title) for title in without], needed, front), suffixes)


def _common(cuts: Sequence[Iterator[_Cut]], needed: float, front: str) -> frozenset[str]:
    """The affixes of enough titles; if there is none, the longest that nothing marks off in nearly all."""
    rests: dict[tuple[str, bool], list[str]] = defaultdict(list)
    for title in cuts:
        for cut in title:
            if cut.sets_apart and cut.names:
                rests[cut.affix, cut.marked].append(cut.rest.strip())
    marked_off = frozenset(
        affix
        for (affix, marked), others in rests.items()
        if marked and (_is_common(others, needed) or (affix.strip(_MARKS) == front and _looks_like_a_name(front)))
    )
    nearly_all = max(needed, len(cuts) - 1)
    bare = [affix for (affix, marked), others in rests.items() if not marked and len(set(others)) >= nearly_all]
    return marked_off or frozenset(sorted(bare, key=len)[-1:])


def _looks_like_a_name(words: str) -> bool:
    return len(words.split()) >= LEAST_WORDS or any(map(str.isdigit, words))


def _is_common(rests: Sequence[str], needed: float) -> bool:
    return len(rests) >= needed and len(set(rests)) >= LEAST_RESTS


def _suffixes(title: str) -> Iterator[_Cut]:
    for gap in _GAP.finditer(title):
        marked = bool(gap[0].strip()) or not title[gap.end() : gap.end() + 1].isalnum()
        yield _Cut(title[gap.start() :], title[: gap.start()], marked)


def _prefixes(title: str) -> Iterator[_Cut]:
    for gap in _GAP.finditer(title):
        marked = bool(gap[0].strip()) or not title[max(0, gap.start() - 1) : gap.start()].isalnum()
        yield _Cut(title[: gap.end()], title[gap.end() :], marked)
