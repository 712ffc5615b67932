"""The patterns of `.gitignore` as regular expressions, and the rules that decide which paths git leaves out.

A star that is not the last one may stop at the first place where the rest fits: everything else in the language is
of fixed length, so a later place would serve no better. Atomic groups tell this to `re`, and no pattern, however
hostile, takes exponential time.

Rules apply from the repository's top down, the last one that matches wins, and below a folder that is left out
nothing is taken in again: the walk does not enter it. Files that git tracks although a rule names them are left
out as well, since the index is not read. Most rules are names, paths or endings, and are looked up; only the others are
matched one by one.
"""

# ruff: noqa: PTH113, PTH120 -- the walk's paths are strings

import errno
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from typing import NamedTuple, TypeAlias

from rowen.connectors.opening import open_file, read_at_most

_NAMED = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "\\x21-\\x7e",
    "lower": "a-z",
    "print": "\\x20-\\x7e",
    "punct": "\\x21-\\x2f\\x3a-\\x40\\x5b-\\x60\\x7b-\\x7e",
    "space": " \\t\\n\\v\\f\\r",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}
_STARS = re.compile(r"\*+")
_CLASS_NAME = re.compile(r"\[:([^\[\]]*):\]")
# Atoms are expressions for one character each, and these three, which are no such expression.
_STAR, _STAR_STAR, _SLASH = "*", "**", "/"

# Honest files have a few hundred rules; these numbers keep the cost of one path below a tenth of a second. A file
# that has more is refused whole, since its last rules may be there to keep something out.
_MOST_BYTES = 1 << 20
_MOST_MATCHED = 3_000
_LONGEST_PATTERN = 4_096
_SPECIAL = frozenset("*?[\\")
_NOTHING = re.compile("(?!)")


def any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    """Return an expression for the paths that any pattern names, and everything below them, as in `.gitignore`."""
    expressions = []
    for pattern in patterns:
        path = pattern.removesuffix("/")
        if not path.strip("/"):
            raise ValueError(f"the pattern {pattern!r} matches nothing")
        anywhere = "" if "/" in path else "(?:.*/)?"
        below = "(?:/.*)?" if path == pattern else "/.*"
        expressions.append(anywhere + translate(path.removeprefix("/")) + below)
    return re.compile("(?s:" + "|".join(expressions) + ")")


def translate(pattern: str) -> str:
    """Return the regular expression of a pattern, for paths without a leading slash; raise `ValueError` if invalid."""
    blocks: list[list[list[str]]] = [[]]  # of components, split where one of them is `**`
    for component in _split(_atoms(pattern), _SLASH):
        if component == [_STAR_STAR]:
            blocks.append([])
        else:
            blocks[-1].append(component)
    first, *others = blocks
    if not others:
        return _path(first)
    expression = _path(first) + "/" if first else ""
    for block in others[:-1]:
        if block:
            expression += f"(?>(?:[^/]+/)*?{_path(block)}/)"
    return expression + (f"(?:[^/]+/)*?{_path(others[-1])}" if others[-1] else ".+")


def _path(components: Iterable[Sequence[str]]) -> str:
    expressions = []
    for atoms in components:
        # Between two slashes, `**` is a star like any other.
        first, *others = _split([_STAR if atom == _STAR_STAR else atom for atom in atoms], _STAR)
        expression = "".join(first)
        for part in others[:-1]:
            expression += f"(?>[^/]*?{''.join(part)})"
        expressions.append(expression + "[^/]*" + "".join(others[-1]) if others else expression)
    return "/".join(expressions)


def _split(atoms: Iterable[str], separator: str) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for atom in atoms:
        if atom == separator:
            parts.append([])
        else:
            parts[-1].append(atom)
    return parts


def _atoms(pattern: str) -> Iterator[str]:
    at = 0
    while at < len(pattern):
        if stars := _STARS.match(pattern, at):
            yield _STAR if len(stars[0]) == 1 else _STAR_STAR
            at = stars.end()
        elif pattern[at] == "[":
            expression, at = _class(pattern, at + 1)
            yield expression
        elif pattern[at] == "?":
            yield "[^/]"
            at += 1
        else:
            character, at = _character(pattern, at)
            yield re.escape(character)


def _character(pattern: str, at: int) -> tuple[str, int]:
    """Return a character that may be escaped, and the position of the next one."""
    if pattern[at : at + 1] == "\\":
        at += 1
    if at >= len(pattern):
        raise ValueError(f"the pattern {pattern!r} ends too early")
    return pattern[at], at + 1


def _class(pattern: str, at: int) -> tuple[str, int]:
    """Return the expression of a class such as `[a-z]`, from behind its bracket, and the position of the next atom."""
    negated = pattern[at : at + 1] in ("!", "^")
    start = at = at + negated
    members = ""
    while at == start or pattern[at : at + 1] != "]":
        if pattern.startswith("[:", at) and (name := _CLASS_NAME.match(pattern, at)):
            if name[1] not in _NAMED:
                raise ValueError(f"there is no character class {name[1]!r}")
            members += _NAMED[name[1]]
            at = name.end()
            continue
        low, at = _character(pattern, at)
        high = low
        if pattern[at : at + 1] == "-" and pattern[at + 1 : at + 2] not in ("", "]"):
            high, at = _character(pattern, at + 1)
        if low <= high:
            members += re.escape(low) if low == high else f"{re.escape(low)}-{re.escape(high)}"
    if negated:
        return f"[^/{members}]", at + 1
    return f"(?!/)[{members}]" if members else "(?!)", at + 1


class _Rule(NamedTuple):
    """One line; `turn` counts how often the verdict has changed before it, so that a later turn is stronger."""

    turn: int
    anywhere: bool
    folders_only: bool
    pattern: str


class IgnoreRules:
    """The rules of one file."""

    def __init__(self, text: str) -> None:
        rules: list[_Rule] = []
        turn = 0
        for line in text.removeprefix("\ufeff").split("\n"):
            line = line.removesuffix("\r")
            # Spaces at the end do not count, unless a backslash is before them.
            pattern = line.rstrip(" ")
            if (len(pattern) - len(pattern.rstrip("\\"))) % 2:
                pattern = line[: len(pattern) + 1]
            if not pattern or pattern.startswith("#"):
                continue
            if len(pattern) > _LONGEST_PATTERN:
                raise _TooManyError(f"a rule of more than {_LONGEST_PATTERN:,} characters")
            bare = pattern.removeprefix("!")
            path = bare.removesuffix("/")
            with suppress(ValueError):
                translate(path.removeprefix("/"))
                turn += turn % 2 != (bare != pattern)
                rules.append(_Rule(turn, "/" not in path, path != bare, path.removeprefix("/")))
        self._of_files = _Decision([rule for rule in rules if not rule.folders_only])
        self._of_folders = _Decision(rules)

    def verdict(self, path: str, *, folder: bool) -> bool | None:
        """Return whether a path, relative to the rules' own folder, is left out; None if no rule matches it."""
        return (self._of_folders if folder else self._of_files).of(path)


Chain: TypeAlias = tuple[tuple[int, IgnoreRules], ...]
"""The rules that hold in a folder, strongest first, each with the length of the path of its own folder."""


def ignored(path: str, chain: Chain, *, folder: bool) -> bool:
    """Return whether an absolute path is left out."""
    for start, rules in chain:
        verdict = rules.verdict(path[start:], folder=folder)
        if verdict is not None:
            return verdict
    return False


def rules_of(prefix: str, above: Chain, *, repository: bool, own: bool) -> Chain:
    """Return the rules in a folder with a `.git` (`repository`) or a `.gitignore` (`own`); `prefix` is its path."""
    chain = _read(prefix, ".git/info/exclude") if repository else above
    return _read(prefix, ".gitignore") + chain if own else chain


def rules_above(path: str) -> Chain:
    """Return the rules that hold for a folder from those above it, if it lies inside a repository."""
    above = []
    path = path.rstrip("/") or "/"
    while path != "/" and not os.path.lexists(f"{path}/.git"):
        path = os.path.dirname(path)
        above.append(path)
    if not above or not os.path.lexists(f"{path}/.git"):
        return ()
    chain: Chain = ()
    for folder in reversed(above):
        prefix = folder.rstrip("/") + "/"
        chain = rules_of(prefix, chain, repository=folder == path, own=os.path.isfile(prefix + ".gitignore"))
    return chain


def _read(prefix: str, name: str) -> Chain:
    try:
        descriptor = open_file(prefix + name, follow=name != ".gitignore")  # as git does
    except OSError as problem:
        if problem.errno in (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP):
            return ()
        raise
    if descriptor is None:
        return ()
    try:
        body = read_at_most(descriptor, _MOST_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(body) > _MOST_BYTES:
        raise OSError(errno.EFBIG, f"the rules in {name} are longer than {_MOST_BYTES:,} bytes")
    try:
        return ((len(prefix), IgnoreRules(os.fsdecode(body))),)
    except _TooManyError as problem:
        raise OSError(errno.EFBIG, f"{name} has {problem}") from None


class _TooManyError(Exception):
    """Rules beyond a limit."""


class _Decision:
    """Many rules at once: the verdict of the last one that matches a path.

    Rules of one turn decide alike, so it is enough to know the latest turn of all that match. Even turns leave out.
    Rules with wildcards are one expression: the last turn comes first, and its group identifies it.
    """

    def __init__(self, rules: Sequence[_Rule]) -> None:
        self._names: dict[str, int] = {}
        self._paths: dict[str, int] = {}
        self._endings: dict[str, int] = {}
        matched = []
        for rule in rules:
            if not _SPECIAL & set(rule.pattern):
                (self._names if rule.anywhere else self._paths)[rule.pattern] = rule.turn
            elif rule.anywhere and rule.pattern[0] == "*" and not _SPECIAL & set(rule.pattern[1:]):
                self._endings[rule.pattern[1:]] = rule.turn
            else:
                matched.append(rule)
        if len(matched) > _MOST_MATCHED:
            raise _TooManyError(f"more than {_MOST_MATCHED:,} rules with wildcards")
        self._lengths = sorted({len(ending) for ending in self._endings})
        self._turns: list[int] = []
        expressions = []
        for turn, run in groupby(reversed(matched), key=lambda rule: rule.turn):
            several = list(run)
            anywhere = "|".join(translate(rule.pattern) for rule in several if rule.anywhere)
            rooted = [translate(rule.pattern) for rule in several if not rule.anywhere]
            self._turns.append(turn)
            expressions.append("|".join([*([f"(?>(?:.*/)?)(?:{anywhere})"] if anywhere else []), *rooted]))
        self._expression = re.compile(f"(?s:({')|('.join(expressions)}))") if expressions else _NOTHING

    def of(self, path: str) -> bool | None:
        name = path.rpartition("/")[2]
        match = self._expression.fullmatch(path)
        matched = self._turns[match.lastindex - 1] if match and match.lastindex else -1
        turn = max(self._names.get(name, -1), self._paths.get(path, -1), matched)
        for length in self._lengths:
            if length > len(name):
                break
            turn = max(turn, self._endings.get(name[len(name) - length :], -1))
        return turn % 2 == 0 if turn >= 0 else None
