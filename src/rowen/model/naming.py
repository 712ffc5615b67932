"""The rule for names that people give: to sources, receivers and searches.

A name is part of addresses, of lines in a terminal and of files. It may have nothing that ends one of them, that is not
seen, or that changes how the rest is read.
"""

from rowen.errors import UsageError

__all__ = ["LONGEST_NAME", "check_name", "trouble_with_name"]

LONGEST_NAME = 100
"""Letters of a name: a line of a terminal has room for it, and for what is said about it."""


def trouble_with_name(name: str) -> str | None:
    """Why this cannot be a name; None if it can."""
    if not name or len(name) > LONGEST_NAME:
        return f"a name has 1 to {LONGEST_NAME} letters"
    if "/" in name or "\\" in name:
        return "it has a slash, which no address of it could hold"
    if not name.isprintable():
        return "it has a line break, a control or another letter that is not shown"
    if name in (".", "..") or name[0] in " :~" or name[-1] == " ":
        return "it begins with a space, a colon or a tilde, ends with a space, or is a dot"
    return None


def check_name(name: str, of: str) -> None:
    """Raise `UsageError` for what cannot be a name; `of` says what it is for, such as `a source`."""
    if trouble := trouble_with_name(name):
        raise UsageError(f"{name[: 2 * LONGEST_NAME]!r} cannot be the name of {of}: {trouble}. Nothing was changed.")
