"""The words of RTF: its tokens, characters with names, and the groups that hold no text."""

import re
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["CODE_PAGES", "LEFT_OUT", "NAMED", "Token", "tokens"]

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
"""What a word or symbol stands for, where that is a character."""

_LEFT_OUT = """
    colortbl pict header headerl headerr headerf footer footerl footerr footerf ftnsep ftnsepc ftncn aftnsep aftnsepc
    aftncn listtable listoverridetable revtbl rsidtbl xmlnstbl themedata colorschememapping latentstyles datastore
    generator annotation atnid atnauthor atntime atnicn nonshppict objdata object fldtype tc tcn xe template mmathPr
    private passwordhash filetbl bkmkstart bkmkend operator company category doccomm subject manager comment creatim
    revtim printim buptim hlinkbase listname listpicture pgptbl do ud nonesttables docvar protusertbl wgrffmtfilter
"""
LEFT_OUT = frozenset(_LEFT_OUT.split())
"""Groups that hold nothing to read."""

_CHARSETS = "0:1252 2:1252 77:10000 128:932 129:949 130:1361 134:936 136:950 161:1253 162:1254 163:1258 177:1255"
_MORE = "178:1256 186:1257 204:1251 222:874 238:1250 254:437 255:850"
CODE_PAGES = {int(pair.split(":")[0]): int(pair.split(":")[1]) for pair in f"{_CHARSETS} {_MORE}".split()}
"""Code pages by the character set of a font."""


class Token(NamedTuple):
    """One of: a control word with its number, a symbol, a brace, a byte, or text."""

    word: str = ""
    number: int | None = None
    byte: int | None = None
    brace: str = ""
    text: str = ""


def tokens(source: str) -> Iterator[Token]:
    """The tokens of a file whose bytes are given as Latin-1; the raw bytes after `bin` are passed over."""
    at = 0
    while found := _TOKEN.match(source, at):
        at = found.end()
        number = int(found["number"]) if found["number"] else None
        if found["word"] == "bin":
            at += max(0, number or 0)
        elif found["word"] or found["symbol"]:
            yield Token(word=found["word"] or found["symbol"], number=number)
        elif found["byte"]:
            yield Token(byte=int(found["byte"], 16))
        elif found["brace"]:
            yield Token(brace=found["brace"])
        elif found["text"]:
            yield Token(text=found["text"])
