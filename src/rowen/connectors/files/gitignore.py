"""What git leaves out: the rules of `.gitignore` files, and which of them decides.

Rules apply from the repository's top down, the last one that matches wins, and below a folder that is left out
nothing is taken in again: the walk does not enter it. Files that git tracks although a rule names them are left
out as well, since the index is not read.

Most rules are names, paths or endings, and are looked up; only the others are matched one by one.
"""

# ruff: noqa: PTH113, PTH120 -- the walk's paths are strings

import errno
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from typing import NamedTuple, TypeAlias

from rowen.connectors.files.globs import translate
from rowen.connectors.opening import open_file, read_at_most

__all__ = ["Chain", "IgnoreRules", "ignored", "rules_above", "rules_of"]

# Honest files have a few hundred rules; these numbers keep the price of one path below a tenth of a second. A file
# that has more is not half obeyed, since its last rules may be there to keep something out.
_MOST_BYTES = 1 << 20
_MOST_MATCHED = 3_000
_LONGEST_PATTERN = 4_096
_SPECIAL = frozenset("*?[\\")
_NOTHING = re.compile("(?!)")


class _Rule(NamedTuple):
    """One line; `turn` counts how often the verdict has changed before it, so that a later turn is stronger."""

    turn: int
    anywhere: bool
    folders_only: bool
    pattern: str


class IgnoreRules:
    """The rules of one file."""

    def __init__(self, text: str) -> None:
        rules = list(_rules(text.removeprefix("\ufeff").split("\n")))
        self._of_files = _Decision([rule for rule in rules if not rule.folders_only])
        self._of_folders = _Decision(rules)

    def verdict(self, path: str, *, folder: bool) -> bool | None:
        """Whether a path, relative to the rules' own folder, is left out; None if no rule speaks of it."""
        return (self._of_folders if folder else self._of_files).of(path)


Chain: TypeAlias = tuple[tuple[int, IgnoreRules], ...]
"""The rules that hold in a folder, strongest first, each with how much of a path is before its own folder."""


def ignored(path: str, chain: Chain, *, folder: bool) -> bool:
    """Whether an absolute path is left out."""
    for start, rules in chain:
        verdict = rules.verdict(path[start:], folder=folder)
        if verdict is not None:
            return verdict
    return False


def rules_of(prefix: str, above: Chain, *, repository: bool, own: bool) -> Chain:
    """The rules that hold in a folder: `prefix` is its path with a slash at the end.

    `repository` says that it has a `.git`: rules from above end there. `own` says that it has a `.gitignore`.
    """
    chain = _read(prefix, ".git/info/exclude") if repository else above
    return _read(prefix, ".gitignore") + chain if own else chain


def rules_above(path: str) -> Chain:
    """The rules that hold for a folder from those above it, if it lies inside a repository."""
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
        own = os.path.isfile(prefix + ".gitignore")
        chain = rules_of(prefix, chain, repository=folder == path, own=own)
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
    """What there is too much of."""


class _Decision:
    """Many rules at once: what the last one that speaks of a path decides.

    Rules of one turn decide alike, so it is enough to know the latest turn of all that match. Even turns take out.
    """

    def __init__(self, rules: Sequence[_Rule]) -> None:
        self._names: dict[str, int] = {}
        self._paths: dict[str, int] = {}
        self._endings: dict[str, int] = {}
        matched = [rule for rule in rules if not self._is_looked_up(rule)]
        self._lengths = sorted({len(ending) for ending in self._endings})
        self._matched = _Matched(matched)

    def _is_looked_up(self, rule: _Rule) -> bool:
        if not _SPECIAL & set(rule.pattern):
            (self._names if rule.anywhere else self._paths)[rule.pattern] = rule.turn
        elif rule.anywhere and rule.pattern[0] == "*" and not _SPECIAL & set(rule.pattern[1:]):
            self._endings[rule.pattern[1:]] = rule.turn
        else:
            return False
        return True

    def of(self, path: str) -> bool | None:
        name = path.rpartition("/")[2]
        turn = max(self._names.get(name, -1), self._paths.get(path, -1), self._matched.turn(path))
        for length in self._lengths:
            if length > len(name):
                break
            turn = max(turn, self._endings.get(name[len(name) - length :], -1))
        return turn % 2 == 0 if turn >= 0 else None


class _Matched:
    """Rules with wildcards, in one expression: the last turn comes first, and its group tells which one it is."""

    def __init__(self, rules: Sequence[_Rule]) -> None:
        if len(rules) > _MOST_MATCHED:
            raise _TooManyError(f"more than {_MOST_MATCHED:,} rules with wildcards")
        turns = {turn: list(run) for turn, run in groupby(reversed(rules), key=lambda rule: rule.turn)}
        self._turns = list(turns)
        self._expression = re.compile("(?s:" + "|".join(map(_turn, turns.values())) + ")") if turns else _NOTHING

    def turn(self, path: str) -> int:
        match = self._expression.fullmatch(path)
        return self._turns[match.lastindex - 1] if match and match.lastindex else -1


def _turn(rules: Sequence[_Rule]) -> str:
    anywhere = "|".join(translate(rule.pattern) for rule in rules if rule.anywhere)
    rooted = [translate(rule.pattern) for rule in rules if not rule.anywhere]
    return f"({'|'.join([*([f'(?>(?:.*/)?)(?:{anywhere})'] if anywhere else []), *rooted])})"


def _rules(lines: Sequence[str]) -> Iterator[_Rule]:
    turn = 0
    for line in lines:
        pattern = _trimmed(line.removesuffix("\r"))
        if not pattern or pattern.startswith("#"):
            continue
        if len(pattern) > _LONGEST_PATTERN:
            raise _TooManyError(f"a rule of more than {_LONGEST_PATTERN:,} characters")
        bare = pattern.removeprefix("!")
        path = bare.removesuffix("/")
        with suppress(ValueError):
            translate(path.removeprefix("/"))
            turn += turn % 2 != (bare != pattern)
            yield _Rule(turn, "/" not in path, path != bare, path.removeprefix("/"))


def _trimmed(line: str) -> str:
    """Spaces at the end do not count, unless a backslash is before them."""
    bare = line.rstrip(" ")
    slashes = len(bare) - len(bare.rstrip("\\"))
    return line[: len(bare) + 1] if slashes % 2 else bare
