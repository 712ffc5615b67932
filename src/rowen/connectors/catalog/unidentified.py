"""Records that cannot be identified: how many a walk met, and what they look like.

One of them may be an item that did not come. A walk that meets the very same ones as the walk before may believe that
they are none of ours: some catalogs list such records for ever, and their deletions must not wait for ever.
"""

from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

__all__ = ["Unidentified"]

# At 16 letters each, 2 kB of cursor. Of more, some always count as new, and deletions wait for a walk without them.
_MOST_KEPT = 100


class Unidentified:
    """The unidentified records of one walk, each by a URL that is made of its content."""

    def __init__(self) -> None:
        self._looks: Counter[str] = Counter()

    def add(self, url: str) -> None:
        """Count one; two that look the same are two."""
        self._looks[blake2b(url.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()] += 1

    def __len__(self) -> int:
        return self._looks.total()

    def kept(self, before: Iterable[str] = ()) -> list[str] | None:
        """What a cursor remembers of them, and of those before."""
        return sorted((self._looks | Counter(before)).elements())[:_MOST_KEPT] or None

    def are_known(self, kept: Any) -> bool:
        """Whether all of them are among those that a cursor remembers."""
        return not self._looks - Counter(kept if isinstance(kept, list) else ())
