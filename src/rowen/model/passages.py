"""Passages: their words without markup, and the excerpts that a search shows."""

import re
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from rowen.model.hashes import Hash, text_hash
from rowen.model.items import Passage
from rowen.model.search import Hit, Query, pairs, spaced
from rowen.model.text import anchor_within, heading_within

# Nested markup is removed after two or three passes. A text that still changes was constructed to do so; then its marks
# are removed without being interpreted.
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
# An unescaped character may become a mark in the next pass; then words would be removed with these marks.
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
    """Return the words of a passage without link addresses, definitions, tags and Markdown marks, idempotently.

    The text of code stays unchanged. Code that looks like markup keeps its backticks or its fence.
    """
    text = markdown
    for _ in range(_MOST_PASSES):
        before, text = text, _pass(text)
        if text == before:
            return text
    return _pass(text.translate(_BARE))


def _pass(text: str) -> str:
    """Remove one layer of markup from a text."""
    return _Lines(text).words() if _MARKED.search(text) else text.strip("\n")


class _Lines:
    """Processes text line by line; the lines of a paragraph are processed together when the paragraph ends."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.last_comment_end = max((at for at, line in enumerate(self.lines) if "-->" in line), default=-1)
        self.out: list[str] = []
        self.paragraph: list[str] = []
        self.fenced: list[str] = []
        self.fence = ""
        self.in_comment = self.in_list = self.in_code = False
        self.after_blank = True

    def words(self) -> str:
        for at, line in enumerate(self.lines):
            body = line.strip()
            if self.fence:
                if body.startswith(self.fence) and not body.strip(self.fence[0]):
                    self._end_fence([line])
                else:
                    self.fenced.append(line)
            elif self.in_comment:
                self.in_comment = "-->" not in line
            elif not body:
                had_paragraph, count = bool(self.paragraph), len(self.out)
                self._end_paragraph()
                vanished = had_paragraph and count == len(self.out)
                if not (vanished and (not self.out or not self.out[-1].strip())):
                    self.out.append(line)
                self.after_blank = True
            else:
                self._line(line, at)
                self.after_blank = False
        if self.fence:
            self._end_fence([])
        self._end_paragraph()
        return "\n".join(self.out).strip("\n")

    def _line(self, line: str, at: int) -> None:
        if _INDENTED.match(line) and not self.in_list and (self.in_code or self.after_blank):
            self.in_code = True
            self.out.append(line)
            return
        self.in_code = False
        if match := _FENCE.match(line):
            self._end_paragraph()
            self.fence, self.fenced = match[1], [line]
        elif line.lstrip().startswith("<!--") and "-->" not in line and at < self.last_comment_end:
            self.in_comment = True
        elif _RULE.match(line) or _DEFINITION.match(line):
            # The line leaves no words, but it belongs to the paragraph.
            self.paragraph.append("")
        else:
            if self.after_blank:
                self.in_list = self.in_list and line[:1] in " \t"
            self.in_list = self.in_list or _LIST_ITEM.match(line) is not None
            if match := _QUOTE.match(line):
                line = line[match.end() :]
            if match := _HEADING.match(line):
                line = _HEADING_END.sub("", _HEADING_ANCHOR.sub("", line[match.end() :]))
            body = line.strip()
            if len(body) > 1 and body[0] == "|" == body[-1]:
                line = "  ".join(cell for part in _CELL.split(body) if (cell := part.strip()))
            self.paragraph.append(line)

    def _end_fence(self, closing: list[str]) -> None:
        # A fence is unnecessary if the code is unchanged without it.
        code = "\n".join(self.fenced[1:])
        plain = "```" not in code and "~~~" not in code and _pass(code) == code
        self.out += self.fenced[1:] if plain else [*self.fenced, *closing]
        self.fence, self.fenced = "", []
        self.after_blank = False

    def _end_paragraph(self) -> None:
        text = "\n".join(self.paragraph)
        self.paragraph = []
        if _INLINE_MARKED.search(text):
            text = _without_inline_marks(text)
        self.out += [line.rstrip() for line in text.split("\n") if line.strip()]


def _without_inline_marks(text: str) -> str:
    """Remove the inline marks from a paragraph."""
    out: list[str] = []
    brackets: list[int] = []
    runs: dict[str, list[int]] = defaultdict(list)
    comment_end = text.rfind("-->")
    ticks: dict[int, list[int]] = defaultdict(list)
    for tick in re.finditer("`++", text):
        ticks[len(tick[0])].append(tick.start())
    # A run of backticks is closed by the next run of the same length.
    code_ends = {start: end for starts in ticks.values() for start, end in pairwise(starts)}
    at = 0
    while match := _INLINE.search(text, at):
        mark, start = match[0], match.start()
        out.append(text[at:start])
        at = match.end()
        match match.lastgroup:
            case "ticks":
                if (end := code_ends.get(start)) is None:
                    out.append(mark)
                else:
                    code = text[at:end]
                    out.append(mark + code + mark if _CODE_MARKED.search(code) else code.strip(" "))
                    at = end + len(mark)
            case "comment":
                if at > comment_end:
                    out.append(mark)
                else:
                    at = text.index("-->", at) + 3
            case "opens":
                brackets.append(len(out))
                out.append(mark)
            case "target" | "reference" | "closes" as kind:
                opened = brackets.pop() if brackets else None
                # `a[0][1]` is a subscript rather than a link, although Markdown defines it as a link.
                subscript = kind == "reference" and opened is not None and out[opened - 1][-1:].isalnum()
                if opened is None or kind == "closes" or subscript:
                    out.append(mark)
                else:
                    out[opened] = ""
            case "run":
                before, after = text[start - 1 : start], text[at : at + 1]
                if before.strip() and not _joins(mark, after) and runs[mark]:
                    out[runs[mark].pop()] = ""
                    continue
                if after.strip() and not _joins(mark, before):
                    runs[mark].append(len(out))
                out.append(mark)
            case "escaped":
                out.append(mark if match["escaped"] in _STAYS_ESCAPED else match["escaped"])
            case "address":
                out.append(match["address"])
            case _ if _BETWEEN_WORDS.fullmatch(match["name"]):
                out.append(" ")
            case _ if not _INSIDE_WORDS.fullmatch(match["name"]):
                out.append(mark)
    out.append(text[at:])
    return "".join(out)


def _joins(run: str, letter: str) -> bool:
    """Return whether a run of marks beside this letter is part of a word or formula, rather than markup."""
    return letter.isalnum() and (run[0] == "_" or letter.isascii())


@dataclass(frozen=True, slots=True)
class Chunk:
    """One passage. Its heading path and anchor are stored beside the text and are not hashed.

    `text_hash` covers the words only: passages with the same words share a vector, even if their links differ.
    """

    text: str
    heading: tuple[str, ...] = ()
    anchor: str | None = None
    text_hash: Hash = field(init=False)

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "heading", tuple(map(heading_within, self.heading)))
        put(self, "anchor", anchor_within(self.anchor))
        put(self, "text_hash", text_hash(words_of(self.text)))


_ENDINGS = re.compile(r"(?:ies|ing|ed|es|s|y|e)$", re.IGNORECASE)
_HEADING_LINE = re.compile(r"#{1,6}\s+\S")
_RULER = re.compile(r"[-*_=]{3,}$|[~`]{3,}|\|[\s:|-]+\|$")
_APART = re.compile(r"[-*+>|]|\d+[.)]|```|~~~|\s{4}|#{1,6}\s")
# Matches code, in which a backslash is an ordinary character, or a mark that a backslash escapes.
_ESCAPED = re.compile(r"^[ \t]*+(`{3,}+|~{3,}+)(?s:.*?)(?:^[ \t]*+\1|\Z)|`[^`\n]++`|\\([\[\]<>`\\])", re.MULTILINE)
# Noncharacters, which occur in no text.
_HIDDEN = {mark: chr(0xFDD0 + number) for number, mark in enumerate("[]<>`\\")}
_UNHIDDEN = str.maketrans({hidden: mark for mark, hidden in _HIDDEN.items()})
# English words that the index leaves out too.
_COMMON = re.compile(
    r"an?|and|are|as|at|be|but|by|can|do|for|from|has|have|how|i|if|in|is|its?|my|no|not|of|on|or|our|so|that|the|their"
    r"|them|there|they|this|to|was|we|were|what|when|where|which|who|why|will|with|you|your",
    re.IGNORECASE,
)


def pattern(query: Query) -> re.Pattern[str] | None:
    """Return a pattern for common forms of the words of a query; None if it has no words.

    The index recognises more forms.
    """
    unspaced = [re.escape(pair) for term in (*query.words, *query.prefixes, *query.phrases) for pair in pairs(term)]
    words = [word for term in (*query.words, *query.phrases) for word in re.findall(r"\w+", spaced(term))]
    forms = [rf"\b{re.escape(prefix)}\w*" for prefix in query.prefixes if spaced(prefix)]
    for word in [word for word in words if not _COMMON.fullmatch(word)] or words:
        stem = _ENDINGS.sub("", word) if len(word) > 4 else word
        forms.append(rf"\b{re.escape(stem)}\w{{0,4}}\b" if len(stem) > 2 else rf"\b{re.escape(word)}\b")
    return re.compile("|".join(forms + unspaced), re.IGNORECASE) if forms or unspaced else None


def snippet(text: str, wanted: re.Pattern[str] | None, *, lines: int = 3, width: int = 96) -> list[str]:
    """Return the lines of a passage that contain most words of the query, without markup and wrapped to `width`.

    The lines of a paragraph are joined. Headings are left out unless the passage consists of headings only.
    """
    prose = "\n".join("" if _HEADING_LINE.match(line) else line for line in text.splitlines())
    blocks = list(_blocks(_shown(prose))) or list(_blocks(_shown(text)))
    wrapped = [line for block in blocks for line in textwrap.wrap(block, width)]
    if len(wrapped) <= lines:
        return wrapped
    matches = [[match.lower()[:5] for match in wanted.findall(line)] if wanted else [] for line in wrapped]

    def worth(start: int) -> tuple[int, int, bool, int]:
        """Rate a position by different words, all words, a word in the middle line, and earliness, in that order."""
        inside = matches[start : start + lines]
        return len(set().union(*inside)), sum(map(len, inside)), bool(inside[lines // 2]), -start

    best = max(range(len(wrapped) - lines + 1), key=worth)
    chosen = wrapped[best : best + lines]
    if best:
        chosen[0] = f"… {chosen[0]}"
    if best + lines < len(wrapped):
        chosen[-1] = f"{chosen[-1]} …"
    return chosen


def marked(line: str, wanted: re.Pattern[str] | None) -> list[tuple[str, bool]]:
    """Divide a line into pieces; the second value of each says whether the piece is a word of the query."""
    pieces: list[tuple[str, bool]] = []
    end = 0
    for match in wanted.finditer(line) if wanted else ():
        pieces += [(line[end : match.start()], False), (match[0], True)]
        end = match.end()
    return [piece for piece in (*pieces, (line[end:], False)) if piece[0]]


def _shown(markdown: str) -> str:
    """Return the words of a passage as shown to users; escaped characters stay, but escapes are resolved."""
    hidden = _ESCAPED.sub(lambda match: _HIDDEN[match[2]] if match[2] else match[0], markdown)
    return words_of(hidden).translate(_UNHIDDEN)


def _blocks(text: str) -> Iterator[str]:
    """Yield the blocks of a text: paragraphs as one line each; lists, tables and code line by line."""
    paragraph: list[str] = []
    for line in (*text.splitlines(), ""):
        if paragraph and (not line.strip() or _APART.match(line)):
            yield " ".join(paragraph)
            paragraph = []
        if line.strip() and not _RULER.match(line.strip()):
            paragraph.append(line.strip())


SHARE = 0.4
"""The largest share of the budget for one hit while other hits have no passage yet."""

LEAST_CHARS = 160
"""The length of the shortest useful excerpt: two lines of a screen."""
_BLOCK = re.compile(r"\n\s*\n|(?<=[.!?])\s+(?=[A-Z\d\"'(])|\n")


def within(hits: Sequence[Hit], budget: int) -> tuple[Hit, ...]:
    """Return the first hits that fit: all their passages together have at most `budget` characters.

    The rest of the budget is filled with further passages of each hit in turn; no passage is truncated.
    """
    left = budget
    chosen: list[Hit] = []
    for hit in hits:
        room = min(left, max(int(budget * SHARE), LEAST_CHARS))
        text = excerpt(hit.text, hit.words, room)
        if chosen and (not text or room < LEAST_CHARS):
            break
        left -= len(text)
        chosen.append(replace(hit, text=text, further=()))
    for place, hit in enumerate(hits[: len(chosen)]):
        further: list[Passage] = []
        for passage in hit.further:
            if len(passage.text) <= left:
                left -= len(passage.text)
                further.append(passage)
        chosen[place] = replace(chosen[place], further=tuple(further))
    return tuple(chosen)


def excerpt(text: str, words: Sequence[str], chars: int) -> str:
    """Return an excerpt of at most `chars` characters: the whole sentences or lines that contain most of the words."""
    if len(text) <= chars:
        return text
    edges = [0, *(match.end() for match in _BLOCK.finditer(text)), len(text)]
    spans = [(start, end) for start, end in pairwise(edges) if end > start]
    stems = [word.lower().rstrip("*")[:5] for word in words]
    worth = [sum(stem in text[start:end].lower() for stem in stems) for start, end in spans]
    best, best_span = -1, (0, chars)
    for first, (start, _) in enumerate(spans):
        last = first
        while last + 1 < len(spans) and spans[last + 1][1] - start <= chars - 2:
            last += 1
        total = sum(worth[first : last + 1])
        if total > best:
            best, best_span = total, (start, min(spans[last][1], start + max(chars - 2, 0)))
    start, end = best_span
    return ("…" if start else "") + text[start:end].strip() + ("…" if end < len(text) else "") if chars > 2 else ""
