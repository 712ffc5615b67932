"""The inline markup of reStructuredText as Markdown."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from rowen.model.text import spend

__all__ = ["RstNames", "inline"]

_INLINE = re.compile(
    r"``(?P<literal>(?!``(?!`))(?:[^`]|`(?!`)){0,2000}+`{0,60}?)``(?!`)"
    r"|(?P<before>:[\w:+.-]{1,60}:)`(?P<interpreted>[^`]{1,2000})`"
    r"|`(?P<reference>[^`]{1,2000})`__?"
    r"|`(?P<bare>[^`]{1,2000})`(?P<after>:[\w:+.-]{1,60}:)?"
    r"|\|(?P<substitution>[^|\s][^|]{0,200})\|_{0,2}"
    r"|\[(?P<note>\#?[\w.-]{0,60}|\*)\]_"
    r"|(?<![\w.-])(?P<word>\w[\w.-]{0,60})__?(?![\w-])"
    r"|\\(?P<escaped>.)"
)
_TARGET = re.compile(r"(.*)<([^<>]+)>$", re.DOTALL)
_PROSE_ROLES = (
    "ref doc term numref any download emphasis strong sub subscript sup superscript title title-reference t abbr"
    " guilabel menuselection dfn index keyword issue user pr gh bpo manpage mailheader newsgroup"
)
_PROSE = frozenset(_PROSE_ROLES.split())
_NUMBERED_ROLES = {"pep": "PEP ", "rfc": "RFC ", "cve": "CVE-", "cwe": "CWE-"}


@dataclass(slots=True)
class RstNames:
    """What a document defines somewhere, for use anywhere in it."""

    links: dict[str, str] = field(default_factory=dict)
    substitutions: dict[str, str] = field(default_factory=dict)


def inline(text: str, names: RstNames) -> str:
    """One paragraph, on one line, with its links, code and roles as Markdown."""
    return _INLINE.sub(lambda match: _replaced(match, names), " ".join(text.split()))


def _replaced(match: re.Match[str], names: RstNames) -> str:
    part: Mapping[str, str | None] = match.groupdict()
    if part["literal"]:
        return _code(part["literal"])
    if part["interpreted"]:
        return _role(part["before"] or "", part["interpreted"])
    if part["reference"]:
        return _reference(part["reference"], names)
    if part["bare"]:
        return _role(part["after"] or "", part["bare"]) if part["after"] else part["bare"]
    if part["substitution"]:
        return _spent(names.substitutions.get(part["substitution"].lower(), match[0]))
    if part["note"]:
        return f"[{part['note'].lstrip('#')}]"
    if part["word"]:
        return _reference(part["word"], names) if part["word"].lower() in names.links else match[0]
    return (part["escaped"] or "").strip()


def _code(words: str) -> str:
    return f"`` {words} ``" if "`" in words else f"`{words}`"


def _reference(words: str, names: RstNames) -> str:
    if found := _TARGET.match(words):
        label, target = found[1].rstrip() or found[2], found[2]
        names.links.setdefault(label.lower(), target)
        target = names.links.get(target.rstrip("_").lower(), target)
        return f"[{label}]({_spent(target)})" if not target.endswith("_") else label
    target = names.links.get(words.lower(), "")
    return f"[{words}]({_spent(target)})" if target else words


def _spent(words: str) -> str:
    """What was written once and is used again."""
    spend(len(words))
    return words


def _role(role: str, words: str) -> str:
    name = role.strip(":").rpartition(":")[2].lower()
    if found := _TARGET.match(words):
        words = found[1].rstrip() or found[2]
    elif words.startswith("~"):
        words = words.rpartition(".")[2].removeprefix("~")
    words = words.removeprefix("!")
    if name in _NUMBERED_ROLES:
        return _NUMBERED_ROLES[name] + words
    return words if name in _PROSE else _code(words)
