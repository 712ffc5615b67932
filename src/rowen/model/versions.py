"""Versions, and the version that a spec such as `2.x` or `>=1.0,<2` selects.

One parser serves PEP 440, semantic versions, dates and tags. Any other text is a word, equal only to itself.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

# Keeps each number far below the 4,300 digits that Python converts. A spec is compared with every version: a spec of
# this length takes 25 ms for a thousand versions, and real specs are less than a quarter as long.
LONGEST = 200
_TEXT = re.compile(
    r"(?:v|version|release)?[-_. ]?(?:(?P<epoch>\d+)!)?(?P<release>\d++(?:\.\d++)*+)(?P<tail>[a-z\d._-]*)(?:\+.*)?",
    re.ASCII,
)
_DATE = re.compile(r"(?:19|20)\d\d-(?:0?[1-9]|1[0-2])(?:-\d{1,2})?", re.ASCII)
_TOKEN = re.compile(r"[a-z]+|\d+", re.ASCII)
_PHASES = {
    "dev": -5,
    **dict.fromkeys(("a", "alpha"), -3),
    **dict.fromkeys(("b", "beta"), -2),
    **dict.fromkeys(("c", "rc", "pre", "preview"), -1),
    **dict.fromkeys(("final", "ga"), 0),
    **dict.fromkeys(("post", "rev", "r", "patch", "p"), 1),
}
_OTHER_PRE_RELEASE, _FURTHER_NUMBER = -4, 2
_END = (0, "", 0)
_WILDCARD = re.compile(r"(?<!\.[x*])(?:\.[x*])++$", re.IGNORECASE)
_ANYTHING = frozenset({"", "*", "x", "latest", "any"})
_TERM = re.compile(r"(?P<operator>~=|~>|===|==|!=|<=|>=|[\^~=<>])?(?P<bound>.*)", re.DOTALL)
_OPERATOR_GAP = re.compile(r"(?<![\^~=<>!])([\^~=<>!]++)\s++")
_SPAN = re.compile(r"(\S+)\s+-\s+(\S+)")

Step = tuple[int, str, int]


class Version(NamedTuple):
    """A version as comparable parts; trailing zeros are ignored."""

    epoch: int
    release: tuple[int, ...]
    tail: tuple[Step, ...]

    @property
    def is_final(self) -> bool:
        """Whether it is not an alpha, beta, candidate or other pre-release."""
        return all(phase >= 0 for phase, _, _ in self.tail)

    def starts_with(self, numbers: tuple[int, ...]) -> bool:
        """Return whether the version begins with these numbers; missing numbers of the version are zeros."""
        padded = self.release + (0,) * (len(numbers) - len(self.release))
        return padded[: len(numbers)] == numbers


def parse(text: str) -> Version | None:
    """Parse a version; return None for a word, and for a pattern such as `2.x`."""
    plain = text.strip().lower()
    if len(plain) > LONGEST or _WILDCARD.search(plain):
        return None
    match = _TEXT.fullmatch(plain.replace("-", ".") if _DATE.fullmatch(plain) else plain)
    if match is None:
        return None
    release = tuple(int(number) for number in match["release"].split("."))
    while len(release) > 1 and release[-1] == 0:
        release = release[:-1]
    return Version(int(match["epoch"] or 0), release, (*_steps(match["tail"]), _END))


def _steps(tail: str) -> Iterator[Step]:
    """Yield words with their numbers: `rc1`, `post2.dev3`, `alpha.1.2`."""
    word: str | None = None
    for position, token in enumerate(_TOKEN.findall(tail)):
        if token.isdigit():
            bare = _FURTHER_NUMBER if position else _OTHER_PRE_RELEASE
            yield _step(word, int(token)) if word is not None else (bare, "", int(token))
            word = None
        else:
            if word is not None:
                yield _step(word, 0)
            word = token
    if word is not None:
        yield _step(word, 0)


def _step(word: str, number: int) -> Step:
    phase = _PHASES.get(word)
    return (_OTHER_PRE_RELEASE, word, number) if phase is None else (phase, "", number)


class _Term(NamedTuple):
    """One condition; `numbers` are the numbers of its bound as written, zeros included."""

    operator: str
    text: str
    bound: Version
    numbers: tuple[int, ...]
    wild: bool

    def holds(self, text: str, version: Version | None) -> bool:
        if version is None:
            return not self.operator and self.text == text.casefold()
        match self.operator:
            case "" | "=":
                return self._is_like(version)
            case "==" | "===":
                return self._is_like(version) if self.wild else version == self.bound
            case "!=":
                return not (self._is_like(version) if self.wild else version == self.bound)
            case ">=":
                return version >= self.bound
            case ">":
                return version > self.bound
            case "<=":
                return version <= self.bound
            case "<":
                # `2.0rc1` is a pre-release of 2, so `<2` excludes it.
                leads_up = not version.is_final and self.bound.is_final and version.release == self.bound.release
                return version < self.bound and not leads_up
            case "-":
                return version <= self.bound or self._is_like(version)
        if self.operator == "^":
            leading = next((at for at, number in enumerate(self.numbers) if number), len(self.numbers) - 1)
            fixed = self.numbers[: leading + 1]
        else:
            fixed = self.numbers[:2] if self.operator == "~" else self.numbers[:-1]
        return version >= self.bound and version.starts_with(fixed) and version.epoch == self.bound.epoch

    def _is_like(self, version: Version) -> bool:
        if len(self.bound.tail) > 1:
            return version == self.bound
        return version.epoch == self.bound.epoch and version.starts_with(self.numbers)


class _Word(NamedTuple):
    """A condition that is a word instead of a version: a tag, a branch, a code name."""

    text: str

    def holds(self, version: str, _: Version | None) -> bool:
        return self.text == version.casefold()


class VersionSpec(NamedTuple):
    """A selection of versions: any alternative may match, and all its terms must hold; no alternatives match all."""

    alternatives: tuple[tuple[_Term | _Word, ...], ...] = ()

    @classmethod
    def parse(cls, text: str) -> "VersionSpec":
        """Parse `2`, `2.x`, `v3`, `^2.1`, `~1.4`, `>=1.0,<2`, `1.2 - 1.4`, `1 || 3`, `latest`, a date or a word.

        Raise `ValueError` if the spec is invalid.
        """
        if len(text) > LONGEST:
            raise ValueError(f"a version spec may have at most {LONGEST} characters")
        if text.strip().casefold() in _ANYTHING:
            return cls()
        return cls(tuple(tuple(_terms(part)) for part in text.split("||")))

    @property
    def names_one(self) -> bool:
        """Whether the spec is a single version, for which a version of exactly this name may exist."""
        match self.alternatives:
            case ((_Term(operator="" | "=" | "==" | "===", wild=False),),):
                return True
        return False

    def accepts(self, version: str) -> bool:
        """Return whether the spec selects a version."""
        parsed = parse(version)
        matches = (all(term.holds(version, parsed) for term in terms) for terms in self.alternatives)
        return not self.alternatives or any(matches)

    def best(self, versions: Iterable[str], *, pre: bool = False) -> str | None:
        """Return the highest selected version, None if there is none.

        A pre-release is returned only if the spec names one, or if nothing else is selected.
        """
        candidates = [(version, parse(version)) for version in versions if self.accepts(version)]
        if not (pre or self._names_pre_release):
            candidates = [
                (text, parsed) for text, parsed in candidates if parsed is None or parsed.is_final
            ] or candidates
        known = [(parsed, text) for text, parsed in candidates if parsed is not None]
        if known:
            return max(known)[1]
        return max((text for text, _ in candidates), default=None)

    @property
    def _names_pre_release(self) -> bool:
        terms = (term for terms in self.alternatives for term in terms)
        return any(isinstance(term, _Term) and not term.bound.is_final for term in terms)


def _terms(text: str) -> Iterator[_Term | _Word]:
    text = _OPERATOR_GAP.sub(r"\1", text.strip())
    if span := _SPAN.fullmatch(text):
        yield _term(">=", span[1])
        yield _term("-", span[2])
        return
    for part in re.split(r"[,\s]+", text):
        if part and (match := _TERM.fullmatch(part)):
            yield _term(match["operator"] or "", match["bound"])


def _term(operator: str, text: str) -> _Term | _Word:
    plain = _WILDCARD.sub("", text)
    bound = parse(plain)
    if bound is None and operator:
        raise ValueError(f"{operator!r} needs a version, and {text!r} is not one")
    if bound is None:
        return _Word(text.casefold())
    # The numbers as written: `2.0` selects fewer versions than `2`.
    written = re.split(r"[.-]" if _DATE.fullmatch(plain.strip()) else r"\.", plain.rpartition("!")[2])
    zeros = 0
    for part in written[len(bound.release) :]:
        if part.strip("0") or not part:
            break
        zeros += 1
    return _Term(operator, text.casefold(), bound, bound.release + (0,) * zeros, plain != text)
