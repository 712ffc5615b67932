"""What a document says about itself beside its text: title, authors, keywords, language."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element

from rowen.content.base import Part
from rowen.content.documents.packages import ZipPackage
from rowen.content.html import read_page

__all__ = ["Facts", "core_facts", "facts_of", "part_of", "record_of", "sensible_title"]

# Programs fill in a title where the author gave none.
_PREFIX = re.compile(r"(?:Microsoft (?:Office )?(?:Word|PowerPoint|Excel)|Word Document) - ", re.IGNORECASE)
_NO_TITLE = re.compile(
    r"(?:untitled|title|document|presentation|präsentation|présentation|slide|book|mappe|dokument|folie|workbook"
    r"|powerpoint[ -]pr\S+|présentation powerpoint)?[ _-]*\d*"
    r"|\S+\.(?:docx?|dotx?|xlsx?|pptx?|odt|ods|odp|rtf|pdf|tex|dvi|indd|qxp|pages|txt|html?)",
    re.IGNORECASE,
)
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*")


@dataclass(frozen=True, slots=True)
class Facts:
    """Empty where the document does not say."""

    title: str = ""
    authors: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    language: str | None = None


def facts_of(title: str, authors: Iterable[str], keywords: Iterable[str], language: str) -> Facts:
    """Facts as they stand in a file, tidied up."""
    words = (word.strip() for each in keywords for word in re.split(r"[,;\n]", each))
    names = (" ".join(name.split()) for name in authors)
    tongue = language.strip()
    return Facts(
        title=sensible_title(title),
        authors=tuple(dict.fromkeys(filter(None, names))),
        keywords=tuple(dict.fromkeys(filter(None, words))),
        language=tongue.replace("_", "-") if _LANGUAGE.fullmatch(tongue) else None,
    )


def core_facts(package: ZipPackage) -> Facts:
    """The core properties of an Office file."""
    root = package.tree("docProps/core.xml")
    return facts_of(_text(root, "title"), [_text(root, "creator")], [_text(root, "keywords")], _text(root, "language"))


def sensible_title(told: str) -> str:
    """A title, unless it is one that programs make up."""
    title = _PREFIX.sub("", " ".join(told.split()))
    return "" if _NO_TITLE.fullmatch(title) else title


def part_of(html: str, facts: Facts, **record: Any) -> Part:
    """A document whose text is given as HTML; without a title of its own, the first heading is its title."""
    page = read_page(html)
    return Part(
        text=page.text,
        title=facts.title or sensible_title(page.title),
        tags=facts.keywords,
        language=facts.language,
        links=page.links,
        record=record_of(facts, record),
    )


def record_of(facts: Facts, more: Mapping[str, Any]) -> dict[str, Any]:
    """What of the facts is kept beside the text. No dates: a program writes a new one with every export."""
    return {**({"authors": list(facts.authors)} if facts.authors else {}), **more}


def _text(root: Element, name: str) -> str:
    found = next(root.iter(name), None)
    return "".join(found.itertext()) if found is not None else ""
