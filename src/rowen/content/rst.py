"""reStructuredText becomes Markdown: sections, lists, tables, code and directives, as far as a reader needs them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rowen.content.base import Part
from rowen.content.code import fenced
from rowen.content.data import markdown_table
from rowen.content.markdown import first_heading
from rowen.model.text import spend

__all__ = ["inline", "read_rst"]

# Each level is a call within a call; what lies deeper is kept as it is, in a fence.
_DEEPEST = 16
_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1{2,}$")
_EXPLICIT = re.compile(r"\.\.(?:\s+|$)")
_DIRECTIVE = re.compile(
    r"\.\.\s++(?:\|(?P<substitution>[^|]++)\|\s++)?(?P<name>[\w:+.-]+?)\s?::(?:\s++(?P<argument>.*))?$"
)
_TARGET = re.compile(r"\.\.\s++_(?P<name>`[^`]++`|(?:\\:|[^:])+):(?:\s++(?P<url>\S.*))?$")
_FOOTNOTE = re.compile(r"\.\.\s+\[(?P<name>[^\]]+)\]\s*+(?P<text>.*)$")
_OPTION = re.compile(r":([\w-]+):(?:\s+(.*))?$")
_FIELD = re.compile(r":([^:`\s][^:`]*):(?:\s+(.*)|$)")
_ITEM = re.compile(r"([-*+•]|\(?(?:\d{1,9}|[a-zA-Z]|#|[ivxlcIVXLC]+)[.)])(\s+|$)")
_SIMPLE_BORDER = re.compile(r"=+(?:\s+=+)+\s*$")
_GRID_BORDER = re.compile(r"\+(?:[-=]+\+)+\s*$")
_DIRECTIVES = {
    name: kind
    for kind, names in {
        "code": "code code-block sourcecode parsed-literal literalinclude prompt ipython doctest testcode testoutput"
        " productionlist math graphviz mermaid digraph jupyter-execute",
        "callout": "note warning tip hint caution danger important attention error seealso versionadded versionchanged"
        " deprecated versionremoved deprecated-removed todo",
        "box": "admonition topic sidebar rubric",
        "picture": "image figure",
        "silent": "toctree contents index highlight currentmodule raw include meta role default-role default-domain"
        " sectionauthor codeauthor tabularcolumns testsetup testcleanup program sectnum target-notes title header",
        "container": "list-table csv-table table container only rst-class cssclass tab tabs tab-set tab-item grid"
        " grid-item dropdown centered compound epigraph highlights pull-quote",
    }.items()
    for name in names.split()
}
_CALLOUT_WORDS = {
    "versionadded": "New in version",
    "versionchanged": "Changed in version",
    "deprecated": "Deprecated since version",
    "deprecated-removed": "Deprecated since version",
    "versionremoved": "Removed in version",
    "seealso": "See also",
}
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
_LINK_TARGET = re.compile(r"(.*)<([^<>]+)>$", re.DOTALL)
_PROSE_ROLES = (
    "ref doc term numref any download emphasis strong sub subscript sup superscript title title-reference t abbr"
    " guilabel menuselection dfn index keyword issue user pr gh bpo manpage mailheader newsgroup"
)
_PROSE = frozenset(_PROSE_ROLES.split())
_NUMBERED_ROLES = {"pep": "PEP ", "rfc": "RFC ", "cve": "CVE-", "cwe": "CWE-"}


def read_rst(text: str) -> Part:
    """Sections become headings, so that passages know where they stand."""
    lines = [line.rstrip() for line in text.expandtabs(8).split("\n")]
    names = _names(lines)
    markdown = _Converter(names, [], 0).convert(lines)
    return Part(markdown, title=first_heading(markdown))


@dataclass(slots=True)
class RstNames:
    """What a document defines somewhere, for use anywhere in it."""

    links: dict[str, str] = field(default_factory=dict)
    substitutions: dict[str, str] = field(default_factory=dict)


def _names(lines: list[str]) -> RstNames:
    """Link targets and replacements, which may be used before they are defined."""
    names = RstNames()
    for line in lines:
        if not line.startswith(".. "):
            continue
        if (found := _TARGET.match(line)) and found["url"]:
            names.links[found["name"].strip("`").lower()] = found["url"].strip("`<>")
        elif (found := _DIRECTIVE.match(line)) and found["substitution"] and found["name"] == "replace":
            names.substitutions[found["substitution"].lower()] = found["argument"] or ""
    return names


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _dedented(lines: list[str]) -> list[str]:
    margin = min((_indent(line) for line in lines if line), default=0)
    return [line[margin:] for line in lines]


class _Converter:
    """Reads lines from the top; each reader of `_READERS` takes what it knows and says where to go on."""

    def __init__(self, names: RstNames, adornments: list[str], depth: int) -> None:
        self.names = names
        self.adornments = adornments
        self.depth = depth
        self.lines: list[str] = []
        self.blocks: list[str] = []

    def convert(self, lines: list[str]) -> str:
        self.lines = lines
        at = 0
        while at < len(lines):
            if not lines[at]:
                at += 1
                continue
            at = next(after for reader in _READERS if (after := reader(self, at)) is not None)
        return "\n\n".join(block for block in self.blocks if block)

    def nested(self, lines: list[str]) -> str:
        """What stands inside a directive, an item or a quote."""
        lines = _dedented(lines)
        if self.depth >= _DEEPEST:
            return fenced("\n".join(lines), "")
        return _Converter(self.names, self.adornments, self.depth + 1).convert(lines)

    def line(self, at: int) -> str:
        return self.lines[at] if at < len(self.lines) else ""

    def inside(self, at: int, margin: int = 1) -> tuple[list[str], int]:
        """Return the lines from `at` on that are blank or at least as far to the right as `margin`."""
        end = at
        while end < len(self.lines) and (not self.lines[end] or _indent(self.lines[end]) >= margin):
            end += 1
        last = end
        while last > at and not self.lines[last - 1]:
            last -= 1
        return self.lines[at:last], end

    def section(self, at: int) -> int | None:
        first, second, third = self.line(at), self.line(at + 1), self.line(at + 2)
        if _ADORNMENT.match(first) and second and first == third:
            return self.heading(second.strip(), first[0] * 2, at + 3)
        underlined = first[0] != " " and _ADORNMENT.match(second) and len(second) >= min(4, len(first))
        if underlined and not _ADORNMENT.match(first) and not _EXPLICIT.match(first):
            return self.heading(first, second[0], at + 2)
        return at + 1 if _ADORNMENT.match(first) and not second else None

    def heading(self, title: str, adornment: str, after: int) -> int:
        if adornment not in self.adornments:
            self.adornments.append(adornment)
        level = min(6, self.adornments.index(adornment) + 1)
        self.blocks.append(f"{'#' * level} {inline(title, self.names)}")
        return after

    def explicit(self, at: int) -> int | None:
        line = self.line(at)
        if not _EXPLICIT.match(line):
            return at + 1 if line.startswith("__ ") else None
        body, after = self.inside(at + 1)
        if found := _DIRECTIVE.match(line):
            if not found["substitution"]:
                self.directive(found["name"].lower(), found["argument"] or "", body)
        elif found := _FOOTNOTE.match(line):
            text = " ".join([found["text"], *body])
            self.blocks.append(f"[{found['name'].lstrip('#')}] {inline(text, self.names)}")
        return after

    def directive(self, name: str, argument: str, body: list[str]) -> None:
        body, options = _without_options(_dedented(body))
        short = name.rpartition(":")[2]
        match _DIRECTIVES.get(short):
            case "silent":
                pass
            case "code":
                self.code(short, argument, body)
            case "callout":
                self.callout(short, argument, body)
            case "box":
                self.blocks += [f"**{inline(argument, self.names)}**" if argument else "", self.nested(body)]
            case "picture":
                self.blocks += [inline(options.get("alt", ""), self.names), self.nested(body)]
            case "container":
                self.blocks += [inline(argument, self.names), self.nested(body)]
            case _:
                self.blocks += [f"`{argument.replace('`', '')}`" if argument else "", self.nested(body)]

    def code(self, name: str, argument: str, body: list[str]) -> None:
        language = argument.split(" ")[0] if name in ("code", "code-block", "sourcecode", "prompt") else ""
        if name in ("math", "mermaid"):
            language, body = name, [argument, *body] if argument else body
        if source := "\n".join(body).strip("\n"):
            self.blocks.append(fenced(source, re.sub(r"[^\w+#.-]", "", language)))

    def callout(self, name: str, argument: str, body: list[str]) -> None:
        head = _CALLOUT_WORDS.get(name, name.capitalize())
        if head.endswith("version"):
            version, _, argument = argument.partition(" ")
            head = f"{head} {version}"
        joined = [argument, *body] if argument and body and body[0] else [argument, "", *body] if argument else body
        content = self.nested(joined)
        opens_block = content.startswith(("```", "- ", "* ", "|", "#"))
        self.blocks.append((f"**{head}:**" + ("\n\n" if opens_block else " ") + content).rstrip())

    def table(self, at: int) -> int | None:
        line = self.line(at)
        end = at
        if _GRID_BORDER.match(line):
            while self.line(end)[:1] in ("+", "|"):
                end += 1
            rows = _grid_rows(self.lines[at:end])
        elif _SIMPLE_BORDER.match(line):
            end = self.end_of_simple_table(at)
            rows = _simple_rows(self.lines[at:end])
        else:
            return None
        if rows:
            self.blocks.append(markdown_table([[inline(cell, self.names) for cell in row] for row in rows]))
        return max(end, at + 1)

    def end_of_simple_table(self, at: int) -> int:
        borders = 0
        for end in range(at, len(self.lines)):
            borders += self.lines[end].startswith("==") and _SIMPLE_BORDER.match(self.lines[end]) is not None
            if borders >= 2 and not self.line(end + 1):
                return end + 1
        return len(self.lines)

    def doctest(self, at: int) -> int | None:
        if not self.line(at).startswith(">>> "):
            return None
        end = at
        while self.line(end):
            end += 1
        self.blocks.append(fenced("\n".join(self.lines[at:end]), "pycon"))
        return end

    def items(self, at: int) -> int | None:
        """Return a run of list items or fields."""
        found: list[str] = []
        while mark := _ITEM.match(self.line(at)) or _FIELD.match(self.line(at)):
            is_field = mark.re is _FIELD
            rest = (mark[2] or "") if is_field else self.line(at)[mark.end() :]
            body, after = self.inside(at + 1, 1 if is_field else 2)
            content = self.nested([*([rest] if rest else []), *_dedented(body)])
            label = "- " if is_field else _marker(mark[1])
            content = f"**{mark[1]}:** {content}".strip() if is_field else content
            found.append(
                label + content.replace("\n", "\n" + " " * len(label)).replace("\n" + " " * len(label) + "\n", "\n\n")
            )
            at = after
        if not found:
            return None
        self.blocks.append("\n".join(found))
        return at

    def quote(self, at: int) -> int | None:
        if not _indent(self.line(at)):
            return None
        body, after = self.inside(at)
        self.blocks.append(self.nested(body))
        return after

    def paragraph(self, at: int) -> int:
        end = at + 1
        while self.line(end) and not _indent(self.line(end)):
            end += 1
        text = "\n".join(line.removeprefix("| ") for line in self.lines[at:end])
        literal = text.endswith("::")
        if literal:
            text = text[:-2].rstrip() + (":" if not text[:-2].endswith((" ", "\n")) else "")
        text = inline(text, self.names)
        self.blocks.append("\\" + text if text.startswith("#") else text.removeprefix(":") if literal else text)
        return self.literal(end) if literal else end

    def literal(self, at: int) -> int:
        body, after = self.inside(at)
        if source := "\n".join(_dedented(body)).strip("\n"):
            self.blocks.append(fenced(source, ""))
        return after


_READERS: tuple[Callable[[_Converter, int], int | None], ...] = (
    _Converter.section,
    _Converter.explicit,
    _Converter.table,
    _Converter.doctest,
    _Converter.items,
    _Converter.quote,
    _Converter.paragraph,
)


def _marker(mark: str) -> str:
    if mark in "-*+•":
        return "- "
    number = mark.strip("().")
    return f"{number}. " if number.isdigit() else "1. " if number == "#" else "- "


def _without_options(body: list[str]) -> tuple[list[str], dict[str, str]]:
    options = {}
    at = 0
    while at < len(body) and (found := _OPTION.match(body[at])):
        options[found[1]] = found[2] or ""
        at += 1
    return body[at:], options


def _simple_rows(lines: list[str]) -> list[list[str]]:
    edges = [match.start() for match in re.finditer(r"=+", lines[0])]
    rows: list[list[str]] = []
    for line in lines[1:]:
        if not line or _SIMPLE_BORDER.match(line) or not line.strip("-= "):
            continue
        cells = [line[a:b].strip() for a, b in zip(edges, [*edges[1:], None], strict=True)]
        if cells[0] or not rows:
            rows.append(cells)
        else:
            rows[-1] = [f"{above} {below}".strip() for above, below in zip(rows[-1], cells, strict=True)]
    return rows


def _grid_rows(lines: list[str]) -> list[list[str]]:
    rows: list[list[str]] = []
    fresh = True
    for line in lines:
        if line.startswith("+"):
            fresh = True
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if fresh or len(cells) != len(rows[-1]):
            rows.append(cells)
        else:
            rows[-1] = [f"{above} {below}".strip() for above, below in zip(rows[-1], cells, strict=True)]
        fresh = False
    return rows


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
    if found := _LINK_TARGET.match(words):
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
    if found := _LINK_TARGET.match(words):
        words = found[1].rstrip() or found[2]
    elif words.startswith("~"):
        words = words.rpartition(".")[2].removeprefix("~")
    words = words.removeprefix("!")
    if name in _NUMBERED_ROLES:
        return _NUMBERED_ROLES[name] + words
    return words if name in _PROSE else _code(words)
