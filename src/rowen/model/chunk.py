"""Passages of an item."""

from dataclasses import dataclass, field

from rowen.model.caps import anchor_within, heading_within
from rowen.model.hashes import Hash, text_hash
from rowen.model.words import words_of

__all__ = ["Chunk"]


@dataclass(frozen=True, slots=True)
class Chunk:
    """One passage. Its heading path and anchor stand beside the text, not inside what is hashed.

    `text_hash` is over its words: what has the same words has the same vectors, wherever its links lead.
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
