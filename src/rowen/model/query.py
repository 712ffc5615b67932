"""What a user asks for, and what is found."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from rowen.model.text import normalise

__all__ = ["Hit", "Query"]

MAX_TERMS = 32
_TOKEN = re.compile(r'(-?)(?:"([^"]*)"|(\S+))')
_WORDLESS = re.compile(r"\W+")


@dataclass(frozen=True, slots=True)
class Query:
    """Words that weigh by their rarity, prefixes (`word*`), phrases that must stand there, words that must not."""

    words: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Query":
        """Read a query as typed; nothing in it can be an error."""
        found: dict[str, list[str]] = {"words": [], "prefixes": [], "phrases": [], "excluded": []}
        for kind, term in _terms(normalise(text)):
            if term not in found[kind] and sum(map(len, found.values())) < MAX_TERMS:
                found[kind].append(term)
        return cls(**{kind: tuple(terms) for kind, terms in found.items()})

    def __bool__(self) -> bool:
        return bool(self.words or self.prefixes or self.phrases)


def _terms(text: str) -> Iterator[tuple[str, str]]:
    for match in _TOKEN.finditer(text):
        minus, phrase, word = match.groups()
        term = (word if phrase is None else phrase).strip('"')[:200]
        if not _WORDLESS.sub("", term):
            continue
        if minus:
            yield "excluded", term
        elif phrase is not None:
            yield "phrases", term
        elif term.endswith("*"):
            yield "prefixes", _WORDLESS.sub("", term)
        else:
            yield "words", term


@dataclass(frozen=True, slots=True)
class Hit:
    """One item that answers a query, with its best passage."""

    url: str
    title: str
    source: str
    heading: tuple[str, ...]
    text: str
    score: float
    anchor: str | None = None
    passages: int = field(default=1)

    @property
    def link(self) -> str:
        """The URL that leads to the passage."""
        return f"{self.url}#{self.anchor}" if self.anchor and self.url.startswith("http") else self.url
