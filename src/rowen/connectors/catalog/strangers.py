"""Records that nobody can tell from our items: how many there are, and what they look like.

One of them may be an item that did not come. Whoever met the very same ones before may believe that they are none of
ours: there are catalogs that list such records for ever, and whose deletions must not wait for ever.
"""

from collections import Counter
from hashlib import blake2b
from typing import Any

__all__ = ["Strangers"]

_MOST_KEPT = 100


class Strangers:
    """The strangers of one walk, each by a URL that says what it looks like."""

    def __init__(self) -> None:
        self._looks: Counter[str] = Counter()

    def add(self, url: str) -> None:
        """Note one; the same looks twice are two."""
        self._looks[blake2b(url.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()] += 1

    def __len__(self) -> int:
        return self._looks.total()

    def kept(self) -> list[str] | None:
        """What a cursor remembers of them; of very many not all, so that some always are new."""
        return sorted(self._looks.elements())[:_MOST_KEPT] or None

    def are_known(self, kept: Any) -> bool:
        """Whether all of them are among those that a cursor remembers."""
        return not self._looks - Counter(kept if isinstance(kept, list) else ())
