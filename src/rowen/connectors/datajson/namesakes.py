"""Records of one document that share an identifier and say different things: each is an item of its own.

Under which URL a record is known is a function of all records together, never of their order. One whose identifier no
other record has, or only copies of it, has the URL of its identifier. Of several, each has that URL with a digest of
what tells it from the others: its title; else title, page or file, and publisher; else all that it says.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rowen.connectors.catalog.languages import one_of
from rowen.connectors.datajson.record import likeness
from rowen.model.hashes import body_hash, canonical_json

__all__ = ["REMARK", "SharedNames", "Traits", "base_of", "is_variant", "traits_of", "variants"]

REMARK = "Other records of the catalog have the same identifier."

Traits = tuple[str, str, str]
"""Digests of what a record is told by, the coarsest first; the last one is over all that it says."""

_VARIANT = re.compile(r"(?P<base>.*?)#?/shared/[0-9a-f]{32}", re.DOTALL)


def traits_of(record: Mapping[str, Any]) -> Traits:
    """By what a record may be told from others with its identifier."""
    title = one_of(record.get("title"), None)
    return _digest("title", title), _digest("likeness", *likeness(record)), _digest("record", record)


def variants(url: str, traits: Traits) -> list[str]:
    """The URLs that a record may have if others share its identifier."""
    return [_variant(url, digest) for digest in traits]


def is_variant(url: str) -> bool:
    """Whether a URL is that of a record that shares its identifier."""
    return "#/" in url and _VARIANT.fullmatch(url) is not None


def base_of(url: str) -> str:
    """The URL of the identifier."""
    found = _VARIANT.fullmatch(url) if "#/" in url else None
    return found["base"] if found else url


class SharedNames:
    """Which URL each record has, of those whose identifiers came more than once.

    `sound` has the traits of the records by URL. `doubtful` are URLs of which a record cannot be read, or all of them
    where a document breaks off: what is held under such a variant stays there.
    """

    def __init__(
        self, sound: Mapping[str, Sequence[Traits]], held: Iterable[str], doubtful: frozenset[str] | None
    ) -> None:
        self._sound = sound
        self._held = frozenset(held)
        self._doubtful = doubtful
        self._names: dict[tuple[str, str], str] = {}
        for url, found in sound.items():
            self._settle(url, list(dict.fromkeys(found)))

    def knows(self, url: str) -> bool:
        """Whether a record of this identifier can be read."""
        return bool(self._sound.get(url))

    def name(self, url: str, traits: Callable[[], Traits]) -> str:
        """Under which URL a record is known whose identifier gives it this one."""
        if url not in self._sound and not self._held:
            return url
        told = traits()
        return self._names.get((url, told[-1])) or self._held_name(url, told) or url

    def _settle(self, url: str, distinct: Sequence[Traits]) -> None:
        if len(distinct) < 2:
            return
        counts = Counter(digest for traits in distinct for digest in traits)
        for traits in distinct:
            telling = next((digest for digest in traits if counts[digest] == 1), traits[-1])
            self._names[url, traits[-1]] = _variant(url, telling)

    def _held_name(self, url: str, traits: Traits) -> str | None:
        if not self._held or (self._doubtful is not None and url not in self._doubtful):
            return None
        return next((name for name in variants(url, traits) if name in self._held), None)


def _variant(url: str, digest: str) -> str:
    return f"{url}{'' if '#/' in url else '#'}/shared/{digest}"


def _digest(*said: Any) -> str:
    return body_hash(canonical_json(said)).hex()[:32]
