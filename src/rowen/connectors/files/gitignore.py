"""Translates `.gitignore` patterns to regular expressions, and decides which paths git ignores.

A star that is not the last star of a pattern may stop at the first position where the rest matches: everything else in
the pattern language has a fixed length, so a later position would match no more. Atomic groups express this in `re`,
so that no pattern takes exponential time.

Rules apply from the top of the repository down, and the last matching rule wins. Nothing below an ignored folder is
included again: the walk does not enter it. Tracked files that a rule matches are ignored as well, since the index is
not read. Most rules are names, paths or endings, which are looked up; only the other rules are matched one by one.
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
# An atom is a regular expression for one character, or one of these three marks.
_STAR, _STAR_STAR, _SLASH = "*", "**", "/"

# Real files have a few hundred rules; these limits keep the cost of one path below a tenth of a second. A file
# that exceeds them is refused completely, since its last rules may exclude something.
_MOST_BYTES = 1 << 20
_MOST_MATCHED = 3_000
_LONGEST_PATTERN = 4_096
_SPECIAL = frozenset("*?[\\")
_NOTHING = re.compile("(?!)")


def any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    """Return an expression for the paths that match any pattern, and for all paths below them, as in `.gitignore`."""
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
    blocks: list[list[list[str]]] = [[]]  # lists of path components, split at each `**`
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
        # Next to other characters of a component, `**` is an ordinary star.
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
    """Return the character at a position without its escape, and the position after it."""
    if pattern[at : at + 1] == "\\":
        at += 1
    if at >= len(pattern):
        raise ValueError(f"the pattern {pattern!r} ends too early")
    return pattern[at], at + 1


def _class(pattern: str, at: int) -> tuple[str, int]:
    """Return the expression of a class such as `[a-z]`, read from after its bracket, and the position after it."""
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
    """One rule. `turn` counts the changes between excluding and including rules before it; a later turn wins."""

    turn: int
    anywhere: bool
    folders_only: bool
    pattern: str


class IgnoreRules:
    """The rules of one file, such as `.gitignore`."""

    def __init__(self, text: str) -> None:
        rules: list[_Rule] = []
        turn = 0
        for line in text.removeprefix("\ufeff").split("\n"):
            line = line.removesuffix("\r")
            # Trailing spaces are ignored unless a backslash precedes them.
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
        """Return whether the rules ignore `path`, which is relative to their own folder; None if no rule matches."""
        return (self._of_folders if folder else self._of_files).of(path)


Chain: TypeAlias = tuple[tuple[int, IgnoreRules], ...]
"""The rules that apply in a folder, strongest first, each with the length of the path of the folder that has them."""


def ignored(path: str, chain: Chain, *, folder: bool) -> bool:
    """Return whether an absolute path is ignored."""
    for start, rules in chain:
        verdict = rules.verdict(path[start:], folder=folder)
        if verdict is not None:
            return verdict
    return False


def rules_of(prefix: str, above: Chain, *, repository: bool, own: bool) -> Chain:
    """Return the rules that apply in the folder `prefix`; unless it is a repository, it inherits the rules `above`.

    `repository` is true if the folder has a `.git`, `own` if it has a `.gitignore`.
    """
    chain = _read(prefix, ".git/info/exclude") if repository else above
    return _read(prefix, ".gitignore") + chain if own else chain


def rules_above(path: str) -> Chain:
    """Return the rules that the folders above `path` define; empty if `path` is not inside a repository."""
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
    """The rules exceed a limit."""


class _Decision:
    """Many rules at once: decides by the last rule that matches a path.

    Rules with the same turn decide alike, so only the latest matching turn matters. Even turns ignore the path, odd
    turns include it. Rules with wildcards are compiled to one expression, the last turn first; the matching group
    identifies the turn.
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
