"""What a record is called, dated and compared by, told from its letters: most are the ones that we hold."""

import re
from typing import NamedTuple

from rowen.formats.xml_records import CutRecord

__all__ = ["RawName", "letters_of", "name_in"]

# As nearly all services write ISO 19139. What is written otherwise is read.
_IDENTIFIER = re.compile(
    r"<(?:[\w.-]++:)?M[DI]_Metadata(?:\s[^<>]*+)?>\s*+<(?P<p>(?:[\w.-]++:)?)fileIdentifier(?:\s[^<>]*+)?>"
    r"\s*+<(?P<q>(?:[\w.-]++:)?CharacterString)(?:\s[^<>]*+)?>(?P<said>[^<>&]*+)</(?P=q)\s*+>"
    r"\s*+</(?P=p)fileIdentifier\s*+>"
)
_STAMP = re.compile(
    r"<(?P<p>(?:[\w.-]++:)?)dateStamp(?:\s[^<>]*+)?>"
    r"\s*+<(?P<q>(?:[\w.-]++:)?Date(?:Time)?)(?:\s[^<>]*+)?>(?P<said>[^<>&]*+)</(?P=q)\s*+>\s*+</(?P=p)dateStamp\s*+>"
)
_NUMBER = re.compile(r"""\sgml:id\s*+=\s*+(?:"[^"<>]*+"|'[^'<>]*+')""")
_DECLARED = re.compile(r"""xmlns:gml\s*+=\s*+["']([^"']*+)["']""")
_GML = frozenset({"http://www.opengis.net/gml", "http://www.opengis.net/gml/3.2"})
_OPEN_AND_CLOSE = 2


class RawName(NamedTuple):
    """The identifier of a record, and the date of its metadata as it is written."""

    identifier: str
    stamp: str


def name_in(text: str) -> RawName | None:
    """What a record of ISO 19139 is called and dated; None where that takes a closer look.

    Both stand right below the record: in a comment, or further down, these words would mean something else.
    """
    name = _IDENTIFIER.match(text)
    if name is None or "<!" in text or text.count("dateStamp") != _OPEN_AND_CLOSE:
        return None
    stamp = _STAMP.search(text, name.end())
    if stamp is None or _depth(text, stamp.start()) != 1 or not (identifier := _line(name["said"])):
        return None
    return RawName(identifier, _line(stamp["said"]))


def letters_of(record: CutRecord) -> bytes:
    """All that decides what a record says: its letters, without the numbers that are given anew with each answer."""
    text = record.text
    if "gml:id" not in text or "<!" in text:
        return record.letters()
    if not _GML.issuperset(_DECLARED.findall(record.scope + text)):
        return record.letters()
    return record._replace(text=_NUMBER.sub(_unnumbered, text)).letters()


def _unnumbered(number: re.Match[str]) -> str:
    """Nothing, if it is an attribute: what stands between two tags is said by the record."""
    text, at = number.string, number.start()
    return "" if text.rfind("<", 0, at) > text.rfind(">", 0, at) else number[0]


def _depth(text: str, at: int) -> int:
    """In how many elements a place is, of a text without comments and the like."""
    return text.count("<", 0, at) - 2 * text.count("</", 0, at) - text.count("/>", 0, at)


def _line(words: str) -> str:
    return "\n".join(line.strip() for line in words.strip().splitlines())
