"""The words of a Markdown passage: what a reader sees, without addresses and markup.

Used wherever a passage is compared, embedded or shown by what it says. It looks at marks, not at grammar: what may be a
mark or a word stays. Each pass takes linear time.
"""

import re
from collections import defaultdict
from itertools import pairwise

__all__ = ["words_of"]

# Markup in markup comes to an end after two or three passes. A text that still changes was made for it, and then its
# marks go without asking what they mean.
_MOST_PASSES = 4

_MARKED = re.compile(r"[\\`*_\[\]<|#~]|^[ \t]*+(?:>|-[ \t:|]*+-|={2})", re.MULTILINE)
_CODE_MARKED = re.compile(r"[\\`*\[\]<|~]|(?<![a-zA-Z0-9])_|_(?![a-zA-Z0-9])|^[ \t]*+(?:[#>]|[-=]{2})", re.MULTILINE)
_INLINE_MARKED = re.compile(r"[\\`*_\[<~]")
_BARE = str.maketrans(dict.fromkeys("\\`*_[]<>|#~", " "))

_FENCE = re.compile(r"[ \t]*+(`{3,}+(?=[^`]*+$)|~{3,}+)")
_INDENTED = re.compile(r"(?: {4}|\t)[ \t]*+\S")
_LIST_ITEM = re.compile(r"[ \t]*+(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_RULE = re.compile(r"[ \t]*+(?:=={1,}+[ \t]*+|(?=[ \t:|]*+-)(?![ \t]*+-[ \t]*+$)[ \t:|-]++|[* \t]{3,}+|[_ \t]{3,}+)$")
_DEFINITION = re.compile(
    r"[ ]{0,3}\[(?!\^)[^\[\]]{1,999}+\]:[ \t]*+(?=[^\s/.#:<]{0,999}+[/.#:<])\S++"
    r"(?:[ \t]++(?:\"[^\"]*+\"|'[^']*+'|\([^()]*+\)))?[ \t]*+$"
)
_QUOTE = re.compile(r"[ ]{0,3}(?:>(?:[ \t]|$))++")
_HEADING = re.compile(r"[ ]{0,3}\#{1,6}(?:[ \t]++|$)")
_HEADING_END = re.compile(r"(?:(?<![ \t])[ \t]++|^)\#++[ \t]*+$")
_HEADING_ANCHOR = re.compile(r"(?<![ \t])[ \t]*+\{\#[^\s{}]++(?: [^{}]*+)?\}[ \t]*+$")
_CELL = re.compile(r"(?<!\\)\|")

_INLINE = re.compile(
    r"(?P<ticks>`++)"
    r"|\\(?P<escaped>[!-/:-@\[-`{-~])"
    r"|(?P<opens>!?\[)"
    r"|(?P<target>\]\(\s*+(?:<[^<>\n]*+>|(?:[^()\s\\]++|\\.|\([^()\s]*+\))*+)(?:\s++(?:\"[^\"]*+\"|'[^']*+'))?\s*+\))"
    r"|(?P<reference>\]\[[^\[\]\n]*+\])"
    r"|(?P<closes>\])"
    r"|<(?P<address>(?:https?://|mailto:)[^\s<>]++)>"
    r"|(?P<tag></?(?P<name>[a-zA-Z][a-zA-Z0-9]{0,15})(?=[\s/>])(?:[^<>\"']++|\"[^\"<>]*+\"|'[^'<>]*+')*+>)"
    r"|(?P<comment><!--)"
    r"|(?P<run>\*{1,3}|_{1,3}|~~)"
)
# An escape that is undone may become a mark of the next pass. These would take words away with it.
_STAYS_ESCAPED = frozenset("[]<`\\")
_INSIDE_WORDS = re.compile(
    r"a|abbr|b|bdi|bdo|big|cite|code|del|dfn|em|font|i|ins|kbd|label|mark|q|s|samp|small|span|strike|strong|sub|sup|tt|u"
    r"|var|wbr",
    re.IGNORECASE,
)
_BETWEEN_WORDS = re.compile(
    r"address|article|aside|audio|base|blockquote|body|br|button|canvas|caption|center|col|colgroup|dd|details|dialog"
    r"|div|dl|dt|embed|fieldset|figcaption|figure|footer|form|h[1-6]|head|header|hr|html|iframe|img|input|legend|li|link"
    r"|main|map|meta|nav|noscript|object|ol|optgroup|option|p|param|picture|pre|progress|section|select|source|summary"
    r"|svg|table|tbody|td|template|textarea|tfoot|th|thead|tr|track|ul|video",
    re.IGNORECASE,
)


def words_of(markdown: str) -> str:
    """A passage without link addresses, definitions, tags and marks; the text of code stays as it is.

    The words of words are the same. Code that looks like markup keeps its backticks or its fence.
    """
    text = markdown
    for _ in range(_MOST_PASSES):
        before, text = text, _pass(text)
        if text == before:
            return text
    return _pass(text.translate(_BARE))


def _pass(text: str) -> str:
    """The text with one layer of markup less."""
    return _Lines(text).words() if _MARKED.search(text) else text.strip("\n")


class _Lines:
    """Reads line by line, and each paragraph as a whole when it ends."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.last_comment_end = max((at for at, line in enumerate(self.lines) if "-->" in line), default=-1)
        self.out: list[str] = []
        self.paragraph: list[str] = []
        self.fenced: list[str] = []
        self.fence = ""
        self.in_comment = self.in_list = self.in_code = self.after_blank = False

    def words(self) -> str:
        self.after_blank = True
        for at, line in enumerate(self.lines):
            if self.fence:
                self._inside_fence(line)
            elif self.in_comment:
                self.in_comment = "-->" not in line
            elif not line.strip():
                self._blank(line)
            else:
                self._line(line, at)
                self.after_blank = False
        if self.fence:
            self._end_fence([])
        self._end_paragraph()
        return "\n".join(self.out).strip("\n")

    def _blank(self, line: str) -> None:
        vanished = bool(self.paragraph)
        count = len(self.out)
        self._end_paragraph()
        vanished = vanished and count == len(self.out)
        self.after_blank = True
        if not (vanished and (not self.out or not self.out[-1].strip())):
            self.out.append(line)

    def _line(self, line: str, at: int) -> None:
        if _INDENTED.match(line) and not self.in_list and (self.in_code or self.after_blank):
            self.in_code = True
            self.out.append(line)
            return
        self.in_code = False
        if found := _FENCE.match(line):
            self._end_paragraph()
            self.fence, self.fenced = found[1], [line]
        elif line.lstrip().startswith("<!--") and "-->" not in line and at < self.last_comment_end:
            self.in_comment = True
        elif _RULE.match(line) or _DEFINITION.match(line):
            self._vanish()
        else:
            self._prose(line)

    def _prose(self, line: str) -> None:
        if self.after_blank:
            self.in_list = self.in_list and line[:1] in " \t"
        self.in_list = self.in_list or _LIST_ITEM.match(line) is not None
        if found := _QUOTE.match(line):
            line = line[found.end() :]
        if found := _HEADING.match(line):
            line = _HEADING_END.sub("", _HEADING_ANCHOR.sub("", line[found.end() :]))
        body = line.strip()
        if len(body) > 1 and body[0] == "|" == body[-1]:
            line = "  ".join(cell for part in _CELL.split(body) if (cell := part.strip()))
        self.paragraph.append(line)

    def _vanish(self) -> None:
        """Leave a mark in the paragraph that nothing is made of."""
        self.paragraph.append("")

    def _inside_fence(self, line: str) -> None:
        body = line.strip()
        if body.startswith(self.fence) and not body.strip(self.fence[0]):
            self._end_fence([line])
        else:
            self.fenced.append(line)

    def _end_fence(self, closing: list[str]) -> None:
        """Code that would be read in the same way without its fence needs none."""
        code = "\n".join(self.fenced[1:])
        plain = "```" not in code and "~~~" not in code and _pass(code) == code
        self.out += self.fenced[1:] if plain else [*self.fenced, *closing]
        self.fence, self.fenced = "", []
        self.after_blank = False

    def _end_paragraph(self) -> None:
        text = "\n".join(self.paragraph)
        self.paragraph = []
        if _INLINE_MARKED.search(text):
            text = _Inline(text).words()
        self.out += [line.rstrip() for line in text.split("\n") if line.strip()]


class _Inline:
    """The marks within one paragraph."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.out: list[str] = []
        self.brackets: list[int] = []
        self.runs: dict[str, list[int]] = defaultdict(list)
        self.comment_end = text.rfind("-->")
        self.code_ends = _code_ends(text)

    def words(self) -> str:
        at = 0
        while found := _INLINE.search(self.text, at):
            self.out.append(self.text[at : found.start()])
            at = self._take(found)
        self.out.append(self.text[at:])
        return "".join(self.out)

    def _take(self, found: re.Match[str]) -> int:
        """Write what a mark stands for; returns where to go on."""
        match found.lastgroup:
            case "ticks":
                return self._code(found)
            case "comment":
                return self._comment(found)
            case "opens":
                self.brackets.append(len(self.out))
                self.out.append(found[0])
            case "target" | "reference" | "closes":
                self._close(found)
            case "run":
                self._emphasis(found)
            case "escaped":
                self.out.append(found[0] if found["escaped"] in _STAYS_ESCAPED else found["escaped"])
            case "address":
                self.out.append(found["address"])
            case _:
                self.out.append(_in_place_of(found["name"], found[0]))
        return found.end()

    def _code(self, found: re.Match[str]) -> int:
        start, end = found.end(), self.code_ends.get(found.start())
        if end is None:
            self.out.append(found[0])
            return start
        code = self.text[start:end]
        self.out.append(found[0] + code + found[0] if _CODE_MARKED.search(code) else code.strip(" "))
        return end + len(found[0])

    def _comment(self, found: re.Match[str]) -> int:
        if found.end() > self.comment_end:
            self.out.append(found[0])
            return found.end()
        return self.text.index("-->", found.end()) + 3

    def _close(self, found: re.Match[str]) -> None:
        opened = self.brackets.pop() if self.brackets else None
        kind = found.lastgroup
        # `a[0][1]` is no link, whatever Markdown says.
        subscript = kind == "reference" and opened is not None and self.out[opened - 1][-1:].isalnum()
        if opened is None or kind == "closes" or subscript:
            self.out.append(found[0])
        else:
            self.out[opened] = ""

    def _emphasis(self, found: re.Match[str]) -> None:
        run = found[0]
        before = self.text[found.start() - 1] if found.start() else ""
        after = self.text[found.end() : found.end() + 1]
        if before.strip() and not _joins(run, after) and self.runs[run]:
            self.out[self.runs[run].pop()] = ""
            return
        if after.strip() and not _joins(run, before):
            self.runs[run].append(len(self.out))
        self.out.append(run)


def _joins(run: str, letter: str) -> bool:
    """Whether a run beside this letter belongs to a word or a sum, and marks nothing."""
    return letter.isalnum() and (run[0] == "_" or letter.isascii())


def _in_place_of(name: str, tag: str) -> str:
    if _INSIDE_WORDS.fullmatch(name):
        return ""
    return " " if _BETWEEN_WORDS.fullmatch(name) else tag


def _code_ends(text: str) -> dict[int, int]:
    """Where the code ends that a run of backticks begins: at the next run of the same length."""
    runs: dict[int, list[int]] = defaultdict(list)
    for found in re.finditer("`++", text):
        runs[found.end() - found.start()].append(found.start())
    return {start: end for starts in runs.values() for start, end in pairwise(starts)}
