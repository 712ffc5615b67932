"""Converts reStructuredText to Markdown: sections, lists, tables, code and the common directives."""

import re
from collections.abc import Callable

from rowen.content.base import Part
from rowen.content.code import fenced
from rowen.content.data import markdown_table
from rowen.content.markdown import first_heading
from rowen.model.text import spend

# Each level is a nested call; deeper content is kept unchanged, in a fence.
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
    """Read a file; sections become headings, so that its passages have a heading path."""
    lines = [line.rstrip() for line in text.expandtabs(8).split("\n")]
    converter = _Converter({}, {}, [], 0)
    converter.define_names(lines)
    markdown = converter.convert(lines)
    return Part(markdown, title=first_heading(markdown))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _dedented(lines: list[str]) -> list[str]:
    margin = min((_indent(line) for line in lines if line), default=0)
    return [line[margin:] for line in lines]


class _Converter:
    """Converts lines from top to bottom; a reader in `_READERS` returns the line after its block, or None.

    Link targets, substitutions and section adornments are shared by the whole document.
    """

    def __init__(self, links: dict[str, str], substitutions: dict[str, str], adornments: list[str], depth: int) -> None:
        self.links = links
        self.substitutions = substitutions
        self.adornments = adornments
        self.depth = depth
        self.lines: list[str] = []
        self.blocks: list[str] = []

    def define_names(self, lines: list[str]) -> None:
        """Collect link targets and substitutions, which may be used before they are defined."""
        for line in lines:
            if not line.startswith(".. "):
                continue
            if (match := _TARGET.match(line)) and match["url"]:
                self.links[match["name"].strip("`").lower()] = match["url"].strip("`<>")
            elif (match := _DIRECTIVE.match(line)) and match["substitution"] and match["name"] == "replace":
                self.substitutions[match["substitution"].lower()] = match["argument"] or ""

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
        """Return the content of a directive, a list item or a quote as Markdown."""
        lines = _dedented(lines)
        if self.depth >= _DEEPEST:
            return fenced("\n".join(lines), "")
        return _Converter(self.links, self.substitutions, self.adornments, self.depth + 1).convert(lines)

    def line(self, at: int) -> str:
        return self.lines[at] if at < len(self.lines) else ""

    def inside(self, at: int, margin: int = 1) -> tuple[list[str], int]:
        """Return the lines from `at` that are blank or indented by `margin` or more, and the position after them."""
        end = at
        while end < len(self.lines) and (not self.lines[end] or _indent(self.lines[end]) >= margin):
            end += 1
        last = end
        while last > at and not self.lines[last - 1]:
            last -= 1
        return self.lines[at:last], end

    def section(self, at: int) -> int | None:
        first, second, third = self.line(at), self.line(at + 1), self.line(at + 2)
        if _ADORNMENT.match(first):
            if not second or first != third:
                return None if second else at + 1
            title, adornment, after = second.strip(), first[0] * 2, at + 3
        elif first[0] != " " and _ADORNMENT.match(second) and len(second) >= min(4, len(first)):
            if _EXPLICIT.match(first):
                return None
            title, adornment, after = first, second[0], at + 2
        else:
            return None
        if adornment not in self.adornments:
            self.adornments.append(adornment)
        level = min(6, self.adornments.index(adornment) + 1)
        self.blocks.append(f"{'#' * level} {self.inline(title)}")
        return after

    def explicit(self, at: int) -> int | None:
        line = self.line(at)
        if not _EXPLICIT.match(line):
            return at + 1 if line.startswith("__ ") else None
        body, after = self.inside(at + 1)
        if match := _DIRECTIVE.match(line):
            if not match["substitution"]:
                self.directive(match["name"].lower().rpartition(":")[2], match["argument"] or "", _dedented(body))
        elif match := _FOOTNOTE.match(line):
            text = " ".join([match["text"], *body])
            self.blocks.append(f"[{match['name'].lstrip('#')}] {self.inline(text)}")
        return after

    def directive(self, name: str, argument: str, body: list[str]) -> None:
        options = {}
        at = 0
        while at < len(body) and (match := _OPTION.match(body[at])):
            options[match[1]] = match[2] or ""
            at += 1
        body = body[at:]
        kind = _DIRECTIVES.get(name)
        match kind:
            case "silent":
                return
            case "code":
                language = argument.split(" ")[0] if name in ("code", "code-block", "sourcecode", "prompt") else ""
                if name in ("math", "mermaid"):
                    language, body = name, [argument, *body] if argument else body
                self.code(body, re.sub(r"[^\w+#.-]", "", language))
                return
            case "callout":
                self.callout(name, argument, body)
                return
            case "box":
                head = f"**{self.inline(argument)}**" if argument else ""
            case "picture" | "container":
                head = self.inline(options.get("alt", "") if kind == "picture" else argument)
            case _:
                head = f"`{argument.replace('`', '')}`" if argument else ""
        self.blocks += [head, self.nested(body)]

    def code(self, lines: list[str], language: str = "") -> None:
        if source := "\n".join(lines).strip("\n"):
            self.blocks.append(fenced(source, language))

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
        elif _SIMPLE_BORDER.match(line):
            borders = 0
            while end < len(self.lines) and (borders < 2 or self.line(end)):
                borders += self.lines[end].startswith("==") and _SIMPLE_BORDER.match(self.lines[end]) is not None
                end += 1
        else:
            return None
        if rows := _table_rows(self.lines[at:end]):
            self.blocks.append(markdown_table([[self.inline(cell) for cell in row] for row in rows]))
        return max(end, at + 1)

    def doctest(self, at: int) -> int | None:
        if not self.line(at).startswith(">>> "):
            return None
        end = at
        while self.line(end):
            end += 1
        self.blocks.append(fenced("\n".join(self.lines[at:end]), "pycon"))
        return end

    def items(self, at: int) -> int | None:
        """Read adjacent list items or fields, and return the position after them; None if there are none."""
        items: list[str] = []
        while mark := _ITEM.match(self.line(at)) or _FIELD.match(self.line(at)):
            is_field = mark.re is _FIELD
            rest = (mark[2] or "") if is_field else self.line(at)[mark.end() :]
            body, at = self.inside(at + 1, 1 if is_field else 2)
            content = self.nested([*([rest] if rest else []), *_dedented(body)])
            content = f"**{mark[1]}:** {content}".strip() if is_field else content
            number = mark[1].strip("().").replace("#", "1")
            label = f"{number}. " if number.isdigit() and not is_field else "- "
            indent = "\n" + " " * len(label)
            items.append(label + content.replace("\n", indent).replace(indent + "\n", "\n\n"))
        if not items:
            return None
        self.blocks.append("\n".join(items))
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
        is_literal = text.endswith("::")
        if is_literal:
            text = text[:-2].rstrip() + (":" if not text[:-2].endswith((" ", "\n")) else "")
        text = self.inline(text)
        self.blocks.append("\\" + text if text.startswith("#") else text.removeprefix(":") if is_literal else text)
        if is_literal:
            body, end = self.inside(end)
            self.code(_dedented(body))
        return end

    def inline(self, text: str) -> str:
        """Return a paragraph on one line, with links, code and roles converted to Markdown."""
        return _INLINE.sub(self.markup, " ".join(text.split()))

    def markup(self, match: re.Match[str]) -> str:
        words: str = match[match.lastgroup or 0]
        match match.lastgroup if words else None:
            case "literal":
                return _code(words)
            case "interpreted":
                return _role(match["before"], words)
            case "after":
                return _role(words, match["bare"])
            case "bare":
                return words
            case "substitution":
                return _spent(self.substitutions.get(words.lower(), match[0]))
            case "note":
                return f"[{words.lstrip('#')}]"
            case "reference":
                return self.reference(words)
            case "word":
                return self.reference(words) if words.lower() in self.links else match[0]
        return words.strip()

    def reference(self, words: str) -> str:
        if match := _LINK_TARGET.match(words):
            label, target = match[1].rstrip() or match[2], match[2]
            self.links.setdefault(label.lower(), target)
            target = self.links.get(target.rstrip("_").lower(), target)
            return f"[{label}]({_spent(target)})" if not target.endswith("_") else label
        target = self.links.get(words.lower(), "")
        return f"[{words}]({_spent(target)})" if target else words


_READERS: tuple[Callable[[_Converter, int], int | None], ...] = (
    _Converter.section,
    _Converter.explicit,
    _Converter.table,
    _Converter.doctest,
    _Converter.items,
    _Converter.quote,
    _Converter.paragraph,
)


def _table_rows(lines: list[str]) -> list[list[str]]:
    """Return the cells of a grid table or a simple table; the lines of a cell are joined."""
    is_grid = lines[0].startswith("+")
    edges = [match.start() for match in re.finditer(r"=+", lines[0])]
    rows: list[list[str]] = []
    is_new = True
    for line in lines:
        if is_grid and line.startswith("+"):
            is_new = True
            continue
        if is_grid:
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            is_new = is_new or len(cells) != len(rows[-1])
        elif not line or _SIMPLE_BORDER.match(line) or not line.strip("-= "):
            continue
        else:
            cells = [line[a:b].strip() for a, b in zip(edges, [*edges[1:], None], strict=True)]
            is_new = bool(cells[0]) or not rows
        if is_new:
            rows.append(cells)
        else:
            rows[-1] = [f"{above} {below}".strip() for above, below in zip(rows[-1], cells, strict=True)]
        is_new = False
    return rows


def _code(words: str) -> str:
    return f"`` {words} ``" if "`" in words else f"`{words}`"


def _spent(words: str) -> str:
    """Return text that is defined once and used repeatedly; each use is counted in the budget."""
    spend(len(words))
    return words


def _role(role: str, words: str) -> str:
    name = role.strip(":").rpartition(":")[2].lower()
    if match := _LINK_TARGET.match(words):
        words = match[1].rstrip() or match[2]
    elif words.startswith("~"):
        words = words.rpartition(".")[2].removeprefix("~")
    words = words.removeprefix("!")
    if name in _NUMBERED_ROLES:
        return _NUMBERED_ROLES[name] + words
    return words if name in _PROSE else _code(words)
