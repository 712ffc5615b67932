"""Static vectors: a hundred times as fast as the default, and much less clever.

The weights and the vocabulary are read from the package `wordllama` (extra `fast`), whose own code is never imported:
it would look for a file in the wrong place, and then on the network.
"""

import asyncio
import json
import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, NamedTuple

from rowen.enrich.base import Embedded, Limits, Spec, Tools
from rowen.enrich.bytepair import BytePairs
from rowen.errors import EmbeddingError

__all__ = ["Static"]

_PACKAGE = "wordllama"
_WEIGHTS = "weights/l2_supercat_256.safetensors"
_VOCABULARY = "tokenizers/l2_supercat_tokenizer_config.json"


class _Table(NamedTuple):
    vocabulary: BytePairs
    rows: Any


class Static:
    """The mean of the vectors of a text's words, whatever their order."""

    kind: ClassVar[str] = "local-fast"

    def __init__(self, spec: Spec, tools: Tools) -> None:
        spec.refuse_model()
        self.name = "wordllama-l2-supercat:f16:256"
        # Beside a keyword ranking it helps a little; with a full voice it makes the answer worse.
        self.weight = 0.2
        self.price: float | None = 0.0
        self.limits = Limits(texts=256, tokens=1 << 30, chars_per_text=20_000, concurrency=1, heavy=True)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="rowen-embed")
        self._loading = Lock()
        self._table: _Table | None = None

    @property
    def spec(self) -> Spec:
        """There is but one."""
        return Spec(self.kind)

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> Embedded:
        """The vectors of texts, worked out in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._embed, list(texts))

    async def close(self) -> None:
        """End the thread."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._table = None

    def _embed(self, texts: list[str]) -> Embedded:
        import numpy as np

        with self._loading:
            table = self._table = self._table or _load()
        encoded = [table.vocabulary.encode(text) for text in texts]
        vectors = [table.rows[ids].mean(0, dtype=np.float32) for ids in encoded]
        return Embedded(vectors, sum(map(len, encoded)))


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
