"""Static vectors: a hundred times as fast as the default, and much less clever.

The weights and the vocabulary are read from the package `wordllama` (extra `fast`), whose own code is never imported:
it would look for a file in the wrong place, and then on the network.
"""

import json
import struct
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from rowen.enrich.base import Embedded, Limits, Spec, Tools
from rowen.enrich.bytepair import BytePairs
from rowen.enrich.embedders.inside import Inside
from rowen.errors import EmbeddingError

__all__ = ["Static"]

_PACKAGE = "wordllama"
_WEIGHTS = "weights/l2_supercat_256.safetensors"
_VOCABULARY = "tokenizers/l2_supercat_tokenizer_config.json"


class Static(Inside):
    """The mean of the vectors of a text's words, whatever their order."""

    kind: ClassVar[str] = "local-fast"

    def __init__(self, spec: Spec, tools: Tools) -> None:
        super().__init__(spec, threads=1)
        self.name = "wordllama-l2-supercat:f16:256"
        # Beside a keyword ranking it helps a little; with a full voice it makes the answer worse.
        self.weight = 0.2
        self.limits = Limits(texts=256, tokens=1 << 30, chars_per_text=20_000, concurrency=1, heavy=True)

    def _load(self) -> "_Table":
        return _load()


class _Table(NamedTuple):
    """A vector for each word."""

    vocabulary: BytePairs
    rows: Any

    def embed(self, texts: list[str]) -> Embedded:
        import numpy as np

        encoded = [self.vocabulary.encode(text) for text in texts]
        return Embedded([self.rows[ids].mean(0, dtype=np.float32) for ids in encoded], sum(map(len, encoded)))


def _load() -> _Table:
    import numpy as np

    found = find_spec(_PACKAGE)
    if found is None or found.origin is None:
        raise EmbeddingError(
            "The embedder local-fast cannot work: the package wordllama, which carries its vectors, is not installed.",
            hint="`pip install 'rowen[fast]'` brings it.",
        )
    folder = Path(found.origin).parent
    told = json.loads((folder / _VOCABULARY).read_text("utf-8"))["model"]
    weights = folder / _WEIGHTS
    with weights.open("rb") as file:
        (head_bytes,) = struct.unpack("<Q", file.read(8))
        [head] = (one for name, one in json.loads(file.read(head_bytes)).items() if name != "__metadata__")
    rows = np.memmap(weights, "<f2", mode="r", offset=8 + head_bytes, shape=tuple(head["shape"]))
    return _Table(BytePairs(told["vocab"], told["merges"]), rows)
