"""Patterns for paths, in the language of `.gitignore`, as regular expressions.

A star that is not the last one may stop at the first place where what follows it fits: all else in the language is
of fixed length, so a later place would serve no better. Atomic groups say so to `re`, and no pattern, however
hostile, takes exponential time.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

__all__ = ["any_of", "translate"]

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


def translate(pattern: str) -> str:
    """The regular expression of a pattern, to be matched in full against a path without a leading slash.

    Raises `ValueError` for what matches nothing: a class that is not closed, a backslash at the end.
    """
    first, *others = _blocks(pattern)
    if not others:
        return _path(first)
    expression = _path(first) + "/" if first else ""
    for block in others[:-1]:
        if block:
            expression += f"(?>(?:[^/]+/)*?{_path(block)}/)"
    return expression + (f"(?:[^/]+/)*?{_path(others[-1])}" if others[-1] else ".+")


def any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    """One expression that matches in full the paths that any of the patterns names, and all that is below them.

    As in `.gitignore`: a pattern without a slash names files and folders anywhere, another one paths from the root.
    """
    return re.compile("(?s:" + "|".join(map(_with_all_below, patterns)) + ")")


def _with_all_below(pattern: str) -> str:
    path = pattern.removesuffix("/")
    below = "(?:/.*)?" if path == pattern else "/.*"
    anywhere = "" if "/" in path else "(?:.*/)?"
    if not path.strip("/"):
        raise ValueError(f"the pattern {pattern!r} matches nothing")
    return anywhere + translate(path.removeprefix("/")) + below


def _blocks(pattern: str) -> list[list[list[str]]]:
    """The components of a pattern, cut where one of them is `**`."""
    blocks: list[list[list[str]]] = [[]]
    for component in _cut(list(_atoms(pattern)), _SLASH):
        if component == [_STAR_STAR]:
            blocks.append([])
        else:
            blocks[-1].append(component)
    return blocks


def _path(components: Iterable[Sequence[str]]) -> str:
    return "/".join(map(_component, components))


def _component(atoms: Sequence[str]) -> str:
    """Between two slashes, `**` is a star like any other."""
    first, *others = _cut([_STAR if atom == _STAR_STAR else atom for atom in atoms], _STAR)
    expression = "".join(first)
    for part in others[:-1]:
        expression += f"(?>[^/]*?{''.join(part)})"
    return expression + "[^/]*" + "".join(others[-1]) if others else expression


def _cut(atoms: Iterable[str], at: str) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for atom in atoms:
        if atom == at:
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
    """One character that may be escaped, and where the next one is."""
    if pattern[at : at + 1] == "\\":
        at += 1
    if at >= len(pattern):
        raise ValueError(f"the pattern {pattern!r} ends too early")
    return pattern[at], at + 1


def _class(pattern: str, at: int) -> tuple[str, int]:
    """A class such as `[a-z]`, read from behind its bracket: its expression, and where the next atom is."""
    negated = pattern[at : at + 1] in ("!", "^")
    start = at = at + negated
    members = ""
    while at == start or pattern[at : at + 1] != "]":
        if pattern.startswith("[:", at) and (name := _CLASS_NAME.match(pattern, at)):
            members += _named(name[1])
            at = name.end()
        else:
            member, at = _range(pattern, at)
            members += member
    if negated:
        return f"[^/{members}]", at + 1
    return f"(?!/)[{members}]" if members else "(?!)", at + 1


def _range(pattern: str, at: int) -> tuple[str, int]:
    low, at = _character(pattern, at)
    high = low
    if pattern[at : at + 1] == "-" and pattern[at + 1 : at + 2] not in ("", "]"):
        high, at = _character(pattern, at + 1)
    if low > high:
        return "", at
    return (re.escape(low) if low == high else f"{re.escape(low)}-{re.escape(high)}"), at


def _named(name: str) -> str:
    if name not in _NAMED:
        raise ValueError(f"there is no character class {name!r}")
    return _NAMED[name]
