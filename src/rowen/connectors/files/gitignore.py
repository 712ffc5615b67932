"""What git leaves out: the rules of `.gitignore` files, and which of them decides.

Rules apply from the repository's top down, the last one that matches wins, and below a folder that is left out
nothing is taken in again: the walk does not enter it. Files that git tracks although a rule names them are left
out as well, since the index is not read.
"""

# ruff: noqa: PTH113, PTH120, PTH123 -- the walk's paths are strings

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby
from typing import NamedTuple, TypeAlias

from rowen.connectors.files.globs import translate

__all__ = ["Chain", "Rules", "ignored", "rules_above", "rules_of"]

_MOST_BYTES = 1 << 20
_NOTHING = re.compile("(?!)")


class _Rule(NamedTuple):
    takes_out: bool
    anywhere: bool
    folders_only: bool
    expression: str


class Rules:
    """The rules of one file."""

    def __init__(self, text: str) -> None:
        rules = [rule for line in text.removeprefix("\ufeff").split("\n") if (rule := _rule(line))]
        self._of_files = _Decision([rule for rule in rules if not rule.folders_only])
        self._of_folders = _Decision(rules)

    def verdict(self, path: str, *, folder: bool) -> bool | None:
        """Whether a path, relative to the rules' own folder, is left out; None if no rule speaks of it."""
        return (self._of_folders if folder else self._of_files).of(path)


Chain: TypeAlias = tuple[tuple[int, Rules], ...]
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
        with open(prefix + name, "rb") as file:
            return ((len(prefix), Rules(os.fsdecode(file.read(_MOST_BYTES)))),)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return ()


class _Decision:
    """Many rules in one expression: the last one comes first, and its group tells what it decides."""

    def __init__(self, rules: Sequence[_Rule]) -> None:
        runs = [list(run) for _, run in groupby(reversed(rules), key=lambda rule: rule[:2])]
        self._takes_out = [run[0].takes_out for run in runs]
        self._expression = re.compile("(?s:" + "|".join(map(_run, runs)) + ")") if runs else _NOTHING

    def of(self, path: str) -> bool | None:
        match = self._expression.fullmatch(path)
        return self._takes_out[match.lastindex - 1] if match and match.lastindex else None


def _run(rules: Sequence[_Rule]) -> str:
    anywhere = "(?>(?:.*/)?)" if rules[0].anywhere else ""
    return f"({anywhere}(?:{'|'.join(rule.expression for rule in rules)}))"


def _rule(line: str) -> _Rule | None:
    line = _trimmed(line.removesuffix("\r"))
    if not line or line.startswith("#"):
        return None
    pattern = line.removeprefix("!")
    path = pattern.removesuffix("/")
    with suppress(ValueError):
        expression = translate(path.removeprefix("/"))
        return _Rule(pattern == line, "/" not in path, path != pattern, expression)
    return None


def _trimmed(line: str) -> str:
    """Spaces at the end do not count, unless a backslash is before them."""
    bare = line.rstrip(" ")
    slashes = len(bare) - len(bare.rstrip("\\"))
    return line[: len(bare) + 1] if slashes % 2 else bare
