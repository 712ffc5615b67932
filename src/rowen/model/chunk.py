"""Passages of an item."""

from dataclasses import dataclass, field

from rowen.model.hashes import Hash, text_hash

__all__ = ["Chunk"]


@dataclass(frozen=True, slots=True)
class Chunk:
    """One passage. Its heading path and anchor stand beside the text, not inside what is hashed."""

    text: str
    heading: tuple[str, ...] = ()
    anchor: str | None = None
    text_hash: Hash = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text_hash", text_hash(self.text))
