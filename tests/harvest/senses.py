"""An embedder that knows the meaning of a dozen words: each sense is a direction."""

from collections.abc import Sequence
from typing import ClassVar

from rowen.enrich.base import Embedded, EmbedderTools, Limits, Spec
from rowen.errors import EmbedderDownError

SENSES = (
    ("cat", "cats", "feline", "kitten", "purring"),
    ("dog", "dogs", "canine", "puppy"),
    ("money", "coin", "coins", "currency"),
    ("rain", "shower", "drizzle", "wet"),
)


class Senses:
    """Texts with words of one sense lie in one direction; all others lie apart from them."""

    kind: ClassVar[str] = "senses"
    name = "senses"
    limits = Limits(texts=64, tokens=100_000, chars_per_text=10_000)
    weight = 1.0
    price = None
    down: ClassVar[bool] = False

    def __init__(self, spec: Spec, tools: EmbedderTools) -> None:
        self.spec = spec

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> Embedded:
        if Senses.down and question:
            raise EmbedderDownError("The senses are asleep.")
        return Embedded([_vector(text) for text in texts], tokens=len(texts))

    async def close(self) -> None:
        pass


def _vector(text: str) -> list[float]:
    words = text.lower().replace(".", " ").replace(",", " ").split()
    counts = [float(sum(word in sense for word in words)) for sense in SENSES]
    return [*counts, 0.05 + (0.0 if any(counts) else 1.0)]
