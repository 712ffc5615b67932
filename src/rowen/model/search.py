"""Search: queries, filters, conditions on fields, hits, and saved searches."""

import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice, pairwise
from typing import Any, Literal, TypeAlias, overload

from rowen.errors import UsageError
from rowen.model.items import Passage
from rowen.model.text import finite, normalise
from rowen.model.wording import brief, count

ConditionSign: TypeAlias = Literal["<", "<=", ">", ">=", "=", "!=", "~", "exists"]

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "!=": operator.ne,
    "=": operator.eq,
}
_SIGN = re.compile(r"<=|>=|!=|==|[=<>~]")
_PATH = re.compile(r"[A-Za-z_@/][\w@.:/-]*")
# The maximum number of characters: schemas have no longer field names, and longer values are not useful.
_LONGEST = 500
# The time of planning grows faster than the square of their number: 10 conditions take 0.2 s, 100 took 20 s and 200
# took 19 GB of memory.
_MOST = 10


@dataclass(frozen=True, slots=True)
class Condition:
    """One comparison of a field with a value.

    Text is compared case-insensitively; the operator `~` searches for a substring.
    """

    path: tuple[str, ...]
    sign: ConditionSign
    value: str | float = ""

    @classmethod
    def parse(cls, text: str) -> "Condition":
        """Parse a condition; raise `UsageError` if it is invalid."""
        match = _SIGN.search(text[:_LONGEST])
        field, value = (text[: match.start()], text[match.end() :].strip()) if match else (text, "")
        path = tuple(part for part in field.strip().split("/") if part)
        if not path or not _PATH.fullmatch(field.strip()) or len(text) > _LONGEST or (match and not value):
            raise UsageError(
                f"{text!r} is not a condition.", hint="Such as 'price<100', 'status=cancelled', 'name~lamp'."
            )
        if match is None:
            return cls(path, "exists")
        sign: Any = "=" if match[0] == "==" else match[0]
        if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
            return cls(path, sign, value[1:-1])
        number: float | None = None
        with suppress(ValueError):
            number = finite(float(value))
        return cls(path, sign, value if number is None else number)

    @classmethod
    def parse_all(cls, texts: Iterable[str]) -> "list[Condition]":
        """Parse conditions that must all hold; raise `UsageError` if one is invalid or there are too many."""
        listed = list(texts)
        if len(listed) > _MOST:
            raise UsageError(f"{len(listed):,} conditions were given, and at most {_MOST} can be combined.")
        return [cls.parse(text) for text in listed]

    def holds(self, data: Any) -> bool:
        """Return whether data satisfies the condition; False if the field is missing."""
        for step in self.path:
            if isinstance(data, list) and step.isdecimal() and int(step) < len(data):
                data = data[int(step)]
            else:
                data = data.get(step) if isinstance(data, dict) else None
        if isinstance(data, list):
            return any(self._compared(item) for item in data)
        return self._compared(data)

    def _compared(self, value: Any) -> bool:
        if value is None:
            return False
        if self.sign == "exists":
            return True
        if isinstance(self.value, float) and isinstance(value, int | float) and not isinstance(value, bool):
            number = finite(value)
            return number is not None and _COMPARISONS[self.sign](number, self.value)
        text, wanted = str(value).casefold(), _value_text(self.value).casefold()
        return wanted in text if self.sign == "~" else _COMPARISONS[self.sign](text, wanted)

    def __str__(self) -> str:
        path = "/".join(self.path)
        return path if self.sign == "exists" else f"{path} {self.sign} {_value_text(self.value)}"


def _value_text(value: str | float) -> str:
    return f"{value:g}" if isinstance(value, float) else value


MAX_TERMS = 48
"""The maximum number of terms in a query: a long question has thirty words, and each term costs an index lookup."""

MAX_TYPED = 10 * MAX_TERMS
"""The maximum number of words that are read from a pasted text, repetitions included."""

MAX_WORDS_CHARS = 1_000
"""The maximum length of a query that filters changes: PostgreSQL nests one level per word, and 4,000 words exceed its
stack.
"""

# Longer than any real word, German compounds included; the index contains no longer words.
_TERM_CHARS = 200
_TOKEN = re.compile(r'(-?)(?:"([^"]*)"|(\S+))')
_WORDLESS = re.compile(r"\W+")
# The scripts whose text the index divides into pairs of characters: `unspaced()` in the migration 0004_terms.
_UNSPACED = re.compile(
    r"[\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    r"\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]+"
)


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query: words weighted by rarity, prefixes (`word*`), required phrases, and excluded words.

    `lexemes` are words in the normal form of the index; users do not type them. `times` counts repeated words, which
    have a higher weight.
    """

    words: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    lexemes: tuple[str, ...] = ()
    times: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> "Query":
        """Parse a query as typed; every text is valid."""
        by_kind: dict[str, list[str]] = {"words": [], "prefixes": [], "phrases": [], "excluded": []}
        typed: Counter[str] = Counter()
        for kind, term in islice(_terms(normalise(text)), MAX_TYPED):
            if term in by_kind[kind]:
                typed[term] += kind == "words"
            elif sum(map(len, by_kind.values())) < MAX_TERMS:
                by_kind[kind].append(term)
        times = {term: again + 1 for term, again in typed.items() if again}
        return cls(**{kind: tuple(terms) for kind, terms in by_kind.items()}, times=times)

    def __bool__(self) -> bool:
        return bool(self.words or self.prefixes or self.phrases or self.lexemes)

    def replacing(self, words: Mapping[str, str]) -> "Query":
        """Return the query with some words replaced; `words` maps old words to new ones."""
        times = {words.get(word, word): times for word, times in self.times.items()}
        return replace(self, words=tuple(words.get(word, word) for word in self.words), times=times)


def check_words(words: str | None) -> None:
    """Raise `UsageError` if the query that filters changes is too long."""
    if words is not None and len(words) > MAX_WORDS_CHARS:
        raise UsageError(
            f"The words to filter by have {len(words):,} characters; at most {MAX_WORDS_CHARS:,} are allowed.",
            hint="Use fewer words.",
        )


def plain(text: str) -> str:
    """Return a query as a sentence, without operators and excluded words."""
    return " ".join(
        (word if phrase is None else phrase).strip('"*')
        for minus, phrase, word in (match.groups() for match in _TOKEN.finditer(text))
        if not minus
    )


def _terms(text: str) -> Iterator[tuple[str, str]]:
    for match in _TOKEN.finditer(text):
        minus, phrase, word = match.groups()
        term = (word if phrase is None else phrase).strip('"')[:_TERM_CHARS]
        if not _WORDLESS.sub("", term):
            continue
        if minus:
            yield "excluded", term
        elif phrase is not None:
            yield "phrases", term
        elif term.endswith("*"):
            yield "prefixes", _WORDLESS.sub("", term)
        else:
            yield from (("words", part) for part in spaced(term).split() if _WORDLESS.sub("", part))
            # In scripts without spaces, word boundaries are unknown.
            yield from (("words" if len(pair) > 1 else "prefixes", pair) for pair in pairs(term))


def pairs(text: str) -> list[str]:
    """Return the pairs of characters by which text without spaces is indexed; a single character stays single."""
    runs = _UNSPACED.findall(text)
    return [a + b for run in runs for a, b in pairwise(run)] + [run for run in runs if len(run) == 1]


def spaced(text: str) -> str:
    """Return a text without the characters of scripts that do not use spaces."""
    return _UNSPACED.sub(" ", text).strip()


def language_code(code: str) -> str:
    """Return the normal form of a language code: pt-br for pt_BR."""
    return code.lower().replace("_", "-")


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of a search; the values of one filter are alternatives. An empty `source_ids` matches no source."""

    source_ids: Sequence[int] | None = None
    tags: Sequence[str] = ()
    languages: Sequence[str] = ()
    record_kinds: Sequence[str] = ()
    publisher: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    path: str | None = None
    where: Sequence[Condition] = ()
    without_item: int | None = None


@dataclass(frozen=True, slots=True)
class Twin:
    """A duplicate of an item, in the same or another source."""

    url: str
    title: str
    source: str
    original: bool = False


@dataclass(frozen=True, slots=True)
class Hit:
    """One item that matches a query, with its best passage first.

    `words` are the words of the query that matched; `similarity` is that of the passage nearest in meaning. The ranks
    are those of each search method; a rank is None if the method did not find the item. `held` says that the deletion
    of the item is pending.
    """

    url: str
    title: str
    source: str
    heading: tuple[str, ...]
    text: str
    score: float
    anchor: str | None = None
    passages: int = field(default=1)
    words: tuple[str, ...] = ()
    similarity: float | None = None
    keyword_rank: int | None = None
    vector_rank: int | None = None
    kind: str = ""
    language: str | None = None
    record_kind: str | None = None
    held: bool = False
    further: tuple[Passage, ...] = ()
    twins: tuple[Twin, ...] = ()

    @property
    def link(self) -> str:
        """The URL of the passage, with its anchor; the beginning of a file has no anchor."""
        top = self.heading == (self.title,) and self.url.startswith("file:")
        return self.link_to(None if top else self.anchor)

    @property
    def path(self) -> str:
        """The headings above the passage; empty if they only repeat the title."""
        headings = self.heading[1:] if self.heading[:1] == (self.title,) else self.heading
        return " › ".join(headings)

    def link_to(self, anchor: str | None) -> str:
        """Return the URL of an anchor in the item."""
        return f"{self.url}#{anchor}" if anchor and self.url.startswith(("http", "file:")) else self.url

    def __repr__(self) -> str:
        return brief(self, self.title, self.source, self.link)


@dataclass(frozen=True, slots=True)
class Answer(Sequence[Hit]):
    """The results of a search, best first.

    `corrections` maps unknown words to the words that were searched instead. `notes` has warnings, such as that only
    words were searched. `explanation` has the ranking of each method. `next` is the cursor of the next page.
    """

    hits: tuple[Hit, ...] = ()
    corrections: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    explanation: Mapping[str, Any] = field(default_factory=dict)
    next: str | None = None

    @overload
    def __getitem__(self, place: int) -> Hit: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Hit]: ...
    def __getitem__(self, place: int | slice) -> Hit | Sequence[Hit]:
        return self.hits[place]

    def __len__(self) -> int:
        return len(self.hits)

    def __repr__(self) -> str:
        return brief(self, count(len(self.hits), "hit"), *(hit.title for hit in self.hits[:3]))


MatchKind: TypeAlias = Literal["matches", "no longer matches"]


@dataclass(frozen=True, slots=True)
class SavedSearch:
    """A named query; an item matches if one of its passages contains all the words."""

    id: int
    name: str
    query: str
    sources: tuple[str, ...]
    matches: int
    after: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class SavedNews:
    """An item that started or stopped matching a saved search; `number` is the change that caused it."""

    id: int
    kind: MatchKind
    number: int
    source: str
    url: str
    title: str
    at: datetime
