"""Reads Rich Text Format: paragraphs, headings, lists and tables, in any code page."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from rowen.content.base import Part
from rowen.content.documents import DamagedError
from rowen.content.documents.flow import Cell, TextFlow, TextRun, facts_of, inline, part_of

# Each open group has a copy of the state on a stack.
_DEEPEST = 10_000
_PLAIN = TextRun("")
_HEADING = re.compile(r"heading ([1-9])|title()", re.IGNORECASE)
_LINK = re.compile(r'HYPERLINK\s+"([^"]+)"')
_FACTS = ("title", "author", "keywords")
_GATHERED = frozenset({"fonttbl", "stylesheet", "fldinst", "listtext", "pntext", *_FACTS})
_NUMBER = re.compile(r"\(?(\d{1,6})[.)]")
_TOKEN = re.compile(
    r"\\(?P<word>[a-zA-Z]{1,32})(?P<number>-?\d{1,9})? ?"
    r"|\\'(?P<byte>[0-9a-fA-F]{2})|\\(?P<symbol>[^a-zA-Z])|(?P<brace>[{}])|[\r\n]+|(?P<text>[^\\{}\r\n]+)"
)
NAMED = {
    "tab": " ",
    "line": "\n",
    "lquote": "‘",
    "rquote": "’",
    "ldblquote": "“",
    "rdblquote": "”",
    "bullet": "•",
    "endash": "–",
    "emdash": "—",
    "enspace": " ",
    "emspace": " ",
    "qmspace": " ",
    "nestcell": " ",
    "~": " ",
    "_": "-",
    "\\": "\\",
    "{": "{",
    "}": "}",
    "\t": " ",
}
"""The characters that control words and symbols represent."""
_LEFT_OUT = """
    colortbl pict header headerl headerr headerf footer footerl footerr footerf ftnsep ftnsepc ftncn aftnsep aftnsepc
    aftncn listtable listoverridetable revtbl rsidtbl xmlnstbl themedata colorschememapping latentstyles datastore
    generator annotation atnid atnauthor atntime atnicn nonshppict objdata object fldtype tc tcn xe template mmathPr
    private passwordhash filetbl bkmkstart bkmkend operator company category doccomm subject manager comment creatim
    revtim printim buptim hlinkbase listname listpicture pgptbl do ud nonesttables docvar protusertbl wgrffmtfilter
"""
LEFT_OUT = frozenset(_LEFT_OUT.split())
"""Groups whose text is not displayed."""
_CHARSETS = "0:1252 2:1252 77:10000 128:932 129:949 130:1361 134:936 136:950 161:1253 162:1254 163:1258 177:1255"
_MORE = "178:1256 186:1257 204:1251 222:874 238:1250 254:437 255:850"
CODE_PAGES = {int(pair.split(":")[0]): int(pair.split(":")[1]) for pair in f"{_CHARSETS} {_MORE}".split()}
"""Code pages by the character set of a font."""


def read_rtf(body: bytes) -> Part:
    """Return the text without headers, footers, pictures and hidden text."""
    if not body.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{\\rtf"):
        raise DamagedError("is not an RTF file.")
    reader = _RtfReader()
    for token in tokens(body.decode("latin-1")):
        reader.take(token)
    html = reader.html()
    title, author, keywords = ("".join(reader.gathered[name]).strip() for name in _FACTS)
    return part_of(html, facts_of(title, [author], [keywords]))


@dataclass(slots=True)
class _Group:
    """The state inside braces: the destination of the text, and its format."""

    goes_to: str = ""
    style: TextRun = _PLAIN
    hidden: bool = False
    code_page: int = 1252
    fallback_chars: int = 1


@dataclass(slots=True)
class _Paragraph:
    """The state of a paragraph until the next `pard`."""

    style: int = 0
    outline: int = 9
    level: int = 0
    in_table: bool = False


class Token(NamedTuple):
    """One token: a control word with its number, a symbol, a brace, a byte, or text."""

    word: str = ""
    number: int | None = None
    byte: int | None = None
    brace: str = ""
    text: str = ""


class _RtfReader:
    def __init__(self) -> None:
        self.gathered: defaultdict[str, list[str]] = defaultdict(list)
        self._flow = TextFlow()
        self._stack: list[_Group] = []
        self._group = _Group()
        self._paragraph = _Paragraph()
        self._runs: list[TextRun] = []
        self._notes: list[TextRun] = []
        self._bytes = bytearray()
        self._row: list[Cell] = []
        self._rows: list[list[Cell]] = []
        self._code_page = 1252
        self._fonts: dict[int, int] = {}
        self._font = 0
        self._styles: dict[int, str] = {}
        self._to_skip = 0
        self._starred = False

    def take(self, token: Token) -> None:
        if token.byte is not None:
            if self._to_skip:
                self._to_skip -= 1
            else:
                self._bytes.append(token.byte)
            return
        if token.text:
            # ASCII text may be the second half of a character that began with a byte.
            self._bytes += token.text[self._to_skip :].encode("latin-1")
            self._to_skip = max(0, self._to_skip - len(token.text))
            return
        self._decode()
        match token.brace or token.word:
            case "{" if token.brace:
                self._to_skip = 0
                if len(self._stack) >= _DEEPEST:
                    raise DamagedError("is too deeply nested to be read.")
                self._stack.append(self._group)
                self._group = replace(self._group)
            case "}" if token.brace:
                self._to_skip = 0
                ended = self._group
                if self._stack:
                    self._group = self._stack.pop()
                if ended.goes_to == "fldinst" != self._group.goes_to:
                    link = _LINK.search("".join(self.gathered.pop("fldinst", [])))
                    self._group.style = self._group.style._replace(href=link[1] if link else "")
            case "*":
                self._starred = True
            case word:
                self._take_word(word, token.number)
                self._starred = False

    def html(self) -> str:
        """Return the HTML of everything that was read, even if the file is truncated."""
        self._end_paragraph()
        self._end_table()
        return self._flow.html()

    def _decode(self) -> None:
        if self._bytes:
            try:
                text = self._bytes.decode(f"cp{self._group.code_page}", "replace")
            except LookupError:
                text = self._bytes.decode("cp1252", "replace")
            self._bytes.clear()
            self._write(text)

    def _write(self, text: str) -> None:
        match self._group.goes_to:
            case "":
                if not self._group.hidden:
                    self._runs.append(self._group.style._replace(text=text))
            case "footnote":
                self._notes.append(self._group.style._replace(text=text))
            case "fonttbl" | "nowhere":
                return
            case "stylesheet":
                self._styles[self._paragraph.style] = self._styles.get(self._paragraph.style, "") + text
            case name:
                self.gathered[name].append(text)

    def _take_word(self, word: str, number: int | None) -> None:
        if word in LEFT_OUT or (self._starred and word not in _GATHERED and word != "footnote"):
            self._group.goes_to = "nowhere"
        elif word in _GATHERED or word == "footnote":
            self._group.goes_to = word if self._group.goes_to != "nowhere" else "nowhere"
        elif word in NAMED:
            self._write(NAMED[word])
        elif word == "u" and number is not None:
            self._write(chr(number % 0x10000))
            self._to_skip = self._group.fallback_chars
        elif word == "par" and self._group.goes_to == "footnote":
            self._notes.append(TextRun(" "))
        elif word in ("par", "sect", "page", "\n", "\r"):
            self._end_paragraph()
        elif word == "cell":
            self._row.append(Cell(inline(self._taken())))
        elif word == "row":
            self._rows.append(self._row)
            self._row = []
        else:
            self._set(word, number)

    def _set(self, word: str, number: int | None) -> None:
        group, paragraph = self._group, self._paragraph
        is_on = number != 0
        match word:
            case "b":
                group.style = group.style._replace(bold=is_on)
            case "i":
                group.style = group.style._replace(italic=is_on)
            case "super":
                group.style = group.style._replace(raised=is_on)
            case "nosupersub":
                group.style = group.style._replace(raised=False)
            case "plain":
                group.style, group.hidden = TextRun("", href=group.style.href), False
            case "v" | "deleted":
                group.hidden = is_on
            case "uc":
                group.fallback_chars = min(16, max(0, number or 0))
            case "pard":
                self._paragraph = _Paragraph()
            case "s":
                paragraph.style = number or 0
            case "outlinelevel":
                paragraph.outline = number or 0
            case "ilvl":
                paragraph.level = min(8, max(0, number or 0))
            case "intbl":
                paragraph.in_table = True
            case "ansicpg":
                self._code_page = group.code_page = number or 0
            case "f" if group.goes_to == "fonttbl":
                self._font = number or 0
            case "fcharset":
                self._fonts[self._font] = CODE_PAGES.get(number or 0, self._code_page)
            case "f":
                group.code_page = self._fonts.get(number or 0, self._code_page)

    def _end_paragraph(self) -> None:
        self._decode()
        if self._group.goes_to not in ("", "footnote"):
            return
        if self._paragraph.in_table:
            self._runs.append(TextRun("\n"))
            return
        runs = self._taken()
        mark = "".join(self.gathered.pop("listtext", []) + self.gathered.pop("pntext", [])).strip()
        if runs and not mark and runs[0].text.strip() == "•":
            mark = runs.pop(0).text
        if any(run.text.strip() for run in runs):
            self._end_table()
            paragraph = self._paragraph
            heading = _HEADING.match(self._styles.get(paragraph.style, "").strip())
            if heading or paragraph.outline < 9:
                level = int(heading[1] or 1) if heading else paragraph.outline + 1
                self._flow.heading(level, inline(runs, plain=True))
            elif mark:
                number = _NUMBER.fullmatch(mark)
                self._flow.item(paragraph.level, inline(runs), number=int(number[1]) if number else None)
            else:
                self._flow.paragraph(inline(runs))
        notes, self._notes = self._notes, []
        self._flow.paragraph(inline(_paired(notes)))

    def _end_table(self) -> None:
        rows, self._rows = self._rows, []
        self._flow.table(rows)

    def _taken(self) -> list[TextRun]:
        runs, self._runs = self._runs, []
        return _paired(runs)


def _paired(runs: list[TextRun]) -> list[TextRun]:
    """Join surrogate pairs, which RTF writes as two runs."""
    paired: list[TextRun] = []
    for run in runs:
        if paired and "\ud800" <= paired[-1].text[-1:] <= "\udbff" and "\udc00" <= run.text[:1] <= "\udfff":
            text = (paired[-1].text + run.text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            paired[-1] = run._replace(text=text)
        else:
            paired.append(run)
    return paired


def tokens(source: str) -> Iterator[Token]:
    """Yield the tokens of a file decoded as Latin-1; raw bytes after the control word `bin` are skipped."""
    at = 0
    while match := _TOKEN.match(source, at):
        at = match.end()
        number = int(match["number"]) if match["number"] else None
        if match["word"] == "bin":
            at += max(0, number or 0)
        elif match["word"] or match["symbol"]:
            yield Token(word=match["word"] or match["symbol"], number=number)
        elif match["byte"]:
            yield Token(byte=int(match["byte"], 16))
        elif match["brace"]:
            yield Token(brace=match["brace"])
        elif match["text"]:
            yield Token(text=match["text"])
